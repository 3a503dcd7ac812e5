"""Checker and simulator agree: what the checker accepts no adversary can break; what one breaks the checker refuses."""

from __future__ import annotations

import pytest
from check_plans import gemm_hopper
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.mutate import mutants
from threadloom.sched.ops import SProgram
from threadloom.sched.semantics import Trips
from threadloom.sched.simulate_values import simulate_values

H200 = device("h200")
_MUTANTS: dict[SProgram, list[SProgram]] = {}


def mutants_of(program: SProgram) -> list[SProgram]:
    if program not in _MUTANTS:
        _MUTANTS[program] = [mutant.program for mutant in mutants(program)]
    return _MUTANTS[program]


@st.composite
def programs(draw: st.DrawFn) -> SProgram:
    """A product's plan with up to three mutations one after the other."""
    base = gemm_hopper(
        slots=draw(st.integers(1, 3)),
        lag=draw(st.integers(0, 1)),
        cluster=draw(st.sampled_from((1, 1, 1, 2))),
        persistent=draw(st.booleans()),
    )
    for _ in range(draw(st.integers(0, 3))):
        choices = mutants_of(base)
        base = choices[draw(st.integers(0, len(choices) - 1))]
    return base


TRIPS = st.builds(
    lambda outer, inner: Trips({0: (outer,), 1: tuple(inner)}),
    st.integers(1, 3),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
)


def hypotheses(count: int) -> settings:
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


@hypotheses(20)
@given(programs(), TRIPS, st.integers(0, 3))
def test_no_adversary_breaks_an_accepted_program(program, trips, seeds):
    agree(program, trips, seeds)


@pytest.mark.slow
@hypotheses(200)
@given(programs(), TRIPS, st.integers(0, 3))
def test_no_adversary_breaks_one_of_many(program, trips, seeds):
    agree(program, trips, seeds)


def agree(program: SProgram, trips: Trips, seeds: int) -> None:
    if not program.partition.persistent:
        trips = Trips({0: (1,), 1: trips.counts[1]})
    if check(program, H200):
        return
    outcome = simulate_values(program, trips, H200, random_ones=seeds)
    assert outcome.right, f"{outcome} at {trips}"
