"""python -m threadloom.bench.suites.waiting SUITE --path CHECKOUT --json FILE: which kernels of a suite's programs take
turns on stacks of their own (lower/watch_waits.py), without compiling or running them.

Each program's own build runs with a script in place of `loom-nvcc` (and `nvcc`) that notes its command line and makes
empty files; then the sources of these command lines are read, and their kernels raised. Instances of a template count
one by one, a kernel that several sources of a program share once. What a build makes of empty objects does not matter;
sources that could not be read are listed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from threadloom.bench.suites import driver
from threadloom.bench.suites.__main__ import SUITES
from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.program import Program
from threadloom.cuda import build, compile_unit, nvcc_options
from threadloom.cuda.front import compile_device
from threadloom.cuda.lower.watch_waits import WatchWaits
from threadloom.errors import CompileError, InternalError
from threadloom.par.ops import Parallel
from threadloom.par.walk import walk
from threadloom.whole_file import write_whole

_LIMITS = Limits(cpu_s=60)
_WAIT = re.compile(r"\b(?:atomic|atomicrmw|cmpxchg|fence|volatile|asm)\b")  # IR without these has no loop that waits
_NOTE = """#!/bin/sh
{ printf '%s\\0' "$PWD" "$@"; printf '\\1\\0'; } >>"$SUITE_COMMANDS"
out= compiles=
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out=$2; shift ;;
    -c|-dc|--compile|--device-c) compiles=yes ;;
    *.cu|*.cpp|*.cc|*.c|*.cxx) name=${1##*/}; objects="$objects ${name%.*}.o" ;;
  esac
  shift
done
if [ -n "$out" ]; then : >"$out"; elif [ -n "$compiles" ]; then touch $objects; else : >a.out; fi
"""


@dataclass(slots=True)
class Counted:
    """What one program's sources have: kernels by mangled name, and sources that could not be read, with the reason."""

    name: str
    kernels: int
    waiting: list[str]
    unread: list[str]
    by: str = ""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m threadloom.bench.suites.waiting", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--path", type=Path, required=True, help="the suite's checkout; it is only read")
    parser.add_argument("--json", type=Path, required=True, help="all suites; programs in it are not read again")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for copies")
    parser.add_argument("--only", default="", help="regular expression of names")
    args = parser.parse_args(argv)
    suite = importlib.import_module("threadloom.bench.suites." + args.suite.replace("-", "_"))
    record = json.loads(args.json.read_text()) if args.json.exists() else {"schema": "threadloom.waiting/1"}
    known = record.setdefault(args.suite, {"commit": SUITES[args.suite], "programs": []})["programs"]
    args.scratch.mkdir(parents=True, exist_ok=True)
    scratch, args.json = args.scratch.resolve(), args.json.resolve()
    in_place = _compiler_in_place(scratch / "in-place")
    for program in suite.programs(args.path.resolve()):
        if program.left_out or not re.search(args.only, program.name) or any(p["name"] == program.name for p in known):
            continue
        counted = count(program, args.path.resolve(), scratch, in_place)
        print(f"{counted.name:32} {counted.kernels:4} {counted.waiting or ''} {counted.unread or ''}", flush=True)
        known.append(asdict(counted))
        write_whole(args.json, json.dumps(record, indent=1) + "\n")
    return 0


def _compiler_in_place(root: Path) -> Path:
    """Its folder `bin` comes first on the PATH, and `loom cuda-home` says `root`."""
    (root / "bin").mkdir(parents=True, exist_ok=True)
    for name, text in (("loom-nvcc", _NOTE), ("nvcc", _NOTE), ("loom", f'#!/bin/sh\necho "{root}"\n')):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    return root / "bin"


def count(program: Program, checkout: Path, scratch: Path, in_place: Path) -> Counted:
    """The kernels of one program, read as its build reads them."""
    folder = driver.copy(program.folder, checkout, scratch)
    log = scratch / "commands"
    log.write_bytes(b"")
    usual = driver.environment()
    path = f"{in_place}{os.pathsep}{usual['PATH']}"
    try:
        for command in program.build:
            noted = {**usual, "PATH": path, "MAKEFLAGS": "-k", "SUITE_COMMANDS": str(log)}
            run(["sh", "-c", command], folder, _LIMITS, noted)
        counted = _read(program.name, [one.split("\0")[:-1] for one in log.read_text().split("\1\0")[:-1]])
    finally:
        driver.restore(program.folder, checkout, scratch)
    return replace(counted, unread=[driver.anonymous(one, scratch) for one in counted.unread], by=driver.version())


def _read(name: str, commands: list[list[str]]) -> Counted:
    """The kernels of all sources of `commands` (folder and arguments each); relocatable ones are raised together."""
    kernels: set[str] = set()
    waiting: set[str] = set()
    relocatable: list[str] = []
    unread = [] if commands else ["no source was compiled"]
    for folder, *arguments in commands:
        try:
            plan = nvcc_options.parse(arguments)
        except CompileError as error:
            unread.append(str(error))
            continue
        for path in (path for path, kind in plan.inputs if kind == "cu"):
            os.chdir(folder)
            try:
                ir = compile_device(path, build.source_options(plan))
                kernels |= set(kernels_of(ir))
                if plan.relocatable:
                    relocatable.append(ir)
                else:
                    waiting |= set(waiting_kernels([ir]))
            except (CompileError, InternalError) as error:
                unread.append(f"{path}: {str(error).splitlines()[0][:160]}")
    try:
        waiting |= set(waiting_kernels(relocatable))
    except (CompileError, InternalError) as error:
        unread.append(f"all files: {str(error).splitlines()[0][:160]}")
    return Counted(name, len(kernels), sorted(waiting), unread)


def kernels_of(device_ir: str) -> list[str]:
    """Kernels are what clang says never calls itself."""
    groups = re.findall(r"^attributes (#\d+) = \{[^\n]*\bnorecurse\b", device_ir, re.MULTILINE)
    defined = re.findall(r'^define [^\n]*@("[^"]*"|[-\w$.]+)\([^\n]* (#\d+) ', device_ir, re.MULTILINE)
    return [symbol.strip('"') for symbol, group in defined if group in groups]


def waiting_kernels(device_irs: list[str]) -> list[str]:
    """Those kernels around which loops take turns. Of raised kernels, before all passes: these add none."""
    if not any(map(_WAIT.search, device_irs)):
        return []
    kernels = tuple(dict.fromkeys(name for ir in device_irs for name in kernels_of(ir)))
    with compile_unit.uncollected():
        module = WatchWaits().apply(compile_unit.raise_device(device_irs, kernels).module)
    bodies = {function.name: function.body for function in module.functions if function.body is not None}
    return [kernel for kernel in kernels if kernel in bodies
            and any(isinstance(op, Parallel) and op.schedule == "turns" for op in walk(bodies[kernel]))]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
