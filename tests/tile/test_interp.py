"""The definition itself: each operation against plain NumPy, the edges of casts and integers, rounding modes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from threadloom.dtypes import ALL, numpy_dtype
from threadloom.tile.functions import TABLE, Rule, accepts
from threadloom.tile.interp import interpret
from threadloom.tile.text import parse_text
from threadloom.tile.verify import verify

CUTS = ({}, {"m": 1, "n": 1}, {"m": 3, "n": 2})


def run(
    ops: str,
    out: str,
    result: np.ndarray,
    exact: bool = False,
    cut: dict[str, int] | None = None,
    **tensors: np.ndarray,
) -> np.ndarray:
    """Execute `ops` in a grid over m and n, with tensors over [M, N]; `result` is filled by the store in `out`."""
    names = {numpy_dtype(t): t.name for t in ALL.values() if t.name not in ("tf32", "u4")}
    params = [f"{n}: [{', '.join('MN'[: a.ndim])}] {names[a.dtype]} in" for n, a in tensors.items()]
    text = f"""
    kernel k({", ".join(params)}, out: [{", ".join("MN"[: result.ndim])}] {names[result.dtype]} out) {{
      axes m: M tile, n: N tile, w: N whole, v: M whole
      grid m, n {{
        {ops}
        store out{out}
      }}
    }}"""
    kernel = parse_text(text)
    verify(kernel)
    M, N = next(iter(tensors.values())).shape
    interpret(kernel, {**tensors, "out": result}, {}, {"M": M, "N": N}, cut or {}, exact)
    return result


X = np.random.default_rng(3).uniform(0.25, 2.0, (5, 4))


DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "bool")


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, f in TABLE.items() for d in DTYPES if accepts(f, ALL[d])])
def test_every_elementwise_function(name: str, dtype: str):
    fn = TABLE[name]
    element = numpy_dtype(ALL[dtype])
    args = [(X * (3 if ALL[dtype].is_integer else 1) + at).astype(element) for at in range(fn.arity)]
    names = list("abc"[: fn.arity])
    condition = fn.rule is Rule.WHERE
    if condition:
        args[0] = X > 1
    dtypes = ["bool" if condition and at == 0 else dtype for at in range(fn.arity)]
    result_dtype = "bool" if fn.rule in (Rule.COMPARE, Rule.TEST) else dtype
    loads = "\n".join(f"%{n}: [m, n] {d} = load {n}[m, n]" for n, d in zip(names, dtypes, strict=True))
    ops = f"{loads}\n%r: [m, n] {result_dtype} = {fn.name} {', '.join('%' + n for n in names)}"
    for cut in CUTS:
        result = np.zeros_like(X, numpy_dtype(ALL[result_dtype]))
        got = run(ops, "[m, n] = %r", result, cut=cut, **dict(zip(names, args, strict=True)))
        wide = [
            a.astype(np.float32) if ALL[dtype].is_float and ALL[dtype].bits < 32 and a.dtype != bool else a
            for a in args
        ]
        np.testing.assert_array_equal(got, np.asarray(fn.numpy(*wide)).astype(result.dtype))


def test_erf_is_accurate():
    x = np.linspace(-4, 4, 41)
    assert max(abs(TABLE["erf"].numpy(x) - [math.erf(v) for v in x])) == 0


# ---------------------------------------------------------------- casts


@pytest.mark.parametrize(
    ("source", "to", "want"),
    [
        (np.array([[1.9, -1.9, 3e9, -3e9, math.nan, math.inf]]), "i32", [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]),
        (np.array([[1e19, -1e19, 2.5]]), "i64", [2**63 - 1, -(2**63), 2]),
        (np.array([[300.0, -5.0, 255.9, math.nan]]), "u8", [255, 0, 255, 0]),
        (np.array([[200.0, -200.0]]), "i8", [127, -128]),
        (np.array([[300, -1, 128]], np.int32), "i8", [44, -1, -128]),
        (np.array([[300, -1]], np.int32), "u8", [44, 255]),
        (np.array([[2, 0, -1]], np.int32), "bool", [True, False, True]),
        (np.array([[0.5, 0.0, math.nan]]), "bool", [True, False, True]),
        (np.array([[1000.0, -1e9, math.inf, 0.06]]), "f8e4m3", [448, -448, 448, 0.05859375]),
        (np.array([[1e9, 1.1]]), "f8e5m2", [57344, 1.0]),
        (np.array([[1e9, 2049.0]]), "f16", [math.inf, 2048]),
        (np.array([[1 + 2**-8]]), "bf16", [1.0]),
        (np.array([[True, False]]), "f32", [1.0, 0.0]),
    ],
)
def test_casts(source: np.ndarray, to: str, want: list[object]):
    element = next(t.name for t in ALL.values() if numpy_dtype(t) == source.dtype)
    ops = f"%a: [m, n] {element} = load a[m, n]\n%r: [m, n] {to} = cast %a"
    got = run(ops, "[m, n] = %r", np.zeros(source.shape, numpy_dtype(ALL[to])), a=source)
    np.testing.assert_array_equal(got[0].astype(np.float64), np.array(want, np.float64))


# ---------------------------------------------------------------- reductions, scans, index values


@pytest.mark.parametrize("fn", ["sum", "prod", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("axis", ["w", "v"])
def test_reductions(fn: str, axis: str):
    x = np.random.default_rng(0).integers(0, 4, (5, 4)).astype(np.float64)  # with equals
    dtype = "i64" if fn.startswith("arg") else "f64"
    kept, other, at = ("m", "n", 1) if axis == "w" else ("n", "m", 0)
    subscripts = "m, w" if axis == "w" else "v, n"
    axes = "m, w" if axis == "w" else "v, n"
    ops = f"""%a: [{axes}] f64 = load a[{subscripts}]
    %r: [{kept}] {dtype} = reduce {fn} %a over {axis}
    %i: [{other}] i64 = index {other}
    %z: [{other}] i64 = sub %i, %i
    %z2: [{other}] {dtype} = cast %z
    %s: [{kept}, {other}] {dtype} = add %r, %z2"""
    ops = ops.replace("%z2", "%z.2")
    want = getattr(np, fn)(x, axis=at, keepdims=True)
    for cut in CUTS:
        got = run(ops, "[m, n] = %s", np.zeros((5, 4), np.int64 if dtype == "i64" else np.float64), cut=cut, a=x)
        np.testing.assert_array_equal(got, np.broadcast_to(want, x.shape))


@pytest.mark.parametrize(("fn", "numpy"), [("sum", np.cumsum), ("prod", np.cumprod), ("max", np.maximum.accumulate)])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(fn: str, numpy, reverse: bool):
    ops = f"%a: [m, w] f64 = load a[m, w]\n%r: [m, w] f64 = scan {fn} %a along w{' reverse' if reverse else ''}"
    ops = ops.replace("m, w", "v, w")  # over whole axes, the grid then only repeats the store
    kernel = f"""
    kernel k(a: [M, N] f64 in, out: [M, N] f64 out) {{
      axes w: N whole, v: M whole
      grid {{
        {ops}
        store out[v, w] = %r
      }}
    }}"""
    result = np.zeros_like(X)
    interpret(parse_text(kernel), {"a": X, "out": result}, {}, {"M": 5, "N": 4})
    want = np.flip(numpy(np.flip(X, 1), axis=1), 1) if reverse else numpy(X, axis=1)
    np.testing.assert_allclose(result, want, rtol=1e-15)


@pytest.mark.parametrize(("fn", "first"), [("sum", 2**30), ("prod", 7)])
def test_integer_scans_and_reductions_wrap(fn: str, first: int):
    """NumPy makes i64 of them."""
    text = f"""
    kernel k(a: [M, N] i32 in, s: [M, N] f64 out, r: [M] f64 out) {{
      axes m: M tile, w: N whole
      grid m {{
        %a: [m, w] i32 = load a[m, w]
        %s: [m, w] i32 = scan {fn} %a along w
        %r: [m] i32 = reduce {fn} %a over w
        %t: [m, w] f64 = cast %s
        %u: [m] f64 = cast %r
        store s[m, w] = %t
        store r[m] = %u
      }}
    }}"""
    tensors = {"a": np.full((2, 12), first, np.int32), "s": np.zeros((2, 12)), "r": np.zeros(2)}
    interpret(parse_text(text), tensors, {}, {"M": 2, "N": 12})
    exact = [first * n if fn == "sum" else first**n for n in range(1, 13)]
    wrapped = [(n + 2**31) % 2**32 - 2**31 for n in exact]
    assert tensors["s"].tolist() == [wrapped] * 2 and tensors["r"].tolist() == [wrapped[-1]] * 2


def test_index_values_are_those_of_the_whole_axis():
    text = "%i: [m] i64 = index m\n%j: [n] i64 = index n\n%s: [m, n] i64 = add %i, %j"
    for cut in CUTS:
        got = run(text, "[m, n] = %s", np.zeros((5, 4), np.int64), cut=cut, a=X)
        np.testing.assert_array_equal(got, np.add.outer(np.arange(5), np.arange(4)))


def test_reductions_of_nothing():
    text = """
    kernel k(a: [M, N] f32 in, s: [M] f32 out, x: [M] f32 out, l: [M] bool out, g: [M] i64 out) {
      axes m: M tile, w: N whole
      grid m {
        %a: [m, w] f32 = load a[m, w]
        %s: [m] f32 = reduce sum %a over w
        %x: [m] f32 = reduce max %a over w
        %b: [m, w] bool = isnan %a
        %l: [m] bool = reduce all %b over w
        %g: [m] i64 = reduce argmax %a over w
        store s[m] = %s
        store x[m] = %x
        store l[m] = %l
        store g[m] = %g
      }
    }"""
    tensors = {"a": np.zeros((3, 0), "f4"), "s": np.ones(3, "f4"), "x": np.ones(3, "f4")}
    tensors |= {"l": np.zeros(3, bool), "g": np.ones(3, np.int64)}
    interpret(parse_text(text), tensors, {}, {"M": 3, "N": 0})
    assert (tensors["s"] == 0).all() and (tensors["x"] == -math.inf).all()
    assert tensors["l"].all() and (tensors["g"] == 0).all()


# ---------------------------------------------------------------- products

DOT = """
kernel k(a: [M, K] {0} in, b: [K, N] {0} in, out: [M, N] {1} out) {{
  axes m: M tile, n: N tile, k: K whole
  grid m, n {{
    %a: [m, k] {0} = load a[m, k]
    %b: [k, n] {0} = load b[k, n]
    {2}%d: [m, n] {1} = dot %a, %b over k
    store out[m, n] = %d
  }}
}}"""


@pytest.mark.parametrize(
    ("dtype", "wide"), [("f16", "f32"), ("bf16", "f32"), ("f8e4m3", "f32"), ("i8", "i32"), ("f64", "f64")]
)
def test_dots_accumulate_wide(dtype: str, wide: str):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(numpy_dtype(ALL[dtype])) for s in ((3, 300), (300, 2)))
    out = np.zeros((3, 2), numpy_dtype(ALL[wide]))
    interpret(parse_text(DOT.format(dtype, wide, "")), {"a": a, "b": b, "out": out}, {}, {"M": 3, "N": 2, "K": 300})
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


def test_tf32_rounds_products_only():
    text = DOT.format("f32", "f32", "").replace("dot %a, %b", "dot %x, %y")
    casts = "%x: [m, k] tf32 = cast %a\n    %y: [k, n] tf32 = cast %b\n    "
    text = text.replace("%d:", casts + "%d:")
    value = np.float32(1 + 2**-10 + 2**-12)  # rounds to 1 + 2^-10
    tensors = {"a": np.full((1, 1), value), "b": np.ones((1, 1), "f4"), "out": np.zeros((1, 1), "f4")}
    interpret(parse_text(text), tensors, {}, {"M": 1, "N": 1, "K": 1})
    assert tensors["out"][0, 0] == np.float32(1 + 2**-10)
    tensors["out"] = np.zeros((1, 1))
    interpret(parse_text(text), tensors, {}, {"M": 1, "N": 1, "K": 1}, exact=True)
    assert tensors["out"][0, 0] == float(value)


def test_exact_mode_rounds_nothing():
    ops = "%a: [m, n] f32 = load a[m, n]\n%h: [m, n] f16 = cast %a\n%e: [m, n] f16 = exp %h\n%r: [m, n] f32 = cast %e"
    x = X.astype(np.float32)
    exact = run(ops, "[m, n] = %r", np.zeros_like(x), a=x)
    assert np.abs(exact - np.exp(x.astype(np.float64))).max() > 1e-4
    kernel_out = np.zeros_like(X)
    names = f"""
    kernel k(a: [M, N] f32 in, out: [M, N] f32 out) {{
      axes m: M tile, n: N tile
      grid m, n {{
        {ops}
        store out[m, n] = %r
      }}
    }}"""
    interpret(parse_text(names), {"a": x, "out": kernel_out}, {}, {"M": 5, "N": 4}, exact=True)
    np.testing.assert_array_equal(kernel_out, np.exp(x.astype(np.float64)))


def test_extended_dtypes_can_be_added_to_atomically():
    text = """
    kernel k(a: [M, N] bf16 in, out: [N] bf16 inout) {
      axes m: M tile, n: N tile
      grid m, n {
        %a: [m, n] bf16 = load a[m, n]
        %s: [n] f32 = reduce sum %a over m
        %r: [n] bf16 = cast %s
        atomic_add out[n] = %r
      }
    }"""
    a = np.ones((5, 4), ml_dtypes.bfloat16)
    out = np.zeros(4, ml_dtypes.bfloat16)
    interpret(parse_text(text), {"a": a, "out": out}, {}, {"M": 5, "N": 4}, {"m": 2})
    assert out.astype(float).tolist() == [5.0] * 4
