"""loom bench rodinia: kernel time and whole time of each pair, and their geometric means."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from threadloom.bench.run import machine
from threadloom.bench.suites.rodinia_pairs import PAIRS
from threadloom.bench.suites.rodinia_speed import PairResult, Times, geometric_mean, time_pairs
from threadloom.cli import UsageError, json_output


def run(args: argparse.Namespace, commit: str) -> int:
    names = [pair.name for pair in PAIRS]
    if args.path is None or not (args.path / "openmp").is_dir():
        raise UsageError("loom bench rodinia needs --path, a checkout of Rodinia with its folders cuda and openmp")
    if unknown := [name for name in args.only.split(",") if name and name not in names]:
        raise UsageError(f"no pair is called {unknown[0]}; there are {', '.join(names)}")
    with tempfile.TemporaryDirectory(prefix="loom-rodinia-") as temporary:
        scratch = (args.scratch or Path(temporary)).resolve()
        results = []
        for result in time_pairs(args.path.resolve(), scratch, args.rounds or 5, args.only):
            print(line(result), flush=True)
            results.append(result)
    kernels = geometric_mean(result.kernel_ratio for result in results)
    whole = geometric_mean(result.whole_ratio for result in results)
    print(f"geometric mean of {len(results)} pairs: kernels {kernels:.2f}x, whole {whole:.2f}x the faster twin")
    json_output.write(
        args,
        "bench-rodinia",
        1,
        {
            "machine": machine(),
            "commit": commit,
            "kernels": json_output.finite(kernels),
            "whole": json_output.finite(whole),
            "pairs": [record(result) for result in results],
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
        "twin_command": result.pair.twin_run,
        "kernel_ratio": json_output.finite(result.kernel_ratio) if result.kernel_ratio else None,
        "whole_ratio": json_output.finite(result.whole_ratio) if result.whole_ratio else None,
        "ours": side(result.ours),
        "twins": {name: side(times) for name, times in result.twins.items()},
    }
