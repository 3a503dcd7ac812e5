"""Tuning: measured in a worker that may misbehave, resumed from the store, borrowed only with a word about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.sched import fake_worker, kernels
from threadloom.dtypes import f32
from threadloom.errors import CompileError
from threadloom.machine import cpu
from threadloom.sched import reuse
from threadloom.sched.measure import Measurer
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.reuse import Origin, Recipe, choose, key_of, recipe_from_text, recipe_text
from threadloom.sched.tune import tune
from threadloom.store import Store

FAKE = "tests.unit.sched.fake_worker"
KERNEL = kernels.matmul.tile(T=f32)
DIMS = {"M": 256, "N": 256, "K": 256}
HOST = cpu.build(cpu.ZEN2)
PARTITION = Partition(tuple(AxisTile(a, e, e) for a, e in (("m", 96), ("n", 64), ("k", 128))), order=("m", "n"))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as made:
        yield made


def recipe(group: int = 1) -> Recipe:
    return Recipe(replace(PARTITION, group=group), "joint", "fused")


def test_recipes_survive_as_text():
    assert recipe_from_text(recipe_text(recipe())) == recipe()


def test_bad_plans_cost_one_answer_each():
    with Measurer(KERNEL, DIMS, HOST, timeout_s=10.0, worker=FAKE) as measurer:
        answers = [measurer.measure(recipe(g)) for g in (1, fake_worker.DIE, 2, fake_worker.REFUSE, 3)]
    assert [a.state for a in answers] == ["ok", "failed", "ok", "failed", "ok"]
    assert "exit status 3" in answers[1].message
    assert answers[3].message == "cannot compile"
    assert answers[0].ns == answers[4].ns == 288_000.0


def test_hanging_plan_is_killed_and_does_not_slow_the_next():
    with Measurer(KERNEL, DIMS, HOST, timeout_s=3.0, worker=FAKE) as measurer:
        assert measurer.measure(recipe()).state == "ok"
        assert measurer.measure(recipe(fake_worker.HANG)).state == "timeout"
        assert measurer.measure(recipe()).ns == 288_000.0


def test_tuning_stores_shows_progress_and_resumes(store):
    seen = []
    first = tune(KERNEL, DIMS, HOST, store, progress=seen.append, most=3, worker=FAKE)
    assert [p.done for p in seen] == [1, 2, 3] and not any(p.stored for p in seen)
    assert first.measured == 3
    assert first.ns == min(p.found.ns for p in seen)
    again = tune(KERNEL, DIMS, HOST, store, most=5, worker=FAKE)
    assert (again.measured, again.stored) == (2, 3)
    assert again.ns <= first.ns


def test_interrupted_tuning_keeps_what_it_measured(store):
    class Interrupt(Exception):
        pass

    def stop(progress):
        if progress.done == 2:
            raise Interrupt

    with pytest.raises(Interrupt):
        tune(KERNEL, DIMS, HOST, store, progress=stop, most=4, worker=FAKE)
    assert len(store.plan_times(key_of(KERNEL, DIMS, HOST))) == 2
    assert tune(KERNEL, DIMS, HOST, store, most=4, worker=FAKE).measured == 2


def test_tuned_plan_is_used_for_its_shape_only(store):
    tuned = tune(KERNEL, DIMS, HOST, store, most=2, worker=FAKE)
    same = choose(KERNEL, DIMS, HOST, store)
    assert same.origin is Origin.TUNED and same.measured_ns == tuned.ns
    assert same.program.partition == tuned.program.partition
    far = choose(KERNEL, {**DIMS, "M": 4096}, HOST, store)
    assert far.origin is Origin.MODEL and far.measured_ns == 0.0


def test_borrowed_plan_says_so_and_has_no_time(store, monkeypatch):
    monkeypatch.setattr(reuse, "WORSE", 100.0)
    tune(KERNEL, DIMS, HOST, store, most=2, worker=FAKE)
    near = choose(KERNEL, {**DIMS, "N": 320}, HOST, store)
    assert near.origin is Origin.BORROWED
    assert near.borrowed_from == "K=256,M=256,N=256"
    assert ("borrowed_from", "K=256,M=256,N=256") in near.program.decisions
    assert near.measured_ns == 0.0


def test_plan_much_worse_than_the_models_is_not_borrowed(store, monkeypatch):
    monkeypatch.setattr(reuse, "WORSE", 0.0)
    tune(KERNEL, DIMS, HOST, store, most=1, worker=FAKE)
    assert choose(KERNEL, {**DIMS, "N": 320}, HOST, store).origin is Origin.MODEL


def test_stored_plan_that_no_longer_parses_is_passed_over(store):
    store.set_plan(key_of(KERNEL, DIMS, HOST), '{"partition": 3}', 1.0, 1.0)
    assert choose(KERNEL, DIMS, HOST, store).origin is Origin.MODEL


def test_unusable_store_does_not_keep_a_kernel_from_running(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "file" / "below"))
    for _ in range(2):
        assert reuse.program_for(KERNEL, DIMS, HOST).origin is Origin.MODEL
    assert capsys.readouterr().err.count("cannot be used") == 1


def test_other_text_is_another_kernel():
    other = kernels.matmul.tile(T=f32)
    changed = replace(other, name="matmul2")
    assert key_of(other, DIMS, HOST) == key_of(KERNEL, DIMS, HOST)
    assert key_of(changed, DIMS, HOST) != key_of(KERNEL, DIMS, HOST)


def test_nothing_that_runs_is_an_error(store, monkeypatch):
    monkeypatch.setattr("threadloom.sched.tune._distinct", lambda candidates, most: [recipe(fake_worker.REFUSE)])
    with pytest.raises(CompileError) as error:
        tune(KERNEL, DIMS, HOST, store, worker=FAKE)
    assert error.value.slug == "nothing-measured"
    assert "cannot compile" in str(error.value)
