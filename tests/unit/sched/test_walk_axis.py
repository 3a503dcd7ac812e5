"""Walking an axis of the grid inside one EU: the graph means the same, and its plans are proved, run and read back."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest
from quick import some

import threadloom as tl
from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import choose
from threadloom.comparison import tolerance
from threadloom.errors import CompileError
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.cpu import host
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.mutate import OPERATORS, Mutant
from threadloom.sched.ops import AxisTile, Buffer, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.sched.semantics import Trips, loop_runs
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.sched.survivors import try_mutants
from threadloom.sched.text import parse, print_program
from threadloom.sched.walk_axis import walk_axis, walkable_axes
from threadloom.targets.cpu.compile import compile, cpu_schedule, form_for
from threadloom.task.build import build_task_graph
from threadloom.task.interp import interpret_graph
from threadloom.task.text import parse_graph, print_graph
from threadloom.task.verify import verify_graph
from threadloom.tile.interp import interpret
from threadloom.tolerance import worst_error

# example, shape, axis, indices in a tile: a whole axis, a divisor of a group, tiles of which the last is short
CASES = [
    ("chunk_scan", {"B": 1, "C": 2, "L": 24, "H": 6, "P": 5, "N": 7, "G": 2}, "h", 3),
    ("chunk_scan", {"B": 1, "C": 1, "L": 24, "H": 5, "P": 8, "N": 8, "G": 1}, "h", 2),
    ("chunk_state", {"B": 1, "C": 2, "L": 24, "H": 4, "P": 5, "N": 7, "G": 2}, "h", 2),
    ("conv2d", {"B": 3, "H": 5, "W": 6, "C": 8, "F": 8, "R": 3, "S": 3}, "b", 3),
]
cases = pytest.mark.parametrize(("name", "shape", "axis", "step"), CASES, ids=str)


@lru_cache
def bound(name: str, shape: tuple[tuple[str, int], ...], dtype: str = "f16") -> Call:
    chosen = choose(name, {})
    return bound_call(chosen, make_inputs(chosen, dtype, dict(shape)))


@cases
def test_the_graph_means_the_same(name, shape, axis, step):
    call = bound(name, tuple(shape.items()))
    graph = build_task_graph(call.kernel)
    walked = walk_axis(graph, axis, step, call.dims)
    verify_graph(walked)
    assert parse_graph(print_graph(walked, locations=True)) == walked
    kept = walked.kept_loops()
    assert kept and all(loop.like in (None, *kept) for loop in walked.loops)
    tiles = {a.name: 16 for a in call.kernel.axes} | {axis: step}
    wanted, made = logical_arrays(call), logical_arrays(call)
    interpret(call.kernel, wanted, call.scalars, call.dims, tiles)
    interpret_graph(walked, made, call.scalars, call.dims, tiles)
    for tensor in call.kernel.tensors:
        np.testing.assert_array_equal(made[tensor.name], wanted[tensor.name])


def test_a_tile_does_not_cross_a_group():
    """Two groups of three heads: what is read by the group's number stays as it is for three heads, not for four."""
    name, shape, axis, _ = CASES[0]
    call = bound(name, tuple(shape.items()))
    graph = build_task_graph(call.kernel)
    assert walkable_axes(graph, call.dims)[axis] == 3
    assert walk_axis(graph, axis, 4, call.dims) is None


def test_axes_that_change_every_load_are_not_walked():
    call = bound("flash_attention", (("B", 2), ("H", 2), ("HKV", 2), ("SQ", 16), ("SK", 16), ("D", 16)))
    graph = build_task_graph(call.kernel)
    axes = walkable_axes(graph, call.dims)
    assert all(walk_axis(graph, axis, step, call.dims) is None for axis, step in axes.items())


# ---------------------------------------------------------------- plans


PLANNED = {
    "chunk_scan": Partition(
        (AxisTile("m", 128, 64), AxisTile("p", 16, 16), AxisTile("k", 64, 64), AxisTile("h", 3, 3)),
        ("h",), ("b", "chunk", "h", "m", "p"), workers=2, persistent=True,
    ),
    "conv2d": Partition(
        (AxisTile("j", 64, 64), AxisTile("f", 32, 32), AxisTile("c", 64, 64), AxisTile("b", 2, 2)),
        ("b",), ("b", "i", "j", "f"), persistent=True,
    ),
}  # fmt: skip
SHAPES = {
    "chunk_scan": {"B": 1, "C": 2, "L": 160, "H": 6, "P": 16, "N": 32, "G": 2},
    "conv2d": {"B": 3, "H": 5, "W": 6, "C": 72, "F": 32, "R": 1, "S": 2},
}
names = pytest.mark.parametrize("name", some(PLANNED, ["conv2d"]))


@lru_cache
def planned(name: str) -> SProgram:
    call = bound(name, tuple(SHAPES[name].items()))
    return plan(call.kernel, call.dims, device("h200"), only=PLANNED[name]).best


@names
def test_plans_are_proved_and_read_back(name):
    program = planned(name)
    assert check(program, device("h200")) == []
    assert parse(print_program(program), program.graph) == program
    (filling,) = program.graph.kept_loops()
    (kept,) = [b for b in program.buffers if b.slots > 1 and program.graph.task(kept_load(program, b)).loop == filling]
    assert next(x.most_trips for x in program.loops if x.loop == filling) == kept.slots


