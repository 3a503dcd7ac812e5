"""loom bench: an operator beside NumPy, PyTorch and the machine's own limits, in one run.

loom bench KERNEL                      your own kernel: beside what its file's function `peers` offers, or alone,
                                       with its rate as a fraction of this machine's peak
loom bench OPERATOR --peers PATH       on a Hopper GPU, beside cuBLAS, cuDNN and what PATH holds (cli/bench_gpu.py)
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
from threadloom.bench.run import Result, check_environment, machine, run_case
from threadloom.cli import UsageError, json_output
from threadloom.cli.kernel_argument import add_choice_arguments, add_dtype_argument, choose_from, example_names
from threadloom.cli.numbers import at_least, positive
from threadloom.cli.terminal import rate
from threadloom.machine.peaks import Peaks

SETS = ("all", "rodinia", "ablation")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel", metavar="OPERATOR", help=f"{', '.join([*OPERATORS, *SETS])}; or KERNEL: file.py:function, an example"
    )
    add_choice_arguments(parser)
    add_dtype_argument(parser)
    parser.add_argument(
        "--rounds", type=at_least(0), help="quiet turns of all candidates (default 30); runs of a program (default 5)"
    )
    parser.add_argument(
        "--peers", type=Path, action="append", metavar="PATH",
        help="run on a Hopper GPU, with this folder (FlashAttention-3, mamba-ssm ...) in front of PYTHONPATH",
    )  # fmt: skip
    parser.add_argument("--path", type=Path, help="rodinia, ablation: the checkout, which is only read")
    parser.add_argument("--scratch", type=Path, help="rodinia, ablation: folder for copies (default: a temporary one)")
    parser.add_argument("--built", type=Path, metavar="DIR", help="rodinia: time what a run with --scratch DIR built; "
                        "ablation: scaling of what `loom bench rodinia --scratch DIR` built")  # fmt: skip
    parser.add_argument("--counts", default="", metavar="N,N", help="ablation: numbers of workers (1, 2, 4 ... cores)")
    parser.add_argument("--seconds", type=positive, default=3600.0, help="ablation: when to stop (default an hour)")
    parser.add_argument("--jobs", type=at_least(1), default=1, help="rodinia, ablation: builds at a time (default 1)")
    parser.add_argument("--workers", type=at_least(1), default=4, help="ablation: of each build timed, as many builds "
                        "at a time as the cores allow (default 4)")  # fmt: skip
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


ROUNDS = 30
ONE_THREAD = dict.fromkeys(("LOOM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run(args: argparse.Namespace) -> int:
    if args.peers:
        from threadloom.cli import bench_gpu

        return bench_gpu.run(args)
    if args.kernel not in (*OPERATORS, *SETS):
        return _run_own(args)
    if args.shape or args.settings or args.dtype:
        raise UsageError(f"{args.kernel} has sizes of its own: --shape, --set and --dtype are for a KERNEL")
    if args.kernel == "rodinia":
        from threadloom.cli import bench_rodinia

        return bench_rodinia.run(args)
    if args.kernel == "ablation":
        from threadloom.cli import bench_ablation

        return bench_ablation.run(args, commit())
    if args.one_thread and (status := _in_one_thread()) is not None:
        return status
    check_environment()
    chosen = list(OPERATORS) if args.kernel == "all" else [args.kernel]
    results: list[Result] = []
    stopped: list[Stopped] = []
    for operator in chosen:
        for result in run_operator(operator, args.rounds or ROUNDS, args.limit, args.one_thread):
            if isinstance(result, Stopped):
                print(f"{result.case}\n    no result: {result.why}", flush=True)
                stopped.append(result)
            else:
                print(line(result), flush=True)
                results.append(result)
    if len(chosen) > 1:
        print(table(results))
    _write(args, [record(r) for r in results], stopped)
    return 1 if stopped or not all(r.right for r in results) else 0


def _in_one_thread() -> int | None:
    """The status of this command in a process whose libraries have one thread each (they read that when they are
    loaded); None where this is such a process."""
    if all(os.environ.get(name) == value for name, value in ONE_THREAD.items()):
        return None
    return subprocess.run(
        [sys.executable, "-m", "threadloom", *sys.argv[1:]], env={**os.environ, **ONE_THREAD}, check=False
    ).returncode


def _run_own(args: argparse.Namespace) -> int:
    from threadloom.bench.own_kernel import case_of
    from threadloom.machine.peaks import measure

    if not args.kernel.partition(":")[0].endswith(".py") and args.kernel not in example_names():
        known = [*OPERATORS, *SETS, "file.py:function", *(n for n in example_names() if n not in OPERATORS)]
        raise UsageError(f"no operator or kernel is called {args.kernel!r}\n  try: {', '.join(known)}")
    chosen = choose_from(args)
    if args.one_thread and (status := _in_one_thread()) is not None:
        return status
    check_environment()
    result = run_case(case_of(chosen, args.dtype), args.rounds or ROUNDS, args.limit, args.one_thread)
    peaks = measure(1 if args.one_thread else None) if result.flops or result.bytes_moved else None
    if args.json != "-":
        print(line(result, peaks))
    of_peak = {"fraction_of_peak": dict(_fractions(result, peaks))} if peaks else {}
    _write(args, [record(result) | of_peak], [])
    return 0 if result.right else 1


def _write(args: argparse.Namespace, results: list[dict[str, json_output.Json]], stopped: list[Stopped]) -> None:
    whole = {
        "machine": machine(),
        "commit": commit(),
        "results": results,
        "stopped": [{"case": s.case, "why": s.why} for s in stopped],
    }
    json_output.write(args, "bench", 1, whole)


def line(result: Result, peaks: Peaks | None = None) -> str:
    times = {"ours": result.ours, **result.peers}
    shown = "  ".join(
        f"{name} over {t.min_s:.1f} s" if t.over else f"{name} {t.min_s * 1e3:.2f}/{t.median_s * 1e3:.2f} ms"
        for name, t in times.items()
    )
    if result.copy_s:
        shown += f"  copy {result.copy_s * 1e3:.2f} ms"
    for amount, unit in ((result.flops, "FLOP/s"), (result.bytes_moved, "B/s")):
        shown += f"  {rate(amount / result.ours.min_s, unit)}" if amount else ""
    if peaks is not None:
        name, fraction = max(_fractions(result, peaks), key=lambda f: f[1])
        shown += f", {fraction:.0%} of the measured {name}"
    quiet = "" if result.ours.quiet else "  (the machine was never quiet)"
    wrong = "" if result.right else f", WRONG: allowed {result.bound:.1e}"
    return f"{result.case}\n    {shown}\n    {_ratios(result)}error {result.error:.1e}{wrong}{quiet}"


def _ratios(result: Result) -> str:
    """What the peers or the copy say, and the goal."""
    if not result.peers and not result.copy_s:
        return ""
    against = "of the copy rate" if result.copy_s else "of the fastest peer"
    shown = f"{result.ratio_turn:.2f}x {against} (of the minima {result.ratio_min:.2f}x)"
    if result.goal is None:
        return f"{shown}; "
    return f"{shown}, goal {result.goal}: {'reached' if result.reached else 'not reached'}; "


def _fractions(result: Result, peaks: Peaks) -> list[tuple[str, float]]:
    """Of this machine's peaks, those that the kernel's work is known for."""
    rates = (peaks.compute, result.flops, peaks.flops_per_s), ("copy rate", result.bytes_moved, peaks.copy_bytes_per_s)
    return [(name, amount / result.ours.min_s / peak) for name, amount, peak in rates if amount]


def table(results: list[Result]) -> str:
    """All results under one another: our best time, the fastest peer's (or the copy's), the ratio and its goal."""
    rows = [("case", "ours ms", "against", "ms", "ratio", "goal")]
    for result in results:
        name, best = min(result.peers.items(), key=lambda p: p[1].min_s, default=("", None))
        shown = f"{'>' * best.over}{best.min_s * 1e3:.2f}" if best else ""
        if result.copy_s:
            name, shown = "copy", f"{result.copy_s * 1e3:.2f}"
        times = f"{result.ours.min_s * 1e3:.2f}", name, shown
        goal = "" if result.goal is None else f"{result.goal:.2f}"
        rows.append((result.case, *times, f"{result.ratio_turn:.2f}", goal))
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
        "error": json_output.finite(result.error),
        "bound": json_output.finite(result.bound),
        "right": result.right,
        "flops": result.flops,
        "bytes_moved": result.bytes_moved,
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
