"""Timelines as SVG, HTML and Chrome trace."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from check_plans import GEMM_COSTS, gemm_core, gemm_hopper

from threadloom.machine.devices import device
from threadloom.sched.semantics import Trips
from threadloom.sched.simulate_time import simulate_time
from threadloom.sched.timeline import Rejected, Timeline, from_json
from threadloom.sched.timeline_chrome import render_chrome
from threadloom.sched.timeline_html import render_html
from threadloom.sched.timeline_measured import ClockRecord, measured_timeline
from threadloom.sched.timeline_svg import render_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def gemm() -> Timeline:
    made = simulate_time(gemm_hopper(slots=3), GEMM_COSTS, Trips({0: (2,), 1: (6,)}), memory=True)
    return replace(made, title="gemm <A & B>", rejected=(Rejected("tiles", "too <large>", 3),))


def test_svg_draws_every_bar_and_wait(gemm):
    root = ElementTree.fromstring(render_svg(gemm, whole=True))
    bars = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "bar"]
    assert len(bars) == len(gemm.bars)
    assert all(float(r.get("x")) >= 0 and float(r.get("width")) > 0 for r in bars)
    right = max(float(r.get("x")) + float(r.get("width")) for r in bars)
    assert right <= float(root.get("width"))
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert any("worker0 waits: dependence: load_a -> dot over a" in t for t in titles)
    words = " ".join(t.text for t in root.iter(f"{SVG}text"))
    for word in ("gemm <A & B>", "producer", "worker1", "tma", "smem", "ii 1024", "3 tiles rejected: too <large>"):
        assert word in words


def test_svg_shows_the_first_iterations_only(gemm):
    short = simulate_time(gemm_hopper(), GEMM_COSTS, Trips({0: (1,), 1: (40,)}))
    shown = ElementTree.fromstring(render_svg(short))
    bars = [r for r in shown.iter(f"{SVG}rect") if r.get("class") == "bar"]
    assert 0 < len(bars) < len(short.bars) / 2


def test_svg_of_a_core_and_of_nothing():
    core = simulate_time(gemm_core(), GEMM_COSTS, Trips({0: (1,), 1: (3,)}))
    ElementTree.fromstring(render_svg(core))
    ElementTree.fromstring(render_svg(replace(core, bars=(), stalls=())))


def test_html_is_self_contained_and_holds_the_timeline(gemm):
    page = render_html(replace(gemm, note="</script><b>"))
    assert not re.findall(r"(?:src|href)\s*=", page) and "http" not in page.replace("http-equiv", "")
    text = re.search(r'<script id="timeline" type="application/json">(.*?)</script>', page, re.S).group(1)
    assert from_json(text) == replace(gemm, note="</script><b>")
    assert "prefers-color-scheme: dark" in page and "/*" not in re.sub(r"/\*.*?\*/", "", page)


def test_chrome_events_do_not_overlap_within_a_thread(gemm):
    trace = json.loads(render_chrome(gemm))
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            threads.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    assert sum(map(len, threads.values())) == len(gemm.bars) + len(gemm.stalls)
    for events in threads.values():
        events.sort()
        assert all(a + d <= b + 1e-4 for (a, d), (b, _) in pairwise(events))
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"producer", "worker0", "tma", "vec"} <= names
    assert any(e["ph"] == "C" and e["name"] == "smem" for e in trace["traceEvents"])
    assert trace["otherData"]["rejected"] == [{"what": "tiles", "reason": "too <large>", "count": 3}]


def test_planned_above_measured():
    """Clocks read around the instructions give a timeline in the planned one's format."""
    program, machine = gemm_core(), device("cpu")
    planned = simulate_time(program, GEMM_COSTS, Trips({0: (1,), 1: (3,)}))
    body = next(s.instrs for s in program.sections if s.loop == 1)
    records = [
        ClockRecord(
            "core", 1, position, i, 5000.0 + 1000 * i + 300 * position, 5000.0 + 1000 * i + 300 * position + 250
        )
        for i in range(3)
        for position in range(len(body))
    ]
    measured = measured_timeline(program, machine, records)
    assert measured.source == "measured" and measured.bars[0].start_cycles == 0.0
    assert [b.task for b in measured.bars if b.row == "core"][:3] == ["load_a", "load_b", "dot"]
    assert {row.name for row in measured.rows} == {"core", "fma", "lsu"}
    for timeline, said in ((planned, "simulated on cpu"), (measured, "measured on cpu")):
        words = " ".join(t.text for t in ElementTree.fromstring(render_svg(timeline)).iter(f"{SVG}text"))
        assert said in words


def test_measured_waits_become_stalls_where_they_last():
    program = gemm_hopper()
    records = [ClockRecord("worker0", 1, 0, i, 100.0 * i, 100.0 * i + (60 if i else 2)) for i in range(3)]
    stalls = measured_timeline(program, device("h200"), records).stalls
    assert [(s.instance, s.reason) for s in stalls] == [
        (1, "dependence: load_a -> dot over a"), (2, "dependence: load_a -> dot over a"),
    ]  # fmt: skip
