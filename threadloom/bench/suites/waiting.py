"""python -m threadloom.bench.suites.waiting SUITE --path CHECKOUT --json FILE: which kernels of a suite's programs take
turns on stacks of their own (lower/watch_waits.py), without compiling or running them.

Each program's own build runs with a compiler in place of `loom-nvcc` (and `nvcc`) that raises the kernels of a source,
notes which of them may wait for other threads, and writes empty objects. Instances of a template count one by one, a
kernel that several sources of a program share once. What a build makes of empty objects does not matter; sources that
it could not read are listed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pickle
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from threadloom.bench.suites import driver
from threadloom.bench.suites.__main__ import SUITES
from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.program import Program
from threadloom.whole_file import write_whole

LOG = "SUITE_KERNELS"  # the file that the compiler in place appends a line of JSON to for each source
_UNLINKED = b"kernels to be linked\n"  # what begins its objects with -rdc
_LIMITS = Limits(cpu_s=120)
_WAIT = re.compile(r"\b(?:atomic|atomicrmw|cmpxchg|fence|volatile|asm)\b")  # IR without these has no loop that waits


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
    compiler = _compiler_in_place(args.scratch.resolve() / "in-place")
    for program in suite.programs(args.path.resolve()):
        if program.left_out or not re.search(args.only, program.name) or any(p["name"] == program.name for p in known):
            continue
        counted = count(program, args.path.resolve(), args.scratch.resolve(), compiler)
        print(f"{counted.name:32} {counted.kernels:4} {counted.waiting or ''} {counted.unread or ''}", flush=True)
        known.append(asdict(counted))
        write_whole(args.json, json.dumps(record, indent=1) + "\n")
    return 0


def _compiler_in_place(root: Path) -> Path:
    """Its folder `bin` comes first on the PATH, and `loom cuda-home` says `root`."""
    (root / "bin").mkdir(parents=True, exist_ok=True)
    code = "from threadloom.bench.suites import waiting; waiting.compile_in_place()"
    nvcc = f'exec "{sys.executable}" -c "{code}" "$@"'
    for name, text in (("loom-nvcc", nvcc), ("nvcc", nvcc), ("loom", f'echo "{root}"')):
        (root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (root / "bin" / name).chmod(0o755)
    return root / "bin"


def count(program: Program, checkout: Path, scratch: Path, compiler: Path) -> Counted:
    """The kernels of one program, read as its build reads them."""
    folder = driver.copy(program.folder, checkout, scratch)
    log = scratch / "kernels.jsonl"
    log.write_text("")
    usual = driver.environment()
    path = f"{compiler}{os.pathsep}{usual['PATH']}"
    try:
        for command in program.build:
            run(["sh", "-c", command], folder, _LIMITS, {**usual, "PATH": path, "MAKEFLAGS": "-k", LOG: str(log)})
    finally:
        driver.restore(program.folder, checkout, scratch)
    return _counted(program.name, [json.loads(line) for line in log.read_text().splitlines()], scratch)


def _counted(name: str, units: list[dict], scratch: Path) -> Counted:
    kernels = {kernel for unit in units for kernel in unit.get("kernels", ())}
    waiting = {kernel for unit in units for kernel in unit.get("waiting", ())}
    unread = [f"{unit['source']}: {driver.anonymous(unit['error'], scratch)}" for unit in units if "error" in unit]
    if not units:
        unread = ["no source was compiled"]
    return Counted(name, len(kernels), sorted(waiting), unread, driver.version())


# ---------------------------------------------------------------- the compiler in place


def compile_in_place() -> None:
    """Stands for one call of nvcc: notes the kernels of its sources, writes empty objects and programs."""
    from threadloom.cuda import build, nvcc_options
    from threadloom.cuda.front import compile_source

    plan = nvcc_options.parse(sys.argv[1:])
    if plan.action in ("preprocess", "dependencies"):
        sys.exit(build.run(plan))
    linked: list[tuple[str, tuple[str, ...]]] = []
    for path, kind in plan.inputs:
        if kind == "object":
            linked += _unlinked(Path(path))
        elif kind == "cu":
            with _noted(path) as note:
                ir = compile_source(path, build.source_options(plan))
                kernels = _launched(ir.host)
                if plan.relocatable:
                    linked.append((ir.device, kernels))
                else:
                    note(kernels, waiting_kernels([ir.device], kernels))
    compiled_only = plan.action == "compile"
    if linked and not compiled_only:
        with _noted("all files") as note:
            kernels = tuple({kernel: None for _, some in linked for kernel in some})
            note(kernels, waiting_kernels([device for device, _ in linked], kernels))
    for target in _targets(plan):
        target.write_bytes(_UNLINKED + pickle.dumps(linked) if linked and compiled_only else b"")


def _launched(host_ir: str) -> tuple[str, ...]:
    from threadloom.cuda.host_stubs import find_stubs

    return tuple(stub.kernel for stub in find_stubs(host_ir))


def waiting_kernels(device_irs: list[str], kernels: tuple[str, ...]) -> list[str]:
    """Those of `kernels` around which loops take turns. Of raised kernels, before all passes: these add none."""
    from threadloom.cuda import compile_unit
    from threadloom.cuda.lower.watch_waits import WatchWaits
    from threadloom.par.ops import Parallel
    from threadloom.par.walk import walk

    if not any(map(_WAIT.search, device_irs)):
        return []
    with compile_unit.uncollected():
        module = WatchWaits().apply(compile_unit.raise_device(device_irs, kernels).module)
    bodies = {function.name: function.body for function in module.functions if function.body is not None}
    return [kernel for kernel in kernels if kernel in bodies
            and any(isinstance(op, Parallel) and op.schedule == "turns" for op in walk(bodies[kernel]))]  # fmt: skip


class _noted:
    """A unit's line in the log; an error of ours or of the source becomes its reason."""

    def __init__(self, source: str):
        self._line: dict[str, object] = {"source": source}

    def __enter__(self):
        return lambda kernels, waiting: self._line.update(kernels=kernels, waiting=waiting)

    def __exit__(self, kind, error, trace) -> bool:
        if error is not None:
            self._line["error"] = str(error).strip().split("\n")[0][:200]
        if len(self._line) > 1:
            with open(os.environ[LOG], "a") as log:
                log.write(json.dumps(self._line) + "\n")
        return isinstance(error, Exception)


def _unlinked(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    data = path.read_bytes() if path.is_file() else b""
    return pickle.loads(data[len(_UNLINKED) :]) if data.startswith(_UNLINKED) else []


def _targets(plan) -> list[Path]:
    if plan.output:
        return [Path(plan.output)]
    if plan.action != "compile":
        return [Path("a.out")]
    folder = Path(plan.output_directory or ".")
    return [folder / f"{Path(path).stem}.o" for path, kind in plan.inputs if kind != "object"]


if __name__ == "__main__":
    sys.exit(main())
