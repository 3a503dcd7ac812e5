"""Random programs on device models: every plan is proved, or the kernel is refused with a reason."""

from __future__ import annotations

import pytest
from generators.tile_programs import program
from quick import some

from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.sched.decisions import TABLE
from threadloom.sched.search import Outcome, plan

KEPT = [38, 79, 126]  # once: no unit for f8 products; no tile small enough; a store's staging tile overwritten
REFUSALS = {"fits-nowhere"}


def planned(seed: int, name: str) -> Outcome | None:
    call = program(seed).kernel.bind(**program(seed).arguments)
    dims = {dim: max(1, extent) for dim, extent in call.dims.items()}
    try:
        return plan(call.kernel, dims, device(name))
    except CompileError as error:
        assert error.slug in REFUSALS, error
        return None


def check(seeds: list[int], name: str) -> int:
    made = 0
    for seed in seeds:
        outcome = planned(seed, name)  # raises where no candidate could be proved
        if outcome is not None:
            made += 1
            assert "unproved" not in outcome.reasons, f"seed {seed}: {outcome.rejected[-1]}"
            assert {key for key, _ in outcome.best.decisions} <= TABLE.keys()
    return made


@pytest.mark.parametrize("name", some(["h100", "a100", "cpu"], ["a100", "cpu"]))
def test_random_programs_get_proved_plans(name):
    assert check([*range(5), *KEPT], name) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h100", "h200", "b200", "a100", "mi300x", "cpu"])
def test_many_random_programs_get_proved_plans(name):
    assert check(list(range(200)), name) >= 180
