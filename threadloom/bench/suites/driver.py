"""Build and run the programs of a suite one after another, keeping every finished row."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.program import (
    BUILD,
    CRASH,
    INPUT,
    RAN,
    TIME,
    WAIVED,
    WRONG,
    Program,
    Row,
    build_cause,
    limit_cause,
    line_of,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one program may take."""

    build: Limits
    run: Limits


BUDGET = Budget(Limits(cpu_s=120), Limits(cpu_s=60))


def environment() -> dict[str, str]:
    """This installation's `loom` and `loom-nvcc` come first on the PATH; idle workers sleep, others use the machine."""
    return {
        "OMP_WAIT_POLICY": "passive",
        "KMP_BLOCKTIME": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def version() -> str:
    """The commit of this checkout, with a plus where its files have changed since; "" where it is none."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def try_program(program: Program, checkout: Path, scratch: Path, budget: Budget = BUDGET, keep: bool = False) -> Row:
    """The row of one program: copied to `scratch`, built, run, judged."""
    if program.left_out:
        return Row(program.name, WAIVED, program.left_out)
    folder = copy(program.folder, checkout, scratch)
    shown = "; ".join(command.removeprefix(program.setup) for command in program.runs)
    if program.changed:
        shown += f" ({program.changed})"
    row = Row(program.name, BUILD, command=shown, by=version())
    try:
        if program.prepare:
            program.prepare(folder)
        for command in program.build:
            outcome = run(["sh", "-c", command], folder, budget.build, environment())
            row.build_s += outcome.cpu_s
            if not outcome.good:
                row.cause = "build: " + limit_cause(outcome) if outcome.stopped else build_cause(outcome.output)
                row.result = TIME if outcome.stopped else BUILD
                row.cause = anonymous(row.cause, scratch)
                (scratch / f"{program.name.replace('/', '_')}.build.log").write_text(outcome.output)
                return row
        outcomes = []
        for command in program.runs:
            outcomes.append(run(["sh", "-c", command], folder, budget.run, environment()))
            row.run_s += outcomes[-1].seconds
            row.run_cpu_s += outcomes[-1].cpu_s
            if not outcomes[-1].good:
                break
        log = "\n".join(outcome.output for outcome in outcomes)
        if (outcomes[-1].status < 0 or outcomes[-1].status > 128) and not outcomes[-1].stopped:  # by a signal
            log += said_before_it_crashed(program.runs[len(outcomes) - 1], folder, budget.run)
        (scratch / f"{program.name.replace('/', '_')}.run.log").write_text(log)
        try:
            row.result, row.cause = program.judge(folder, outcomes)
        except (OSError, ValueError, IndexError) as error:  # the output is not what a right program writes
            row.result, row.cause = WRONG, f"its output cannot be read: {error}"
        missing = missing_inputs(program.runs[: len(outcomes)], folder)
        unopened = _NOT_OPENED.search(log)
        unread = row.result == RAN and re.search(r"(?i)no such file or directory|file \S+ does not exist", log)
        if (row.result in (WRONG, CRASH) and (missing or unopened)) or unread:
            row.result = INPUT
            row.cause = line_of(log, unopened.start()) if unopened else f"{missing[0]} is missing"
        row.cause = anonymous(row.cause, scratch)
        return row
    finally:
        if not keep:
            restore(program.folder, checkout, scratch)


_NOT_OPENED = re.compile(
    r"(?i)(?:fail(?:ed)? to|can ?not|can't|could not|unable to|error) (?:open|load|read|find)|(?:not|be) opened"
    r"|no such file|file \S+ does not exist|not find a sub-directory|input [^\n]*not found"
    r"|need to set environment variable"
)


def said_before_it_crashed(command: str, folder: Path, limits: Limits) -> str:
    """What it prints up to the signal that ends it: into a pipe, a program's last lines are lost with its buffer."""
    if shutil.which("stdbuf") is None:
        return ""
    return "\n" + run(["stdbuf", "-oL", "sh", "-c", command], folder, limits, environment()).output


def missing_inputs(runs: tuple[str, ...], folder: Path) -> list[str]:
    """Words of the commands that look like paths of files and name none."""
    words = [word for command in runs for word in command.split() if re.search(r"\w/\w|\w\.[a-zA-Z]\w*$", word)]
    return [word for word in words if not re.search(r"^-|[=$]", word) and not (folder / word).exists()]


def copy(folder: str, checkout: Path, scratch: Path) -> Path:
    """The program's folder as a copy, everything beside and above it as links, so that `../include` is found."""
    here, origin = scratch / "tree", checkout
    parts = Path(folder).parts
    for part in parts:
        here.mkdir(parents=True, exist_ok=True)
        for beside in origin.iterdir():
            place = here / beside.name
            if beside.name != part and not place.exists() and not place.is_symlink():
                place.symlink_to(beside.resolve())
        here, origin = here / part, origin / part
        if here.is_symlink():
            here.unlink()
    if here.exists():
        shutil.rmtree(here)
    shutil.copytree(origin, here, symlinks=False, ignore_dangling_symlinks=True)
    return here


def restore(folder: str, checkout: Path, scratch: Path) -> None:
    shutil.rmtree(scratch / "tree" / folder, ignore_errors=True)


def anonymous(text: str, scratch: Path) -> str:
    """Without the folders of this machine."""
    text = text.replace(str(scratch / "tree") + "/", "").replace(str(Path.home()), "~")
    return re.sub(r"(?:/[\w.+-]+)+/(threadloom/)", r"\1", re.sub(r"/tmp/[\w.-]+/", "", text))
