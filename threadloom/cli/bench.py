"""loom bench: an operator beside NumPy, PyTorch and the machine's own limits, in one run.

loom bench rodinia --path CHECKOUT     Rodinia's CUDA programs, compiled by us, beside their OpenMP twins
loom bench ablation --path CHECKOUT    what each optimisation of CUDA kernels is worth, scaling, MCUDA's matmul
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from threadloom.bench.limited import Stopped, run_operator
from threadloom.bench.operators import OPERATORS
from threadloom.bench.run import Result, check_environment, machine
from threadloom.cli import json_output
from threadloom.cli.numbers import at_least, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", choices=[*OPERATORS, "all", "rodinia", "ablation"], help="what to time")
    parser.add_argument(
        "--rounds", type=at_least(0), help="quiet turns of all candidates (default 30); runs of a program (default 5)"
    )
    parser.add_argument("--path", type=Path, help="rodinia, ablation: the checkout, which is only read")
    parser.add_argument("--scratch", type=Path, help="rodinia, ablation: folder for copies (default: a temporary one)")
    parser.add_argument("--built", type=Path, metavar="DIR", help="rodinia: time what a run with --scratch DIR built; "
                        "ablation: scaling of what `loom bench rodinia --scratch DIR` built")  # fmt: skip
    parser.add_argument("--counts", default="", metavar="N,N", help="ablation --built: numbers of workers")
    parser.add_argument("--seconds", type=positive, default=200.0, help="ablation --built: when to stop (default 200)")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="ablation --built: copy it there instead")
    parser.add_argument("--only", default="", metavar="NAMES", help="rodinia, ablation: these pairs, with commas")
    parser.add_argument(
        "--limit", type=positive, default=50.0, metavar="S",
        help="most seconds for an operator's turns; a case's part of it is the most for a peer's first call",
    )  # fmt: skip
    parser.add_argument(
        "--one-thread", action="store_true", help="CPU time of one thread, for machines that are never quiet"
    )
    parser.add_argument(
        "--parts", default="passes,scaling,mcuda", help="ablation: which of passes, scaling, mcuda, pocl"
    )
    parser.add_argument("--svg", metavar="PREFIX", help="ablation: also plots, as PREFIX-passes.svg and so on")
    json_output.add_json_argument(parser)


ONE_THREAD = dict.fromkeys(("LOOM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run(args: argparse.Namespace) -> int:
    if args.operator == "rodinia":
        from threadloom.cli import bench_rodinia

        return bench_rodinia.run(args)
    if args.operator == "ablation":
        from threadloom.cli import bench_ablation

        return bench_ablation.run(args, commit())
    args.rounds = args.rounds or 30
    if args.one_thread and any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # libraries read these when they are loaded, so start anew
        environment = {**os.environ, **ONE_THREAD}
        return subprocess.run(
            [sys.executable, "-m", "threadloom", *sys.argv[1:]], env=environment, check=False
        ).returncode
    check_environment()
    chosen = list(OPERATORS) if args.operator == "all" else [args.operator]
    results: list[Result] = []
    stopped: list[Stopped] = []
    for operator in chosen:
        for result in run_operator(operator, args.rounds, args.limit, args.one_thread):
            if isinstance(result, Stopped):
                print(f"{result.case}\n    no result: {result.why}", flush=True)
                stopped.append(result)
            else:
                print(line(result), flush=True)
                results.append(result)
    if len(chosen) > 1:
        print(table(results))
    json_output.write(
        args,
        "bench",
        1,
        {
            "machine": machine(),
            "commit": commit(),
            "results": [record(r) for r in results],
            "stopped": [{"case": s.case, "why": s.why} for s in stopped],
        },
    )
    return 1 if stopped else 0


def line(result: Result) -> str:
    times = {"ours": result.ours, **result.peers}
    shown = "  ".join(
        f"{name} over {t.min_s:.1f} s" if t.over else f"{name} {t.min_s * 1e3:.2f}/{t.median_s * 1e3:.2f} ms"
        for name, t in times.items()
    )
    if result.copy_s:
        shown += f"  copy {result.copy_s * 1e3:.2f} ms"
    rate = f"  {result.flops / result.ours.min_s / 1e9:.0f} GFLOP/s" if result.flops else ""
    against = "of the copy rate" if result.copy_s else "of the fastest peer"
    verdict = "reached" if result.reached else "not reached"
    quiet = "" if result.ours.quiet else "  (the machine was never quiet)"
    return (
        f"{result.case}\n    {shown}{rate}\n    {result.ratio_turn:.2f}x {against} (of the minima"
        f" {result.ratio_min:.2f}x),"
        f" goal {result.goal}: {verdict}; error {result.error:.1e}{quiet}"
    )


def table(results: list[Result]) -> str:
    """All results under one another: our best time, the fastest peer's (or the copy's), the ratio and its goal."""
    rows = [("case", "ours ms", "against", "ms", "ratio", "goal")]
    for result in results:
        name, best = min(result.peers.items(), key=lambda p: p[1].min_s, default=("", None))
        shown = f"{'>' * best.over}{best.min_s * 1e3:.2f}" if best else ""
        if result.copy_s:
            name, shown = "copy", f"{result.copy_s * 1e3:.2f}"
        times = f"{result.ours.min_s * 1e3:.2f}", name, shown
        rows.append((result.case, *times, f"{result.ratio_turn:.2f}", f"{result.goal:.2f}"))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def record(result: Result) -> dict[str, json_output.Json]:
    def times(timing) -> dict[str, json_output.Json]:
        return {"min_s": timing.min_s, "median_s": timing.median_s, "kept": timing.kept, "quiet": timing.quiet,
                "over": timing.over}  # fmt: skip

    return {
        "case": result.case,
        "ours": times(result.ours),
        "peers": {name: times(t) for name, t in result.peers.items()},
        "copy_s": result.copy_s,
        "ratio_turn": json_output.finite(result.ratio_turn),
        "ratio_min": json_output.finite(result.ratio_min),
        "ratio_median": json_output.finite(result.ratio_median),
        "goal": result.goal,
        "reached": result.reached,
        "error": result.error,
    }


def commit() -> str:
    """The commit that was measured, where this is a checkout."""
    try:
        folder = Path(__file__).parent
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=5, check=False
        )
    except OSError:
        return ""
    return found.stdout.strip()
