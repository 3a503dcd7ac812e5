"""The one command of a session with a GPU: order, shares of time, results kept, going on where it ended."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from benchmarks.hopper_all import STEPS, Step, run_all, shares


def step(name: str, code: str, share: float = 1.0) -> Step:
    return Step(name, share, (sys.executable, "-S", "-c", code, "{folder}", "{seconds}"), "a test")


def test_steps_run_in_order_and_again_only_where_they_failed(tmp_path):
    note = "import sys; open(sys.argv[1] + '/order', 'a').write('{}'); sys.exit({})"
    steps = (step("a", note.format("a", 0)), step("b", note.format("b", 3)), step("c", note.format("c", 0)))
    ended = run_all(steps, tmp_path, 30, dict(os.environ))
    assert {n: e["status"] for n, e in ended.items()} == {"a": 0, "b": 3, "c": 0}
    again = run_all(steps, tmp_path, 30, dict(os.environ))
    assert (tmp_path / "order").read_text() == "abcb" and again["b"]["status"] == 3
    assert json.loads((tmp_path / "steps.json").read_text()) == again
    assert (tmp_path / "b.log").read_text().startswith("$ ")


def test_a_step_over_its_time_is_ended_with_its_children(tmp_path):
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']);"
        "open(sys.argv[1] + '/pid', 'w').write(str(child.pid)); child.wait()"
    )
    began = time.monotonic()
    ended = run_all((step("slow", code),), tmp_path, 1.0, dict(os.environ))
    assert ended["slow"]["status"] == "over its time" and time.monotonic() - began < 30
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not _runs(child):
            break
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_time_that_is_left_over_goes_to_later_steps():
    left = shares((step("a", "", 1), step("b", "", 3)), 100.0)
    assert left == {"a": pytest.approx(25.0), "b": pytest.approx(75.0)}
    assert sum(shares(STEPS, 1500.0).values()) == pytest.approx(1500.0)


def test_every_step_is_a_script_that_is_there_and_names_where_it_writes():
    for one in STEPS:
        assert any("{folder}" in part for part in one.command), one
        scripts = [part for part in one.command if part.endswith(".py")]
        assert all(os.path.exists(s) for s in scripts) and (scripts or "pytest" in one.command)
