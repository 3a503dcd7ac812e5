"""Every stage of a kernel as text, numbered.

    01-tile.tile   the kernel as parsed
    02-task.task   its sTask-graph
    03-sched.sprog the plan
    04-par.par     structured code with explicit vectors     (GPU: 04-cuda.cu, the kernel's CUDA C++, the last stage)
    05-llvm.ll     LLVM IR
    06-asm.s       assembly
    12-combine.task, 14-combine.par ...: the second program, where a reduction is split (02 to 06 are then of the first)
    report.txt, report.json: what was chosen and why

A kernel can be run from the (edited) text of any of them: run_stage.py.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.machine.devices import device
from threadloom.sched.ops import SProgram
from threadloom.sched.reuse import program_for
from threadloom.sched.search import Outcome
from threadloom.whole_file import write_whole

if TYPE_CHECKING:
    import numpy as np

    from threadloom.cli.inputs import Problem
    from threadloom.lang.bind import Call
    from threadloom.machine.model import Device
    from threadloom.par.ops import Module
    from threadloom.targets.cpu.host import CpuTarget
    from threadloom.targets.cpu.plan import KernelPlan
    from threadloom.targets.cuda.copy import TensorFacts
    from threadloom.tile.ops import Kernel

COMBINE = "combine"  # in the names of stages of the program that combines the parts of a split reduction
IN_PARTS = re.compile(r" in \d+ parts$")  # behind it, where the code is of one of two programs
MADE_FOR = "made for "  # begins the comment that says which call the code of a stage fits


@dataclass(frozen=True, slots=True)
class Stage:
    file: str
    text: str


def write_stages(folder: Path, stages: list[Stage]) -> list[Path]:
    """Write `stages`, and remove the second program's of an earlier dump: it would be taken for one of this plan."""
    written = {stage.file for stage in stages}
    for old in folder.glob(f"[0-9][0-9]-{COMBINE}.*"):
        if old.name not in written:
            old.unlink()
    for stage in stages:
        write_whole(folder / stage.file, stage.text)
    return [folder / stage.file for stage in stages]


def dump_call(call: Call, folder: Path) -> None:
    """Write the stages of a call on this CPU below `folder` as they are made, so that a failing one leaves those before
    it (the environment variable LOOM_DUMP)."""
    taken = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    names = itertools.chain([call.kernel.name], (f"{call.kernel.name}-{n}" for n in itertools.count(2)))
    own = folder / next(name for name in names if name not in taken)
    for stage in cpu_stages(call, program_for(call.kernel, extents_to_plan(call), device("cpu")).program):
        write_whole(own / stage.file, stage.text)


def cpu_stages(
    call: Call, program: SProgram, machine: Device | None = None, target: CpuTarget | None = None
) -> Iterator[Stage]:
    """All stages of a call on this CPU, or on the CPU that `machine` models and LLVM calls `target`."""
    from threadloom.par.text import print_module
    from threadloom.targets.cpu.between import steps_of
    from threadloom.targets.cpu.emit import emit_llvm
    from threadloom.targets.cpu.host import host_cpu
    from threadloom.targets.cpu.jit import compile_assembly

    yield from plan_stages(call.kernel, program)
    made_for = f"{MADE_FOR}{described(call)}{_in_parts(program)}"
    for number, (step, arrays) in enumerate(steps_of(program, call.arrays, call.dims)):
        names = ((4, "par"), (5, "llvm"), (6, "asm"))
        par, ir, asm = (f"1{n}-{COMBINE}" if number else f"0{n}-{name}" for n, name in names)
        _, module = lowered(arrays, call.dims, step, machine)
        yield Stage(f"{par}.par", f"; {made_for}\n{print_module(module)}")
        llvm = emit_llvm(module)
        yield Stage(f"{ir}.ll", f"; {made_for}\n{llvm}")
        yield Stage(f"{asm}.s", f"/* {made_for} */\n{compile_assembly(llvm, target or host_cpu().target)}")


def gpu_stages(kernel: Kernel, dims: dict[str, int], program: SProgram) -> list[Stage]:
    """All stages for an NVIDIA GPU, which need not be here: its CUDA C++ for packed, aligned arguments."""
    from threadloom.targets.cuda.compile import DeviceTensor, between_facts, facts_of

    facts = {}
    for tensor in kernel.tensors:
        shape = tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)
        strides = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
        facts[tensor.name] = facts_of(tensor, DeviceTensor(0, shape, strides))
    made_for = f"// {MADE_FOR}{_description(kernel, _shapes(kernel, dims))}\n"
    stages = [*plan_stages(kernel, program), Stage("04-cuda.cu", made_for + _source(program, facts, dims))]
    if program.combine is not None:
        source = _source(program.combine, facts | between_facts(program, dims), dims)
        stages.append(Stage(f"14-{COMBINE}.cu", made_for + source))
    return stages


