"""The exit status of `loom check`, with scripts in the place of the checked program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from threadloom.cli import check

RACE = {"kind": "race", "message": "two writes", "kernel": "k", "places": []}


def _checked(script: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    def build(flags: list[str], program: Path) -> Path:
        program.write_text(script)
        program.chmod(0o700)
        return program

    monkeypatch.setattr(check, "build_checked", build)
    return check.main(["--json", str(folder / "report.json"), "prog.cu"])


@pytest.mark.parametrize(
    ("script", "status", "told"),
    [
        ("#!/bin/sh\n", 0, "nothing found"),
        ("#!/bin/sh\nexit 3\n", 0, "nothing found (the program ended with status 3)"),
        ("#!/bin/sh\nexit 127\n", 1, "not checked to the end, the program could not be run"),
        ("#!/no/such/interpreter\n", 1, "not checked to the end, the program could not be run"),
        ("#!/bin/sh\nkill -SEGV $$\n", 1, "not checked to the end, a signal ended the program: Segmentation fault"),
        (f"#!/bin/sh\necho '{json.dumps(RACE)}' > $LOOM_CHECK_FILE\n", 1, "1 found: race"),
        (f"#!/bin/sh\necho '{json.dumps(RACE)}' > $LOOM_CHECK_FILE\nexit 2\n", 1,
         "1 found: race (the program ended with status 2)"),
    ],
)  # fmt: skip
def test_findings_and_programs_that_do_not_end_decide(
    script: str,
    status: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _checked(script, monkeypatch, tmp_path) == status
    assert f"loom check: {told}" in capsys.readouterr().err.splitlines()
    assert len(json.loads((tmp_path / "report.json").read_text())["findings"]) == ("race" in told)


@pytest.mark.parametrize(("symbol", "told"), [("_Z5scalePff", "scale(float*, float)"), ("f", "f")])
def test_kernels_have_the_names_of_the_source(symbol: str, told: str, tmp_path: Path):
    source = tmp_path / "a.cu"
    source.write_text("first\nsecond\n")
    place = {"file": str(source), "line": 2, "text": ""}
    shown = check.render({"kind": "race", "message": "two writes", "kernel": symbol, "places": [place]})
    assert shown.splitlines()[1:] == ["     2 | second", f"       in kernel {told}"]
