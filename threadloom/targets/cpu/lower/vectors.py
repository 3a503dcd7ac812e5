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


BLOCK_BYTES = 16  # in which x86 picks and interleaves elements of two vectors by one instruction


def transposed(b: Builder, rows: Sequence[Operand]) -> list[Operand]:
    """n vectors of n lanes (n a power of two) as their columns, in log2 n rounds.

    Round t pairs the vectors whose numbers differ in bit t. The first rounds interleave units of 1, 2 ... elements
    inside blocks of BLOCK_BYTES, the others pick every second block: bit t of a row's number becomes one of its lane's,
    and one of a lane's bits comes to number the vector. Every step is one instruction on x86 (unpack, then shuffles of
    blocks), and on Arm (zip).
    """
    count = len(rows)
    block = min(count, max(1, BLOCK_BYTES // size_bytes(rows[0].type.element)))
    current = list(rows)
    columns = [list(range(count)) for _ in rows]  # of the matrix, in each lane
    distance = 1
    while distance < count:
        picks = _interleaved(count, block, distance) if distance < block else _blocks(count, block)
        for at in (at for at in range(count) if not at & distance):
            pair, known = (current[at], current[at + distance]), columns[at] + columns[at + distance]
            for place, lanes in zip((at, at + distance), picks, strict=True):
                current[place] = b.shuffle(*pair, lanes)
                columns[place] = [known[lane] for lane in lanes]
        distance *= 2
    return [vector for _, vector in sorted(zip(columns, current, strict=True), key=lambda made: made[0][0])]


def _interleaved(count: int, block: int, unit: int) -> tuple[list[int], list[int]]:
    """Lanes (of two vectors) that interleave the units of the first halves of all blocks, and of the second ones."""
    low: list[int] = []
    for first in range(0, count, block):
        for at in range(first, first + block // 2, unit):
            low += [*range(at, at + unit), *range(count + at, count + at + unit)]
    return low, [lane + block // 2 for lane in low]


def _blocks(count: int, block: int) -> tuple[list[int], list[int]]:
    """Lanes of every second block of two vectors, and of the others."""
    even = [lane for first in range(0, 2 * count, 2 * block) for lane in range(first, first + block)]
    return even, [lane + block for lane in even]


def lane_numbers(lanes: int, step: int = 1) -> Operand:
    return vector_const(I64, [lane * step for lane in range(lanes)])
