"""Compile and run the example kernels on the best device here (a GPU, or else the CPU); compare with NumPy in float64.

For each kernel: the chosen tiles, the pipeline as a timeline, error, time, rate, and the fraction of the device's
peak, which is measured first. The timelines are also written as files. Then a CUDA program is built and run on the CPU.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.cli import UsageError, json_output
from threadloom.cli.kernel_argument import example_names
from threadloom.cli.numbers import at_least
from threadloom.whole_file import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from threadloom.demo import CudaShown, Machine, Shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help="only these (default: all)")
    parser.add_argument("--to", type=Path, default=Path("out/demo"), metavar="DIR", help="drawings (default: out/demo)")
    parser.add_argument("--repeat", type=at_least(1), default=5, metavar="N", help="timed runs of each (default: 5)")
    choices = ("best", "cpu", "gpu")
    parser.add_argument("--device", choices=choices, default="best", help="best (default: GPU 0, or else the CPU)")
    parser.add_argument("--no-cuda", action="store_true", help="leave out the CUDA program")
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if unknown := sorted(set(args.examples) - set(example_names())):
        raise UsageError(f"no example is called {', '.join(unknown)}\n  try: {', '.join(example_names())}")
    from threadloom import demo
    from threadloom.cli.terminal import stdout

    began, out = time.perf_counter(), stdout(quiet=args.json == "-")
    with out.status("measuring this machine"):
        machine = demo.best_machine(args.device)
    _print_machine(out, machine)
    shown = []
    names = args.examples or example_names()
    results = demo.kernels(names, machine, args.to, args.repeat)
    for name in names:
        with out.status(f"{name} ({len(shown) + 1} of {len(names)})"):
            shown.append(next(results))
        _print_kernel(out, shown[-1])
    page = args.to / "index.html"
    write_whole(page, demo.index_page(shown))
    cuda = None if args.no_cuda else _cuda(out)
    _print_summary(out, shown)
    if cuda is not None:
        _print_cuda(out, cuda)
    good = all(s.agrees for s in shown) and not (cuda and cuda.problem)
    out.print(f"\ndrawings: {page} (and SVG, HTML, text beside it)", markup=False)
    out.print(f"{'all results agree with float64' if good else 'SOMETHING IS WRONG'}; "
              f"{time.perf_counter() - began:.0f} s")  # fmt: skip
    json_output.write(args, "demo", 1, _record(machine, shown, cuda, page))
    return 0 if good else 1


def _cuda(out: Console) -> CudaShown | None:
    """The CUDA program, or None (said aloud) where this machine lacks what it needs."""
    from threadloom import demo
    from threadloom.doctor import examine

    missing = [f for f in examine() if f.name in ("clang", "C++ headers") and not f.found]
    for finding in missing:
        out.print(f"no CUDA program: {finding.name} is missing ({finding.get})", markup=False)
    if missing:
        return None
    with out.status("building a CUDA program for the CPU"):
        return demo.cuda_program()


# ---------------------------------------------------------------- what is shown


def _print_machine(out: Console, machine: Machine) -> None:
    from threadloom.cli.terminal import rate

    if machine.note:
        out.print(machine.note, markup=False)
    peaks = machine.peaks
    out.print(
        f"[bold]this machine[/]: {machine.name}; measured peaks: {rate(peaks.flops_per_s, 'FLOP/s')} "
        f"({peaks.compute}), {rate(peaks.copy_bytes_per_s, 'B/s')} (copy)\n"
    )


def _print_kernel(out: Console, one: Shown) -> None:
    from threadloom.cli.terminal import print_timeline

    shape = " ".join(f"{k}={v}" for k, v in one.run.dims.items())
    tiles = " ".join(f"{axis}={extent}" for axis, extent in one.timeline.tiles)
    out.print(f"[bold]{one.name}[/]  {shape}")
    if one.note:
        out.print(f"  runs     {one.note}", markup=False)
    origin = {"tuned": "tuned here", "borrowed": f"borrowed from {one.used.borrowed_from}", "model": "by the model"}
    out.print(f"  tiles    {tiles}, {origin[one.used.origin]}", markup=False)
    for c in one.run.outputs:
        mark = "" if c.holds else "  [red bold]WRONG[/]"
        out.print(f"  error    {c.output}: {c.error:.1e} against float64, allowed {c.bound:.1e}{mark}")
    fraction = f" = {one.fraction:.0%} of the measured {one.of_what}" if one.fraction is not None else ""
    out.print(f"  time     {one.run.speed}{fraction}", markup=False)
    if not out.quiet:
        print_timeline(one.timeline, brief=True)
    out.print()


def _print_summary(out: Console, shown: list[Shown]) -> None:
    from threadloom.cli.terminal import table
    from threadloom.sched.timeline_text import duration

    rows = table(out, ("kernel", "tiles", "error", "time", "rate", "of peak"), right=(2, 3, 4, 5))
    for one in shown:
        worst = max(one.run.outputs, key=lambda c: c.error / c.bound if c.bound else c.error)
        rows.add_row(
            one.name if one.agrees else f"[red]{one.name} WRONG[/]",
            " ".join(f"{axis}={extent}" for axis, extent in one.timeline.tiles),
            f"{worst.error:.1e}",
            duration(one.run.seconds * 1e9),
            one.run.speed.partition(", ")[2],
            f"{one.fraction:.0%} of {one.of_what}" if one.fraction is not None else "",
        )
    out.print(rows)


def _print_cuda(out: Console, cuda: CudaShown) -> None:
    if cuda.problem:
        out.print(f"\nCUDA program {cuda.name}: FAILED, {cuda.problem}", markup=False)
        return
    out.print(
        f"\nCUDA program {cuda.name} on this CPU: built in {cuda.build_seconds:.1f} s, error {cuda.error:.1e}, "
        f"{cuda.milliseconds:.2f} ms, {cuda.bytes_per_s / 1e9:.1f} GB/s read",
        markup=False,
    )


def _record(machine: Machine, shown: list[Shown], cuda: CudaShown | None, page: Path) -> dict[str, json_output.Json]:
    from dataclasses import asdict

    return {
        "device": machine.where,
        "machine": machine.name,
        "peaks": asdict(machine.peaks),
        "kernels": [
            {
                "kernel": one.name,
                "device": one.run.device,
                "shape": one.run.dims,
                "tiles": dict(one.timeline.tiles),
                "origin": str(one.used.origin),
                "error": json_output.finite(max(c.error for c in one.run.outputs)),
                "agrees": one.agrees,
                "seconds": one.run.seconds,
                "flops_per_s": one.run.flops_per_s,
                "bytes_per_s": one.run.bytes_per_s,
                "fraction_of_peak": one.fraction,
                "peak": one.of_what,
                "files": [str(f) for f in one.files],
            }
            for one in shown
        ],
        "cuda": asdict(cuda) if cuda else None,
        "page": str(page),
    }
