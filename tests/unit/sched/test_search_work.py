"""The search counts its work and reads no clock: the same input gives the same plan on a busy machine."""

from __future__ import annotations

import itertools
import time

import pytest
from quick import some

import threadloom as tl
from threadloom.examples.matmul import matmul
from threadloom.sched import search
from threadloom.sched.search import Outcome, plan
from threadloom.sched.text import print_program

DIMS = {"M": 1024, "N": 512, "K": 256}


def found(outcome: Outcome) -> tuple[object, ...]:
    return print_program(outcome.best), outcome.best.predicted_ns, outcome.reasons, outcome.counts, outcome.cut_short


QUICK = ("joint", "h100"), ("joint", "cpu")


@pytest.mark.parametrize(("policy", "device"), some([*QUICK, ("optimal", "h100")], QUICK))
def test_a_clock_that_jumps_changes_nothing(monkeypatch: pytest.MonkeyPatch, policy: str, device: str):
    if policy == "optimal":
        pytest.importorskip("ortools")
    kernel = matmul.tile(T=tl.f16, act=tl.relu) if device != "cpu" else matmul.tile(T=tl.f32, act=tl.relu)
    usual = found(plan(kernel, DIMS, device, policy, limit_s=0.5, most=4))
    hours = itertools.count(0, 3600)
    for name in ("monotonic", "perf_counter", "process_time", "time", "thread_time"):
        monkeypatch.setattr(time, name, lambda: float(next(hours)))
    assert found(plan(kernel, DIMS, device, policy, limit_s=0.5, most=4)) == usual


def test_the_bound_on_work_ends_the_search_and_says_so(monkeypatch: pytest.MonkeyPatch):
    kernel = matmul.tile(T=tl.f32, act=tl.relu)
    whole = plan(kernel, DIMS, "cpu")
    monkeypatch.setattr(search, "MOST_WORK", 0)
    short = plan(kernel, DIMS, "cpu")
    assert short.cut_short
    assert short.counts.scheduled <= search.LEAST_SCHEDULED < whole.counts.scheduled
    assert short.reasons["work-limit"] > whole.reasons.get("work-limit", 0)
    assert plan(kernel, DIMS, "cpu", most=1).counts.scheduled == 1


def test_kernels_of_very_many_stasks_get_fewer_tiles(monkeypatch: pytest.MonkeyPatch):
    kernel = matmul.tile(T=tl.f32, act=tl.relu)
    whole = plan(kernel, DIMS, "h100", splits=False)
    monkeypatch.setattr(search, "MOST_BOUNDED", 7 * whole.counts.partitions // 4)
    fewer = plan(kernel, DIMS, "h100", splits=False)
    assert whole.counts.partitions // 16 < fewer.counts.partitions < whole.counts.partitions
