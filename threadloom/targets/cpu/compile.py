"""sProgram + form of the arguments -> a callable.

    sProgram -> CpuSchedule -> KernelPlan -> par -> LLVM IR -> machine code

Explicit vectors need no LLVM middle-end, so this takes some tens of milliseconds; objects are cached on disk by their
text, and launches look their code up by the form of their arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from threadloom.dtypes import u4
from threadloom.errors import CompileError, slug
from threadloom.machine.model import Device
from threadloom.par.ops import Module
from threadloom.sched.ops import SProgram
from threadloom.targets.cpu.lower.kernel import ENTRY, ArgumentWords, argument_words, lower_kernel
from threadloom.targets.cpu.plan import KernelPlan
from threadloom.targets.cpu.planning import plan_kernel
from threadloom.targets.cpu.schedule import Ahead, Argument, CpuSchedule, Form, Target, form_of, target_of
from threadloom.tile.ops import Access, AxisKind, Kernel

ODD_STRIDES = slug("odd-strides", "an array's strides are no multiples of its element size, or keep u4 apart")


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code for one form of arguments; `entry` takes the address of the argument words."""

    schedule: CpuSchedule
    words: ArgumentWords
    entry: Callable[[int], None]

    def run(self, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int], scalars: Mapping[str, object]) -> None:
        """Fill the outputs. The arrays must have the form that was compiled for."""
        packed = pack_arguments(self.words, arguments_of(self.schedule, arrays), dims, scalars)
        self.entry(ctypes.addressof(packed))


def compile(program: SProgram, form: Form, device: Device) -> Compiled:
    """Compile the plan `program` for arguments of the form `form`."""
    return compile_schedule(cpu_schedule(program), form, target_of(device))


WORTH_FORKING = 2.0  # work on one core, in launches, from which several cores are used


def cpu_schedule(program: SProgram) -> CpuSchedule:
    """The part of an sProgram that a core acts on."""
    partition = program.partition
    decisions = program.decisions
    kernel = program.graph.kernel
    serial = _is_serial(program)
    tiled = {axis.name for axis in kernel.axes if axis.kind is AxisKind.TILE}
    return CpuSchedule(
        kernel,
        tuple((tile.axis, tile.extent) for tile in partition.tiles if tile.axis in tiled),
        partition.order,
        partition.sequential,
        partition.longest_first,
        serial,
        frozenset(value for key, value in decisions if key == "nontemporal"),
        tuple(_prefetch(value) for key, value in decisions if key == "prefetch"),
        frozenset(value for key, value in decisions if key == "pack"),
        frozenset(value for key, value in decisions if key == "unpacked"),
        frozenset(value for key, value in decisions if key == "share_packing" and not serial),
        _register_block(program),
    )


def _register_block(program: SProgram) -> tuple[int, int] | None:
    """(rows, vectors), which check_core.py has looked at; None where the plan leaves it to the machine."""
    said = dict(program.decisions)
    if "register_rows" not in said or "register_vectors" not in said:
        return None
    return int(said["register_rows"]), int(said["register_vectors"])


def _prefetch(value: str) -> tuple[str, Ahead]:
    """The decision's text, which check_static.py has looked at: "k 1 l2"."""
    name, distance, level = value.split()
    return name, Ahead(int(distance), int(level.removeprefix("l")))


def _is_serial(program: SProgram) -> bool:
    """Whether one core does all: there is one tile, or too little work."""
    from threadloom.machine.devices import device as find_device

    device = find_device(program.device)
    if not program.graph.loops[0].axes:
        return True
    launch_ns = float(device.fact("launch_ns", 0) or 0)
    alone_ns = (program.predicted_ns - launch_ns) * device.eu_count
    return ("threads", "1") in program.decisions or 0 < alone_ns < WORTH_FORKING * launch_ns


def lower(schedule: CpuSchedule, form: Form, target: Target) -> tuple[KernelPlan, Module]:
    plan = plan_kernel(schedule, form, target)
    return plan, lower_kernel(plan, schedule, form, target)


def compile_schedule(schedule: CpuSchedule, form: Form, target: Target) -> Compiled:
    from threadloom.targets.cpu.jit import compile_module

    plan, module = lower(schedule, form, target)
    function = compile_module(module).function(ENTRY, None, ctypes.c_void_p)
    return Compiled(schedule, argument_words(plan.kernel), function)


# ---------------------------------------------------------------- arguments


def host_target() -> Target:
    """This machine, with its matrix unit only if the system lets this process use it."""
    from threadloom.machine.cpu import host
    from threadloom.targets.cpu.host import enable_amx

    target = target_of(host())
    return target if not target.tile_dtypes or enable_amx() else replace(target, tile_dtypes=frozenset())


def arguments_of(schedule: CpuSchedule, arrays: Mapping[str, np.ndarray]) -> dict[str, Argument]:
    """Address, shape and strides in elements of every tensor."""
    found = {}
    for tensor in schedule.kernel.tensors:
        array = arrays[tensor.name]
        if any(stride % array.itemsize for stride in array.strides):
            raise CompileError(
                ODD_STRIDES,
                f"{tensor.name} has strides of {array.strides} bytes and elements of {array.itemsize}",
                why="kernels step through memory by whole elements",
                try_=f"{tensor.name}.copy()",
            )
        strides = tuple(s // array.itemsize for s in array.strides)
        if tensor.dtype is u4 and strides:
            if strides[-1] != 1 and array.shape[-1] > 1:
                raise CompileError(
                    ODD_STRIDES,
                    f"{tensor.name} has strides of {array.strides} bytes and two elements a byte",
                    why="elements of u4 lie side by side along the last dimension",
                    try_=f"{tensor.name}.copy()",
                )
            strides = (*(s * 2 for s in strides[:-1]), 1)
        found[tensor.name] = Argument(array.__array_interface__["data"][0], array.shape, strides)
    return found


def form_for(schedule: CpuSchedule, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int]) -> Form:
    return form_of(schedule, dims, arguments_of(schedule, arrays))


def pack_arguments(
    words: ArgumentWords, arguments: Mapping[str, Argument], dims: Mapping[str, int], scalars: Mapping[str, object]
) -> ctypes.Array[ctypes.c_int64]:
    values: list[int] = []
    for name in words.tensors:
        argument = arguments[name]
        values.append(argument.address)
        values += argument.strides
    values += [dims[dim] for dim in words.dims]
    first_scalar = len(values)
    packed = (ctypes.c_int64 * (first_scalar + len(words.scalars)))(*values)
    for at, scalar in enumerate(words.scalars):
        given = scalars[scalar.name]
        if scalar.dtype.is_float:
            ctypes.c_double.from_buffer(packed, 8 * (first_scalar + at)).value = float(given)
        else:
            packed[first_scalar + at] = int(given)
    return packed


def clear_accumulated(kernel: Kernel, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int]) -> None:
    """Targets of atomic additions start at zero, and so does the half byte after an odd row of u4."""
    for tensor in kernel.tensors:
        if tensor.access is Access.INOUT:
            array = arrays[tensor.name]
            array[...] = np.zeros((), array.dtype)
        elif tensor.access is Access.OUT and tensor.dtype is u4 and tensor.dims:
            last = tensor.dims[-1]
            if (last if isinstance(last, int) else dims[last]) % 2:
                arrays[tensor.name][..., -1] &= 15
