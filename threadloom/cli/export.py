"""Compile a kernel for a GPU that need not be here, and write NAME.cubin, NAME.h (a C header that launches it through
the driver API) and NAME.cu. The code is for the given shape, with tensors without gaps.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from threadloom.cli import json_output
from threadloom.cli.kernel_argument import add_dtype_argument, add_kernel_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser)
    add_dtype_argument(parser)
    parser.add_argument("--device", default="h200", help="a machine model of a GPU: h200 (default), h100, a100")
    parser.add_argument("--to", type=Path, metavar="DIR", help="where the files go (default: out/export/KERNEL-DEVICE)")
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from threadloom.cli.inputs import planning_problem
    from threadloom.cli.kernel_argument import choose_from
    from threadloom.targets.cuda.compile import DeviceTensor
    from threadloom.targets.cuda.export import export
    from threadloom.targets.cuda.launch import kernel_for
    from threadloom.targets.cuda.time_plan import packed

    chosen = choose_from(args)
    problem = planning_problem(chosen, args.dtype, "f16")
    given = {}
    for tensor in problem.kernel.tensors:
        shape = tuple(d if isinstance(d, int) else problem.dims[d] for d in tensor.dims)
        given[tensor.name] = DeviceTensor(0, shape, packed(shape))
    kernel = kernel_for(problem.kernel, problem.dims, given, args.device, splits=False)
    folder = args.to or Path("out") / "export" / f"{chosen.name}-{args.device}"
    made = export(kernel, given, problem.dims, folder)
    files = [str(made.cubin), str(made.header), str(made.source)]
    record = {
        "kernel": chosen.name,
        "device": args.device,
        "arch": kernel.source.arch,
        "shape": problem.dims,
        "threads": kernel.source.threads,
        "shared_bytes": kernel.source.shared_bytes,
        "registers": kernel.cubin.registers,
        "files": files,
    }
    json_output.write(args, "export", 1, record)
    if args.json != "-":
        print("\n".join(files))
    return 0
