"""Workers that share an axis of one product, and do another that sums over it each for itself (multi-head latent
attention: the latent is key and value)."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

import numpy as np
import pytest
from quick import some

import threadloom as tl
from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
from threadloom.cli.kernel_argument import choose
from threadloom.comparison import tolerance
from threadloom.errors import CompileError
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.sched.semantics import Places
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.sched.text import parse, print_program
from threadloom.tile.interp import interpret
from threadloom.tolerance import worst_error

KERNELS = {
    "mla_decode": ({"B": 2, "H": 20, "S": 70, "D": 128, "R": 16}, ("b", "h")),
    "flash_attention": ({"B": 1, "H": 1, "HKV": 1, "SQ": 70, "SK": 70, "D": 128}, ("b", "h", "m")),
}
names = pytest.mark.parametrize("name", some(KERNELS, [name for name in KERNELS if name != "mla_decode"]))


@lru_cache
def call_of(name: str) -> Call:
    chosen = choose(name, {})
    return bound_call(chosen, make_inputs(chosen, "f16", KERNELS[name][0]))


@lru_cache
def planned(name: str) -> SProgram:
    """With `d` shared by two workers, each of which has all rows."""
    call = call_of(name)
    rows = "h" if name == "mla_decode" else "m"
    tiles = (AxisTile("d", 128, 64), AxisTile(rows, 64, 64), AxisTile("n", 32, 32))
    only = Partition(tiles, (), KERNELS[name][1], workers=2, persistent=True)
    return plan(call.kernel, call.dims, device("h200"), only=only).best


@names
def test_proved_and_read_back(name):
    program = planned(name)
    assert check(program, device("h200")) == []
    assert parse(print_program(program), program.graph) == program
    whole = {t.name for t in program.graph.tasks if Places(program).is_whole(t.name)}
    assert whole == ({"dot_dot"} if name == "mla_decode" else set())
    probabilities = [b for b in program.buffers if b.space == "smem" and b.role and b.layout == "swizzle-128"]
    assert {b.role for b in probabilities} == {"worker0", "worker1"}  # each its own


@names
def test_values_are_right_in_the_worst_orders(name):
    program, call = planned(name), call_of(name)
    start = {key: np.array(array) for key, array in logical_arrays(call).items()}
    wanted = {key: np.array(array) for key, array in start.items()}
    interpret(call.kernel, wanted, call.scalars, call.dims, {t.axis: t.extent for t in program.partition.tiles})
    allowed = tolerance(call.kernel, call.dims, tl.f16, wanted["out"].astype(np.float64))
    for outcome, made in islice(simulate_tiles(program, start, call.scalars, call.dims, device("h200")), 6):
        assert outcome.right, str(outcome)
        assert worst_error(made["out"], wanted["out"]) <= allowed, str(outcome)


@pytest.mark.parametrize("target", some(["h100", "h200", "b200"], []))
def test_a_latent_of_512_fits_two_warpgroups(target):
    problem = planning_problem(choose("mla_decode", {}), None, "f16")
    assert problem.dims["D"] == 512
    outcome = plan(problem.kernel, problem.dims, device(target))
    program = outcome.best
    assert check(program, device(target)) == []
    assert "unproved" not in outcome.reasons  # no role waits for the content of a slot that it has not released
    (split,) = [t for t in program.partition.tiles if t.worker_extent < t.extent]
    assert (split.axis, split.extent, split.worker_extent) == ("d", 512, 256)


def test_where_it_fits_nowhere_the_error_says_what_to_try():
    problem = planning_problem(choose("mla_decode", {}), None, "f32")  # its queries fill the shared memory
    with pytest.raises(CompileError) as error:
        plan(problem.kernel, problem.dims, device("a100"))
    assert error.value.slug == "fits-nowhere" and error.value.loc.line == 15
    assert "bytes" in str(error.value) and "try: a stream" in str(error.value)


def test_where_it_fits_no_registers_the_plan_has_values_in_memory():
    problem = planning_problem(choose("mla_decode", {}), None, "f16")
    made = plan(problem.kernel, problem.dims, device("a100")).best
    assert made.device == "a100/spilled-2" and check(made, device(made.device)) == []
