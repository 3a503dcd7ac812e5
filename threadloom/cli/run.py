"""Run a kernel on random data and compare the result with float64.

The reference is the file's own function `reference`, or else the kernel's definition run in float64. `--from FILE` runs
an edited stage of `loom dump` in place of the compiled kernel: CUDA C++ on the GPU, any other on the CPU, or, of
.tile, .task and .sprog, with `--device gpu` what they become there. `--device gpu` runs on copies on the first GPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from threadloom.cli import UsageError, json_output
from threadloom.cli.kernel_argument import add_dtype_argument, add_kernel_arguments, example_names
from threadloom.cli.numbers import at_least


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser, optional=True)
    add_dtype_argument(parser)
    parser.add_argument("--list", action="store_true", help="list the examples and stop")
    parser.add_argument("--repeat", type=at_least(1), default=5, metavar="N", help="timed runs (default: 5)")
    parser.add_argument("--from", dest="stage", type=Path, metavar="FILE", help="run this edited stage of a dump")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="cpu (default), or gpu: the first one")
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.list:
        print("\n".join(example_names()))
        return 0
    if args.kernel is None:
        raise UsageError("KERNEL is missing\n  try: loom run --list")
    from threadloom.cli.execution import execute
    from threadloom.cli.kernel_argument import choose_from

    chosen = choose_from(args)
    done = execute(chosen, args.dtype, args.repeat, args.stage, args.device)
    record = {
        "kernel": chosen.name,
        "device": done.device,
        "shape": done.dims,
        "outputs": [
            {"name": c.output, "error": json_output.finite(c.error), "bound": c.bound, "holds": c.holds}
            for c in done.outputs
        ],
        "seconds": done.seconds,
        "flops_per_s": done.flops_per_s,
        "bytes_per_s": done.bytes_per_s,
    }
    json_output.write(args, "run", 1, record)
    if args.json != "-":
        print(f"{chosen.name} on {done.device}, {', '.join(f'{k}={v}' for k, v in done.dims.items())}")
        for c in done.outputs:
            verdict = "agrees with float64" if c.holds else "WRONG"
            print(f"  {c.output}: {verdict}, error {c.error:.2e} (allowed {c.bound:.2e})")
        print(f"  {done.speed}")
    return 0 if all(c.holds for c in done.outputs) else 1
