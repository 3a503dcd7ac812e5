"""loom bench rodinia: kernel time and whole time of each pair, and their geometric means.

    loom bench rodinia --path CHECKOUT --scratch DIR --rounds 0     only builds, for timing later in a quiet turn
    loom bench rodinia --built DIR --only nw,lud --json F           times what was built there

Pairs that are in F already and not asked for again by --only stay, so that a table grows over several turns; each has
the commit that was built.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from threadloom.bench.run import machine
from threadloom.bench.suites.rodinia_pairs import PAIRS
from threadloom.bench.suites.rodinia_speed import (
    THREADS,
    PairResult,
    Times,
    build_pairs,
    builds,
    chosen,
    geometric_mean,
    time_pairs,
)
from threadloom.cli import UsageError, json_output
from threadloom.cli.suite_arguments import add_suite_arguments, earlier_record, pairs_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument("--built", type=Path, metavar="DIR", help="time what a run with --scratch DIR built")


def run(args: argparse.Namespace) -> int:
    pairs_named(args.only)
    if args.built is None and (args.path is None or not (args.path / "openmp").is_dir()):
        raise UsageError("loom bench rodinia needs --path, a checkout of Rodinia with its folders cuda and openmp")
    with tempfile.TemporaryDirectory(prefix="loom-rodinia-") as temporary:
        scratch = (args.built or args.scratch or Path(temporary)).resolve()
        if args.built is None:
            build_pairs(args.path.resolve(), scratch, args.only, args.jobs)
        known = builds(scratch)
        if missing := [pair.name for pair in chosen(args.only) if pair.name not in known]:
            raise UsageError(f"{missing[0]} was not built in {args.built}")
        if not args.rounds:
            return 0
        rows = {one["name"]: one for one in earlier_record(args.json).get("pairs", ())}
        for result in time_pairs(scratch, args.rounds, args.only):
            print(line(result), flush=True)
            rows[result.pair.name] = {"commit": known[result.pair.name]["commit"], **record(result)}
    pairs = [rows[pair.name] for pair in PAIRS if pair.name in rows]
    kernels = geometric_mean(one["kernel_ratio"] for one in pairs)
    whole = geometric_mean(one["whole_ratio"] for one in pairs)
    print(f"geometric mean of {len(pairs)} pairs: kernels {kernels:.2f}x, whole {whole:.2f}x the faster twin")
    json_output.write(
        args,
        "bench-rodinia",
        2,
        {
            "machine": machine(),
            "kernels": json_output.finite(kernels),
            "whole": json_output.finite(whole),
            "pairs": pairs,
        },
    )
    return 0


def line(result: PairResult) -> str:
    sides = {"ours": result.ours, **result.twins}
    shown = "  ".join(f"{name} {_shown(times)}" for name, times in sides.items())
    ratios = " ".join(
        f"{what} {ratio:.2f}x" if ratio else f"{what} -"
        for what, ratio in (("kernels", result.kernel_ratio), ("whole", result.whole_ratio))
    )
    return f"{result.pair.name:15} {ratios}   {shown}"


def _shown(times: Times) -> str:
    from statistics import median

    if not times.runs:
        return f"({times.cause})"
    return f"{median(times.kernel_s) * 1e3:.1f}/{median(times.whole_s) * 1e3:.1f} ms"


def record(result: PairResult) -> dict[str, json_output.Json]:
    def side(times: Times) -> dict[str, json_output.Json]:
        return {
            "kernel_s": [json_output.finite(value) for value in times.kernel_s],
            "whole_s": times.whole_s,
            "cause": times.cause,
        }

    return {
        "name": result.pair.name,
        "command": result.pair.run,
        "twin_command": result.pair.twin_run.format(threads=THREADS),
        "kernel_ratio": json_output.finite(result.kernel_ratio) if result.kernel_ratio else None,
        "whole_ratio": json_output.finite(result.whole_ratio) if result.whole_ratio else None,
        "ours": side(result.ours),
        "twins": {name: side(times) for name, times in result.twins.items()},
    }
