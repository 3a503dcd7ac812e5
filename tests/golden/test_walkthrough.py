"""docs/walkthrough.md is built from real dumps: each excerpt is cut anew and compared (`pytest --update-golden`).

    <!-- FILE [from "TEXT"] [for N lines] -->      followed by a fenced block, which is the excerpt
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
from threadloom.cli.kernel_argument import choose
from threadloom.dump import cpu_stages, plan_stages, report, report_stages
from threadloom.machine.cpu import ZEN2, build
from threadloom.machine.devices import device
from threadloom.planning import best_timeline
from threadloom.sched.search import plan
from threadloom.sched.timeline_text import render_text
from threadloom.targets.cpu.host import X86_64_V3

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "walkthrough.md"
EXCERPT = re.compile(r'(<!-- (\S+)(?: from "([^"]+)")?(?: for (\d+) lines)? -->\n```\w*\n)(.*?)(```\n)', re.DOTALL)
WIDTH = 110
LONGEST = 150


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts on a cache line, since code is compiled for the alignment it meets."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


@cache
def cpu_files() -> dict[str, str]:
    machine, chosen = build(ZEN2), choose("softmax", {"M": 4096, "N": 1024})
    call = bound_call(chosen, make_inputs(chosen))
    call = dataclasses.replace(call, arrays={name: aligned(array) for name, array in call.arrays.items()})
    outcome = plan(call.kernel, call.dims, machine)
    stages = list(cpu_stages(call, outcome.best, machine, X86_64_V3))
    stages += report_stages(report("softmax", call.dims, outcome, machine), outcome, machine)
    return {stage.file: stage.text for stage in stages}


@cache
def gpu_files() -> dict[str, str]:
    machine = device("h100")
    problem = planning_problem(choose("flash_attention", {"SQ": 4096, "SK": 4096, "D": 128}), None, "f16")
    outcome = plan(problem.kernel, problem.dims, machine)
    timeline = dataclasses.replace(best_timeline(outcome, machine, "flash_attention"), memory=(), rejected=())
    files = {"timeline.txt": render_text(timeline, width=WIDTH)}
    files |= {stage.file: stage.text for stage in plan_stages(problem.kernel, outcome.best)}
    return {f"h100/{name}": text for name, text in files.items()}


def excerpt(file: str, start: str | None, count: str | None) -> str:
    if file.startswith("examples/"):
        text = (ROOT / file).read_text(encoding="utf-8")
    else:
        text = (gpu_files() if file.startswith("h100/") else cpu_files())[file]
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if start is None or start in line)
    chosen = lines[first : first + int(count) if count else None]
    indent = min((len(line) - len(line.lstrip()) for line in chosen if line.strip()), default=0)
    return "".join(_shortened(line[indent:]) + "\n" for line in chosen)


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def test_page_is_current(golden):
    page = PAGE.read_text(encoding="utf-8")
    assert len(EXCERPT.findall(page)) >= 10
    golden(PAGE, EXCERPT.sub(lambda m: m[1] + excerpt(m[2], m[3], m[4]) + m[6], page))


def test_an_excerpt_that_is_not_there_fails():
    with pytest.raises(StopIteration):
        excerpt("01-tile.tile", "no such line", None)
