"""Cycles beside times: the mean clock of a burst from counters noted down before and after it (benchmarks)."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from threadloom.targets.cuda import nvrtc

pytestmark = pytest.mark.torch


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "benchmarks"))
    import hopper_clock

    yield hopper_clock
    sys.modules.pop("hopper_clock", None)


def test_the_median_over_multiprocessors_that_were_met_both_times(clock):
    before = [[0, 0], [100, 1000], [50, 1000], [7, 2000], [9, 1000]]
    after = [[5, 1000], [100 + 1_500_000, 1_001_000], [50 + 1_700_000, 1_001_000], [7 + 1_600_000, 1_002_000], [0, 0]]
    assert clock.mean_clock(before, after) == 1600.0
    assert math.isnan(clock.mean_clock(before, before))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_the_stamping_kernel_compiles(clock, arch: str):
    assert nvrtc.compile_source(clock.SOURCE, arch).spill_bytes == 0
