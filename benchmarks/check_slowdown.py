"""How many times slower `loom check` is: kernels of a program, built normally and checked.

    python benchmarks/check_slowdown.py FOLDER [--json FILE]             five usual kernels (check_kernels.cu)
    python benchmarks/check_slowdown.py FOLDER prog.cu -Iinclude -- args

FOLDER keeps the two builds; a second run with it only measures. By the clock: seconds in kernels (`LOOM_PROFILE`), the
normal build on all cores, checked on one; least of five runs of the normal build, of three checked ones. By CPU time
(the five kernels): of a launch, both on one core, as the difference between runs with many launches and with one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROUNDS, CHECKED_ROUNDS = 5, 3
ONE_WORKER = {"LOOM_THREADS": "1", "OMP_NUM_THREADS": "1"}
KERNELS = {"product": (40, 10), "reduction": (800, 20), "stencil": (800, 20), "histogram": (60, 12), "saxpy": (400, 20)}


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    folder, argv = Path(argv[0]).absolute(), argv[1:]
    if not argv or argv[0] == "--json":
        rows = _usual(folder)
        if argv:
            Path(argv[1]).write_text(json.dumps({"schema": 1, "kernels": rows}, indent=1) + "\n")
        return 0
    flags, arguments = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    normal, checked = _built(folder, flags)
    seconds = min(_kernel_seconds(normal, arguments, {}) for _ in range(ROUNDS))
    found = folder / "found"
    found.unlink(missing_ok=True)
    slow = _kernel_seconds(checked, arguments, {**ONE_WORKER, "LOOM_CHECK_FILE": str(found)})
    findings = len(found.read_text().splitlines()) if found.exists() else 0
    name = Path(next(flag for flag in flags if flag.endswith(".cu"))).stem
    print(f"{name}: {seconds:.5f} s normal, {slow:.5f} s checked, {slow / seconds:.1f}x, {findings} findings")
    return 0


def _usual(folder: Path) -> list[dict]:
    """Per launch, in seconds."""
    normal, checked = _built(folder, [str(Path(__file__).with_name("check_kernels.cu"))])
    one = {**ONE_WORKER, "LOOM_CHECK_FILE": str(folder / "found")}
    rows = []
    for name, (many, few) in KERNELS.items():
        clock = min(_kernel_seconds(normal, [name, str(many)], {}) for _ in range(ROUNDS)) / many
        slow = min(_kernel_seconds(checked, [name, str(few)], one) for _ in range(CHECKED_ROUNDS)) / few
        cpu, slow_cpu = _cpu_seconds(normal, name, many), _cpu_seconds(checked, name, few)
        rows.append({"kernel": name, "normal": clock, "checked": slow, "normal_cpu": cpu, "checked_cpu": slow_cpu})
        print(f"{name:10} {clock * 1e6:8.0f} us normal, {slow * 1e6:8.0f} us checked, {slow / clock:5.1f}x by clock; "
              f"CPU {cpu * 1e6:8.0f} us, {slow_cpu * 1e6:8.0f} us, {slow_cpu / cpu:5.1f}x", flush=True)  # fmt: skip
    return rows


def _built(folder: Path, flags: list[str]) -> tuple[Path, Path]:
    from threadloom.cli.check import build_checked
    from threadloom.cuda import build, nvcc_options

    normal, checked = folder / "normal", folder / "checked"
    if normal.exists() and checked.exists():
        return normal, checked
    folder.mkdir(parents=True, exist_ok=True)
    build_checked(flags, checked)
    plan = nvcc_options.parse(["-O3", *flags])
    plan.action, plan.output, plan.run = "link", str(normal), False
    if build.run(plan) != 0:
        raise SystemExit(2)
    return normal, checked


def _kernel_seconds(program: Path, arguments: list[str], environment: dict[str, str]) -> float:
    times = program.with_suffix(".json")
    run = subprocess.run([program, *arguments], env={**os.environ, **environment, "LOOM_PROFILE": str(times)},
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # fmt: skip
    if run.returncode:
        raise SystemExit(f"{program.name} ended with status {run.returncode}")
    return sum(kernel["seconds"] for kernel in json.loads(times.read_text())["kernels"])


def _cpu_seconds(program: Path, kernel: str, launches: int) -> float:
    """Of one launch; least times of three."""
    environment = {**os.environ, **ONE_WORKER}
    if program.name == "checked":
        environment["LOOM_CHECK_FILE"] = str(program.with_name("found"))
    least = []
    for count in (launches, 1):
        times = []
        for _ in range(3):
            child = os.spawnve(os.P_NOWAIT, program, [str(program), kernel, str(count)], environment)
            usage = os.wait4(child, 0)[2]
            times.append(usage.ru_utime + usage.ru_stime)
        least.append(min(times))
    return (least[0] - least[1]) / (launches - 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
