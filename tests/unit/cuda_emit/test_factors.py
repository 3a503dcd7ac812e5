"""Exponentials of a difference of a row's and a column's value, as products where that is safe."""

from __future__ import annotations

import re

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_emit.test_random_programs import on_cpu
from threadloom.targets.cuda import emit, nvrtc


@tl.kernel
def faded(
    x: tl.Tensor["M", "N", tl.f16], a: tl.Tensor["M", tl.f32], b: tl.Tensor["N", tl.f32]
) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = tl.where(n <= m, x[m, n] * tl.exp(a[m] - b[n]), 0.0)


@tl.kernel
def faded_exactly(
    x: tl.Tensor["M", "N", tl.f32], a: tl.Tensor["M", tl.f32], b: tl.Tensor["N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n] * tl.exp(a[m] - b[n])


def arguments(steps: np.ndarray, rows: int = 130, columns: int = 150) -> dict[str, np.ndarray]:
    """`steps`: of the decay, added up along both."""
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float16)
    decay = np.cumsum(steps).astype(np.float32)
    return dict(x=x, a=decay[:rows], b=decay[:columns])


STEPS = {
    "gentle": lambda n: np.full(n, -0.02),
    "steep": lambda n: np.full(n, -7.0),  # over 600 within a tile: factors would overflow
    "mixed": lambda n: np.where(np.arange(n) % 40 == 39, -90.0, -0.01),
    "rising": lambda n: np.full(n, 0.05),
    "infinite": lambda n: np.where(np.arange(n) == 100, -np.inf, -0.1),
}


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("kind", STEPS)
def test_results_are_those_of_the_plain_exponential(kind: str):
    given = arguments(STEPS[kind](150))
    x, a, b = (given[n].astype(np.float64) for n in "xab")
    m, n = np.indices(x.shape)
    with np.errstate(all="ignore"):
        wanted = np.where(n <= m, x * np.exp(a[:, None] - b[None, :]), 0).astype(np.float16)
    got = on_cpu(faded, np.float16, **given)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.allclose(got, wanted, rtol=2e-3, atol=1e-7, equal_nan=True)


@tl.kernel
def decayed_sums(
    x: tl.Tensor["M", "N", tl.f16],
    a: tl.Tensor["M", tl.f32],
    b: tl.Tensor["N", tl.f32],
    c: tl.Tensor["N", tl.f16],
    y: tl.Tensor["N", "P", tl.f16],
) -> tl.Tensor["M", "P", tl.f16]:
    for m, p in tl.grid("M", "P"):
        acc = tl.zeros(m, p, dtype=tl.f32)
        for n in tl.stream(tl.span("N", 0, m.stop)):
            weights = tl.where(n <= m, x[m, n] * tl.exp(a[m] - b[n]) * c[n], 0.0)
            acc += tl.dot(tl.cast(weights, tl.f16), y[n, p])
        out[m, p] = acc


def arguments_of_sums(kind: str, size: int, weights: str = "small") -> dict[str, np.ndarray]:
    rng, given = np.random.default_rng(1), arguments(STEPS[kind](size), size, size)
    c = {"small": rng.random(size), "zeros": (np.arange(size) % 3 == 0) * 1.0, "infinite": np.ones(size)}[weights]
    c[5] = np.inf if weights == "infinite" else c[5]
    return given | dict(c=c.astype(np.float16), y=rng.standard_normal((size, 64)).astype(np.float16))


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("kind, weights", [("gentle", "small"), ("gentle", "zeros"), ("steep", "small"),
                                           ("mixed", "small"), ("gentle", "infinite")])  # fmt: skip
def test_vectors_that_join_a_factor_and_parts_that_are_masked(kind: str, weights: str):
    given = arguments_of_sums(kind, 150, weights)
    x, a, b, c, y = (given[n].astype(np.float64) for n in "xabcy")
    m, n = np.indices(x.shape)
    with np.errstate(all="ignore"):
        wanted = np.where(n <= m, x * np.exp(a[:, None] - b[None, :]) * c, 0).astype(np.float16).astype(np.float64) @ y
    got = on_cpu(decayed_sums, np.float16, **given)
    finite = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(got), finite) and finite.any()
    assert np.allclose(got[finite], wanted[finite], rtol=4e-3, atol=4e-3)


def test_factors_are_made_once_for_each_row_and_column_and_shared_by_lanes():
    text = source_of(decayed_sums.bind(**arguments_of_sums("gentle", 1024)))
    factors = dict(re.findall(r"float (\w+_factor)\[(\d+)\];", text))
    own = dict(re.findall(r"float (\w+_factor_own)\[(\d+)\];", text))
    registers = max(int(n) for n in re.findall(r"for \(int [ip] = 0; [ip] < (\d+);", text))
    assert len(factors) == 2 and sum(map(int, factors.values())) <= 0.75 * registers
    (name,) = own
    assert int(own[name]) * 8 == int(factors[name.removesuffix("_own")])  # 8 lanes have the same columns
    assert "__all_sync(" in text and "exp2_fast(fmaf(" in text  # the plain way is there for tiles out of range
    quick = text[text.index("if (in_range)") : text.index("exp2_fast(fmaf(")]
    assert not re.search(r"\bt_\d+\[", quick)  # the columns' values are in the factors
    cubin = nvrtc.compile_source(text, "sm_90a")
    assert cubin.spill_bytes == 0 and not cubin.serialised


def test_lanes_exchange_factors_in_shared_memory_where_there_is_room(monkeypatch):
    """Four at a time from rows of the exchange, whose first words lie in different banks; else by shuffles."""
    call = decayed_sums.bind(**arguments_of_sums("gentle", 1024))
    text = source_of(call)
    found = re.search(r"write_shared<16>\(exchange \+ \(lane / (\d+) % 8 \* (\d+)", text)
    first, own = (int(n) for n in found.groups())
    row = int(re.search(r"lane % 4 \* (\d+);\n", text[text.index("const u32 exchange") :]).group(1))
    warp = int(re.search(r"factor_bytes = (\d+);", text).group(1))
    assert (first, row) == (4, 4 * (8 * own + 4)) and warp == 4 * row and row // 16 % 2
    assert text.count("__shfl_sync") < 8
    total = int(re.search(r"(\d+) bytes of shared memory", text).group(1))
    monkeypatch.setattr(emit, "OTHER_SCRATCH_BYTES", 227 * 1024)
    without = source_of(call)
    assert "exchange" not in without and "__shfl_sync(0xffffffffu, " in without
    assert total >= int(re.search(r"(\d+) bytes of shared memory", without).group(1)) + warp * 4


def test_parts_that_a_warp_masks_as_a_whole_are_not_computed():
    text = source_of(decayed_sums.bind(**arguments_of_sums("gentle", 1024)))
    assert re.search(r"if \(\(n_at \+ part \* \d+\) > \(\(m_\w+ \+ \(warp_in_group\) \* 16\) \+ \d+\)\)", text)


def test_exact_results_keep_the_exact_exponential():
    given = arguments(STEPS["gentle"](256), 256, 256)
    assert "_factor" not in source_of(faded_exactly.bind(**given | {"x": given["x"].astype(np.float32)}))
