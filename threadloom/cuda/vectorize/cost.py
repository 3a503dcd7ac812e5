"""Whether vectors pay: a rough count of instructions, per lane one after the other against all lanes at once.

Loops count eight times what is inside, wherever they stand. Gathers and scatters cost about as much as the scalar
accesses they replace, and so do bytes under a mask where the machine masks only larger elements; work under a loop
that lanes leave one by one is done for lanes that have left, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadloom.cuda.vectorize.math import FUNCTIONS
from threadloom.cuda.vectorize.shapes import Shapes
from threadloom.par.ops import For, If, Leaf, Op, While
from threadloom.par.result_types import scalar_of, size_bytes
from threadloom.par.walk import regions

_TRIPS = 8.0
_GATHER = 1.1  # per lane
_MASKED_BYTE = 2.0  # per lane, by a branch
_ASKED = 5.0  # whether lanes are neighbours, before the load that they then share
_COLUMN = 3.0  # per lane: memory walked down its columns
_ONE_BY_ONE = 3.0  # per lane: take out, call, put in
_CALL, _VECTOR_CALL = 20.0, 50.0  # a mathematical function: of the C library, and in vectors of f64
_STRAGGLERS = 1.6  # lanes that have left go along


@dataclass(frozen=True, slots=True)
class Cost:
    scalar: float
    vector: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.scalar + other.scalar, self.vector + other.vector)


def estimate(
    ops: Iterable[Op], shapes: Shapes, width: int, one_by_one, masked: bool = False, looped: bool = False
) -> Cost:
    """For `width` threads; `one_by_one(leaf)` says which leaves vectors cannot do. `masked`: under a test that lanes
    answer differently. `looped`: in a loop of each thread's own."""
    total = Cost(0.0, 0.0)
    for op in ops:
        if isinstance(op, Leaf):
            cost = _leaf(op, shapes, width, one_by_one, masked)
            total += cost + Cost(_COLUMN * width, 0.0) if looped and _is_row(op, shapes) else cost
            continue
        differs = (isinstance(op, If) and not shapes.uniform(op.cond)) or (
            isinstance(op, For | While) and shapes.is_masked(op)
        )
        inside = Cost(0.0, 0.0)
        for region in regions(op):
            loop = looped or isinstance(op, For | While)
            inside += estimate(region.ops, shapes, width, one_by_one, masked or differs, loop)
        if isinstance(op, For | While):
            waste = _STRAGGLERS if shapes.is_masked(op) else 1.0
            inside = Cost(inside.scalar * _TRIPS, inside.vector * _TRIPS * waste)
        elif isinstance(op, If) and not shapes.uniform(op.cond):
            inside = Cost(inside.scalar * 0.6, inside.vector)  # a thread takes one side, a vector often both
        total += inside
    return total


def _leaf(op: Leaf, shapes: Shapes, width: int, one_by_one, masked: bool) -> Cost:
    value = op.result.type if op.result else op.operands[0].type if op.operands else None
    if op.opcode == "getelementptr":
        return Cost(0.5 * width, 0.5 if shapes.stride(op.result) is not None else 1.0)
    if op.opcode in ("load", "store"):
        pointer = op.operands[1] if op.opcode == "store" else op.operands[0]
        stride = shapes.stride(pointer)
        if stride is None and op.opcode == "load" and shapes.likely(pointer) in (0, size_bytes(value)):
            return Cost(width, _ASKED + _registers(value))
        if stride is None or (stride != 0 and stride != size_bytes(value)):
            return Cost(width, _GATHER * width)
        if stride != 0 and masked and size_bytes(value) < 4 and not masks_bytes():
            return Cost(width, _MASKED_BYTE * width)
        return Cost(width, 1.0 if stride == 0 else _registers(value))
    if one_by_one(op):
        return Cost(_ONE_BY_ONE * width, 2 * _ONE_BY_ONE * width)
    if op.result is not None and shapes.stride(op.result) is not None:
        return Cost(width, 1.0)
    if op.opcode == "call" and op.attrs.callee in FUNCTIONS:
        return Cost(_CALL * width, _VECTOR_CALL)
    return Cost(width, _registers(value) * (1.5 if op.opcode in ("fdiv", "sdiv", "udiv", "srem", "urem") else 1.0))


def _is_row(op: Leaf, shapes: Shapes) -> bool:
    """Lanes reach neighbours in memory: a thread alone in its loop touches another cache line each time."""
    if op.opcode not in ("load", "store"):
        return False
    pointer, value = (op.operands[1], op.operands[0]) if op.opcode == "store" else (op.operands[0], op.result)
    return shapes.stride(pointer) == size_bytes(value.type)


def masks_bytes() -> bool:
    """Whether the target loads and stores bytes under a mask."""
    from threadloom.targets.cpu.host import target_cpu

    return target_cpu().has("avx512bw")


def _registers(type_) -> float:
    """Vector registers that one value takes, if a float takes one."""
    scalar = scalar_of(type_) if type_ is not None else None
    return max(1.0, size_bytes(scalar) / 4) if scalar is not None else 1.0
