"""How many times slower `loom check` is: kernel seconds of a program, built normally and checked.

    python benchmarks/check_slowdown.py FOLDER prog.cu -Iinclude -- args

FOLDER keeps the two builds; a second run with it only measures. The normal build runs on all cores; `LOOM_PROFILE`
gives the seconds in kernels; of the normal build the least of five runs counts. Prints seconds of each and their ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROUNDS = 5


def main(argv: list[str]) -> int:
    if len(argv) < 2 or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    folder, argv = Path(argv[0]).absolute(), argv[1:]
    flags, arguments = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    normal, checked = folder / "normal", folder / "checked"
    if not (normal.exists() and checked.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        _build(flags, normal, checked)
    seconds = min(_kernel_seconds(normal, arguments, {}) for _ in range(ROUNDS))
    found = folder / "found"
    found.unlink(missing_ok=True)
    one_worker = {"LOOM_CHECK_FILE": str(found), "LOOM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    slow = _kernel_seconds(checked, arguments, one_worker)
    findings = len(found.read_text().splitlines()) if found.exists() else 0
    name = Path(next(flag for flag in flags if flag.endswith(".cu"))).stem
    print(f"{name}: {seconds:.5f} s normal, {slow:.5f} s checked, {slow / seconds:.1f}x, {findings} findings")
    return 0


def _build(flags: list[str], normal: Path, checked: Path) -> None:
    from threadloom.cli.check import build_checked
    from threadloom.cuda import build, nvcc_options

    build_checked(flags, checked)
    plan = nvcc_options.parse(["-O3", *flags])
    plan.action, plan.output, plan.run = "link", str(normal), False
    if build.run(plan) != 0:
        raise SystemExit(2)


def _kernel_seconds(program: Path, arguments: list[str], environment: dict[str, str]) -> float:
    times = program.with_suffix(".json")
    run = subprocess.run([program, *arguments], env={**os.environ, **environment, "LOOM_PROFILE": str(times)},
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # fmt: skip
    if run.returncode:
        raise SystemExit(f"{program.name} ended with status {run.returncode}")
    return sum(kernel["seconds"] for kernel in json.loads(times.read_text())["kernels"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
