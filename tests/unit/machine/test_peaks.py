"""The measured peaks are of this machine and not out of the air."""

from __future__ import annotations

import pytest

from threadloom.machine.peaks import measure, usable_cores


def test_peaks_are_plausible():
    peaks = measure()
    assert peaks.threads == usable_cores()
    # From a slow embedded core to the fastest server: a wrong unit is a factor of a thousand.
    assert 1e9 < peaks.flops_per_s / peaks.threads < 1e12
    assert 1e8 < peaks.copy_bytes_per_s < 5e12


@pytest.mark.slow
def test_one_thread_is_measured_as_one():
    assert measure(1).threads == 1
