"""Stores past the caches of one row between pieces of the work on the next (lower/late_stores.py)."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled

import threadloom as tl
from threadloom.comparison import tolerance
from threadloom.examples.layernorm import layernorm
from threadloom.examples.rmsnorm import rmsnorm
from threadloom.examples.softmax import softmax
from threadloom.lang.bind import Call
from threadloom.lang.kernel import Kernel
from threadloom.targets.cpu.compile import form_for, lower
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.schedule import AVX2, NEON, Target
from threadloom.tolerance import worst_error

WIDE = Target(64, 16, 6, 2, 10, 32 << 10, 512 << 10)  # 16 lanes, which this machine's compiler may cut in two
RNG = np.random.default_rng(5)


@tl.kernel
def scaled_by_rows(
    x: tl.Tensor["M", "N", tl.f32], scale: tl.Tensor["M", tl.f32], shift: tl.Tensor["N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        p = tl.exp(x[m, n] * 0.1)
        out[m, n] = p * tl.sum(p, n) * scale[m] + shift[n]


def on_a_line(rows: int, width: int) -> np.ndarray:
    room = np.empty(rows * width + 16, np.float32)
    first = -room.__array_interface__["data"][0] % 64 // 4
    return room[first : first + rows * width].reshape(rows, width)


def call_of(kernel: Kernel, rows: int, width: int) -> Call:
    given = {"x": RNG.standard_normal((rows, width))}
    if kernel is scaled_by_rows:
        given |= {"scale": RNG.standard_normal(rows), "shift": RNG.standard_normal(width)}
    if kernel in (rmsnorm, layernorm):
        given["weight"] = RNG.standard_normal(width)
    if kernel is layernorm:
        given["bias"] = RNG.standard_normal(width)
    return kernel.bind(**{k: v.astype(np.float32) for k, v in given.items()}, out=on_a_line(rows, width))


def is_late(call: Call, target: Target) -> bool:
    schedule = plain_schedule(call.kernel, extent=3, nontemporal=frozenset({"out"}))
    text = emit_llvm(lower(schedule, form_for(schedule, call.arrays, call.dims), target)[1])
    assert "!nontemporal" in text
    return "icmp sgt i64 %m" in text  # rows after the first store the one before


@pytest.mark.parametrize(("width", "late"), [(512, True), (256, True), (192, False), (128, False)])
@pytest.mark.parametrize("kernel", [softmax, rmsnorm, layernorm, scaled_by_rows], ids=lambda k: k.name)
def test_values(kernel: Kernel, width: int, late: bool):
    """Tiles of three rows, the last of them with one. What is read for each row alone, as `scale`, is not delayed."""
    for rows, target in ((7, AVX2), (1, AVX2), (4, WIDE)):
        call = call_of(kernel, rows, width)
        assert is_late(call, target) == (late and kernel is not scaled_by_rows)
        (got,) = run_compiled(call, target, extent=3, nontemporal=frozenset({"out"}))
        exact = kernel.interpret(**{k: a for k, a in call.arrays.items() if k != "out"}, exact=True)
        assert worst_error(got, exact) <= tolerance(call.kernel, call.dims, tl.f32, exact)


def test_four_lanes():
    assert is_late(call_of(softmax, 7, 512), NEON)


def test_an_output_that_starts_within_a_line_is_stored_at_once():
    call = call_of(softmax, 7, 512)
    moved = softmax.bind(x=call.arrays["x"], out=np.empty(7 * 512 + 17, np.float32)[1:][: 7 * 512].reshape(7, 512))
    schedule = plain_schedule(call.kernel, extent=3, nontemporal=frozenset({"out"}))
    text = emit_llvm(lower(schedule, form_for(schedule, moved.arrays, moved.dims), AVX2)[1])
    assert "!nontemporal" not in text


def test_large_results_start_on_a_line():
    assert softmax(np.zeros((300, 70), np.float32)).__array_interface__["data"][0] % 64 == 0
