"""Names that people bring along from NumPy, PyTorch and Triton, and what a kernel says instead."""

from __future__ import annotations

from difflib import get_close_matches

import threadloom

INSTEAD = {
    "arange": "a loop variable, or tl.index(m), is the indices of its tile",
    "astype": "tl.cast(x, tl.f16)",
    "clamp": "tl.minimum(tl.maximum(x, low), high)",
    "clip": "tl.minimum(tl.maximum(x, low), high)",
    "concatenate": "tl.where, or stores to two parts of the output",
    "cat": "tl.where, or stores to two parts of the output",
    "expm1": "tl.exp(x) - 1",
    "load": "a[m, k], which is 0 outside the tensor",
    "log1p": "tl.log(1 + x)",
    "logsumexp": "a helper function: t = tl.max(x, n), then t + tl.log(tl.sum(tl.exp(x - t), n))",
    "matmul": "tl.dot(a, b)",
    "mean": 'tl.sum(x, n) / tl.dim("N")',
    "ones": "tl.full(1.0, m, n)",
    "pow": "x ** n",
    "power": "x ** n",
    "print": "an output of its own for what you want to see, and kernel.interpret(...) to compute it in NumPy",
    "program_id": "the variables of tl.grid",
    "range": 'tl.stream("K"); range is for compile-time constants',
    "reshape": "nothing: tiles have named axes",
    "shape": 'tl.dim("M")',
    "softmax": "a helper function: e = tl.exp(x - tl.max(x, n)), then e / tl.sum(e, n)",
    "square": "x * x",
    "stack": "tl.where, or stores to two parts of the output",
    "store": "out[m, n] = value",
    "trans": "nothing: axes are matched by name",
    "transpose": "nothing: axes are matched by name",
    "zeros_like": "tl.zeros(m, n)",
}


def spelled_here(name: str) -> str:
    """What a kernel writes for another library's `name`: the same of tl, or another way; empty if none is known."""
    return f"tl.{name}" if name in threadloom.__all__ else INSTEAD.get(name, "")


def nearest_here(name: str) -> str:
    """What may have been meant by a `name` that tl has not; empty if nothing is known."""
    near = get_close_matches(name, threadloom.__all__, 1)
    return INSTEAD.get(name, "") or "".join(f"did you mean tl.{n}?" for n in near)
