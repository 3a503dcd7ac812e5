"""DOT sTasks by mma.sync: how the warps of the block share a product, where fragments come from, the instructions.

The eight warps stand as `warp_rows` x `warp_columns`. A warp computes every `warp_rows`-th block of 16 rows and, where
nothing needs whole rows, its own range of the columns; where a reduction or a following product does, every warp of a
row of warps has all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from threadloom.dtypes import Dtype
from threadloom.targets.cuda import simt
from threadloom.targets.cuda.dot import (
    DotPlan,
    computed_elems,
    fastest_rows,
    in_slices,
    main_axes,
    other_axes,
    sides,
)
from threadloom.targets.cuda.layout import Digit, Layout, Source
from threadloom.targets.cuda.other_axes import each_other, register_offset, slice_rows
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import ROW_BYTES, SharedTile
from threadloom.targets.cuda.shared_access import address
from threadloom.targets.cuda.team import BLOCK
from threadloom.task.ops import STask
from threadloom.tile import ops as tile

DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "i8": 32, "u8": 32, "f64": 4}  # of one instruction: 32 bytes
IN_REGISTERS = ("f16", "bf16", "tf32", "f64")  # row operands whose elements stand where threads computed them
BLOCK_ROWS, BLOCK_COLUMNS = 16, 8


@dataclass(frozen=True, slots=True)
class MmaPlan(DotPlan):
    """m: rows of the block's tile, whole blocks for each row of warps; n: columns; k: depth, whole instructions."""

    warp_rows: int = BLOCK.warps
    warp_columns: int = 1
    splits_columns: bool = False

    @property
    def slice_layout(self) -> Layout:
        if self.simt:
            return simt.layout_of(self.m_axis, self.n_axis, self.m, self.n, self.op.result.type.dtype, BLOCK.warps)
        return self._fragments(self.n_axis, self.n, self.splits_columns)

    @property
    def row_slice_layout(self) -> Layout:
        if self.simt:
            return simt.layout_of(self.m_axis, self.k_axis, self.m, self.k, self.op.result.type.dtype, BLOCK.warps)
        return self._fragments(self.k_axis, self.k, False)

    def _fragments(self, column_axis: str, columns: int, split: bool) -> Layout:
        """Results of mma (PTX ISA, mma.m16n8k16, fragments of C), blocks of 8 columns first, then blocks of rows."""
        mine = columns // self.warp_columns if split else columns
        digits = [
            Digit(Source.REGISTER, 2, column_axis, 1),
            Digit(Source.REGISTER, 2, self.m_axis, 8),
            Digit(Source.REGISTER, mine // BLOCK_COLUMNS, column_axis, BLOCK_COLUMNS),
        ]
        if self.row_blocks > 1:
            digits.append(Digit(Source.REGISTER, self.row_blocks, self.m_axis, BLOCK_ROWS * self.warp_rows))
        digits += [Digit(Source.LANE, 4, column_axis, 2), Digit(Source.LANE, 8, self.m_axis, 1)]
        if self.warp_rows > 1:
            digits.append(Digit(Source.WARP, self.warp_rows, self.m_axis, BLOCK_ROWS))
        if self.warp_columns > 1:
            digits.append(Digit(Source.WARP, self.warp_columns, column_axis if split else "", mine if split else 0))
        return Layout(tuple(digits))

    @property
    def row_blocks(self) -> int:
        """Blocks of 16 rows that a warp computes."""
        return self.m // (BLOCK_ROWS * self.warp_rows)

    @property
    def own_columns(self) -> int:
        return self.n // self.warp_columns if self.splits_columns else self.n

    @property
    def depth(self) -> int:
        return DEPTH[self.row_operand.type.dtype.name]


# ---------------------------------------------------------------- planning


def plan_products(
    tasks: list[STask],
    extents: dict[str, int],
    computed: frozenset[str],
    whole_axes: frozenset[str],
    contiguous: Callable[[tile.Value], str],
    rows: Mapping[str, str],
) -> dict[str, MmaPlan]:
    """sTask name -> plan. `computed`: operands that are in registers; `contiguous`: the contiguous axis of one that is
    in shared memory; `rows`: value -> the axis that a product wants along rows (`dot.wanted_rows`); `whole_axes`: axes
    along which warps must not share rows, because they are reduced or summed by a product of computed rows."""
    made: dict[str, MmaPlan] = {}
    for task in tasks:
        (op,) = [o for o in task.ops if isinstance(o, tile.Dot)]
        columns = {v.name: contiguous(v) for v in (op.a, op.b) if v.name not in computed}
        fastest, along = fastest_rows(made.values(), columns), rows.get(op.result.name, "")
        made[task.name] = _plan(op, extents, computed, columns, fastest, along)
    whole_axes |= {axis for p in made.values() if p.row_operand.name in computed or p.simt for axis in p.summed}
    for m_axis in {p.m_axis for p in made.values() if not p.simt}:
        group = {name: p for name, p in made.items() if p.m_axis == m_axis and not p.simt}
        warps = _warp_rows(list(group.values()), whole_axes)
        for name, p in group.items():
            made[name] = _arranged(p, warps, p.n_axis not in whole_axes)
    return made


def _plan(
    op: tile.Dot,
    extents: dict[str, int],
    computed: frozenset[str],
    contiguous: dict[str, str],
    fastest: Mapping[str, str] = MappingProxyType({}),
    rows: str = "",
) -> MmaPlan:
    """As `dot.plan_dot`, for all warps of the block."""
    row, column = sides(op, extents, extents, computed, max(extents.values(), default=1), rows)
    made = []
    for m_axis, n_axis, k_axis in main_axes(op, row, column, extents, extents):
        free = {row.name: m_axis, column.name: n_axis}
        takes = _mma_takes(row.type.dtype, column.type.dtype, row.name in computed) and bool(m_axis and n_axis)
        by_lanes = not takes or not all(
            in_slices(v, free[v.name], k_axis, contiguous, fastest) for v in (row, column) if v.name not in computed
        )
        if by_lanes:
            granules = simt.granules(row, column, n_axis, op.result.type.dtype, BLOCK.warps, row.name in computed)
        else:
            depth = max(DEPTH[row.type.dtype.name], BLOCK_COLUMNS if row.name in computed else 1)
            granules = BLOCK_ROWS, BLOCK_COLUMNS, depth
        m, n, k = (extents.get(a, 1) for a in (m_axis, n_axis, k_axis))
        plan = MmaPlan(
            op=op, row_operand=row, column_operand=column, m_axis=m_axis, n_axis=n_axis, k_axis=k_axis,
            m=_up(m, granules[0]), n=_up(n, granules[1]), k=_up(k, granules[2]), simt=by_lanes,
            others=other_axes(op, (m_axis, n_axis, k_axis), extents),
        )  # fmt: skip
        made.append((by_lanes, computed_elems(plan), plan))
    return min(made, key=lambda found: found[:2])[2]


def _mma_takes(row: Dtype, column: Dtype, in_registers: bool) -> bool:
    if row.name not in DEPTH or column.name not in DEPTH or (in_registers and row.name not in IN_REGISTERS):
        return False
    return row == column or {row.name, column.name} <= {"i8", "u8"}


def _warp_rows(group: list[MmaPlan], whole_axes: frozenset[str]) -> int:
    """Rows of warps for products of the same rows: as many as there are blocks of rows where any of them needs whole
    rows, else such that a warp reads as little as possible of both operands."""
    blocks = group[0].m // BLOCK_ROWS
    options = [r for r in (1, 2, 4, 8) if r <= BLOCK.warps and blocks % r == 0]
    if any(p.n_axis in whole_axes for p in group):
        return options[-1]
    widest = max(p.n for p in group)

    def fetched(r: int) -> tuple[int, int]:
        columns = BLOCK.warps // r
        return blocks // r * BLOCK_ROWS + _up(widest, columns * BLOCK_COLUMNS) // columns, -r

    return min(options, key=fetched)


def _arranged(p: MmaPlan, rows: int, splits: bool) -> MmaPlan:
    columns = BLOCK.warps // rows
    split = splits and columns > 1
    n = _up(p.n, BLOCK_COLUMNS * columns) if split else p.n
    return replace(p, n=n, warp_rows=rows, warp_columns=columns, splits_columns=split)


def _up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple


# ---------------------------------------------------------------- code


def emit_mma(
    scope: Scope, p: MmaPlan, row: SharedTile | Registers, column: SharedTile, result: Registers, slots: tuple[str, str]
) -> None:
    """Add the product to `result`. slots: C expressions of the slot of the row and the column operand."""
    with each_other(scope, p.others) as at:
        _emit_one(scope, p, row, column, result, slots, at)


def _emit_one(
    scope: Scope, p: MmaPlan, row: SharedTile | Registers, column: SharedTile, result: Registers,
    slots: tuple[str, str], at: dict[str, str],
) -> None:  # fmt: skip
    """The product at positions `at` of its other axes."""
    w = scope.writer
    kind = "double" if p.depth == DEPTH["f64"] else "u32"
    per_row, per_column = (2, 1) if kind == "double" else (4, 2)
    in_registers = isinstance(row, Registers)
    fragments = Fragments(scope, p, in_registers and p.depth in (DEPTH["tf32"], DEPTH["f64"]), at)
    first = register_offset(p.slice_layout, p.others, p.op.result, at)
    to = f"{result.name} + {first}" if first else result.name
    name = _instruction(p)
    blocks = p.own_columns // BLOCK_COLUMNS
    w.line("#pragma unroll")
    with w.block(f"for (int k = 0; k < {p.k // p.depth}; k++)"):
        w.line(f"{kind} x[{p.row_blocks}][{per_row}];")
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {p.row_blocks}; i++)"):
            fragments.from_registers(row) if in_registers else fragments.rows(row, slots[0])
        paired = blocks // 2 if fragments.by_matrices(column) else 0
        if paired:
            w.line("#pragma unroll")
            with w.block(f"for (int j = 0; j < {2 * paired}; j += 2)"):
                w.line(f"{kind} y[{2 * per_column}];")
                fragments.columns(column, slots[1], two=True)
                w.line("#pragma unroll")
                with w.block(f"for (int i = 0; i < {p.row_blocks}; i++)"):
                    w.line(f"{name}({to} + 4 * (i * {blocks} + j), x[i], y);")
                    w.line(f"{name}({to} + 4 * (i * {blocks} + j + 1), x[i], y + {per_column});")
        if blocks > 2 * paired:
            w.line("#pragma unroll")
            with w.block(f"for (int j = {2 * paired}; j < {blocks}; j++)"):
                w.line(f"{kind} y[{per_column}];")
                fragments.columns(column, slots[1], two=False)
                w.line("#pragma unroll")
                with w.block(f"for (int i = 0; i < {p.row_blocks}; i++)"):
                    w.line(f"{name}({to} + 4 * (i * {blocks} + j), x[i], y);")


