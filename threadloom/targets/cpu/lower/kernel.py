"""A kernel's plan -> a par module with one exported function.

loom_kernel(args)            args: i64 words: of each tensor its address and strides (elements), then the extents of
                             all named dimensions, then the scalars (integers as i64, floats as double)
kernel(tensors ..., ...)     scalar code, then Parallel(BLOCKS) over the tiles of the grid; of the words those that are
                             not compiled in
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from threadloom.par.builder import Builder, ModuleBuilder
from threadloom.par.constants import const
from threadloom.par.ops import F32, F64, I1, I64, PTR, Level, Module, Operand, Space
from threadloom.targets.cpu.lower.body import emit_body
from threadloom.targets.cpu.lower.context import Context, Range, TensorArguments
from threadloom.targets.cpu.lower.dtypes import register_type
from threadloom.targets.cpu.lower.ranges import loop_range, tile_extent, tile_length, tiles_of
from threadloom.targets.cpu.lower.shared import pack_shared
from threadloom.targets.cpu.plan import Branches, Home, KernelPlan, Loop, Loops, Multiply, Pack, PlannedBody
from threadloom.targets.cpu.schedule import CpuSchedule, Form, Target
from threadloom.tile.ops import AxisKind, Kernel, Scalar

ENTRY = "loom_kernel"
QUICK = ("optnone",)  # functions that run once a launch: a third of the time to compile


@dataclass(frozen=True, slots=True)
class ArgumentWords:
    """Where each argument stands in the array of words."""

    tensors: tuple[str, ...]
    ranks: tuple[int, ...]
    dims: tuple[str, ...]
    scalars: tuple[Scalar, ...]


def argument_words(kernel: Kernel) -> ArgumentWords:
    dims = [d for t in kernel.tensors for d in t.dims] + [a.dim for a in kernel.axes]
    named = sorted({d for d in dims if isinstance(d, str)} | _mentioned(kernel))
    return ArgumentWords(
        tuple(t.name for t in kernel.tensors), tuple(len(t.dims) for t in kernel.tensors), tuple(named), kernel.scalars
    )


def _mentioned(kernel: Kernel) -> set[str]:
    from threadloom.tile.ops import DimSize
    from threadloom.tile.uses import walk

    return {op.dim for op in walk(kernel.body) if isinstance(op, DimSize) and isinstance(op.dim, str)}


def lower_kernel(plan: KernelPlan, schedule: CpuSchedule, form: Form, target: Target) -> Module:
    module = ModuleBuilder(reuses=True)  # nothing looks for common expressions later
    words = argument_words(plan.kernel)
    _build_body(module, plan, schedule, form, target, words)
    _build_entry(module, words, form)
    return module.build()


Parameter = tuple[str, object] | tuple[str, object, str]


def _parameters(words: ArgumentWords, form: Form) -> list[tuple[int, Parameter]]:
    """(number of its word, parameter) of everything that is not compiled in."""
    params: list[Parameter | None] = []
    for name in words.tensors:
        params.append((name, PTR, "noalias"))
        strides = form.tensor(name).strides
        params += [(f"{name}.stride{at}", I64) if known is None else None for at, known in enumerate(strides)]
    fixed = dict(form.dims)
    params += [None if dim in fixed else (f"dim.{dim}", I64) for dim in words.dims]
    params += [(scalar.name, _word_type(scalar)) for scalar in words.scalars]
    return [(at, param) for at, param in enumerate(params) if param is not None]


def _word_type(scalar: Scalar) -> object:
    return F64 if scalar.dtype.is_float else I64


def _build_entry(module: ModuleBuilder, words: ArgumentWords, form: Form) -> None:
    attrs = ("noinline", *QUICK, "nounwind")
    with module.function(ENTRY, [("args", PTR, "noalias readonly")], exported=True, attrs=attrs) as b:
        loaded = [
            b.load(type_, b.gep(I64, b.args[0], at), name=name)
            for at, (name, type_, *_) in _parameters(words, form)
        ]
        b.call("kernel", loaded)
        b.ret()


def _build_body(
    module: ModuleBuilder, plan: KernelPlan, schedule: CpuSchedule, form: Form, target: Target, words: ArgumentWords
) -> None:
    only_hands_out = not schedule.serial and not plan.before.steps
    attrs = ("noinline", *QUICK, "nounwind") if only_hands_out else ("noinline", "nounwind")
    with module.function("kernel", [param for _, param in _parameters(words, form)], attrs=attrs) as b:
        axes = {axis.name: axis for axis in plan.kernel.axes}
        c = Context(b, module, plan, schedule, form, target, axes)
        _bind_arguments(c, words)
        for axis in plan.kernel.axes:
            if axis.kind is AxisKind.WHOLE:
                c.ranges[axis.name] = Range(const(I64, 0), c.extents[axis.dim])
        emit_body(c, plan.before)
        for shared in plan.shared:
            pack_shared(c, shared)
        _grid(c)
        b.ret()


def _bind_arguments(c: Context, words: ArgumentWords) -> None:
    values = list(c.b.args)
    fixed = dict(c.form.dims)
    pointers: dict[str, Operand] = {}
    strides: dict[str, list[Operand]] = {}
    for name in words.tensors:
        pointers[name] = values.pop(0)
        strides[name] = [values.pop(0) if s is None else const(I64, s) for s in c.form.tensor(name).strides]
    for dim in words.dims:
        c.extents[dim] = const(I64, fixed[dim]) if dim in fixed else values.pop(0)
    for axis_dim in [d for t in c.plan.kernel.tensors for d in t.dims] + [a.dim for a in c.plan.kernel.axes]:
        if isinstance(axis_dim, int):
            c.extents[axis_dim] = const(I64, axis_dim)
    _bind_dim_sizes(c)
    for tensor in c.plan.kernel.tensors:
        c.tensors[tensor.name] = TensorArguments(
            pointers[tensor.name],
            tuple(strides[tensor.name]),
            tuple(c.extents[dim] for dim in tensor.dims),
            tensor.dtype,
        )
    for scalar, value in zip(words.scalars, values, strict=True):
        c.scalars[scalar.name] = _scalar(c.b, scalar, value)


def _bind_dim_sizes(c: Context) -> None:
    from threadloom.tile.ops import DimSize

    for op in c.plan.definitions.values():
        if isinstance(op, DimSize) and isinstance(op.dim, int):
            c.extents[op.dim] = const(I64, op.dim)


def _scalar(b: Builder, scalar: Scalar, word: Operand) -> Operand:
    wanted = register_type(scalar.dtype)
    if wanted == I1:
        return b.icmp("ne", word, 0)
    if scalar.dtype.is_float:
        return b.cast("fptrunc", word, F32) if wanted == F32 else word
    return b.cast("trunc", word, wanted)


# ---------------------------------------------------------------- the grid


def _grid(c: Context) -> None:
    """One iteration per tile; the schedule's order, last axis fastest."""
    b, grid = c.b, c.plan.grid
    order = [name for name in c.schedule.order if name in {a.axis.name for a in grid.axes}]
    axes = sorted(grid.axes, key=lambda a: order.index(a.axis.name) if a.axis.name in order else len(order))
    ranges = [loop_range(c, axis) for axis in axes]
    counts = [tiles_of(c, axis, *limits) for axis, limits in zip(axes, ranges, strict=True)]
    names = [axis.axis.name for axis in axes]
    shape = [1] if c.schedule.serial else counts
    with b.parallel(Level.BLOCKS, [0] * len(shape), shape, names=names[: len(shape)], schedule="dynamic") as tiles:
        _allocate(c)
        with ExitStack() as stack:
            if c.schedule.serial:
                loops = [stack.enter_context(b.loop(0, count, 1, iv=n)) for n, count in zip(names, counts, strict=True)]
                tiles = tuple(loop.iv for loop in loops)
            for axis, tile, count, (start, stop) in zip(axes, tiles, counts, ranges, strict=True):
                at: Operand = tile
                if c.schedule.longest_first and axis.axis.kind is not AxisKind.EACH:
                    at = b.sub(b.sub(count, 1), tile)
                first = b.add(start, b.mul(at, tile_extent(c, axis)))
                c.ranges[axis.axis.name] = Range(first, tile_length(c, axis, first, stop))
            emit_body(c, c.plan.body)


def _allocate(c: Context) -> None:
    """Every place of the plan is a slice of the worker's arena, but for what all workers share."""
    for buffer, home in homes_of(c.plan).items():
        if buffer in c.copies:
            continue
        layout = home.layout
        c.memory[buffer] = c.b.alloca(layout.element, max(1, layout.elems), Space.WORKER, 64, name=buffer)


def homes_of(plan: KernelPlan) -> dict[str, Home]:
    """Buffer -> a home in it."""
    found = {home.buffer: home for home in plan.homes.values()}
    _add_homes(plan.body, found)
    return found


def _add_homes(body: PlannedBody, found: dict[str, Home]) -> None:
    for step in body.steps:
        match step:
            case Pack():
                found.setdefault(step.home.buffer, step.home)
            case Loops():
                for _, home in step.rooms:
                    found.setdefault(home.buffer, home)
            case Multiply():
                for operand in (step.lanes_operand, step.rows_operand):
                    if isinstance(operand, Home):
                        found.setdefault(operand.buffer, operand)
            case Loop():
                _add_homes(step.body, found)
            case Branches():
                _add_homes(step.then, found)
                _add_homes(step.otherwise, found)
