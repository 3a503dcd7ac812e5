"""The timing itself: who is kept, and what a result says. No time is asserted."""

from __future__ import annotations

import json
import math
import time

import bench_cases
import pytest

from threadloom.bench import measure
from threadloom.bench.limited import run_limited
from threadloom.bench.measure import Timing, alternate, alternate_by_cpu_time
from threadloom.bench.operators import OPERATORS, Case
from threadloom.bench.run import Result, _by_turns, run_case
from threadloom.cli.bench import line, record, table


def test_every_candidate_is_timed_equally_often():
    calls = {"a": 0, "b": 0}

    def count(name: str):
        def run() -> None:
            calls[name] += 1

        return run

    timings = alternate_by_cpu_time({name: count(name) for name in calls}, rounds=5)
    assert calls == {"a": 6, "b": 6}
    assert all(t.kept == 5 and t.min_s <= t.median_s for t in timings.values())


def test_a_time_limit_ends_waiting_for_quiet():
    timings = alternate({"a": lambda: None}, rounds=1000, limit_s=0.2)
    assert timings["a"].taken > 0 and math.isfinite(timings["a"].min_s)


@pytest.mark.parametrize("peers", [{}, {"other": lambda: None}])
def test_a_case_is_checked_and_compared(peers):
    case = Case("nothing", lambda: None, peers, 0.5, check=lambda: 0.25)
    result = run_case(case, 3, 1.0, by_cpu_time=True)
    assert result.error == 0.25 and math.isnan(result.ratio_min) == (not peers)
    json.dumps(record(result), allow_nan=False)


def test_the_goal_is_told():
    ours = Timing(1e-3, 1.5e-3, 3, 3, True)
    result = Result("x", ours, {"numpy": ours}, 0.0, 0.9, 1.2, 1.2, 0.95, 1e9, 1e-7)
    assert "not reached" in line(result) and "1 TFLOP/s" in line(result)


def test_the_table_has_a_row_for_every_case():
    fast, slow = Timing(1e-3, 1e-3, 3, 3, True), Timing(2e-3, 2e-3, 3, 3, True)
    shown = table([
        Result("x", fast, {"numpy": slow, "torch": fast}, 0.0, 0.9, 1.0, 1.0, 0.95, 1e9, 1e-7),
        Result("rows", slow, {"torch": slow}, 1e-3, 0.5, 0.5, 0.5, 0.7, 0.0, 1e-7),
        Result("alone", slow, {}, 0.0, math.nan, math.nan, math.nan, 1.0, 0.0, 1e-7),
    ]).splitlines()  # fmt: skip
    assert [line.split() for line in shown[1:]] == [
        ["x", "1.00", "torch", "1.00", "0.90", "0.95"], ["rows", "2.00", "copy", "1.00", "0.50", "0.70"],
        ["alone", "2.00", "nan", "1.00"],
    ]  # fmt: skip


def test_the_ratio_is_of_neighbours_in_time():
    """A turn in which everything takes twice as long says the same as the others."""
    times = ((2.0, 4.0, 2.0), (1.0, 2.0, 2.0), (3.0, 2.0, 9.0))
    ours, numpy, torch = (Timing(min(t), 1.0, 3, 3, True, t) for t in times)
    assert _by_turns(ours, [numpy, torch]) == 0.5
    assert _by_turns(Timing(2.0, 2.0, 1, 1, False), [Timing(1.0, 1.0, 1, 1, False)]) == 0.5


def test_a_peer_whose_first_call_does_not_end_is_left_out():
    result = run_limited(bench_cases.stuck, 2, 0.5)
    assert isinstance(result, Result), result
    assert result.peers["stuck"].over and result.peers["stuck"].min_s == 0.5
    assert result.peers["quick"].kept or result.peers["quick"].taken
    assert "stuck over 0.5 s" in line(result)
    assert record(result)["peers"]["stuck"]["over"]


def test_where_no_peer_is_done_the_ratio_is_a_bound():
    result = run_limited(bench_cases.alone, 2, 0.5)
    assert isinstance(result, Result) and 5 < result.ratio_turn <= 50
    assert ">500.00" in table([result])


def test_a_case_that_dies_or_never_starts_has_no_result_but_ends():
    assert run_limited(bench_cases.dead, 2, 5.0) == "the process ended in the first call of dead"
    assert run_limited(bench_cases.never, 2, 0.2, prepare_s=0.5).startswith("not done after")


def test_a_call_on_many_cores_is_not_slow_for_their_seconds(monkeypatch):
    """On 16 cores NumPy, PyTorch and we were called once each, while the pools of the others were still awake."""
    monkeypatch.setattr(measure.time, "process_time", lambda: 16 * time.perf_counter())
    assert alternate({"a": lambda: time.sleep(0.01)}, rounds=1, limit_s=1.0)["a"].taken > 1


def test_turns_that_others_disturb_do_not_count(monkeypatch):
    busy = iter(range(10**9))
    monkeypatch.setattr(measure, "_busy_s", lambda: next(busy) * 1.0)
    timings = alternate({"a": lambda: None, "b": lambda: None}, rounds=3, limit_s=0.3)
    assert all(t.turns == () and not t.quiet for t in timings.values())


@pytest.mark.parametrize("measured", [alternate, alternate_by_cpu_time])
def test_a_slow_peer_is_called_once(measured):
    calls = []

    def slow() -> None:
        calls.append(time.thread_time())
        while time.thread_time() - calls[-1] < 0.05:
            pass

    timings = measured({"ours": lambda: None, "slow": slow}, rounds=3, limit_s=0.2)
    assert len(calls) == 1 and timings["slow"].min_s >= 0.05 and timings["ours"].taken >= 1
    assert _by_turns(timings["ours"], [timings["slow"]]) > 1


def test_every_operator_has_cases():
    assert all(operator.cases for operator in OPERATORS.values())
