"""Every example on every device model: its plan is proved, reads back from its text, and computes the right values in
the worst orders; its mutants are refused or shown to compute the same."""

from __future__ import annotations

import inspect
import itertools
from functools import lru_cache

import numpy as np
import pytest
from quick import some

from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
from threadloom.cli.kernel_argument import choose, example_names
from threadloom.comparison import tolerance
from threadloom.errors import CompileError
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.check_trips import repeats
from threadloom.sched.mutate import OPERATORS
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.sched.semantics import Trips
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.sched.simulate_values import simulate_values
from threadloom.sched.survivors import try_mutants
from threadloom.sched.text import parse, print_program
from threadloom.tile.interp import interpret
from threadloom.tile.ops import Access
from threadloom.tolerance import worst_error

DEVICES = ("h100", "h200", "a100", "b200", "mi300x", "cpu")
# Sites of one operator that the default suite tries; the slow one tries all.
FEW_SITES = 1
QUICK = [
    *itertools.product(("matmul", "block_sparse_matmul", "rmsnorm"), ("h200", "cpu")),
    ("flash_attention", "cpu"),
    *itertools.product(("chunk_scan", "conv2d", "w4_matmul", "mla_decode", "flash_attention_varlen"), ("cpu",)),
    ("grouped_matmul", "h200"),
]
pairs = pytest.mark.parametrize(("name", "target"), some(itertools.product(example_names(), DEVICES), QUICK))


@lru_cache(maxsize=256)
def planned(name: str, target: str, small: bool) -> SProgram:
    """The example's plan for its usual shape, or for its first small one."""
    machine = device(target)
    usual = "f32" if machine.arch == "cpu" else "f16"
    try:
        if small:
            call = call_of(name, target)
            return plan(call.kernel, call.dims, machine, most=4).best
        problem = planning_problem(choose(name, {}), None, usual)
        return plan(problem.kernel, problem.dims, machine).best
    except CompileError as error:
        if error.slug == "fits-nowhere":
            pytest.skip(f"{name} fits no tile on {target}")
        raise


def parts(program: SProgram) -> list[SProgram]:
    """The program, and the one that combines what it made of a split reduction."""
    return [program, program.combine] if program.combine else [program]


def read_back(program: SProgram) -> SProgram:
    after = program.combine.graph if program.combine else None
    return parse(print_program(program), program.graph, after=after)


def call_of(name: str, target: str) -> Call:
    chosen = choose(name, {})
    takes_dtype = "dtype" in inspect.signature(chosen.module.inputs).parameters
    dtype = ("f32" if target == "cpu" else "f16") if takes_dtype else None
    return bound_call(chosen, make_inputs(chosen, dtype, chosen.module.SHAPES[0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", example_names())
@pytest.mark.parametrize("target", DEVICES)
def test_the_usual_shape_is_proved_and_survives_adversaries(name, target):
    program = planned(name, target, small=False)
    machine = device(target)
    assert check(program, machine) == []
    assert read_back(program) == program
    for part in parts(program):
        inner = [loop.id for loop in part.graph.loops if loop.id != 0]
        outer = 3 if repeats(part) else 1
        for trips in ((0,), (1,), (5,), (2, 0, 3)):
            counts = Trips({0: (outer,), **dict.fromkeys(inner, trips)})
            outcome = simulate_values(part, counts, machine, random_ones=2)
            assert outcome.right, f"{outcome} at trip counts {trips}"


@pairs
def test_values_are_right_in_the_worst_orders(name, target):
    """On real arrays: any tile interpreter result is reproduced whatever completes when."""
    program = planned(name, target, small=True)
    machine = device(target)
    assert check(program, machine) == []
    assert read_back(program) == program
    call = call_of(name, target)
    start = {key: np.array(array) for key, array in logical_arrays(call).items()}
    wanted = {key: np.array(array) for key, array in start.items()}
    interpret(call.kernel, wanted, call.scalars, call.dims, {t.axis: t.extent for t in program.partition.tiles})
    outputs = [t for t in call.kernel.tensors if t.access is not Access.IN]
    results = simulate_tiles(program, start, call.scalars, call.dims, machine, random_ones=1)
    for outcome, made in itertools.islice(results, 0, None, 5 if target == "h200" else 1):
        assert outcome.right, str(outcome)
        for tensor in outputs:
            allowed = tolerance(call.kernel, call.dims, tensor.dtype, wanted[tensor.name].astype(np.float64))
            assert worst_error(made[tensor.name], wanted[tensor.name]) <= allowed, str(outcome)


FEW = ("softmax", "h200"), ("copy_tiles", "h200")


@pytest.mark.parametrize(("name", "target"), some([*FEW, ("flash_attention", "a100")], FEW))
def test_some_mutants_are_refused_or_explained(name, target):
    check_mutants(name, target, FEW_SITES)


@pytest.mark.slow
@pytest.mark.parametrize("name", example_names())
@pytest.mark.parametrize("target", ("h200", "a100", "cpu"))
def test_all_mutants_are_refused_or_explained(name, target):
    check_mutants(name, target, most=None)


def check_mutants(name: str, target: str, most: int | None) -> None:
    for program in parts(planned(name, target, small=False)):
        chosen = []
        for make in OPERATORS.values():
            found = list(make(program))
            chosen += found if most is None else found[:: max(1, -(-len(found) // most))]
        report = try_mutants(program, device(target), chosen)
        print(report)
        assert report.killed
        assert [f"{s.mutant}: {s.outcome}" for s in report.unexplained] == []
        assert [str(k.finding) for k in report.unnamed] == []


def test_one_worker_alone_cannot_do_what_workers_split():
    problem = planning_problem(choose("copy_tiles", {}), None, "f16")
    halves = Partition((AxisTile("m", 64, 32), AxisTile("n", 128, 128)), (), ("m", "n"), workers=2, persistent=True)
    program = plan(problem.kernel, problem.dims, "h200", only=halves).best
    stores = [m for m in OPERATORS["drop-issue"](program) if "store_out" in str(m)]
    assert len(stores) == 2
    for mutant in stores:
        assert [f.slug for f in check(mutant.program)][:1] == ["not-issued"]
