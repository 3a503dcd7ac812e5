"""Write every stage of a kernel, numbered: tile, task, sched, par, LLVM IR, assembly (GPU: CUDA C++), and a report.

Any of the texts can be edited and run: loom run KERNEL --from FILE. The CUDA C++ runs on a GPU, all others on the CPU.
An edited .tile, .task or .sprog gives what comes after it for any device by --from FILE --to DIR.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from threadloom.cli import UsageError, json_output
from threadloom.cli.kernel_argument import add_dtype_argument, add_kernel_arguments, add_policy_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser)
    add_dtype_argument(parser)
    parser.add_argument("--device", default="cpu", help="a machine model: cpu (this one), h100, h200, ...")
    add_policy_argument(parser)
    parser.add_argument("--to", type=Path, metavar="DIR", help="where the files go (default: out/dump/KERNEL-DEVICE)")
    parser.add_argument(
        "--from", dest="stage", type=Path, metavar="FILE", help="begin with this edited .tile, .task or .sprog"
    )
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.stage is not None:
        return _run_from(args)
    from threadloom import dump
    from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
    from threadloom.cli.kernel_argument import choose_from, policy_of
    from threadloom.machine.devices import device
    from threadloom.sched.search import plan

    chosen, machine = choose_from(args), device(args.device)
    if machine.arch == "cpu":
        call = bound_call(chosen, make_inputs(chosen, args.dtype))
        outcome = plan(call.kernel, call.dims, machine, policy_of(args.policy))
        stages = list(dump.cpu_stages(call, outcome.best))
        dims = call.dims
    else:
        from threadloom.targets.cuda.launch import check_arch

        check_arch(machine)
        problem = planning_problem(chosen, args.dtype, "f16")
        outcome = plan(problem.kernel, problem.dims, machine, policy_of(args.policy))
        stages = dump.gpu_stages(problem.kernel, problem.dims, outcome.best)
        dims = problem.dims
    report = dump.report(chosen.name, dims, outcome, machine)
    folder = args.to or Path("out") / "dump" / f"{chosen.name}-{args.device}"
    stages += dump.report_stages(report, outcome, machine)
    files = [str(path) for path in dump.write_stages(folder, stages)]
    json_output.write(args, "dump", 1, {**report, "files": files})
    if args.json != "-":
        for stage in stages:
            print(f"{folder / stage.file}  {stage.text.count(chr(10))} lines")
    return 0


def _run_from(args: argparse.Namespace) -> int:
    """The stages from an edited one on; what it was made of is left out, and so is the report of a search."""
    from dataclasses import replace

    from threadloom import dump
    from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
    from threadloom.cli.kernel_argument import choose_from
    from threadloom.machine.devices import device
    from threadloom.run_stage import program_of

    chosen, machine = choose_from(args), device(args.device)
    if args.to is None:
        raise UsageError("--from needs --to DIR, a folder for what is made of the edited stage")
    if machine.arch == "cpu":
        problem = bound_call(chosen, make_inputs(chosen, args.dtype))
        kernel, program = program_of(args.stage, problem, machine)
        stages = list(dump.cpu_stages(replace(problem, kernel=kernel), program))
    else:
        from threadloom.targets.cuda.launch import check_arch

        check_arch(machine)
        problem = planning_problem(chosen, args.dtype, "f16")
        kernel, program = program_of(args.stage, problem, machine)
        stages = dump.gpu_stages(kernel, problem.dims, program)
    made = [s for s in stages if args.stage.suffix == ".tile" or not s.file.endswith(".tile")]
    files = [str(path) for path in dump.write_stages(args.to, made)]
    record = {
        "kernel": chosen.name,
        "device": args.device,
        "from": str(args.stage),
        "shape": problem.dims,
        "tiles": {t.axis: t.extent for t in program.partition.tiles},
        "files": files,
    }
    json_output.write(args, "dump-from", 1, record)
    if args.json != "-":
        print("\n".join(files))
    return 0
