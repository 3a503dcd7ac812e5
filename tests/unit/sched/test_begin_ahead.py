"""The last pass of a tile begins the next one: what is moved, and that the checker says where it may not be."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest

from tests.unit.sched import kernels
from threadloom.dtypes import bf16
from threadloom.machine.devices import device
from threadloom.sched.begin_ahead import begin_ahead
from threadloom.sched.check import check
from threadloom.sched.ops import Inner, Issue, SProgram, Wait
from threadloom.sched.reuse import recipe_from_text, recipe_of_candidate, recipe_text, remake
from threadloom.sched.search import plan
from threadloom.sched.semantics import Step, Trips, streams
from threadloom.sched.simulate_values import simulate_values
from threadloom.sched.text import parse, print_program

MANY_TILES = {"B": 4, "H": 16, "S": 1024, "L": 1024, "D": 128}


@lru_cache
def attention(heads: int = 128, causal: bool = True) -> SProgram:
    program = plan(kernels.attention.tile(T=bf16, causal=causal), MANY_TILES | {"D": heads}, "h200", most=1).best
    return begin_ahead(program)


def begin_in_turn(program: SProgram) -> SProgram:
    """`program` with no loop begun ahead."""
    sections = tuple(
        replace(s, instrs=tuple(replace(i, ahead=0, early=0) if isinstance(i, Inner) else i for i in s.instrs))
        for s in program.sections
    )
    return replace(program, sections=sections)


def begun(program: SProgram) -> dict[str, tuple[int, int]]:
    """Role -> (ahead, early) of the roles that begin their next tile."""
    inner = [(s.role, i) for s in program.sections for i in s.instrs if isinstance(i, Inner) and i.ahead + i.early]
    return {role: (i.ahead, i.early) for role, i in inner}


def tasks(steps: list[Step]) -> list[str]:
    """ "dot_dot 3": Issues and ring waits of workers' products, with their running instances."""
    products = [s for s in steps if isinstance(s.instr, Issue) and s.active and s.instr.task.startswith("dot")]
    return [f"{s.instr.task} {s.running}" for s in products]


def test_the_next_tiles_first_product_stands_beside_the_last():
    program = attention()
    assert set(begun(program)) == {role.name for role in program.roles}
    assert check(program, device("h200")) == []
    trips = Trips({0: (2,), 1: (2, 1)})
    order = tasks(streams(program, trips)[0, "worker0"])
    assert order == ["dot_dot 0", "dot_dot 1", "dot_acc 0", "dot_acc 1", "dot_dot 2", "dot_acc 2"]
    in_turn = streams(begin_in_turn(program), trips)[0, "worker0"]
    assert sorted(tasks(in_turn)) == sorted(order)
    ends = [i for i, s in enumerate(in_turn) if isinstance(s.instr, Issue) and s.instr.task.startswith("vector_t")]
    assert all(
        s.running < 2 for s in in_turn[: ends[0]] if s.loop == 1
    )  # nothing of the second tile before the first's end


def test_a_wait_behind_a_begun_product_counts_it():
    """The last product of a tile is waited for while the next tile's first is in flight."""
    program = attention()
    steps = streams(program, Trips({0: (2,), 1: (2,)}))[0, "worker0"]
    at = next(
        i for i, s in enumerate(steps) if isinstance(s.instr, Issue) and (s.instr.task, s.running) == ("dot_dot", 2)
    )
    wait = next(s.instr for s in steps[at:] if isinstance(s.instr, Wait) and s.instr.signal == "tc.group")
    assert wait.pending == 1
    last = streams(program, Trips({0: (1,), 1: (2,)}))[0, "worker0"]
    assert [s.instr.pending for s in last if isinstance(s.instr, Wait) and s.instr.signal == "tc.group"][-1] == 0


@pytest.mark.parametrize("counts", [(2, 3), (1, 1, 1), (0, 2, 1), (2, 0, 2), (1, 0, 0)])
def test_values_are_right_for_runs_of_any_length(counts):
    outcome = simulate_values(attention(), Trips({0: (len(counts),), 1: counts}), random_ones=2)
    assert outcome.right, outcome


def test_a_tile_with_one_slot_cannot_come_early():
    """With heads of 256 there is room for one tile's q: the next one's can only come when this tile is done with it."""
    program = attention(heads=256)
    assert begun(program) and {f.slug for f in check(program, device("h200"))} & {"deadlock-cycle", "overwrite"}
    assert check(begin_in_turn(program), device("h200")) == []


def test_both_ways_are_offered():
    """The plan without comes first; tuning times the other one, too, and makes it again from its partition."""
    kernel = kernels.attention.tile(T=bf16, causal=True)
    outcome = plan(kernel, MANY_TILES, "h200", most=1)
    plain, ahead, *backwards = outcome.candidates
    assert len(backwards) == 2 and all(c.partition.backwards for c in backwards)
    assert outcome.best.partition == plain.partition == replace(ahead.partition, begins_ahead=False)
    recipe = recipe_from_text(recipe_text(recipe_of_candidate(ahead)))
    assert begun(remake(kernel, MANY_TILES, device("h200"), recipe).best) and begun(outcome.best) == {}


def test_products_that_add_to_a_carried_tile_are_not_moved():
    dims = {"M": 8192, "N": 8192, "K": 4096}
    assert begun(begin_ahead(plan(kernels.matmul.tile(T=bf16), dims, "h200", most=1).best)) == {}


def test_a_beginning_has_to_exist():
    program = attention()

    def with_more(**fields: int) -> SProgram:
        sections = tuple(
            replace(s, instrs=tuple(replace(i, **fields) if isinstance(i, Inner) else i for i in s.instrs))
            for s in program.sections
        )
        return replace(program, sections=sections)

    for fields in ({"ahead": 1000}, {"early": 1000}):
        assert "wrong-ahead" in {f.slug for f in check(with_more(**fields), device("h200"))}


def test_text_form():
    program = attention()
    assert parse(print_program(program), program.graph) == program
