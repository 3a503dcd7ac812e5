"""Every row of the table of elementwise functions, of every dtype it takes: compiled code agrees with the interpreter,
and CUDA C++ has a spelling for it."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import run_compiled, target_of
from generators.kernel_text import kernel_from_text
from quick import some

from threadloom.dtypes import ALL, numpy_dtype
from threadloom.targets.cuda.functions import expression
from threadloom.tile.functions import TABLE, Function, Rule, accepts
from threadloom.tile.interp import interpret
from threadloom.tolerance import bound

DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "bool")
SHAPE = (3, 37)


def dtypes_of(fn: Function) -> list[str]:
    return [d for d in DTYPES if accepts(fn, ALL[d])]


def spelled(fn: Function, args: list[str]) -> str:
    if not fn.infix:
        return f"tl.{fn.name}({', '.join(args)})"
    return f"{fn.infix}{args[0]}" if fn.arity == 1 else f"{args[0]} {fn.infix} {args[1]}"


def kernel_of(fn: Function):
    """One output for each dtype, of one tensor for each operand and dtype."""
    params, outputs, lines = ['c: tl.Tensor["M", "N", tl.bool_]'], [], []
    for dtype in dtypes_of(fn):
        element = {"bool": "bool_"}.get(dtype, dtype)
        operands = [f"{letter}_{dtype}" for letter in "xyz"[: fn.arity - (fn.rule is Rule.WHERE)]]
        params += [f'{name}: tl.Tensor["M", "N", tl.{element}]' for name in operands]
        result = "bool_" if fn.rule in (Rule.COMPARE, Rule.TEST) else element
        outputs.append(f'o_{dtype}=tl.Tensor["M", "N", tl.{result}]')
        args = [*(["c[m, n]"] if fn.rule is Rule.WHERE else []), *(f"{name}[m, n]" for name in operands)]
        lines.append(f"        o_{dtype}[m, n] = {spelled(fn, args)}\n")
    head = f"@tl.kernel\ndef k({', '.join(params)}) -> tl.outputs({', '.join(outputs)}):\n"
    return kernel_from_text(head + '    for m, n in tl.grid("M", "N"):\n' + "".join(lines))


def values(name: str, rng: np.random.Generator) -> np.ndarray:
    if name == "c":
        return rng.integers(0, 2, SHAPE).astype(bool)
    dtype = ALL[name.partition("_")[2]]
    if dtype.is_float:
        return rng.uniform(0.25, 2.0, SHAPE).astype(numpy_dtype(dtype))
    low = -7 if dtype.name[0] == "i" else 0
    return rng.integers(low, 8, SHAPE).astype(numpy_dtype(dtype))  # zeros too: division and shifts define them


@pytest.mark.parametrize("name", some(TABLE, ["floordiv", "shr", "exp", "where", "round"]))
def test_compiled_code_agrees_with_the_interpreter(name: str):
    fn, rng = TABLE[name], np.random.default_rng(0)
    kernel = kernel_of(fn)
    call = kernel.bind(**{p.name: values(p.name, rng) for p in kernel.signature.params})
    wanted = {key: np.array(array) for key, array in call.arrays.items()}
    interpret(call.kernel, wanted, call.scalars, call.dims)
    run_compiled(call, target_of("avx2"))
    for dtype in dtypes_of(fn):
        got, want = call.arrays[f"o_{dtype}"], wanted[f"o_{dtype}"]
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want, err_msg=dtype)
        else:
            error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
            assert error <= bound(dtype, 1, float(np.abs(want.astype(np.float64)).max())), dtype


@pytest.mark.parametrize("name", TABLE)
def test_cuda_has_a_spelling(name: str):
    fn = TABLE[name]
    for dtype in dtypes_of(fn):
        assert expression(name, ALL[dtype], ["a", "b", "c"][: fn.arity])
