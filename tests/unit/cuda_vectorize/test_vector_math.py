"""The errors of vector math, measured against longer floats, within CUDA's documented bounds."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.text import parse, print_module
from threadloom.targets.cpu.jit import OPTIMIZED, compile_module

KERNEL = """
declare {T} @{F}({T})
define exported void @k(ptr noalias %x, ptr noalias %y, i32 %n) {{
  parallel threads (%t) = (i32 0) to (i32 %n) {{
    %px = getelementptr {T}, ptr %x, i32 %t
    %v = load {T}, ptr %px
    %c = fcmp uno {T} %v, 1.0
    %r = if i1 %c {{
      yield {T} %v
    }} else {{
      %e = call {T} @{F}({T} %v)
      yield {T} %e
    }}
    %py = getelementptr {T}, ptr %y, i32 %t
    store {T} %r, ptr %py
  }}
  return
}}
"""
INF, NAN = float("inf"), float("nan")
SPREAD = np.concatenate([np.linspace(-90, 90, 40001), np.geomspace(1e-30, 90, 5000), -np.geomspace(1e-30, 90, 5000)])
# name: (LLVM's name, type, arguments, reference, largest error in ulp that CUDA documents)
CASES = {
    "expf": ("llvm.exp.f32", "float", SPREAD, np.exp, 1.0),
    "exp": ("llvm.exp.f64", "double", SPREAD * 7.7, np.exp, 1.0),
    "exp2f": ("llvm.exp2.f32", "float", SPREAD, np.exp2, 2.0),
    "logf": ("llvm.log.f32", "float", np.geomspace(1e-44, 3e38, 60001), np.log, 1.0),
    "sinf": ("llvm.sin.f32", "float", np.concatenate([SPREAD, np.linspace(-9e4, 9e4, 60001)]), np.sin, 2.0),
    "cosf": ("llvm.cos.f32", "float", np.concatenate([SPREAD, np.linspace(-9e4, 9e4, 60001)]), np.cos, 2.0),
}
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e30, -1e30, 800.0, -800.0, 1e-45, 88.9, -104.0, 709.9, -745.2]
)


def _run(name: str, x: np.ndarray) -> np.ndarray:
    callee, type_, *_ = CASES[name]
    module = parse(KERNEL.format(T=type_, F=callee))
    vectors = VectorizeThreads(width=8, worth_it=1e9).apply(module)
    assert f"<8 x {type_}>" in print_module(vectors)
    y = np.zeros_like(x)
    code = compile_module(vectors, OPTIMIZED)
    code.function("k", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(x.ctypes.data, y.ctypes.data, len(x))
    return y


@pytest.mark.parametrize("name", CASES)
def test_errors_are_within_cudas_bounds(name: str) -> None:
    _, type_, arguments, reference, most_ulp = CASES[name]
    narrow = np.float32 if type_ == "float" else np.float64
    x = arguments.astype(narrow)
    exact = reference(x.astype(np.float64 if narrow is np.float32 else np.longdouble))
    with np.errstate(over="ignore"):
        rounded = exact.astype(narrow)
    normal = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(narrow).tiny)
    y = _run(name, x)
    error = np.abs(y[normal].astype(exact.dtype) - exact[normal]) / np.spacing(np.abs(rounded[normal]))
    assert error.max() <= most_ulp, (name, float(error.max()))


@pytest.mark.parametrize("name", CASES)
def test_special_values_are_the_c_librarys(name: str) -> None:
    _, type_, _, reference, _ = CASES[name]
    x = SPECIAL.astype(np.float32 if type_ == "float" else np.float64)
    with np.errstate(all="ignore"):
        expected = reference(x)
    assert np.allclose(_run(name, x), expected, rtol=1e-6, equal_nan=True)


def test_the_interpreter_agrees() -> None:
    module = VectorizeThreads(width=4, worth_it=1e9).apply(parse(KERNEL.format(T="float", F="llvm.exp.f32")))
    x = np.array([0.5, -3.0, 2000.0, 10.0, NAN, 1.0], np.float32)
    y = np.zeros_like(x)
    interpret(module, "k", [x, y, len(x)])
    with np.errstate(over="ignore"):
        assert np.allclose(y, np.exp(x), rtol=1e-6, equal_nan=True)
