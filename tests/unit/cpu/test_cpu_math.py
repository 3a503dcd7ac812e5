"""Largest errors of the vector math, against float64, in units of the result's last place."""

import ctypes
import math

import numpy as np
import pytest

from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import F32, F64, I64, PTR, Float, Vector
from threadloom.targets.cpu.host import host_cpu
from threadloom.targets.cpu.jit import Code, compile_module
from threadloom.targets.cpu.math import FUNCTIONS, math_function

LANES = {F32: (8, 16, 1), F64: (4, 8, 1)}
DTYPES = {F32: np.float32, F64: np.float64}
ULPS = {"exp": 2.5, "exp2": 2.5, "log": 2, "log2": 2, "tanh": 3, "erf": 3, "sin": 3, "cos": 3}
COUNT = 1 << 14
EXTENSIONS = {  # of x86, by the number of lanes that they help
    lanes: name for lanes, name, flag in ((8, "avx2", "avx2"), (16, "avx512", "avx512dq")) if host_cpu().has(flag)
}


@pytest.fixture(scope="module")
def code() -> Code:
    """One loop per function, element type and width."""
    m = ModuleBuilder()
    for name in FUNCTIONS:
        for element, widths in LANES.items():
            for lanes in widths:
                _build_loop(m, name, element, lanes)
        for lanes, extension in EXTENSIONS.items():
            _build_loop(m, name, F32, lanes, extension)
    return compile_module(m.build())


def _build_loop(m: ModuleBuilder, name: str, element: Float, lanes: int, extension: str = "") -> None:
    params = [("x", PTR, "noalias"), ("y", PTR, "noalias"), ("n", I64)]
    with m.function(f"{name}.{element.kind}.{lanes}{extension}", params, exported=True) as b:
        x, y, n = b.args
        type_ = Vector(lanes, element) if lanes > 1 else element
        with b.loop(0, n, lanes) as loop:
            value = math_function(b, name, b.load(type_, b.gep(element, x, loop.iv)), extension)
            b.store(value, b.gep(element, y, loop.iv))
        b.ret()


def run(code: Code, name: str, element: Float, lanes: int | str, x: np.ndarray) -> np.ndarray:
    function = code.function(f"{name}.{element.kind}.{lanes}", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    y = np.empty_like(x)
    assert x.size % 16 == 0
    function(x.ctypes.data, y.ctypes.data, x.size)
    return y


def extended(element: Float) -> list[str]:
    return [f"{lanes}{name}" for lanes, name in EXTENSIONS.items()] if element is F32 else []


def reference(name: str, x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.vectorize(math.erf)(x) if name == "erf" else getattr(np, name)(x)


def inputs(name: str, dtype: type) -> np.ndarray:
    random = np.random.default_rng(7)
    span = {np.float32: 87.0, np.float64: 700.0}[dtype]
    match name:
        case "exp":
            x = random.uniform(-span, span, COUNT)
        case "exp2":
            x = random.uniform(-span * 1.43, span * 1.43, COUNT)
        case "log" | "log2":
            x = np.exp(random.uniform(-span, span, COUNT))
            x[: COUNT // 2] = random.uniform(0.5, 2.0, COUNT // 2)
        case "sin" | "cos":
            x = random.uniform(-1e5, 1e5, COUNT)
            x[: COUNT // 2] = random.uniform(-4, 4, COUNT // 2)
        case _:
            x = random.normal(0, 2, COUNT)
            x[: COUNT // 4] *= 1e-3
    return x.astype(dtype)


@pytest.mark.parametrize("element", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_ulps(code, name, element):
    x = inputs(name, DTYPES[element])
    exact = reference(name, x)
    scale = np.spacing(np.abs(exact).astype(x.dtype)).astype(np.float64)
    if name in ("sin", "cos"):  # near a zero of a large argument the last place of x itself is the limit
        scale = np.maximum(scale, np.spacing(x.dtype.type(0.25)))
    results = [run(code, name, element, lanes, x) for lanes in LANES[element]]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    for result in (results[0], *(run(code, name, element, lanes, x) for lanes in extended(element))):
        ulps = np.abs(result.astype(np.float64) - exact) / scale
        if result is not results[0] and name in ("exp", "exp2"):
            ulps[exact < 2.0 * np.finfo(x.dtype).tiny] = 0  # there the error is up to the smallest normal number
        assert ulps.max() <= ULPS[name] + (1 if element is F64 else 0), (x[ulps.argmax()], ulps.max())


@pytest.mark.parametrize("element", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(code, name, element):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3e38, -3e38, 1e-3, -1e-3, 200, -200, 1100, -1100, 0.5])
    x = x.astype(DTYPES[element])
    if name in ("sin", "cos"):
        x[np.abs(x) > 1e9] = np.nan
    expected = reference(name, x)
    with np.errstate(over="ignore"):
        expected = expected.astype(x.dtype)
    tiny = np.finfo(x.dtype).tiny
    expected[np.abs(expected) < tiny] = 0
    for lanes in (*LANES[element], *extended(element)):
        result = run(code, name, element, lanes, x)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        np.testing.assert_array_equal(result[~finite & ~np.isnan(expected)], expected[~finite & ~np.isnan(expected)])
        np.testing.assert_allclose(result[finite], expected[finite], rtol=1e-5 if element is F32 else 1e-12, atol=tiny)
