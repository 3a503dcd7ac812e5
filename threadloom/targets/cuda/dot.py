"""DOT sTasks: which operand gives the rows, where operands lie; as wgmma the instructions of one product (`simt.py`
has the form on ordinary arithmetic)."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.targets.cuda import simt
from threadloom.targets.cuda.layout import Layout, accumulator
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.unsupported import no_code
from threadloom.targets.cuda.wgmma import OPERANDS, Instruction
from threadloom.tile import ops as tile

MAX_N = 256
MOST_STEPS = 16  # written out: the assembler keeps the descriptor of each in registers, for the next time


@dataclass(frozen=True, slots=True)
class DotPlan:
    """One product: rows come from `row_operand` (the tile op's a or b), columns from `column_operand`.

    m: rows of one worker (multiple of 64), n: columns (multiple of 8), k: depth (multiple of the instruction's).
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

    @property
    def result_layout(self) -> Layout:
        if self.simt:
            return simt.layout_of(self.m_axis, self.n_axis, self.m, self.n, self.op.result.type.dtype)
        return accumulator(self.m_axis, self.n_axis, self.m, self.n)

    @property
    def row_operand_layout(self) -> Layout:
        """Layout of the row operand where it is in registers: an accumulator with k for columns."""
        if self.simt:
            return simt.layout_of(self.m_axis, self.k_axis, self.m, self.k, self.op.result.type.dtype)
        return accumulator(self.m_axis, self.k_axis, self.m, self.k)


def plan_dot(
    op: tile.Dot,
    extents: dict[str, int],
    worker_extents: dict[str, int],
    computed: frozenset[str],
    contiguous: dict[str, str],
) -> DotPlan:
    """Choose sides: a computed operand gives the rows (columns are read from shared memory only), else the operand
    whose axis the workers split, else the one with more rows. `computed`: operands that are in registers;
    `contiguous`: operand in shared memory -> its contiguous axis."""
    axis_a, axis_b, k_axis = free_and_summed(op)
    swap = op.b.name in computed and op.a.name not in computed
    if not swap and op.a.name not in computed:
        split_a = worker_extents.get(axis_a, 1) < extents.get(axis_a, 1)
        split_b = worker_extents.get(axis_b, 1) < extents.get(axis_b, 1)
        swap = (split_b and not split_a) or (
            split_a == split_b and extents.get(axis_b, 1) > MAX_N >= extents.get(axis_a, 1)
        )
    row, column, m_axis, n_axis = (op.b, op.a, axis_b, axis_a) if swap else (op.a, op.b, axis_a, axis_b)
    if column.name in computed:
        raise no_code("a product of two computed tiles", f"both {op.a.name} and {op.b.name} are in registers", op.loc)
    by_lanes = not _wgmma_takes(row, column, k_axis, computed, contiguous)
    if by_lanes:
        vector = simt.vector_of(op.result.type.dtype)
        granule_m, granule_n = 4 * simt.ROWS, simt.LANES * vector
        chunk = max(128 // v.type.dtype.bits for v in (row, column))
        granule_k = simt.LANES * vector if row.name in computed else chunk
    else:
        pieces = -(-extents.get(n_axis, 1) // MAX_N)  # equal ones
        granule_m, granule_n, granule_k = 64, 8 * pieces, OPERANDS[row.type.dtype.name][1]
    return DotPlan(
        op, row, column, m_axis, n_axis, k_axis, _up(worker_extents.get(m_axis, 1), granule_m),
        _up(extents.get(n_axis, 1), granule_n), _up(extents.get(k_axis, 1), granule_k), by_lanes,
    )  # fmt: skip


def free_and_summed(op: tile.Dot) -> tuple[str, str, str]:
    """The free axis of a, of b ("" none), and the summed one."""
    free_a = [x for x in op.a.type.axes if x not in op.over]
    free_b = [x for x in op.b.type.axes if x not in op.over]
    both = [x for x in free_a if x in free_b]
    if len(op.over) != 1 or len(free_a) > 1 or len(free_b) > 1 or both:
        why = f"rows {free_a}, columns {free_b}, summed {list(op.over)}; there is code for one axis each"
        raise no_code("this product", why, op.loc, "walk the other axes by tl.grid(tl.each(...)) or a stream")
    return (free_a or [""])[0], (free_b or [""])[0], op.over[0]


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


def _operand_type(value: tile.Value) -> str:
    return value.type.dtype.name


def _up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple


# ---------------------------------------------------------------- code


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

    slots: C expressions of the slot of the row and the column operand; accumulate: C expression, 0 to overwrite.
    """
    w = scope.writer
    pieces = -(-plan.n // MAX_N)
    n = plan.n // pieces
    i = instruction(plan, row, column, n)
    used.add(i)
    steps = plan.k // i.k
    w.line("#pragma unroll" if steps <= MOST_STEPS else "#pragma unroll 4")
    with w.block(f"for (int k = 0; k < {steps}; k++)"):
        flag = "1" if accumulate == "1" else f"k > 0 || {accumulate}" if accumulate != "0" else "k > 0"
        for m_block in range(plan.m // 64):
            for piece in range(pieces):
                a = _row_text(scope, plan, i, row, m_block, slots[0])
                b = _descriptor(i.b_mn_major, column, plan.n_axis, i, slots[1], piece * n, "")
                at = m_block * plan.n // 2 + piece * n // 2
                w.line(f"{i.name}({result.name}{f' + {at}' if at else ''}, {a}, {b}, {flag});")


def _row_text(scope: Scope, plan: DotPlan, i: Instruction, row: SharedTile | Registers, m_block: int, slot: str) -> str:
    if isinstance(row, Registers):
        return f"{row.name} + {m_block * plan.k // 4} + 4 * k" if m_block else f"{row.name} + 4 * k"
    return _descriptor(i.a_mn_major, row, plan.m_axis, i, slot, m_block * 64, worker_rows(row, plan.m_axis, plan.m))


def worker_rows(shared: SharedTile, axis: str, rows: int) -> str:
    """C name of the worker's first row in a tile that the workers split along `axis`, "" where they do not."""
    extent = dict(shared.row_axes).get(axis, shared.columns if shared.column_axis == axis else 0)
    return f"worker * {rows}" if extent > rows else ""


def _descriptor(mn_major: bool, shared: SharedTile, axis: str, i: Instruction, slot: str, at: int, worker: str) -> str:
    """C expression of the descriptor of k-step `k`, starting at position `at` of `axis` (of the worker's part)."""
    step_elems = i.k
    terms = [descriptor_name(shared, axis)]
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
