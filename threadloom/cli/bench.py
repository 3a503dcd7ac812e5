"""loom bench: an operator beside NumPy, PyTorch and the machine's own limits, in one run.

loom bench KERNEL                      your own kernel: beside what its file's function `peers` offers, or alone,
                                       with its rate as a fraction of this machine's peak
loom bench OPERATOR --peers PATH       on a Hopper GPU, beside cuBLAS, cuDNN and what PATH holds (cli/bench_gpu.py)
loom bench rodinia --path CHECKOUT     Rodinia's CUDA programs, compiled by us, beside their OpenMP twins
loom bench ablation --path CHECKOUT    what each optimisation of CUDA kernels is worth, scaling, MCUDA's matmul
                                       (rodinia and ablation have options of their own: loom bench rodinia --help)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from threadloom.bench.limited import Stopped, run_operator
from threadloom.bench.operators import OPERATORS
from threadloom.bench.run import Result, check_environment, commit, machine, run_case
from threadloom.cli import UsageError, json_output, own_parser
from threadloom.cli.kernel_argument import add_choice_arguments, add_dtype_argument, choose_from, example_names
from threadloom.cli.numbers import at_least, positive
from threadloom.cli.terminal import rate
from threadloom.machine.peaks import Peaks

SUITES = ("rodinia", "ablation")  # modules bench_rodinia and bench_ablation, with options of their own
SETS = ("all", *SUITES)
ROUNDS = 30
LIMIT_S = 50.0
ONE_THREAD = dict.fromkeys(("LOOM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main(argv: list[str]) -> int:
    suite = argv[0] if argv and argv[0] in SUITES else ""
    module = import_module(f"threadloom.cli.bench_{suite}") if suite else sys.modules[__name__]
    args = own_parser(f"loom bench {suite}".rstrip(), module).parse_args(argv[1:] if suite else argv)
    return module.run(args)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel", metavar="OPERATOR", help=f"{', '.join([*OPERATORS, *SETS])}; or KERNEL: file.py:function, an example"
    )
    add_choice_arguments(parser)
    add_dtype_argument(parser)
    parser.add_argument("--rounds", type=at_least(1), help=f"quiet turns of all candidates (default {ROUNDS})")
    parser.add_argument(
        "--peers", type=Path, action="append", metavar="PATH",
        help="run on a Hopper GPU, with this folder (FlashAttention-3, mamba-ssm ...) in front of PYTHONPATH",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=positive, metavar="S",
        help=f"most seconds for an operator's turns (default {LIMIT_S:g}); a case's part of it is the most for the "
        "first call of a peer",
    )  # fmt: skip
    parser.add_argument(
        "--one-thread", action="store_true", help="CPU time of one thread, for machines that are never quiet"
    )
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.peers:
        from threadloom.cli import bench_gpu

        return bench_gpu.run(args)
    if args.kernel in SUITES:
        raise UsageError(f"{args.kernel} comes first, before its options: loom bench {args.kernel} ...")
    if args.kernel not in (*OPERATORS, "all"):
        return _run_own(args)
    if args.shape or args.settings or args.dtype:
        raise UsageError(f"{args.kernel} has sizes of its own: --shape, --set and --dtype are for a KERNEL")
    if args.one_thread and (status := _in_one_thread()) is not None:
        return status
    check_environment()
    chosen = list(OPERATORS) if args.kernel == "all" else [args.kernel]
    results: list[Result] = []
    stopped: list[Stopped] = []
    for operator in chosen:
        for result in run_operator(operator, args.rounds or ROUNDS, args.limit or LIMIT_S, args.one_thread):
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
    result = run_case(case_of(chosen, args.dtype), args.rounds or ROUNDS, args.limit or LIMIT_S, args.one_thread)
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
