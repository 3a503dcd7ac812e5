"""One sTask as a kernel of its own, so that the profiler can time it alone on the device that is present.

    before:  dot_s: (q[m, d], k[n, d]) -> s[m, n] at m=128, n=128, d=64
    after:   kernel(q[R, 128, 64], k[R, 128, 64]) -> s[R, 128, 128], one instance for each of R repetitions

Values that the sTask reads become tensors, what it writes is stored; so its time includes bringing operands near and
putting results away once. Handled: VECTOR and DOT sTasks. Source: PipeThreader, section 6 (profiling sTasks alone).
"""

from __future__ import annotations

from threadloom.dtypes import bool_
from threadloom.sched.sizes import Sizes
from threadloom.task.ops import Kind, STask
from threadloom.tile.ops import (
    Access,
    Axis,
    AxisKind,
    Block,
    Bound,
    Const,
    Grid,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Op,
    Store,
    Subscript,
    Tensor,
    Term,
    TileType,
    Value,
)
from threadloom.tile.uses import operands, results

REPETITION = "repetition"


def isolated(task: STask, sizes: Sizes, repetitions: int) -> Kernel | None:
    """The kernel, or None where the sTask depends on its place in the grid or has no tile to work on."""
    values = {v.name: v for op in task.ops for v in (*operands(op), *results(op))}
    touched = [values[n] for n in (*task.reads, *task.writes) if n in values]
    if task.kind not in (Kind.VECTOR, Kind.DOT) or any(n not in values for n in (*task.reads, *task.writes)):
        return None
    if any(v.type.dtype is bool_ or v.type.dtype.bits < 8 for v in touched):
        return None
    axes = dict.fromkeys(a for v in values.values() for a in v.type.axes)
    whole = [Axis(a, sizes.extents[a], AxisKind.WHOLE) for a in axes]
    each = Axis(REPETITION, repetitions, AxisKind.EACH)
    body: list[Op] = [Load(values[n], _tensor(n), _subscripts(values[n].type)) for n in task.reads]
    body += [_settled(op) for op in task.ops]
    body += [Store(_tensor(n), _subscripts(values[n].type), values[n]) for n in task.writes]
    tensors = [_as_tensor(values[n], sizes, repetitions, Access.IN) for n in task.reads]
    tensors += [_as_tensor(values[n], sizes, repetitions, Access.OUT) for n in task.writes]
    grid = Grid((LoopAxis(each),), Block(tuple(body)))
    return Kernel(f"only_{task.name}", tuple(tensors), (), (each, *whole), Block((grid,)), task.loc)


def _tensor(value: str) -> str:
    return "x_" + value.replace(".", "_")


def _settled(op: Op) -> Op:
    """Positions and bounds of the block do not matter for the time: they are those of the first block."""
    match op:
        case Index() if not op.result.type.axes:
            return Const(op.result, 0, op.loc)
        case Bound():
            return Const(op.result, 0, op.loc)
        case _:
            return op


def _subscripts(type_: TileType) -> tuple[Subscript, ...]:
    return tuple(Subscript((Term(1, axis),)) for axis in (REPETITION, *type_.axes))


def _as_tensor(value: Value, sizes: Sizes, repetitions: int, access: Access) -> Tensor:
    dims = (repetitions, *(sizes.extents[a] for a in value.type.axes))
    return Tensor(_tensor(value.name), dims, value.type.dtype, access)
