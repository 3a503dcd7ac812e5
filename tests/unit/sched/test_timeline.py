"""The timed simulation and the timelines it makes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from check_plans import GEMM_COSTS, Cycles, gemm_core, gemm_hopper

from threadloom.sched.semantics import Trips
from threadloom.sched.simulate_time import simulate_time
from threadloom.sched.timeline import Bar, Rejected, Timeline, from_json, lanes, to_json
from threadloom.sched.timeline_text import beginning, nice_step, render_text, task_letters

TRIPS = Trips({0: (2,), 1: (6,)})


@pytest.fixture(scope="module")
def gemm() -> Timeline:
    return simulate_time(gemm_hopper(slots=3), GEMM_COSTS, TRIPS, memory=True)


def test_every_task_runs_once_per_instance_and_role(gemm):
    dots = [(b.role, b.instance) for b in gemm.bars if b.task == "dot"]
    assert sorted(dots) == sorted((f"worker{w}", i) for w in (0, 1) for i in range(12))
    assert gemm.note == ""


def test_a_unit_that_does_one_task_at_a_time_never_overlaps(gemm):
    for unit in ("tc", "tma"):
        bars = sorted((b for b in gemm.bars if b.row == unit), key=lambda b: b.start_cycles)
        assert all(a.end_cycles <= b.start_cycles + 1e-6 for a, b in pairwise(bars))


def test_no_dot_starts_before_its_loads_are_usable(gemm):
    latency = GEMM_COSTS["load_b"].latency - GEMM_COSTS["load_b"].occupancy
    loaded = {b.instance: b.end_cycles + latency for b in gemm.bars if b.task == "load_b"}
    assert all(b.start_cycles >= loaded[b.instance] for b in gemm.bars if b.task == "dot")


def test_tensor_bound_loop_takes_two_dots_an_iteration():
    """Two workers share the tensor core: 2 * 512 cycles an iteration once the ring is full."""
    trips = Trips({0: (1,), 1: (40,)})
    timeline = simulate_time(gemm_hopper(slots=4), GEMM_COSTS, trips)
    dots = sorted(b.end_cycles for b in timeline.bars if b.task == "dot" and b.role == "worker0")
    assert (dots[35] - dots[15]) / 20 == pytest.approx(1024, rel=0.01)


def test_memory_is_held_while_used(gemm):
    smem = next(c for c in gemm.memory if c.space == "smem")
    one = 128 * 64 * 2 + 64 * 256 * 2
    assert one <= smem.peak_bytes <= 3 * one + 2 * 128 * 32
    assert smem.points[-1][1] == 0


def test_shared_vector_lanes_slow_down():
    costs = {**GEMM_COSTS, "cast": Cycles(1000, 1.0, 1000)}
    timeline = simulate_time(gemm_hopper(), costs, Trips({0: (1,), 1: (0,)}))
    casts = [b for b in timeline.bars if b.task == "cast" and b.row == "vec"]
    assert max(b.end_cycles for b in casts) - min(b.start_cycles for b in casts) == pytest.approx(2000, rel=0.01)


def test_modes_of_the_tensor_core():
    ends = {mode: simulate_time(gemm_hopper(), GEMM_COSTS, TRIPS, mode=mode).end_cycles for mode in ("fifo", "share")}
    assert ends["share"] > ends["fifo"]
    assert simulate_time(gemm_hopper(), GEMM_COSTS, TRIPS, mode="ordered").note == ""


def test_jitter_is_a_function_of_the_seed():
    def end(seed: int) -> float:
        return simulate_time(gemm_hopper(), GEMM_COSTS, TRIPS, jitter=0.3, seed=seed).end_cycles

    assert end(1) == end(1) != end(2)


def test_a_deadlock_is_told():
    timeline = simulate_time(gemm_hopper(slots=1), GEMM_COSTS, TRIPS)
    assert "producer is stuck at wait empty_a" in timeline.note


def test_core_runs_in_order():
    core = simulate_time(gemm_core(), GEMM_COSTS, Trips({0: (1,), 1: (3,)}))
    assert [b.task for b in sorted(core.bars, key=lambda b: b.start_cycles) if b.row == "core"] == [
        "zero", *["load_a", "load_b", "dot"] * 3, "cast", "store",
    ]  # fmt: skip


def test_json_round_trip(gemm):
    timeline = replace(gemm, rejected=(Rejected("m=512", "accumulator does not fit", 12),))
    assert from_json(to_json(timeline)) == timeline
    for broken in ("{}", "[]", '{"schema": "threadloom.timeline/1"}'):
        with pytest.raises(ValueError, match="not a timeline"):
            from_json(broken)


def test_text_names_rows_waits_memory_and_rejections(gemm):
    text = render_text(replace(gemm, rejected=(Rejected("m=512", "accumulator does not fit", 12),)), width=90)
    assert max(map(len, text.splitlines())) <= 120
    for row in ("producer", "worker0", "worker1", "tma", "tc", "vec"):
        assert f"\n{row}" in text
    assert "waits" in text and "load_a -> dot over a" in text
    assert "12 m=512 rejected: accumulator does not fit" in text
    assert "KiB of 227 KiB" in text
    assert "\x1b[" not in text and "\x1b[1;38;5;" in render_text(gemm, color=True)


def test_windows_and_lanes(gemm):
    assert beginning(gemm, 2).end_cycles < gemm.end_cycles
    bars = [Bar("vec", "a", 0, 0, 10), Bar("vec", "b", 0, 5, 8), Bar("vec", "c", 0, 10, 12)]
    assert [(b.task, lane) for b, lane in lanes(bars)] == [("a", 0), ("b", 1), ("c", 0)]
    assert [nice_step(x) for x in (1, 1.5, 3, 7, 40)] == [1, 2, 5, 10, 50]


def test_each_task_has_a_letter(gemm):
    letters = task_letters(gemm)
    assert len(set(letters.values())) == len(letters) == 6
