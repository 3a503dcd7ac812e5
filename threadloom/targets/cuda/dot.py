"""DOT sTasks: which operand gives the rows, where operands lie; as wgmma the instructions of one product (`simt.py`
has the form on ordinary arithmetic)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from threadloom.sched.stacked_rows import are_stacked, stacked_axes
from threadloom.targets.cuda import simt
from threadloom.targets.cuda.layout import Layout, accumulator
from threadloom.targets.cuda.other_axes import each_other, for_each_other, in_tile, register_offset, slice_rows
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import ROW_BYTES, SharedTile
from threadloom.targets.cuda.unsupported import no_code
from threadloom.targets.cuda.wgmma import OPERANDS, Instruction
from threadloom.tile import ops as tile
from threadloom.tile.uses import operands

MAX_N = 256
MOST_STEPS = 16  # written out: the assembler keeps the descriptor of each in registers, for the next time


@dataclass(frozen=True, slots=True)
class DotPlan:
    """One product: rows come from `row_operand` (the tile op's a or b), columns from `column_operand`.

    m: rows of one worker (multiple of 64), n: its columns (multiple of 8), k: depth (multiple of the instruction's),
    each along one axis ("" where an operand is a vector). `others`: the product's further axes and their extents (batch
    axes, further rows, columns or depths): for every position along them there is one product of the three. `above`: an
    axis that the rows have too, and how many positions of it: their rows, m in all, lie below one another
    (sched/stacked_rows.py).
    """

    op: tile.Dot
    row_operand: tile.Value
    column_operand: tile.Value
    m_axis: str
    n_axis: str
    k_axis: str
    m: int
    n: int
    k: int
    simt: bool = False  # by ordinary arithmetic, not by wgmma
    others: tuple[tuple[str, int], ...] = ()
    above: tuple[str, int] = ("", 1)

    @property
    def m_extent(self) -> int:
        """Positions of one worker along `m_axis`."""
        return self.m // self.above[1]

    @property
    def parts(self) -> tuple[tuple[tile.Value, str, str, int], ...]:
        """Of each operand: the value, its axis in the product, the axis that workers may share, a worker's rows."""
        row = (self.row_operand, self.m_axis, self.above[0] or self.m_axis, self.m)
        return row, (self.column_operand, self.n_axis, self.n_axis, self.n)

    @property
    def result_layout(self) -> Layout:
        return for_each_other(self.slice_layout, self.others, self.op.result)

    @property
    def row_operand_layout(self) -> Layout:
        """Layout of the row operand where it is in registers: an accumulator with k for columns."""
        return for_each_other(self.row_slice_layout, self.others, self.row_operand)

    @property
    def slice_layout(self) -> Layout:
        """Layout of the result at one position along the other axes."""
        if self.simt:
            return simt.layout_of(self.m_axis, self.n_axis, self.m, self.n, self.op.result.type.dtype)
        return accumulator(self.m_axis, self.n_axis, self.m, self.n, self.above)

    @property
    def row_slice_layout(self) -> Layout:
        if self.simt:
            return simt.layout_of(self.m_axis, self.k_axis, self.m, self.k, self.op.result.type.dtype)
        return accumulator(self.m_axis, self.k_axis, self.m, self.k)

    def padded_depth(self, axis: str) -> int:
        """Positions along a summed axis that the product reads."""
        return self.k if axis == self.k_axis else dict(self.others)[axis]

    @property
    def summed(self) -> tuple[str, ...]:
        """All axes that are summed over."""
        return (self.k_axis, *(axis for axis, _ in self.others if axis in self.op.over))


def plan_dot(
    op: tile.Dot,
    extents: dict[str, int],
    worker_extents: dict[str, int],
    computed: frozenset[str],
    contiguous: dict[str, str],
    fastest: Mapping[str, str] = MappingProxyType({}),
    rows: str = "",
) -> DotPlan:
    """Choose sides: a computed operand gives the rows (columns are read from shared memory only), else the operand
    whose axis the workers split, else the one with the axis `rows` (`wanted_rows`), else the one with more rows.
    `computed`: operands that are in registers; `contiguous`: operand in shared memory -> its contiguous axis;
    `fastest`: of operands whose rows have several axes, the one along which other products need them one after the
    other."""
    row, column = sides(op, extents, worker_extents, computed, MAX_N, rows)
    if row.name in computed and any(worker_extents.get(x, 1) < extents.get(x, 1) for x in op.over):
        raise no_code("this product", f"workers share the depth of {row.name}, which is in registers", op.loc)
    made = []
    for m_axis, n_axis, k_axis in main_axes(op, row, column, worker_extents, extents):
        by_lanes = not m_axis or not n_axis or not _wgmma_takes(row, column, k_axis, computed, contiguous)
        free = {row.name: m_axis, column.name: n_axis}
        if not by_lanes:
            by_lanes = not all(in_slices(v, free[v.name], k_axis, contiguous, fastest) for v in (row, column)
                               if v.name not in computed)  # fmt: skip
        if by_lanes:
            granules = simt.granules(row, column, n_axis, op.result.type.dtype, 4, row.name in computed)
        else:
            pieces = -(-worker_extents.get(n_axis, 1) // MAX_N)  # equal ones
            granules = 64, 8 * pieces, OPERANDS[row.type.dtype.name][1]
        m, n, k = (worker_extents.get(m_axis, 1), worker_extents.get(n_axis, 1), extents.get(k_axis, 1))
        plan = DotPlan(
            op, row, column, m_axis, n_axis, k_axis, _up(m, granules[0]), _up(n, granules[1]), _up(k, granules[2]),
            by_lanes, other_axes(op, (m_axis, n_axis, k_axis), worker_extents),
        )  # fmt: skip
        made.append((by_lanes, computed_elems(plan), plan))
        if not by_lanes and (above := _above(plan, extents, worker_extents, computed, contiguous)):
            stacked = replace(plan, m=m * above[1], above=above,
                              others=tuple(o for o in plan.others if o[0] != above[0]))  # fmt: skip
            made.append((False, computed_elems(stacked), stacked))
    return min(made, key=lambda found: found[:2])[2]


def _above(
    plan: DotPlan, extents: dict[str, int], worker_extents: dict[str, int], computed: frozenset[str],
    contiguous: dict[str, str],
) -> tuple[str, int] | None:
    """The axis whose positions' rows can lie below one another in the product's, where those of one alone are no whole
    instruction's."""
    rows = stacked_axes(plan.op, plan.row_operand)
    if rows is None or rows[1] != plan.m_axis or plan.row_operand.name in computed:
        return None
    each, count = worker_extents.get(plan.m_axis, 1), worker_extents.get(rows[0], 1)
    whole = each == extents.get(plan.m_axis, 1) and contiguous.get(plan.row_operand.name) == plan.k_axis
    return (rows[0], count) if whole and are_stacked(each, count, 64) else None


def sides(
    op: tile.Dot, extents: dict[str, int], worker_extents: dict[str, int], computed: frozenset[str], most_columns: int,
    rows: str = "",
) -> tuple[tile.Value, tile.Value]:
    """(row operand, column operand). A vector gives the column, if it can."""
    if op.a.name in computed and op.b.name in computed:
        raise no_code("a product of two computed tiles", f"both {op.a.name} and {op.b.name} are in registers", op.loc)
    if op.a.name in computed or op.b.name in computed:
        return (op.b, op.a) if op.b.name in computed else (op.a, op.b)
    free_a, free_b = free_axes(op, op.a), free_axes(op, op.b)
    split_a, split_b = (any(worker_extents[x] < extents[x] for x in free) for free in (free_a, free_b))
    if not split_a and not split_b and (rows in free_a or rows in free_b):
        return (op.b, op.a) if rows in free_b else (op.a, op.b)
    size_a, size_b = (math.prod(extents.get(x, 1) for x in free) for free in (free_a, free_b))
    swap = (split_b and not split_a) or (split_a == split_b and size_b > most_columns >= size_a)
    swap = swap or (not free_a and bool(free_b) and not split_a)
    return (op.b, op.a) if swap else (op.a, op.b)


def wanted_rows(ops: Sequence[tile.Op], computed: frozenset[str]) -> dict[str, str]:
    """Value -> its axis along which a product wants rows that takes the value from registers, or takes what elementwise
    code makes of it: a product that makes it so needs no conversion of layouts."""
    found: dict[str, str] = {}
    for op in (o for o in ops if isinstance(o, tile.Dot)):
        for value in (op.a, op.b):
            free = free_axes(op, value)
            if value.name in computed and len(free) == 1:
                found.setdefault(value.name, free[0])
    for op in reversed(ops):
        if isinstance(op, tile.Map | tile.Cast) and op.result.name in found:
            for value in operands(op):
                if found[op.result.name] in value.type.axes:
                    found.setdefault(value.name, found[op.result.name])
    return found


def free_axes(op: tile.Dot, operand: tile.Value) -> list[str]:
    """The axes that only `operand` has."""
    other = op.b if operand is op.a else op.a
    return [x for x in operand.type.axes if x not in op.over and x not in other.type.axes]


def main_axes(
    op: tile.Dot, row: tile.Value, column: tile.Value, worker_extents: dict[str, int], extents: dict[str, int]
) -> Iterator[tuple[str, str, str]]:
    """The choices of one axis each for rows, columns and depth ("" where there is none), later axes of a tile first.
    Rows are along the axis that the workers split, where they do."""
    rows = free_axes(op, row)
    stacked = stacked_axes(op, row)
    shared = [x for x in rows if worker_extents.get(x, 1) < extents.get(x, 1)]
    rows = [*shared, *(stacked[1:] if stacked and stacked[0] in shared else ())] or rows
    columns = free_axes(op, column)
    for m_axis in reversed(rows or [""]):
        for n_axis in reversed(columns or [""]):
            for k_axis in reversed(op.over):
                yield m_axis, n_axis, k_axis


def other_axes(op: tile.Dot, main: tuple[str, ...], extents: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """The product's other axes and their extents, those that are summed last."""
    every = dict.fromkeys((*op.a.type.axes, *op.b.type.axes))
    left = [x for x in every if x not in main]
    left.sort(key=lambda x: x in op.over)
    return tuple((x, extents.get(x, 1)) for x in left)


def computed_elems(plan: DotPlan) -> int:
    """Multiplications that the padded product takes."""
    return plan.m * plan.n * plan.k * math.prod(extent for _, extent in plan.others)


def in_slices(
    value: tile.Value, free: str, k_axis: str, contiguous: dict[str, str], fastest: Mapping[str, str]
) -> bool:
    """Whether the operand can lie in shared memory such that its part for one position of the other axes is a matrix of
    whole rows one after the other."""
    column = contiguous.get(value.name, k_axis)
    if column not in (free, k_axis):
        return False
    down = free if column == k_axis else k_axis
    return fastest.get(value.name, down) == down


def fastest_rows(plans: Iterable[DotPlan], contiguous: Mapping[str, str]) -> dict[str, str]:
    """Operand in shared memory -> the axis along which the products `plans` need its rows one after the other."""
    found: dict[str, str] = {}
    for p in plans:
        for value, free in ((p.row_operand, p.m_axis), (p.column_operand, p.n_axis)):
            if value.name in contiguous and not p.simt:
                found.setdefault(value.name, free if contiguous[value.name] == p.k_axis else p.k_axis)
    return found


def _wgmma_takes(
    row: tile.Value, column: tile.Value, k_axis: str, computed: frozenset[str], contiguous: dict[str, str]
) -> bool:
    """Whether operands have types that wgmma multiplies; those that are not of 16 bits must lie along the depth."""
    a, b = row.type.dtype, column.type.dtype
    if a.name not in OPERANDS or b.name not in OPERANDS or OPERANDS[a.name][1] != OPERANDS[b.name][1]:
        return False
    if a.bits == 16:
        return a == b
    return row.name not in computed and all(contiguous.get(v.name) == k_axis for v in (row, column))


def _up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple


# ---------------------------------------------------------------- code


def _operand_type(value: tile.Value) -> str:
    return value.type.dtype.name


def instruction(plan: DotPlan, row: SharedTile | Registers, column: SharedTile, n: int) -> Instruction:
    in_registers = isinstance(row, Registers)
    return Instruction(
        n=n,
        a=_operand_type(plan.row_operand),
        b=_operand_type(plan.column_operand),
        a_in_registers=in_registers,
        a_mn_major=not in_registers and row.column_axis == plan.m_axis,
        b_mn_major=column.column_axis == plan.n_axis,
    )


def emit_dot(
    scope: Scope,
    plan: DotPlan,
    row: SharedTile | Registers,
    column: SharedTile,
    result: Registers,
    slots: tuple[str, str],
    accumulate: str,
    used: set[Instruction],
) -> None:
    """Issue the product into `result` (no fence, no commit, no wait: the sProgram says where those are).

    slots: C expressions of the slot of the row and the column operand; accumulate: "1", or "0" to overwrite.
    """
    w = scope.writer
    pieces = -(-plan.n // MAX_N)
    n = plan.n // pieces
    i = instruction(plan, row, column, n)
    used.add(i)
    steps = plan.k // i.k
    with each_other(scope, plan.others) as at:
        place = in_tile(scope, at)
        later = [f"{at[axis]} > 0" for axis in plan.summed[1:] if at[axis] != "0"]
        flag = "1" if accumulate == "1" else " || ".join(["k > 0", *later])
        first = register_offset(plan.slice_layout, plan.others, plan.op.result, at)
        w.line("#pragma unroll" if steps <= MOST_STEPS else "#pragma unroll 4")
        with w.block(f"for (int k = 0; k < {steps}; k++)"):
            for m_block in range(plan.m // 64):
                for piece in range(pieces):
                    a = _row_text(plan, i, row, m_block, slots[0], at, place)
                    b = _descriptor(i.b_mn_major, column, plan.n_axis, i, slots[1], piece * n, place)
                    own = m_block * plan.n // 2 + piece * n // 2
                    to = " + ".join(x for x in (result.name, first, str(own) if own else "") if x)
                    w.line(f"{i.name}({to}, {a}, {b}, {flag});")


def _row_text(
    plan: DotPlan, i: Instruction, row: SharedTile | Registers, m_block: int, slot: str, at: dict[str, str],
    place: dict[str, str],
) -> str:  # fmt: skip
    if isinstance(row, Registers):
        first = register_offset(plan.row_slice_layout, plan.others, plan.row_operand, at)
        first = f"({first}) / 2" if first else ""  # two to a register
        return " + ".join(x for x in (row.name, first, str(m_block * plan.k // 4) if m_block else "", "4 * k") if x)
    return _descriptor(i.a_mn_major, row, plan.m_axis, i, slot, m_block * 64, place)


def _descriptor(
    mn_major: bool, shared: SharedTile, axis: str, i: Instruction, slot: str, at: int, others: dict[str, str]
) -> str:
    """C expression of the descriptor of k-step `k`, starting at position `at` of `axis` (of the worker's part) and at
    positions `others` of the tile's other axes."""
    step_elems = i.k
    terms = [descriptor_name(shared, axis)]
    if first := slice_rows(shared, others):
        terms.append(f"({first}) * {ROW_BYTES >> 4}")
    if shared.slots > 1:
        terms.append(f"{slot} * {shared.bytes_per_slot >> 4}")
    if mn_major:
        if at:
            terms.append(str((at // shared.panel_columns * shared.panel_bytes) >> 4))
        terms.append(f"k * {(step_elems * 128) >> 4}")
    else:
        if at:
            terms.append(str((at * 128) >> 4))
        per_panel = shared.panel_columns // step_elems
        if shared.panels == 1:
            terms.append("k * 2")
        else:
            terms.append(f"k / {per_panel} * {shared.panel_bytes >> 4} + k % {per_panel} * 2")
    return " + ".join(terms)


def descriptor_name(shared: SharedTile, axis: str) -> str:
    """C name of the descriptor of a tile for products whose rows or columns are `axis`: a tile that is read along its
    rows by one product and across them by another has two."""
    return f"{shared.base}_desc" + ("_across" if shared.column_axis == axis else "")


def descriptor_base(shared: SharedTile, axis: str, worker: str) -> str:
    """C expression of the descriptor of slot 0 (`worker`: C expression of the worker's first position along `axis`)."""
    if shared.column_axis == axis:
        offset = f" + ({worker}) / {shared.panel_columns} * {shared.panel_bytes}" if worker else ""
        return f"descriptor_mn_major({shared.base}{offset}, {shared.panel_bytes})"
    offset = f" + ({worker}) * 128" if worker else ""
    return f"descriptor_k_major({shared.base}{offset})"
