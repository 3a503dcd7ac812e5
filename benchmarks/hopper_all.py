#!/usr/bin/env python3
"""All that a session with an H200 should find out, in order, each within its share of the time.

    python benchmarks/hopper_all.py FOLDER [--minutes 25] [--peers PATH ...] [--only STEP,...] [--list]

Every step writes JSON into FOLDER and its output to FOLDER/STEP.log; `steps.json` says how each ended. Run again with
the same folder, it goes on with the steps that have not ended well. A step that is over its share is ended (what it
had written by then stays) and the time it leaves goes to the later ones. `--peers`: folders with FlashAttention-3,
mamba-ssm and others, put in front of PYTHONPATH. Exit code 1 where a step failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Step:
    """`share`: of the time, relative to the other steps'; `command`: {folder}, {seconds} are replaced."""

    name: str
    share: float
    command: tuple[str, ...]
    about: str


def _ours(script: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(HERE / script), *arguments)


STEPS = (
    Step("device-tests", 2, (sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--junitxml={folder}/device-tests.xml",
                             str(HERE.parent / "tests" / "device")), "calls, streams, graphs, kept failures"),
    Step("check", 3, _ours("hopper_check.py", "--json", "{folder}/check.json"), "every example against float64"),
    Step("check-a100", 2, _ours("hopper_check.py", "--device", "a100", "--arch", "sm_90", "--json",
                                "{folder}/check-a100.json"), "the same, planned for an A100"),
    Step("random", 3, _ours("hopper_random.py", "--seconds", "{seconds}", "--json", "{folder}/random.json"),
         "random programs against the interpreter, new seeds"),
    Step("repeat", 1, _ours("hopper_repeat.py", "--json", "{folder}/repeat.json"),
         "plans launched many times: bits that differ are a race"),
    Step("sanitize", 2, _ours("hopper_sanitize.py", "--json", "{folder}/sanitize.json"),
         "memcheck, racecheck, synccheck of each family"),
    Step("matmul", 2, _ours("hopper.py", "--ops", "matmul,llama", "--top", "2", "--json", "{folder}/matmul.json"),
         "beside cuBLAS"),
    Step("attention", 3, _ours("hopper.py", "--ops", "attention,decode", "--top", "3", "--json",
                               "{folder}/attention.json"), "beside FlashAttention-3 and cuDNN"),
    Step("state", 1, _ours("hopper.py", "--ops", "scan,state", "--top", "3", "--json", "{folder}/state.json"),
         "beside mamba-ssm"),
    Step("rows", 1, _ours("hopper.py", "--ops", "rows", "--top", "3", "--json", "{folder}/rows.json"),
         "beside a copy"),
    Step("table3", 1, _ours("hopper.py", "--ops", "table3", "--json", "{folder}/table3.json"),
         "tiles first against tiles and order at once"),
)  # fmt: skip

GRACE_S = 10.0  # between asking a step to end and ending it


def shares(left: Iterable[Step], seconds: float) -> dict[str, float]:
    """Seconds of each step that is left, by its share."""
    left = list(left)
    total = sum(s.share for s in left)
    return {s.name: seconds * s.share / total for s in left}


def run(step: Step, folder: Path, seconds: float, env: dict[str, str]) -> dict[str, object]:
    """Run one step for at most `seconds`; how it ended."""
    own = max(1, int(seconds * 0.8))  # of steps that take a time: the rest is for starting and ending
    command = [part.replace("{folder}", str(folder)).replace("{seconds}", str(own)) for part in step.command]
    began = time.monotonic()
    with (folder / f"{step.name}.log").open("w") as log:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        child = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=HERE.parent, start_new_session=True
        )
        try:
            status: int | str = child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            status = "over its time"
            _end(child)
    return {"status": status, "seconds": round(time.monotonic() - began, 1), "limit": round(seconds, 1)}


def _end(child: subprocess.Popen) -> None:
    """End the step and the processes that it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
            child.wait(timeout=GRACE_S)
            return
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def run_all(steps: tuple[Step, ...], folder: Path, seconds: float, env: dict[str, str]) -> dict[str, dict[str, object]]:
    """Run the steps that `folder` has no good end of; how each ended, also in `steps.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "steps.json"
    ended: dict[str, dict[str, object]] = json.loads(record.read_text()) if record.exists() else {}
    left = [s for s in steps if ended.get(s.name, {}).get("status") != 0]
    end = time.monotonic() + seconds
    while left:
        mine = shares(left, max(1.0, end - time.monotonic()))
        step = left.pop(0)
        print(f"{step.name}: {step.about}, at most {mine[step.name]:.0f} s", flush=True)
        ended[step.name] = run(step, folder, mine[step.name], env)
        record.write_text(json.dumps(ended, indent=1))
        print(f"{step.name}: {ended[step.name]['status']} after {ended[step.name]['seconds']} s", flush=True)
    return {s.name: ended[s.name] for s in steps}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--peers", nargs="*", type=Path, default=[], metavar="PATH")
    parser.add_argument("--only", default="", metavar="STEP,...")
    parser.add_argument("--list", action="store_true", help="show the steps and their seconds, and run nothing")
    args = parser.parse_args()
    wanted = tuple(s for s in STEPS if not args.only or s.name in args.only.split(","))
    if args.list:
        for name, seconds in shares(wanted, args.minutes * 60).items():
            print(f"{name:14s}{seconds:6.0f} s  {next(s.about for s in wanted if s.name == name)}")
        return 0
    paths = [str(p.resolve()) for p in args.peers] + [p for p in (os.environ.get("PYTHONPATH", ""),) if p]
    env = os.environ | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    ended = run_all(wanted, args.folder.resolve(), args.minutes * 60, env)
    return 0 if all(e["status"] == 0 for e in ended.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
