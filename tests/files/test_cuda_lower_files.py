"""Barrier lowering and the optimisations before it on IR text: each file names passes, gives IR, and says what must
come out.

; passes: split-threads        the passes to run, in order
; expect: TEXT                 a line of the result contains TEXT; expectations match in order
; never: TEXT                  no line of the result contains TEXT
; count: N TEXT                exactly N lines contain TEXT
; declines: REASON (DETAIL)    a pass says so
"""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom.cuda.lower.pipeline import PASSES
from threadloom.cuda.lower.split import Split
from threadloom.cuda.lower.wrap_shared import WrapShared
from threadloom.cuda.optimize.pipeline import PASSES as OPTIMIZATIONS
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.ops import Level
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module

FOLDERS = ("cuda_lower", "cuda_optimize", "cuda_vectorize")
FILES = sorted(path for folder in FOLDERS for path in (Path(__file__).parent / folder).glob("*.par"))
BY_NAME = {step.name: step for step in (WrapShared(), *OPTIMIZATIONS, *PASSES)}
BY_NAME["split-threads-without-cut"] = Split(Level.THREADS, minimum=False)
BY_NAME["vectorize-threads-4"] = VectorizeThreads(width=4, worth_it=1e9)  # the same on every machine


def _directives(source: str, kind: str) -> list[str]:
    head = f"; {kind}:"
    return [line.removeprefix(head).strip() for line in source.splitlines() if line.startswith(head)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lowering_file(path: Path) -> None:
    source = path.read_text()
    module = parse(source, str(path))
    with collected_declines() as declined:
        for name in ", ".join(_directives(source, "passes")).split(", "):
            module = BY_NAME[name].apply(module)
    for wanted in _directives(source, "declines"):
        assert wanted in (said := {f"{one.reason} ({one.detail})" for one in declined}), said
    text = print_module(module, True)
    assert parse(text) == module
    lines = [line.strip() for line in text.splitlines()]
    place = 0
    for wanted in _directives(source, "expect"):
        found = next((i for i in range(place, len(lines)) if wanted in lines[i]), None)
        assert found is not None, f"after line {place}: no {wanted!r} in\n{text}"
        place = found + 1
    for unwanted in _directives(source, "never"):
        assert not [line for line in lines if unwanted in line], text
    for directive in _directives(source, "count"):
        number, _, wanted = directive.partition(" ")
        assert len([line for line in lines if wanted in line]) == int(number), f"{directive}\n{text}"
