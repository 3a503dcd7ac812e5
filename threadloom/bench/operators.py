"""What `loom bench` can time: each operator's cases, how to call ours, and who we are compared with.

A case makes its arrays once and gives callables; outputs are allocated beforehand for everybody who can take them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Case:
    """`ours` and `peers` by name do the same work; `goal` is the wanted speed relative to the fastest peer, if any. For
    kernels that memory limits, `copy_bytes` is what they read and write, and `goal` the wanted fraction of the copy
    rate. `bytes_moved` is only for a rate. A result is wrong where `check` tells of more than `bound`."""

    name: str
    ours: Run
    peers: dict[str, Run]
    goal: float | None
    flops: float = 0.0
    copy_bytes: float = 0.0
    bytes_moved: float = 0.0
    check: Callable[[], float] | None = None  # largest error relative to the peer or reference
    bound: float = 1e-4


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    cases: tuple[Callable[[], Case], ...] = field(default=())


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _example(name: str) -> object:
    return getattr(importlib.import_module(f"threadloom.examples.{name}"), name)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def aligned(*shape: int) -> np.ndarray:
    """Touched memory that starts on a page."""
    raw = np.zeros(int(np.prod(shape)) * 4 + 4096, np.uint8)
    first = -raw.ctypes.data % 4096
    return raw[first : first + int(np.prod(shape)) * 4].view(np.float32).reshape(shape)


def _relative_error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got.astype(np.float64) - want).max() / max(1.0, float(np.abs(want).max())))


# ---------------------------------------------------------------- products


def _matmul(m: int, n: int, k: int) -> Callable[[], Case]:
    def make() -> Case:
        from threadloom.bench.kernels import product

        a, b, out, theirs = _random(m, k), _random(k, n), aligned(m, n), aligned(m, n)
        peers: dict[str, Run] = {"numpy": lambda: np.matmul(a, b, out=theirs)}
        if has_torch():
            import torch

            ta, tb, tout = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(theirs)
            peers["torch"] = lambda: torch.mm(ta, tb, out=tout)
        return Case(
            f"matmul f32 {m}x{n}x{k}",
            lambda: product(a, b, out=out),
            peers,
            0.95,
            flops=2.0 * m * n * k,
            check=lambda: _relative_error(out, a.astype(np.float64) @ b),
        )

    return make


def _matmul_bf16(size: int) -> Callable[[], Case]:
    """torch only: NumPy has no bf16 products."""

    def make() -> Case:
        import ml_dtypes

        from threadloom.bench.kernels import product

        a, b = (_random(size, size).astype(ml_dtypes.bfloat16) for _ in range(2))
        out, peers = np.zeros((size, size), ml_dtypes.bfloat16), {}
        if has_torch():
            import torch

            ta, tb = (torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for x in (a, b))
            tout = torch.empty_like(ta)
            peers["torch"] = lambda: torch.mm(ta, tb, out=tout)
        want = a.astype(np.float64) @ b.astype(np.float64)
        return Case(
            f"matmul bf16 {size}^3",
            lambda: product(a, b, out=out),
            peers,
            1.0,
            flops=2.0 * size**3,
            check=lambda: _relative_error(out, want),
            bound=1e-2,
        )

    return make


def _attention(causal: bool, goal: float) -> Callable[[], Case]:
    def make() -> Case:
        kernel = _example("flash_attention")
        q, k, v = (np.random.default_rng(i).standard_normal((1, 8, 1024, 64)).astype(np.float32) for i in range(3))
        out, peers = aligned(*q.shape), {}
        if has_torch():
            import torch

            tq, tk, tv = (torch.from_numpy(x) for x in (q, k, v))
            attend = torch.nn.functional.scaled_dot_product_attention
            peers["torch"] = lambda: attend(tq, tk, tv, is_causal=causal)
        reference = importlib.import_module("threadloom.examples.flash_attention").reference
        return Case(
            f"attention f32 8x1024x64{' causal' if causal else ''}",
            lambda: kernel(q, k, v, 64**-0.5, causal=causal, out=out),
            peers,
            goal,
            flops=4.0 * 8 * 1024 * 1024 * 64 / (2 if causal else 1),
            check=lambda: _relative_error(out, reference(q, k, v, 64**-0.5, causal)),
        )

    return make


def _chunk_scan() -> Case:
    kernel, module = _example("chunk_scan"), importlib.import_module("threadloom.examples.chunk_scan")
    arrays = module.inputs(np.random.default_rng(0), **module.SHAPE)
    out, peers = aligned(*arrays["x"].shape), {}
    if has_torch():
        from threadloom.bench.torch_references import chunk_scan

        peers["torch"] = chunk_scan(arrays)
    return Case(
        "chunk_scan f32 " + " ".join(f"{k}{v}" for k, v in module.SHAPE.items()),
        lambda: kernel(**arrays, out=out),
        peers,
        3.0,
        flops=float(module.flops(**module.SHAPE)),
        check=lambda: _relative_error(out, module.reference(**arrays)),
    )


# ---------------------------------------------------------------- rows


def _rows(name: str, rows: int = 4096, columns: int = 4096) -> Callable[[], Case]:
    def make() -> Case:
        kernel, module = _example(name), importlib.import_module(f"threadloom.examples.{name}")
        arrays = module.inputs(np.random.default_rng(0), M=rows, N=columns)
        x, out = aligned(rows, columns), aligned(rows, columns)
        x[...] = arrays["x"]
        arrays["x"] = x
        peers: dict[str, Run] = {}
        if has_torch():
            from threadloom.bench import torch_references

            peers["torch"] = getattr(torch_references, name)(arrays)
        return Case(
            f"{name} f32 {rows}x{columns}",
            lambda: kernel(**arrays, out=out),
            peers,
            0.7,
            copy_bytes=float(2 * x.nbytes),
            check=lambda: _relative_error(out, module.reference(**arrays)),
        )

    return make


OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("matmul", (_matmul(1024, 1024, 1024), _matmul(2048, 2048, 2048), _matmul(1000, 1003, 997))),
        Operator("matmul_bf16", (_matmul_bf16(1024), _matmul_bf16(2048))),
        Operator("attention", (_attention(False, 1.3), _attention(True, 1.8))),
        Operator("softmax", (_rows("softmax"),)),
        Operator("rmsnorm", (_rows("rmsnorm"),)),
        Operator("layernorm", (_rows("layernorm"),)),
        Operator("chunk_scan", (_chunk_scan,)),
    )
}
