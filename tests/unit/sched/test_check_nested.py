"""Loops one after the other and inside each other: counters run on over their runs, accumulators stay in place."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest
from quick import some

import threadloom as tl
from threadloom.comparison import tolerance
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.check_trips import trip_cases
from threadloom.sched.ops import Arrive, SProgram, Wait
from threadloom.sched.search import plan
from threadloom.sched.semantics import Places, Trips, loop_runs
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.tile.interp import interpret
from threadloom.tolerance import worst_error


@tl.kernel
def one_after_the_other(
    a: tl.Tensor["M", "K", tl.f16],
    b: tl.Tensor["K", "N", tl.f16],
    c: tl.Tensor["M", "L", tl.f16],
    d: tl.Tensor["L", "N", tl.f16],
) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        for l in tl.stream("L"):  # noqa: E741
            acc += tl.dot(c[m, l], d[l, n])
        out[m, n] = tl.cast(acc, tl.f16)


@tl.kernel
def inside(a: tl.Tensor["B", "M", "K", tl.f16], b: tl.Tensor["B", "K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for q in tl.stream(tl.each("B")):
            for k in tl.stream("K"):
                acc += tl.dot(a[q, m, k], b[q, k, n])
        out[m, n] = tl.cast(acc, tl.f16)


def arguments(kernel) -> tuple[np.ndarray, ...]:
    shapes = {
        "one_after_the_other": ((70, 200), (200, 50), (70, 130), (130, 50)),
        "inside": ((3, 70, 200), (3, 200, 50)),
    }
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape).astype(np.float16) for shape in shapes[kernel.name])


@lru_cache
def planned(name: str, target: str) -> SProgram:
    call = bound_call(name)
    return plan(call.kernel, call.dims, device(target), most=4).best


def bound_call(name: str) -> Call:
    kernel = {"one_after_the_other": one_after_the_other, "inside": inside}[name]
    return kernel.bind(*arguments(kernel))


kernels = pytest.mark.parametrize("kernel", [one_after_the_other, inside], ids=lambda k: k.name)


@kernels
@pytest.mark.parametrize("target", some(["h200", "a100", "cpu"], ["h200", "cpu"]))
def test_proved_and_right(kernel, target):
    call, machine, program = bound_call(kernel.name), device(target), planned(kernel.name, target)
    assert check(program, machine) == []
    start = {name: np.array(array) for name, array in logical_arrays(call).items()}
    wanted = {name: np.array(array) for name, array in start.items()}
    interpret(call.kernel, wanted, call.scalars, call.dims, {t.axis: t.extent for t in program.partition.tiles})
    allowed = tolerance(call.kernel, call.dims, tl.f16, wanted["out"].astype(np.float64))
    for outcome, made in islice(simulate_tiles(program, start, call.scalars, call.dims, machine), 4):
        assert outcome.right, str(outcome)
        assert worst_error(made["out"], wanted["out"]) <= allowed


@kernels
def test_a_lost_release_in_either_loop_is_found(kernel):
    machine, program = device("h200"), planned(kernel.name, "h200")
    for number, section in enumerate(program.sections):
        for at, instr in enumerate(section.instrs):
            if isinstance(instr, Arrive | Wait) and section.loop > 0 and "worker" in section.role:
                sections = list(program.sections)
                sections[number] = replace(section, instrs=section.instrs[:at] + section.instrs[at + 1 :])
                found = check(replace(program, sections=tuple(sections)), machine)
                if isinstance(instr, Arrive):
                    assert found, f"{instr} was not needed"


def test_counters_of_loops_run_on():
    graph = planned("inside", "h200").graph
    runs = loop_runs(graph, Trips({0: (2,), 1: (2, 1), 2: (3, 0, 4)}))
    assert runs[1].counts == (2, 1) and runs[1].starts == (0, 2)
    assert runs[2].counts == (3, 0, 4) and runs[2].starts == (0, 3, 3) and runs[2].total == 7


def test_an_accumulator_counts_the_tiles_of_the_grid():
    for kernel in (one_after_the_other, inside):
        program = planned(kernel.name, "h200")
        places = Places(program)
        carried = [t.name for t in program.graph.tiles if t.carried is not None]
        assert carried and all(places.homes[tile] == 0 for tile in carried)


def test_deep_loops_get_every_sum_of_runs():
    program = planned("inside", "h200")
    partition = replace(program.partition, persistent=False, sequential=())
    cases = trip_cases(replace(program, partition=partition))
    assert any(c.counts[2] == (1, 1, *c.counts[2][2:]) and c.counts[1] == (len(c.counts[2]),) for c in cases)