def _instruction(p: MmaPlan) -> str:
    a, b = p.row_operand.type.dtype, p.column_operand.type.dtype
    return f"mma_{a.name}_{b.name}" if a.bits == 8 else f"mma_{a.name}"


@dataclass(frozen=True, slots=True)
class Fragments:
    """Writes what brings fragments of step `k`, row block `i` and column block `j` into `x[i]` and `y`.

    permuted: the depth's positions are dealt to lanes as the row operand's registers have them, two neighbours each."""

    scope: Scope
    p: MmaPlan
    permuted: bool
    at: dict[str, str]  # position along the product's other axes

    def by_matrices(self, shared: SharedTile) -> bool:
        """Whether ldmatrix can bring fragments: along the depth for any type, across it for 16 bits."""
        if not shared.swizzled or self.permuted or shared.dtype.bits == 64:
            return False
        return shared.column_axis == self.p.k_axis or shared.dtype.bits == 16

    def from_registers(self, row: Registers) -> None:
        p, w = self.p, self.scope.writer
        first = register_offset(p.row_slice_layout, p.others, p.row_operand, self.at)
        if row.packed:
            own = f"4 * (i * {p.k // p.depth} + k) + h"
            source = f"{row.name}[({first}) / 2 + {own}]" if first else f"{row.name}[{own}]"
            count = 4
        elif p.depth == DEPTH["tf32"]:
            own = _sum(first, f"4 * (i * {p.k // p.depth} + k) + 2 * (h % 2) + h / 2")
            source = f"__float_as_uint({row.name}[{own}])"
            count = 4
        else:
            source = f"{row.name}[{_sum(first, f'4 * (i * {p.k // BLOCK_COLUMNS} + k / 2) + 2 * h + k % 2')}]"
            count = 2
        w.line("#pragma unroll")
        w.line(f"for (int h = 0; h < {count}; h++) x[i][h] = {source};")

    def rows(self, shared: SharedTile, slot: str) -> None:
        p, w = self.p, self.scope.writer
        own = f"warp_in_group % {p.warp_rows} * {BLOCK_ROWS}" if p.warp_rows > 1 else ""
        first = _sum(own, f"i * {BLOCK_ROWS * p.warp_rows}")
        if not self.by_matrices(shared):
            self._elements("x[i]", shared, slot, p.m_axis, 4 if shared.dtype.bits < 64 else 2, True, first)
            return
        if shared.column_axis == p.k_axis:
            w.line(f"load_matrices(x[i], {self._along(shared, slot, f'{first} + lane % 16', 'lane / 16')});")
        else:
            inner = "lane / 16 * 8 + lane % 8"
            chunk = f"({first}) / 8 + lane / 8 % 2"
            w.line(f"load_matrices_turned(x[i], {self._across(shared, slot, inner, chunk)});")

    def columns(self, shared: SharedTile, slot: str, two: bool) -> None:
        p, w = self.p, self.scope.writer
        first = _sum(f"warp_in_group / {p.warp_rows} * {p.own_columns}" if p.splits_columns else "", "j * 8")
        if not self.by_matrices(shared):
            self._elements("y", shared, slot, p.n_axis, 2 if shared.dtype.bits < 64 else 1, False, first)
            return
        load = "load_matrices" if two else "load_two_matrices"
        if shared.column_axis == p.k_axis:
            rows = f"{first} + lane / 16 * 8 + lane % 8" if two else f"{first} + lane % 8"
            w.line(f"{load}(y, {self._along(shared, slot, rows, 'lane / 8 % 2')});")
        else:
            chunk = f"({first}) / 8 + lane / 16" if two else f"({first}) / 8"
            w.line(f"{load}_turned(y, {self._across(shared, slot, 'lane / 8 % 2 * 8 + lane % 8', chunk)});")

    def _base(self, shared: SharedTile, slot: str) -> str:
        first = slice_rows(shared, self.at)
        part = f"({first}) * {ROW_BYTES}" if first else ""
        return _sum(shared.base, f"{slot} * {shared.bytes_per_slot}" if shared.slots > 1 else "", part)

    def _along(self, shared: SharedTile, slot: str, row: str, half: str) -> str:
        """C expression of a chunk's address in a tile whose rows run along the depth."""
        panel = f" + k / 4 * {shared.panel_bytes}" if shared.panels > 1 else ""
        step = "k % 4 * 2" if shared.panels > 1 else "k * 2"
        return f"chunk_at({self._base(shared, slot)}{panel} + ({row}) * 128, {step} + {half}, lane)"

    def _across(self, shared: SharedTile, slot: str, inner: str, chunk: str) -> str:
        """C expression of a chunk's address in a tile whose rows stand across the depth."""
        panel = f" + ({chunk}) / 8 * {shared.panel_bytes}" if shared.panels > 1 else ""
        inside = f"({chunk}) % 8" if shared.panels > 1 else chunk
        return f"chunk_at({self._base(shared, slot)}{panel} + (k * 16 + {inner}) * 128, {inside}, lane)"

    def _elements(
        self, name: str, shared: SharedTile, slot: str, axis: str, count: int, is_row: bool, first: str
    ) -> None:
        """`name`[h] element by element, where neither form of ldmatrix fits."""
        p, w, bits = self.p, self.scope.writer, shared.dtype.bits
        half = "h % 2" if is_row else "0"
        later = "h / 2" if is_row and bits < 64 else "0" if bits == 64 else "h"
        position = f"{first} + lane / 4" + (f" + {half} * 8" if is_row else "")
        if bits == 64:
            position = f"{first} + lane / 4" + (" + h * 8" if is_row else "")
            depth = "k / 2 * 8 + lane % 4 * 2 + k % 2" if self.permuted else "k * 4 + lane % 4"
        elif bits == 32:
            depth = f"k * 8 + lane % 4 * 2 + {later}" if self.permuted else f"k * 8 + lane % 4 + {later} * 4"
        elif bits == 16:
            depth = f"k * 16 + lane % 4 * 2 + {later} * 8 + e"
        else:
            depth = f"k * 32 + lane % 4 * 4 + {later} * 16 + e"
        where = {axis: position, p.k_axis: depth}
        down = [where[a] for a, _ in shared.row_axes if a in where]
        at_row = _sum(slice_rows(shared, self.at), *down) or "0"
        place = address(shared, slot, f"({at_row})", f"({where[shared.column_axis]})")
        w.line("#pragma unroll")
        with w.block(f"for (int h = 0; h < {count}; h++)"):
            if bits >= 32:
                w.line(f"{name}[h] = element_{'f64' if bits == 64 else 'b32'}({place});")
                return
            w.line(f"{name}[h] = 0;")
            w.line("#pragma unroll")
            w.line(f"for (int e = 0; e < {32 // bits}; e++) {name}[h] |= element_b{bits}({place}) << {bits} * e;")


def _sum(*terms: str) -> str:
    return " + ".join(t for t in terms if t) or "0"
