"""A tile that is transformed in one iteration and used by a product in the next, with buffers of two slots or more: the
second write must not overtake the first read."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest

import threadloom as tl
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.tile.interp import interpret


@tl.kernel
def used_next(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["C", "K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        acc = tl.zeros(m, n)
        staged = tl.zeros(k, n, dtype=tl.f16)
        for c in tl.stream(tl.each("C")):
            acc += tl.dot(a[m, k], staged)  # what the iteration before made
            staged = b[c, k, n] * 2
        out[m, n] = acc + tl.dot(a[m, k], staged)


@lru_cache
def call_of(count: int) -> Call:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, 64)), rng.integers(-4, 5, (count, 64, 64))
    return used_next.bind(a=a.astype(np.float16), b=b.astype(np.float16))


@lru_cache
def planned() -> SProgram:
    call = call_of(5)
    only = Partition((AxisTile("m", 64, 64), AxisTile("n", 64, 64)), (), ("m", "n"), workers=1, persistent=True)
    return plan(call.kernel, call.dims, device("h200"), only=only).best


def test_it_is_pipelined_and_proved():
    program = planned()
    assert check(program, device("h200")) == []
    assert max(b.slots for b in program.buffers) >= 2


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_values_are_right_in_the_worst_orders(count: int):
    program, call = planned(), call_of(count)
    start = {key: np.array(array) for key, array in logical_arrays(call).items()}
    wanted = {key: np.array(array) for key, array in start.items()}
    interpret(call.kernel, wanted, call.scalars, call.dims, {"m": 64, "n": 64})
    for outcome, made in islice(simulate_tiles(program, start, call.scalars, call.dims, device("h200")), 8):
        assert outcome.right, str(outcome)
        np.testing.assert_array_equal(made["out"], wanted["out"])


def test_a_slot_too_few_is_refused():
    """Each buffer of several slots in turn gets one less than its signals count on."""
    program = planned()
    several = [b for b in program.buffers if b.slots > 1]
    for buffer in several:
        fewer = replace(buffer, slots=buffer.slots - 1)
        broken = replace(program, buffers=tuple(fewer if b is buffer else b for b in program.buffers))
        assert check(broken, device("h200")), buffer.name
