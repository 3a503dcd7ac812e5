"""Measure the model's best plans of a kernel on this machine and keep the fastest for later calls.

Every time is stored as soon as it is measured: interrupt with Ctrl-C, run the same command again, and it goes on where
it was. Plans are measured in a process of their own, with a time limit each.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from threadloom.cli import UsageError, json_output
from threadloom.cli.kernel_argument import add_dtype_argument, add_kernel_arguments
from threadloom.cli.numbers import at_least, positive

if TYPE_CHECKING:
    import numpy as np

    from threadloom.cli.kernel_argument import Chosen
    from threadloom.sched.tune import Progress, Tuned
    from threadloom.tile.ops import Kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel_arguments(parser)
    add_dtype_argument(parser)
    parser.add_argument("--device", default="cpu", help="default: cpu, this one")
    parser.add_argument("--plans", type=at_least(1), default=24, metavar="N", help="most plans measured (default: 24)")
    parser.add_argument("--limit", type=positive, metavar="SECONDS", help="for all of it (default: none on a CPU; on a"
                        " GPU 20 for each product of the kernel, at most 60)")  # fmt: skip
    parser.add_argument("--profile", action="store_true", help="choose and order the plans by measured times of their"
                        " sTasks, see loom schedule")  # fmt: skip
    parser.add_argument("--timeout", type=positive, default=30.0, metavar="SECONDS", help="for one plan (default: 30)")
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from threadloom.cli.kernel_argument import choose_from
    from threadloom.machine.devices import device
    from threadloom.sched.profiled import profiled_plan
    from threadloom.sched.tune import tune
    from threadloom.store import open_store

    store = open_store()
    if store is None:
        raise UsageError("nothing can be kept: LOOM_CACHE=off")
    chosen, machine = choose_from(args), device(args.device)
    kernel, dims, integers, scalars = problem_to_measure(chosen, args.dtype, machine.arch)
    shown = _Shown(quiet=args.json == "-")
    with store, shown:
        outcome = None
        if args.profile:
            outcome, _ = profiled_plan(kernel, dims, machine, store, most=args.plans)
        tuned = tune(
            kernel, dims, machine, store, integers, scalars, shown.step,
            most=args.plans, timeout_s=args.timeout, limit_s=args.limit, outcome=outcome,
        )  # fmt: skip
    json_output.write(args, "tune", 1, _record(chosen.name, args.device, dims, tuned))
    if args.json != "-":
        _print(tuned)
    return 0


def problem_to_measure(
    chosen: Chosen, dtype: str | None, arch: str
) -> tuple[Kernel, dict[str, int], dict[str, np.ndarray], dict[str, float]]:
    """(kernel, extents, values of integer tensors, scalars). A GPU's problem may be larger than this process should
    make data for, so data is only made where loops or scalars depend on it."""
    from threadloom.cli.inputs import bound_call, make_inputs, planning_problem
    from threadloom.tile.ops import Access

    if arch != "cpu":
        problem = planning_problem(chosen, dtype, "f16")
        inputs = [t for t in problem.kernel.tensors if t.access is Access.IN]
        if not problem.kernel.scalars and all(t.dtype.is_float for t in inputs):
            return problem.kernel, problem.dims, {}, {}
    call = bound_call(chosen, make_inputs(chosen, dtype if arch == "cpu" else dtype or "f16"))
    integers = {name: array for name, array in call.arrays.items() if array.dtype.kind in "iu"}
    return call.kernel, call.dims, integers, dict(call.scalars)


class _Shown:
    """A progress bar where someone looks, a line for each plan elsewhere."""

    def __init__(self, quiet: bool):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from threadloom.cli.terminal import stdout

        self.out = stdout(quiet)
        columns = TextColumn("plan {task.completed}/{task.total}"), BarColumn(), TimeElapsedColumn()
        self.bar = Progress(*columns, TextColumn("{task.description}"), console=self.out, transient=True)
        self.task = None

    def __enter__(self) -> _Shown:
        if self.out.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if self.out.is_terminal:
            self.bar.stop()
        if kind is KeyboardInterrupt:
            self.out.print("what was measured is stored; the same command goes on from there")

    def step(self, progress: Progress) -> None:
        from threadloom.sched.timeline_text import duration

        found = progress.found
        took = duration(found.ns) if found.state == "ok" else f"{found.state} {found.message}".strip()
        best = f"best {duration(progress.best_ns)}" if progress.best_ns else "none has run yet"
        if self.out.is_terminal:
            if self.task is None:
                self.task = self.bar.add_task("", total=progress.total)
            self.bar.update(self.task, completed=progress.done, description=f"{took}, {best}")
        else:
            known = " (known)" if progress.stored else ""
            self.out.print(f"plan {progress.done}/{progress.total}: {took}{known}, {best}", markup=False)


def _print(tuned: Tuned) -> None:
    from threadloom.sched.timeline_text import duration

    tiles = " ".join(f"{t.axis}={t.extent}" for t in tuned.program.partition.tiles)
    print(f"best: {tiles}, {duration(tuned.ns)} (the model said {duration(tuned.program.predicted_ns)})")
    print(f"{tuned.measured} plans measured now, {tuned.stored} known before, {len(tuned.failed)} failed; stored")
    if tuned.skipped:
        print(f"{tuned.skipped} plans were left out by the time limit: run the command again, or give --limit")
    for failed in tuned.failed:
        print(f"  {failed.state}: {failed.message}")


def _record(name: str, device: str, dims: dict[str, int], tuned: Tuned) -> dict[str, json_output.Json]:
    return {
        "kernel": name,
        "device": device,
        "shape": dims,
        "tiles": {t.axis: t.extent for t in tuned.program.partition.tiles},
        "measured_ns": tuned.ns,
        "predicted_ns": tuned.program.predicted_ns,
        "measured": tuned.measured,
        "known": tuned.stored,
        "failed": [{"plan": f.plan, "state": f.state, "message": f.message} for f in tuned.failed],
    }
