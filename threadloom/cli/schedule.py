"""Plan a kernel for a device, present here or not, and draw the plan.

Prints the timeline of the best plan by the device's model, its initiation interval with the lower bounds, memory over
time and why other configurations were rejected. Writes the timeline as text, SVG, a self-contained HTML page and for
Perfetto (Chrome's trace format), and the plan itself as an sProgram, with the kernel and the sTask-graph that it is of
(loom run --from takes it). The plan is proved by the checker.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.cli import UsageError, json_output
from threadloom.cli.kernel_argument import add_dtype_argument, add_kernel_arguments, add_policy_argument
from threadloom.cli.numbers import positive
from threadloom.whole_file import write_whole

if TYPE_CHECKING:
    from threadloom.cli.inputs import Problem
    from threadloom.cli.kernel_argument import Chosen
    from threadloom.clocked import Clocked
    from threadloom.machine.model import Device
    from threadloom.sched.check_findings import Finding
    from threadloom.sched.overlap import Overlap
    from threadloom.sched.profiled import TaskCost
    from threadloom.sched.search import Outcome
    from threadloom.sched.timeline import Timeline


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser)
    add_dtype_argument(parser)
    parser.add_argument("--device", default="cpu", help="a machine model: cpu (this one), h100, h200, a100, ...")
    add_policy_argument(parser)
    parser.add_argument("--limit", type=positive, default=2.0, metavar="SECONDS", help="for the solver of policy"
                        " optimal, counted as work (default: 2); other policies count theirs")  # fmt: skip
    parser.add_argument("--profile", action="store_true", help="plan with measured times of sTasks: on this machine's"
                        " cores they are measured now, for other devices kept ones are used")  # fmt: skip
    parser.add_argument("--task-times", type=Path, metavar="FILE", help="keep sTask times measured on the device"
                        " (benchmarks/hopper_timeline.py) and plan with them")  # fmt: skip
    parser.add_argument("--measure", action="store_true", help="run the plan on this machine's GPU with clocks inside:"
                        " timeline-measured.*, timelines.svg (predicted above measured), task-times.json")  # fmt: skip
    parser.add_argument("--pipelined", action="store_true", help="fail where the best plan of a loop does not overlap"
                        " its iterations, and say what keeps it from that")  # fmt: skip
    parser.add_argument("--to", type=Path, metavar="DIR", help="for the files (default: out/schedule/KERNEL-DEVICE)")
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from threadloom.cli.inputs import planning_problem
    from threadloom.cli.kernel_argument import choose_from, policy_of
    from threadloom.machine.devices import device
    from threadloom.planning import best_timeline
    from threadloom.sched.check import check
    from threadloom.sched.overlap import overlaps, require_overlap
    from threadloom.sched.profiled import as_json
    from threadloom.sched.search import plan

    chosen = choose_from(args)
    machine = device(args.device)
    if args.measure and (machine.arch == "cpu" or args.profile or args.task_times):
        raise UsageError("--measure is for a GPU's plan by the model: leave out --profile and --task-times")
    problem = planning_problem(chosen, args.dtype, "f32" if machine.arch == "cpu" else "f16")
    if args.profile or args.task_times:
        outcome, costs = _profiled(args, problem, machine)
    else:
        outcome = plan(problem.kernel, problem.dims, machine, policy_of(args.policy), limit_s=args.limit)
        costs = []
    loops = overlaps(outcome)
    if args.pipelined:
        require_overlap(loops)
    timeline = best_timeline(outcome, machine, chosen.name)
    began = time.perf_counter()
    findings = check(outcome.best, machine)
    checked_s = time.perf_counter() - began
    folder = args.to or Path("out") / "schedule" / f"{chosen.name}-{args.device}"
    written = _write(folder, timeline, problem, outcome)
    measured = _measure(args, chosen, machine, outcome) if args.measure else None
    if measured is not None:
        written += _write_measured(folder, timeline, measured)
    record = {
        **_record(args, chosen, problem, timeline, outcome),
        "loops": _loops(outcome, loops),
        "proved": not findings,
        "findings": [str(f) for f in findings],
        "files": [str(p) for p in written],
        "profile": as_json(costs),
        "measured_ii_cycles": measured.timeline.ii_cycles if measured is not None else None,
    }
    json_output.write(args, "schedule", 2, record)
    if args.json != "-":
        _print(timeline, outcome, loops, findings, checked_s, written)
        if measured is not None:
            _print_measured(timeline, measured)
        for cost in costs:
            took = f"{cost.measured_cycles:.0f} measured" if cost.measured_cycles else "not measured"
            print(f"  {cost.task} on {cost.unit}: {cost.model_cycles:.0f} cycles by the model, {took}")
    return 0 if not findings else 1


def _record(
    args: argparse.Namespace, chosen: Chosen, problem: Problem, timeline: Timeline, outcome: Outcome
) -> dict[str, json_output.Json]:
    """What was asked for and what the search found."""
    return {
        "kernel": chosen.name,
        "device": args.device,
        "policy": args.policy,
        "shape": problem.dims,
        "tiles": dict(timeline.tiles),
        "predicted_ns": outcome.best.predicted_ns,
        "ii_cycles": timeline.ii_cycles,
        "bounds_cycles": dict(timeline.bounds_cycles),
        "search": {
            "partitions": outcome.counts.partitions,
            "orders": outcome.counts.orders,
            "space": outcome.counts.space,
            "scheduled": outcome.counts.scheduled,
            "seconds": outcome.seconds,
            "cut_short": outcome.cut_short,
        },
        "rejected": [{"reason": r.reason, "count": r.count} for r in timeline.rejected],
    }


def _profiled(args: argparse.Namespace, problem: Problem, machine: Device) -> tuple[Outcome, list[TaskCost]]:
    from threadloom.cli.kernel_argument import policy_of
    from threadloom.sched.profiled import profiled_plan, read_times
    from threadloom.store import open_store

    store = open_store()
    if store is None:
        raise UsageError("measured times are kept in the store, and LOOM_CACHE=off")
    with store:
        if args.task_times:
            if not args.task_times.is_file():
                raise UsageError(f"there is no file {args.task_times}")
            read_times(args.task_times.read_text(errors="replace"), machine, store, str(args.task_times))
        return profiled_plan(problem.kernel, problem.dims, machine, store, policy_of(args.policy), args.limit)


def _measure(args: argparse.Namespace, chosen: Chosen, machine: Device, outcome: Outcome) -> Clocked:
    from threadloom.cli.tune import problem_to_measure
    from threadloom.clocked import run_with_clocks

    kernel, dims, integers, scalars = problem_to_measure(chosen, args.dtype, machine.arch)
    return run_with_clocks(outcome, kernel, dims, machine, integers, scalars, title=chosen.name)


def _write_measured(folder: Path, planned: Timeline, measured: Clocked) -> list[Path]:
    from threadloom.planning import drawings
    from threadloom.sched.timeline_svg import render_both

    texts = {n.replace("timeline", "timeline-measured"): text for n, text in drawings(measured.timeline).items()}
    texts["timelines.svg"] = render_both(planned, measured.timeline)
    texts["task-times.json"] = json.dumps(measured.task_times)
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def _print_measured(planned: Timeline, measured: Clocked) -> None:
    from threadloom.cli.terminal import print_timeline

    print_timeline(measured.timeline)
    if measured.timeline.ii_cycles:
        print(f"  measured every {measured.timeline.ii_cycles:.0f} cycles, planned {planned.ii_cycles:.0f}")


def _loops(outcome: Outcome, loops: list[Overlap]) -> list[dict[str, object]]:
    from threadloom.planning import loop_qualities

    return [
        asdict(quality) | {"overlaps": loop.overlaps, "bound_by": loop.bound_by, "carried": loop.carried}
        for quality, loop in zip(loop_qualities(outcome), loops, strict=True)
    ]


def _print(
    timeline: Timeline,
    outcome: Outcome,
    loops: list[Overlap],
    findings: list[Finding],
    checked_s: float,
    written: list[Path],
) -> None:
    from threadloom.cli.terminal import print_timeline
    from threadloom.planning import loop_qualities

    print_timeline(timeline)
    counts = outcome.counts
    print(
        f"  searched {counts.partitions} tile choices x {counts.orders} orders = {counts.space} sPrograms "
        f"in {outcome.seconds:.2f} s ({counts.scheduled} scheduled, the others cannot win)"
        + ("; stopped by the bound on its work" if outcome.cut_short else "")
    )
    for quality in loop_qualities(outcome):
        print(f"  {quality}")
    for loop in loops:
        if loop.carried or not (loop.overlaps or loop.one_thread):
            print(f"  {loop}")
    for finding in findings:
        print(f"  NOT PROVED: {finding}")
    if not findings:
        print(f"  proved for every trip count in {checked_s:.2f} s")
    print("  written: " + ", ".join(str(p) for p in written))


def _write(folder: Path, timeline: Timeline, problem: Problem, outcome: Outcome) -> list[Path]:
    from threadloom.dump import plan_stages, write_stages
    from threadloom.planning import drawings

    texts = drawings(timeline)
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [*(folder / name for name in texts), *write_stages(folder, plan_stages(problem.kernel, outcome.best))]