def kept_load(program: SProgram, buffer: Buffer) -> str:
    return next(t.producers[0] for t in program.graph.tiles if t.name == buffer.tile)


@names
def test_values_are_right_in_the_worst_orders(name):
    program, call = planned(name), bound(name, tuple(SHAPES[name].items()))
    start = {key: np.array(array) for key, array in logical_arrays(call).items()}
    wanted = {key: np.array(array) for key, array in start.items()}
    interpret(call.kernel, wanted, call.scalars, call.dims, {t.axis: t.extent for t in program.partition.tiles})
    allowed = tolerance(call.kernel, call.dims, tl.f16, wanted["out"].astype(np.float64))
    for outcome, made in islice(simulate_tiles(program, start, call.scalars, call.dims, device("h200")), 6):
        assert outcome.right, str(outcome)
        assert worst_error(made["out"], wanted["out"]) <= allowed, str(outcome)


@pytest.mark.slow
def test_the_walked_axis_loads_less():
    """What is kept is loaded once for all indices of a tile."""
    program = planned("chunk_scan")
    runs = loop_runs(program.graph, Trips({0: (2,), 1: (3, 1), 2: (3,), 3: (7,)}))
    loads = {t.name: runs[t.loop].total for t in program.graph.tasks if t.name in ("load_cb", "load_x")}
    assert loads == {"load_cb": 4, "load_x": 12}


@pytest.mark.slow
@pytest.mark.parametrize("short", [1, 2])
def test_a_buffer_that_cannot_hold_a_whole_run_is_refused(short):
    program = planned("chunk_scan")
    buffers = tuple(replace(b, slots=b.slots - short) if b.name == "cb" else b for b in program.buffers)
    signals = tuple(replace(s, slots=s.slots - short) if s.name == "full.cb" else s for s in program.signals)
    (found, *_) = check(replace(program, buffers=buffers, signals=signals), device("h200"))
    assert "cb" in str(found)


def sites() -> list[Mutant]:
    """Where mutation operators touch what is kept, and the loop that fills it."""
    program = planned("chunk_scan")
    made = (mutant for make in OPERATORS.values() for mutant in make(program))
    return [m for m in made if "cb" in str(m) or "loop 1" in str(m)]


@pytest.mark.parametrize("every", some([100, 12, 1], []))
def test_mutants_are_refused_or_explained(every):
    report = try_mutants(planned("chunk_scan"), device("h200"), sites()[::every])
    assert len(report.killed) > 20 // every
    assert [f"{s.mutant}: {s.outcome}" for s in report.unexplained] == []
    assert [str(k.finding) for k in report.unnamed] == []


@pytest.mark.parametrize("axes", [("chunk",), ("m",), ("h", "chunk")])
def test_a_walk_that_keeps_nothing_is_an_error(axes):
    call = bound("chunk_scan", tuple(SHAPES["chunk_scan"].items()))
    tiles = (*PLANNED["chunk_scan"].tiles, AxisTile("chunk", 2, 2))
    partition = replace(PLANNED["chunk_scan"], tiles=tiles, sequential=axes)
    with pytest.raises(CompileError, match="cannot go through") as error:
        plan(call.kernel, call.dims, device("h200"), only=partition)
    assert error.value.slug == "fits-nowhere"


def test_the_claim_of_longer_runs_is_refused():
    program = planned("chunk_scan")
    found = [str(*check(m.program, device("h200"))[:1]) for m in OPERATORS["claim-longer-runs"](program)]
    assert len(found) == 2 and all("cb" in f for f in found), found


def test_a_core_computes_the_same_from_such_a_partition():
    call = bound("chunk_scan", tuple(SHAPES["chunk_scan"].items()), "f32")
    program = plan(call.kernel, call.dims, device("cpu")).best
    walked = replace(program, partition=replace(program.partition, sequential=("h",)))
    wanted = {name: np.array(array) for name, array in logical_arrays(call).items()}
    interpret(call.kernel, wanted, call.scalars, call.dims)
    form = form_for(cpu_schedule(walked), call.arrays, call.dims)
    compile(walked, form, host()).run(call.arrays, call.dims, call.scalars)
    made = call.arrays
    allowed = tolerance(call.kernel, call.dims, tl.f32, wanted["out"].astype(np.float64))
    assert worst_error(made["out"], wanted["out"]) <= allowed


@tl.kernel
def ends_where_data_say(
    x: tl.Tensor["K", "N", tl.f16], w: tl.Tensor["B", "N", tl.f16], end: tl.Tensor[1, tl.i32]
) -> tl.Tensor["B", "N", tl.f16]:
    for b, n in tl.grid(tl.each("B"), "N"):
        total = tl.zeros(n)
        for k in tl.stream(tl.each("K", end[0], end[0] + 9)):
            total += x[k, n]
        out[b, n] = total * w[b, n]


def test_a_loop_of_unknown_length_is_not_kept():
    x, w = np.ones((40, 64), np.float16), np.ones((4, 64), np.float16)
    call = ends_where_data_say.bind(x, w, np.array([2], np.int32))
    walked = walk_axis(build_task_graph(call.kernel), "b", 4, call.dims)
    assert walked is None or not walked.kept_loops()
