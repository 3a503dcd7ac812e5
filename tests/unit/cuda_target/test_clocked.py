"""`loom schedule --measure`: records of a worker become a timeline below the planned one."""

from __future__ import annotations

import functools
import json
import re
from types import SimpleNamespace

import pytest

from tests.unit.sched import kernels
from threadloom import clocked
from threadloom.dtypes import f16
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.planning import best_timeline
from threadloom.sched.measure import Measurer
from threadloom.sched.ops import AxisTile, Issue, Partition, Wait
from threadloom.sched.search import plan
from threadloom.sched.timeline_svg import render_both

H200 = device("h200")
KERNEL = kernels.attention.tile(T=f16)
DIMS = {"B": 1, "H": 8, "S": 1024, "L": 1024, "D": 64}
PASS = 700  # cycles


@pytest.fixture(scope="module")
def outcome():
    tiles = (AxisTile("m", 128, 64), AxisTile("n", 128, 128))
    only = Partition(tiles, workers=2, order=("b", "h", "m"), persistent=True)
    return plan(KERNEL, DIMS, H200, granularity="fused", only=only)


@pytest.fixture
def run(outcome, monkeypatch):
    def run(answer: dict):
        monkeypatch.setenv("FAKE_GPU_CLOCKS", json.dumps(answer))
        worker = functools.partial(Measurer, worker="tests.unit.cuda_target.fake_gpu_worker")
        monkeypatch.setattr(clocked, "Measurer", worker)
        return clocked.run_with_clocks(outcome, KERNEL, DIMS, H200, {}, {}, title="attention")

    return run


def test_clocks_are_drawn_below_the_plan(outcome, run):
    section = next(s for s in outcome.best.sections if s.loop and any(isinstance(i, Wait) for i in s.instrs))
    issue = next(s for s in outcome.best.sections if s.loop and any(_is_vector(i) for i in s.instrs))
    wait = next(at for at, i in enumerate(section.instrs) if isinstance(i, Wait))
    vector = next(at for at, i in enumerate(issue.instrs) if _is_vector(i))
    records = [(issue.role, issue.loop, vector, n, PASS * n, PASS * n + 400) for n in range(4)]
    records += [(section.role, section.loop, wait, n, PASS * n + 5, PASS * n + 95) for n in range(4)]
    found = run({"records": records})
    timeline = found.timeline
    assert (timeline.source, timeline.title, timeline.ii_cycles) == ("measured", "attention", PASS)
    assert len(timeline.stalls) == 4 and all(s.end_cycles - s.start_cycles == 90 for s in timeline.stalls)
    assert {t["ns"] for t in found.task_times["times"]} == {400 / H200.clock_ghz.value}
    planned = best_timeline(outcome, H200, "attention")
    both = render_both(planned, timeline)
    tops = [float(y) for y in re.findall(r'<svg y="(\d+)"', both)]
    assert len(tops) == 2 and tops[0] == 0 < tops[1] and both.count("</svg>") == 3
    grids = [re.findall(r'class="grid" x1="([\d.]+)"', picture) for picture in both.split('<svg y="')[1:]]
    assert grids[0] == grids[1]  # bars of both are as long as they last


def test_the_interval_of_what_was_seen_twice():
    def bars(loop: int, *starts: float, row: str = "worker0") -> list[SimpleNamespace]:
        return [SimpleNamespace(loop=loop, row=row, role="worker0", task="t", start_cycles=s) for s in starts]

    def interval(*seen: SimpleNamespace) -> float:
        return clocked.interval_of(SimpleNamespace(bars=seen))

    assert interval(*bars(1, 900, 100)) == 800 and interval(*bars(1, 0, 100, 300, 310)) == 100
    assert interval(*bars(1, 0, 500), *bars(1, 0, 1, row="tc")) == 500, "a unit's row is not the role's"
    assert interval(*bars(0, 0, 500), *bars(1, 7)) == 0 and interval(*bars(0, 0, 500)) == 0 and interval() == 0


def test_a_plan_that_cannot_run_says_why(run):
    with pytest.raises(CompileError) as error:
        run({"error": "no driver"})
    assert error.value.slug == "not-clocked" and error.value.why == "no driver"


def _is_vector(instr) -> bool:
    return isinstance(instr, Issue) and instr.seu == "vec" and instr.task.startswith("vector")
