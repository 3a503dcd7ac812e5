"""Vector idioms that the lowering shares: gathers and scatters, lane masks, combining lanes, transposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import int_value, vector_const
from threadloom.par.intrinsics import mangled
from threadloom.par.ops import I1, I32, I64, VOID, Attrs, Operand, Vector
from threadloom.par.result_types import size_bytes


def gather(b: Builder, type_: Vector, pointers: Operand, mask: Operand | None, otherwise: Operand) -> Operand:
    """Elements at several addresses; where `mask` is false memory is not touched."""
    mask = mask if mask is not None else b.const(Vector(type_.lanes, I1), 1)
    align = f"align {size_bytes(type_.element)}"
    attrs = Attrs(callee=mangled("llvm.masked.gather", (type_, pointers.type)), arg_attrs=(align, "", ""))
    made = b.leaf("call", (pointers, mask, otherwise), type_, attrs, "gathered")
    if made is None:
        raise InternalError("a gather has a result")
    return made


def scatter(b: Builder, value: Operand, pointers: Operand, mask: Operand | None) -> None:
    if not isinstance(value.type, Vector):
        raise InternalError(f"scatter of {value.type!r}")
    mask = mask if mask is not None else b.const(Vector(value.type.lanes, I1), 1)
    align = f"align {size_bytes(value.type.element)}"
    attrs = Attrs(callee=mangled("llvm.masked.scatter", (value.type, pointers.type)), arg_attrs=("", align, ""))
    b.leaf("call", (value, pointers, mask), VOID, attrs)


def first_lanes(b: Builder, count: Operand, lanes: int) -> Operand:
    """The mask of the first `count` lanes (i64, at least 0; more than there are means all)."""
    if int_value(count) is None:
        count = b.min(count, lanes)
    narrow = b.splat(b.cast("trunc", count, I32), lanes)
    return b.icmp("ult", vector_const(I32, list(range(lanes))), narrow, name="exists")


def both(b: Builder, left: Operand | None, right: Operand | None) -> Operand | None:
    """Conjunction of two masks, None being all."""
    if left is None or right is None:
        return left if right is None else right
    return b.and_(left, right)


def folded(b: Builder, vector: Operand, combine: Callable[[Operand, Operand], Operand]) -> Operand:
    """All lanes combined, by halves: one scalar."""
    if not isinstance(vector.type, Vector):
        return vector
    lanes = vector.type.lanes
    while lanes > 1:
        half = lanes // 2
        lower = b.shuffle(vector, None, range(half))
        upper = b.shuffle(vector, None, range(half, 2 * half))
        rest = b.extract(vector, lanes - 1) if lanes % 2 else None
        vector = combine(lower, upper) if half > 1 else combine(b.extract(lower, 0), b.extract(upper, 0))
        if rest is not None:
            raise InternalError(f"{lanes} lanes do not halve")
        lanes = half
    return vector


def tree(b: Builder, values: Sequence[Operand], combine: Callable[[Operand, Operand], Operand]) -> Operand:
    """Independent chains combined pairwise."""
    left = list(values)
    while len(left) > 1:
        left = [combine(*left[at : at + 2]) if at + 1 < len(left) else left[at] for at in range(0, len(left), 2)]
    return left[0]


def transposed(b: Builder, rows: Sequence[Operand]) -> list[Operand]:
    """n vectors of n lanes (n a power of two) as their columns: log2 n rounds, each exchanging blocks of lanes.

    Round with distance d swaps, in every pair of rows d apart, the blocks of d lanes that are off the diagonal.
    """
    count = len(rows)
    current = list(rows)
    distance = count // 2
    while distance >= 1:
        following = list(current)
        for at in range(count):
            if at & distance:
                continue
            upper, lower = current[at], current[at + distance]
            keep = [lane if not lane & distance else count + lane - distance for lane in range(count)]
            take = [lane + distance if not lane & distance else count + lane for lane in range(count)]
            following[at] = b.shuffle(upper, lower, keep)
            following[at + distance] = b.shuffle(upper, lower, take)
        current = following
        distance //= 2
    return current


def lane_numbers(lanes: int, step: int = 1) -> Operand:
    return vector_const(I64, [lane * step for lane in range(lanes)])
