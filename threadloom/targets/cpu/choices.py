"""What a core's code packs, reads in place and fetches ahead, written into the plan as decisions.

    before: issue load_k on lsu by pack; buffer k in l2, panel-b; decide share_packing = k
    after:  issue load_k on lsu by load-store; buffer k in l2, direct; decide unpacked = k

The scheduler knows tiles and tasks; how a product is blocked, and so which operand is worth a copy and what can be
fetched beside it, is known where its loops are planned. So the kernel is planned here for contiguous tensors of the
plan's extents, and what comes out is said in the sProgram, where it can be read, edited and measured. Code for other
strides obeys where it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from threadloom.machine.devices import device as find_device
from threadloom.sched.ops import Buffer, Issue, Section, SProgram
from threadloom.targets.cpu.ahead import loads, multiplications, usual
from threadloom.targets.cpu.compile import cpu_schedule
from threadloom.targets.cpu.plan import InPlace, KernelPlan
from threadloom.targets.cpu.planning import plan_kernel
from threadloom.targets.cpu.schedule import Argument, CpuSchedule, Form, form_of, target_of
from threadloom.task.ops import Method
from threadloom.tile.ops import Kernel

MADE_HERE = ("pack", "unpacked", "prefetch", "share_packing")


def with_core_choices(program: SProgram, dims: Mapping[str, int]) -> SProgram:
    """The plan with its choices for the extents `dims` as decisions, in place of those it had of the same kinds."""
    schedule = cpu_schedule(program)
    form = _contiguous(schedule, dims)
    plan = plan_kernel(schedule, form, target_of(find_device(program.device)))
    packed, unpacked = _operands(plan)
    shared = {load.tensor for made in plan.shared for load in loads(made.pack.value.name, plan)}
    decisions = [(key, value) for key, value in program.decisions if key not in MADE_HERE]
    decisions += [("pack", name) for name in packed] + [("unpacked", name) for name in unpacked]
    decisions += [item for item in program.decisions if item[0] == "share_packing" and item[1] in shared]
    decisions += [("prefetch", f"{name} {ahead.distance} l{ahead.level}") for name, ahead in usual(plan, form)]
    combine = program.combine
    if combine is not None and _names(combine.graph.kernel) <= dims.keys():
        combine = with_core_choices(combine, dims)
    return replace(_in_place(program, frozenset(unpacked)), decisions=tuple(decisions), combine=combine)


def _contiguous(schedule: CpuSchedule, dims: Mapping[str, int]) -> Form:
    """The form of a call with arrays as they are made: rows one after the other, the first on a cache line."""
    arguments = {}
    for tensor in schedule.kernel.tensors:
        shape = tuple(dim if isinstance(dim, int) else dims[dim] for dim in tensor.dims)
        strides, step = [], 1
        for extent in reversed(shape):
            strides.append(step)
            step *= extent
        arguments[tensor.name] = Argument(0, shape, tuple(reversed(strides)))
    return form_of(schedule, dims, arguments)


def _operands(plan: KernelPlan) -> tuple[list[str], list[str]]:
    """(operands that are packed, operands that are read where they lie): of those that come from tensors."""
    packed: dict[str, None] = {}
    unpacked: dict[str, None] = {}
    for step in multiplications(plan):
        for value, source in ((step.lanes_value, step.lanes_operand), (step.rows_value, step.rows_operand)):
            if value.name in plan.inline:
                (unpacked if isinstance(source, InPlace) else packed)[value.name] = None
    return list(packed), [name for name in unpacked if name not in packed]


def _names(kernel: Kernel) -> set[str]:
    return {dim for tensor in kernel.tensors for dim in tensor.dims if isinstance(dim, str)}


def _in_place(program: SProgram, values: frozenset[str]) -> SProgram:
    """Loads of `values` are no packs, and their buffers no panels."""
    writes = {task.name: frozenset(task.writes) for task in program.graph.tasks}

    def issued(instr: object) -> object:
        if isinstance(instr, Issue) and instr.method is Method.PACK and writes[instr.task] <= values:
            return replace(instr, method=Method.LOAD_STORE)
        return instr

    def placed(buffer: Buffer) -> Buffer:
        return replace(buffer, layout="direct") if buffer.tile in values else buffer

    sections = tuple(Section(s.loop, s.role, tuple(map(issued, s.instrs))) for s in program.sections)
    return replace(program, sections=sections, buffers=tuple(map(placed, program.buffers)))
