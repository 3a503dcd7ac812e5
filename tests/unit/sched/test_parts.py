"""Split reductions through the search: when they are chosen, how they are proved, run, broken and read back."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest

from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
from threadloom.cli.kernel_argument import choose
from threadloom.comparison import tolerance
from threadloom.errors import CompileError
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.cpu import ZEN2, build
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.mutate_parts import PART_OPERATORS
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.reuse import Origin, key_of, recipe_from_text, recipe_of, recipe_text, remake
from threadloom.sched.reuse import choose as choose_plan
from threadloom.sched.search import plan
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.sched.text import parse, print_program
from threadloom.store import Store
from threadloom.tile.interp import interpret
from threadloom.tile.text import parse_text
from threadloom.tolerance import worst_error

MANY_CORES = build(replace(ZEN2, cores=32))

def case(name: str, machine: object, split: bool, slow: bool = False, **shape: int) -> object:
    marks = [pytest.mark.slow] if slow else []
    shown = ",".join(f"{k}{v}" for k, v in shape.items())
    label = f"{name}-{shown}-{getattr(machine, 'name', machine)}"
    return pytest.param(name, shape, machine, split, marks=marks, id=label)


CHOSEN = [  # is the reduction split?
    case("matmul", "h200", True, M=1, K=14336, N=4096),
    case("matmul", "h200", True, slow=True, M=32, K=8192, N=1024),
    case("w4_matmul", "h200", True, slow=True, M=16, K=4096, N=4096),
    case("flash_attention", "h200", True, slow=True, B=1, H=32, HKV=8, SQ=1, SK=8192, D=128),
    case("matmul", "h200", False, slow=True, M=4096, K=4096, N=4096),
    case("matmul", "h200", False, M=16, K=128, N=4096),  # nothing to share out
    case("matmul", MANY_CORES, True, M=2, K=65536, N=32),
    case("flash_attention", MANY_CORES, True, slow=True, B=1, H=2, HKV=2, SQ=1, SK=16384, D=128),
    case("matmul", MANY_CORES, False, M=1024, K=1024, N=1024),
]


@pytest.mark.parametrize(("name", "shape", "machine", "split"), CHOSEN)
def test_short_grids_are_split_and_full_ones_are_not(name, shape, machine, split):
    gpu = isinstance(machine, str)
    problem = planning_problem(choose(name, shape), None, "f16" if gpu else "f32")
    options = {"breadth": 1, "most": 4, "splits": True}
    found = plan(problem.kernel, problem.dims, machine, **options)
    assert (found.best.partition.splits > 1) is split
    assert (found.best.combine is not None) is split
    if split:
        whole = plan(problem.kernel, problem.dims, machine, **{**options, "splits": False})
        assert found.best.predicted_ns < whole.best.predicted_ns
        assert check(found.best, device(machine) if gpu else machine) == []


RECURRENCE = """kernel decayed(x: [M, K] f32 in, out: [M] f32 out) {
  axes m: M tile, k: K tile
  grid m {
    %zero: [] f32 = const 0.0
    %half: [] f32 = const 0.5
    %acc: [m] f32 = full %zero
    stream k carry (%a: [m] f32 = %acc) -> (%r) {
      %x: [m, k] f32 = load x[m, k]
      %sum: [m] f32 = reduce sum %x over k
      %kept: [m] f32 = mul %a, %half
      %n: [m] f32 = add %kept, %sum
      yield %n
    }
    store out[m] = %r
  }
}
"""


def test_a_short_grid_that_cannot_be_split_says_why():
    found = plan(parse_text(RECURRENCE), {"M": 4, "K": 65536}, MANY_CORES, most=2, splits=True)
    assert found.best.partition.splits == 1
    (reason,) = [r.detail for r in found.rejected if r.family == "splits"]
    assert reason.startswith("a is not known to combine")
    assert found.reasons["splits"] == 1


# ---------------------------------------------------------------- plans made by hand


def part(*tiles: AxisTile, splits: int, order: str, workers: int = 1) -> Partition:
    return Partition(tiles, (), tuple(order.split()), splits=splits, workers=workers, persistent=True)


def whole(axis: str, extent: int) -> AxisTile:
    return AxisTile(axis, extent, extent)


PLANNED = {
    "matmul": (
        {"M": 10, "K": 333, "N": 40},
        part(whole("m", 64), whole("n", 32), whole("k", 64), splits=2, order="part m n"),
    ),
    "flash_attention": (
        {"B": 1, "H": 1, "HKV": 1, "SQ": 10, "SK": 160, "D": 16},
        part(whole("m", 64), whole("n", 64), splits=2, order="part b h m"),
    ),
    "chunk_state": (  # with an axis that one tile of the grid walks
        {"B": 1, "C": 1, "L": 288, "H": 4, "P": 16, "N": 32, "G": 2},
        Partition(
            (whole("p", 64), whole("n", 32), whole("k", 64), whole("h", 2)), ("h",),
            ("part", "b", "chunk", "h", "p", "n"), splits=2, persistent=True,
        ),
    ),
    "block_sparse_matmul": (
        {"M": 64, "K": 352, "N": 24},
        part(whole("n", 32), splits=3, order="part i n"),
    ),
}  # fmt: skip
SLOW = ("block_sparse_matmul", "chunk_state", "flash_attention")
names = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in PLANNED]
)


@lru_cache
def bound(name: str) -> Call:
    chosen = choose(name, {})
    inputs = make_inputs(chosen, "f16", PLANNED[name][0])
    if "mask" in inputs:  # a part that nobody needs would hide what is done wrongly
        inputs["mask"][...] = True
    return bound_call(chosen, inputs)


@lru_cache
def planned(name: str) -> SProgram:
    call = bound(name)
    return plan(call.kernel, call.dims, "h200", only=PLANNED[name][1]).best


@names
def test_plans_are_proved_read_back_and_made_again(name):
    program, call = planned(name), bound(name)
    assert check(program) == []
    text = print_program(program)
    assert parse(text, program.graph, after=program.combine.graph) == program
    recipe = recipe_of(program)
    assert recipe_from_text(recipe_text(recipe)) == recipe
    again = remake(call.kernel, call.dims, device("h200"), recipe).best
    assert again.graph == program.graph and again.combine.graph == program.combine.graph
    assert again.partition == program.partition


@names
def test_plans_compute_the_kernel(name):
    program, call = planned(name), bound(name)
    arrays = logical_arrays(call)
    wanted = logical_arrays(call, exact=True)
    interpret(call.kernel, wanted, call.scalars, call.dims, exact=True)
    for outcome, made in islice(simulate_tiles(program, arrays, call.scalars, call.dims, random_ones=1), 3):
        assert outcome.right, outcome
        assert error_of(made, wanted, call) == 0


def error_of(made: dict[str, np.ndarray], wanted: dict[str, np.ndarray], call: Call) -> float:
    """How far the output is beyond what it may be."""
    out = next(t for t in call.kernel.tensors if t.name == "out")
    allowed = tolerance(call.kernel, call.dims, out.dtype, wanted["out"])
    worst = worst_error(made["out"].astype(np.float64), wanted["out"])
    return 0 if worst <= allowed else float(np.nan_to_num(worst, nan=np.inf))


@names
@pytest.mark.parametrize("operator", PART_OPERATORS)
def test_mutants_are_refused_and_compute_something_else(name, operator):
    program, call = planned(name), bound(name)
    mutants = list(PART_OPERATORS[operator](program))
    assert mutants or operator == "forget-a-weight"
    for mutant in mutants:
        assert {f.slug for f in check(mutant.program)} == {"wrong-parts"}, mutant
    arrays = logical_arrays(call)
    wanted = logical_arrays(call, exact=True)
    interpret(call.kernel, wanted, call.scalars, call.dims, exact=True)
    for mutant in mutants[:1]:
        runs = simulate_tiles(mutant.program, arrays, call.scalars, call.dims, random_ones=0)
        outcome, made = next(runs)
        assert not outcome.right or error_of(made, wanted, call) > 0, mutant


def test_parts_without_a_combination_are_refused():
    program = planned("matmul")
    assert [f.slug for f in check(replace(program, combine=None))] == ["wrong-parts"]
    assert [f.slug for f in check(replace(program, combine=program))] == ["wrong-parts"]


def test_what_cannot_be_split_is_refused_as_a_partition():
    problem = planning_problem(choose("layernorm", {"M": 4, "N": 64}), None, "f16")
    with pytest.raises(CompileError, match="reduction in 4 parts"):
        plan(problem.kernel, problem.dims, "h200", only=Partition((whole("m", 1),), splits=4))


def test_a_stored_plan_is_split_again(tmp_path):
    call, program = bound("matmul"), planned("matmul")
    with Store(tmp_path / "store.sqlite") as store:
        key = key_of(call.kernel, call.dims, device("h200"))
        store.set_plan(key, recipe_text(recipe_of(program)), 1000.0, program.predicted_ns)
        chosen = choose_plan(call.kernel, call.dims, device("h200"), store)
    assert chosen.origin is Origin.TUNED and chosen.program.partition == program.partition
    assert chosen.program.combine is not None