def _source(program: SProgram, facts: dict[str, TensorFacts], dims: dict[str, int]) -> str:
    from threadloom.targets.cuda.compile import between_facts
    from threadloom.targets.cuda.emit_for import emit

    return emit(program, facts | between_facts(program, dims), dims).text


def _shapes(kernel: Kernel, dims: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes in memory of arrays without gaps."""
    from threadloom.arrays import stored_shape

    logical = {t.name: tuple(d if isinstance(d, int) else dims[d] for d in t.dims) for t in kernel.tensors}
    return {t.name: stored_shape(logical[t.name], t.dtype) for t in kernel.tensors}


def plan_stages(kernel: Kernel, program: SProgram) -> list[Stage]:
    """The stages that every device has."""
    from threadloom.sched.text import print_program
    from threadloom.task.text import print_graph
    from threadloom.tile.text import print_kernel

    stages = [
        Stage("01-tile.tile", print_kernel(kernel)),
        Stage("02-task.task", print_graph(program.graph)),
        Stage("03-sched.sprog", print_program(program)),
    ]
    if program.combine is not None:
        stages.append(Stage(f"12-{COMBINE}.task", print_graph(program.combine.graph)))
    return stages


def described(call: Call) -> str:
    """What the code for a call depends on: extents, strides and dtypes are partly compiled into it."""
    arrays = call.arrays
    strides = {
        name: f" strides {' '.join(str(s) for s in array.strides)}"
        for name, array in arrays.items()
        if not array.flags.c_contiguous
    }
    return _description(call.kernel, {name: array.shape for name, array in arrays.items()}, strides)


def _description(
    kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], strides: Mapping[str, str] | None = None
) -> str:
    parts = []
    for tensor in kernel.tensors:
        shape = ", ".join(str(n) for n in shapes[tensor.name])
        parts.append(f"{tensor.name}: {tensor.dtype.name}[{shape}]{(strides or {}).get(tensor.name, '')}")
    return f"{kernel.name}({', '.join([*parts, *(f'{s.name}: {s.dtype.name}' for s in kernel.scalars)])})"


def _in_parts(program: SProgram) -> str:
    return "" if program.combine is None else f" in {program.partition.splits} parts"


def extents_to_plan(call: Call | Problem) -> dict[str, int]:
    """The extents to plan for: nothing is planned for an empty dimension."""
    return {name: max(1, extent) for name, extent in call.dims.items()}


def lowered(
    arrays: Mapping[str, np.ndarray], dims: Mapping[str, int], program: SProgram, machine: Device | None = None
) -> tuple[KernelPlan, Module]:
    from threadloom.targets.cpu.compile import cpu_schedule, form_for, lower
    from threadloom.targets.cpu.schedule import target_of

    schedule = cpu_schedule(program)
    return lower(schedule, form_for(schedule, arrays, dims), target_of(machine or device("cpu")))


# ---------------------------------------------------------------- the report


def report(name: str, dims: dict[str, int], outcome: Outcome, machine: Device) -> dict[str, object]:
    """What was chosen and why, for people (report.txt) and scripts (report.json)."""
    best = outcome.best
    return {
        "kernel": name,
        "device": machine.name,
        "policy": best.policy,
        "shape": dims,
        "tiles": {t.axis: t.extent for t in best.partition.tiles},
        "order": list(best.partition.order),
        "splits": best.partition.splits,
        "sequential": list(best.partition.sequential),
        "predicted_ns": best.predicted_ns,
        "loops": [
            {"loop": p.loop, "ii_cycles": p.ii_cycles, "stages": p.stages, "bounds_cycles": dict(p.bounds_cycles)}
            for p in best.loops
        ],
        "decisions": [list(d) for d in best.decisions],
        "search": {"partitions": outcome.counts.partitions, "orders": outcome.counts.orders,
                   "scheduled": outcome.counts.scheduled, "seconds": outcome.seconds},
        "rejected": dict(outcome.reasons),
    }  # fmt: skip


def report_stages(facts: dict[str, object], outcome: Outcome, machine: Device) -> list[Stage]:
    import json

    from threadloom.planning import best_timeline, reason_text
    from threadloom.sched.timeline_text import render_text

    lines = [render_text(best_timeline(outcome, machine, str(facts["kernel"]))), "", "decisions:"]
    lines += [f"  {key}: {value}" for key, value in outcome.best.decisions] or ["  none beside tiles and order"]
    lines += ["", "rejected:"]
    lines += [f"  {count} partitions: {reason_text(family)}" for family, count in outcome.reasons.items()] or ["  none"]
    return [
        Stage("report.txt", "\n".join(lines) + "\n"),
        Stage("report.json", json.dumps({"schema": "threadloom.report/1", **facts}, indent=2) + "\n"),
    ]
