"""Run a CUDA program with every access of its kernels watched.

    loom check prog.cu                      compile, run, report
    loom check prog.cu -Iinc -- args        flags of nvcc before `--`, arguments of the program behind it
    loom check --json report.json prog.cu

Reports data races (both accesses), barriers that only a part of a block reaches, accesses outside their object or to
memory that has been freed, and reads of shared memory that nobody has written. Exit status: 0 clean, 1 something was
found or the program could not be run to its end (it did not start, or a signal ended it), 2 usage. A status of the
program's own decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from threadloom.cli import json_output


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    own = argparse.ArgumentParser(prog="loom check", add_help=False, allow_abbrev=False)
    json_output.add_json_argument(own)
    before, arguments = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    args, flags = own.parse_known_args(before)
    with tempfile.TemporaryDirectory(prefix="loom-check-") as scratch:
        program = build_checked(flags, Path(scratch) / "program")
        status, findings = run_checked(program, arguments)
    for finding in findings:
        print(render(finding), file=sys.stderr)
    print(_summary(findings, status), file=sys.stderr)
    json_output.write(args, "check", 1, {"exit_status": status, "findings": findings})
    return 1 if findings or not _ran_to_its_end(status) else 0


def build_checked(flags: list[str], program: Path) -> Path:
    """The program, instrumented and with source lines."""
    from threadloom.cuda import build, nvcc_options

    plan = nvcc_options.parse(flags)
    plan.action, plan.output, plan.run = "link", str(program), False
    plan.check, plan.debug, plan.optimize = True, True, plan.optimize or "2"
    plan.defines.append("-DLOOM_CHECKED")  # our headers know (headers/loom/execution.h)
    if build.run(plan) != 0:
        raise SystemExit(2)
    return program


def run_checked(program: Path, arguments: list[str]) -> tuple[int, list[dict]]:
    """The program's exit status (as Python's subprocess has it; 127 where it cannot be started) and what was found.
    One worker: reports do not depend on timing."""
    report = program.with_suffix(".findings")
    environment = {**os.environ, "LOOM_CHECK_FILE": str(report), "LOOM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        status = subprocess.run([str(program), *arguments], env=environment, check=False).returncode
    except OSError as error:
        print(f"{program.name}: {error.strerror}", file=sys.stderr)
        status = _NOT_STARTED
    lines = report.read_text(errors="replace").splitlines() if report.exists() else []
    return status, [json.loads(line) for line in lines]


def render(finding: dict) -> str:
    """As a compiler would say it: the place, then each line concerned."""
    from threadloom.cuda.arguments import demangle
    from threadloom.source import Loc, excerpt

    lines = [f"{finding['kind']}: {finding['message']}"]
    for place in {(place["file"], place["line"]): place for place in finding["places"]}.values():
        shown = excerpt(Loc(place["file"], place["line"])).splitlines()
        lines += shown[:1] or [f"  {place['line']:>4} | {place['text']}"]
    if finding["places"]:  # else it is a call of the host's
        lines.append(f"       in kernel {demangle(finding['kernel'])}")
    return "\n".join(lines)


_NOT_STARTED = 127  # so the dynamic linker and shells say it too


def _ran_to_its_end(status: int) -> bool:
    return status not in (126, _NOT_STARTED) and status >= 0


def _ending(status: int) -> str:
    if status < 0:
        return f"a signal ended the program: {signal.strsignal(-status) or -status}"
    return "the program could not be run" if not _ran_to_its_end(status) else f"the program ended with status {status}"


def _summary(findings: list[dict], status: int) -> str:
    if not findings and not _ran_to_its_end(status):
        return f"loom check: not checked to the end, {_ending(status)}"
    ended = f" ({_ending(status)})" if status else ""
    if not findings:
        return f"loom check: nothing found{ended}"
    kinds = sorted({finding["kind"] for finding in findings})
    return f"loom check: {len(findings)} found: {', '.join(kinds)}{ended}"
