"""Tuning for a GPU: compiled by several workers, measured by one, all kept, the time limit held."""

from __future__ import annotations

import time

import pytest

from tests.unit.cuda_target.fake_gpu_worker import FAILS, HANGS, SLOW, SPILLS, WRONG
from tests.unit.sched import kernels
from threadloom.dtypes import f16
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.sched import measure, reuse
from threadloom.sched import tune as tuning
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.reuse import Recipe, key_of, recipe_text
from threadloom.sched.search import plan
from threadloom.store import Store

KERNEL = kernels.matmul.tile(T=f16)
DIMS = {"M": 4096, "N": 4096, "K": 512}
H200 = device("h200")
WORKER = "tests.unit.cuda_target.fake_gpu_worker"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def outcome():
    return plan(KERNEL, DIMS, H200)


@pytest.fixture
def tune(store, monkeypatch, tmp_path, outcome):
    """tune(extents of m) measures one plan for each of them."""
    monkeypatch.setenv("FAKE_GPU_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(measure, "READY_S", 0.5)
    monkeypatch.setattr(tuning, "remake", lambda *a: reuse.remake(KERNEL, DIMS, H200, recipe(256)))

    def run(extents, **options):
        monkeypatch.setattr(tuning, "_distinct", lambda candidates, most: [recipe(m) for m in extents])
        return tuning.tune(KERNEL, DIMS, H200, store, worker=WORKER, outcome=outcome, **options)

    run.log = tmp_path / "log"
    return run


def recipe(m: int) -> Recipe:
    tiles = (AxisTile("m", m, m // 2), AxisTile("n", 128, 128), AxisTile("k", 64, 64))
    return Recipe(Partition(tiles, workers=2, order=("m", "n"), persistent=True), "joint", "fused")


@pytest.mark.slow
def test_the_fastest_in_turns_is_chosen_and_all_is_kept(tune, store):
    found = tune([256, 384, 512])
    assert found.measured == 3 and not found.failed and found.skipped == 0
    assert found.ns == 1e6 - 512  # the others' first times were better
    assert len(tune.log.read_text().splitlines()) == 4
    times = store.plan_times(key_of(KERNEL, DIMS, H200))
    assert {t.ns for t in times.values()} == {1e6 - m for m in (256, 384, 512)}
    assert store.plan(key_of(KERNEL, DIMS, H200)).plan == recipe_text(recipe(512))
    again = tune([256, 384, 512])
    assert (again.measured, again.stored, again.ns) == (0, 3, found.ns)


@pytest.mark.slow
def test_spilling_plans_run_only_where_no_other_does(tune):
    found = tune([SPILLS, 256])
    assert [f.message for f in found.failed] == ["8 bytes are spilled"] and found.ns == 1e6 + 256
    alone = tune([SPILLS + 0, FAILS], limit_s=30)
    assert alone.ns == 1e6 + 256  # known from before
    assert {f.message for f in alone.failed} == {"8 bytes are spilled", "no code"}


def test_a_spilling_plan_is_better_than_none(tune):
    found = tune([SPILLS, FAILS])
    assert found.ns == 1e6 + SPILLS and [f.message for f in found.failed] == ["no code"]


def test_a_hang_costs_one_answer_and_says_where(tune):
    found = tune([HANGS, 256])
    assert [(f.state, f.message) for f in found.failed] == [("timeout", "it hangs: waits for full_k")]
    assert found.ns == 1e6 + 256


@pytest.mark.slow
def test_a_plan_whose_results_differ_is_not_chosen(tune, store):
    found = tune([WRONG, 512, 384, 256])
    assert found.ns == 1e6 - 512
    assert [f.message for f in found.failed] == ["its results differ from those of 3 plans"]
    states = [t.state for t in store.plan_times(key_of(KERNEL, DIMS, H200)).values()]
    assert sorted(states) == ["failed", "ok", "ok", "ok"]


def test_stops_in_time(tune):
    began = time.monotonic()
    found = tune([256, SLOW], limit_s=4.0)
    assert time.monotonic() - began < 120 and found.skipped == 1 and found.ns == 1e6 + 256


def test_nothing_that_runs(tune):
    with pytest.raises(CompileError) as error:
        tune([FAILS])
    assert error.value.slug == "nothing-measured" and "no code" in error.value.why
