"""Checks that live in the IR file, as comments:

; passes: canonicalize, cse    the passes to run, in order
; expect: TEXT                 a line of the result contains TEXT; expectations match in order
; never: TEXT                  no line of the result contains TEXT
; count: N TEXT                exactly N lines contain TEXT
; decline: TEXT                some pass declined for a reason that contains TEXT
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from threadloom.par.passes import Pass, run_passes
from threadloom.par.text import parse, print_module


def directives(source: str, kind: str) -> list[str]:
    head = f"; {kind}:"
    return [line.removeprefix(head).strip() for line in source.splitlines() if line.startswith(head)]


def check_file(path: Path, passes: Mapping[str, Pass]) -> None:
    """Run the file's passes (verifying between them) and compare with its comments."""
    source = path.read_text()
    names = ", ".join(directives(source, "passes")).split(", ")
    result = run_passes(parse(source, str(path)), [passes[name] for name in names])
    text = print_module(result.module)
    assert parse(text) == parse(print_module(parse(text)))
    check_text(text, source)
    reasons = [declined.reason for step in result.steps for declined in step.declined]
    for wanted in directives(source, "decline"):
        assert any(wanted in reason for reason in reasons), f"nothing declined for {wanted!r}: {reasons}"


def check_text(text: str, source: str) -> None:
    lines = [line.strip() for line in text.splitlines()]
    place = 0
    for wanted in directives(source, "expect"):
        found = next((number for number in range(place, len(lines)) if wanted in lines[number]), None)
        assert found is not None, f"after line {place}: no {wanted!r} in\n{text}"
        place = found + 1
    for unwanted in directives(source, "never"):
        assert not [line for line in lines if unwanted in line], f"{unwanted!r} in\n{text}"
    for directive in directives(source, "count"):
        number, _, wanted = directive.partition(" ")
        assert len([line for line in lines if wanted in line]) == int(number), f"{directive}\n{text}"
