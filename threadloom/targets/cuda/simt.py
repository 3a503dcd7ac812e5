"""DOT sTasks on ordinary arithmetic: exact f32 and f64 products, integers, and operands that wgmma does not take.

A warp's lanes are 4 rows x 8 columns; a thread holds every 16th row (of 4 warps) and pieces of 16 bytes of every 8th
piece of the columns, so each operand element that it fetches serves several multiplications. Operands come from shared
memory in chunks of 16 bytes where they lie along the depth, else element by element; a row operand in registers is
passed around among the 8 lanes of its row by shuffles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.dtypes import Dtype
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Layout, rows
from threadloom.targets.cuda.other_axes import each_other, in_tile, register_offset
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.shared_access import address
from threadloom.tile import ops as tile

if TYPE_CHECKING:
    from threadloom.targets.cuda.dot import DotPlan

LANES = 8  # that share a row
ROWS = 4  # of a warp, one for each group of lanes


def vector_of(dtype: Dtype, axis: str) -> int:
    """Neighbours along a row that a thread holds; of a product with a vector, whose columns are all the same, one."""
    return max(1, 128 // max(32, dtype.bits)) if axis else 1


def layout_of(row_axis: str, column_axis: str, m: int, n: int, dtype: Dtype, warps: int = 4) -> Layout:
    """The register layout of results and row operands in registers; m a multiple of ROWS * warps, n of 8 * vector."""
    return rows(((row_axis, m),), column_axis, n, vector_of(dtype, column_axis), LANES, warps)


def granules(
    row: tile.Value, column: tile.Value, n_axis: str, dtype: Dtype, warps: int, in_registers: bool
) -> tuple[int, int, int]:
    """What rows, columns and depth are multiples of; `in_registers`: the row operand is."""
    chunk = max(128 // v.type.dtype.bits for v in (row, column))
    depth = LANES * vector_of(dtype, "k") if in_registers else chunk
    return ROWS * warps, LANES * vector_of(dtype, n_axis), depth


def emit_simt_dot(
    scope: Scope,
    plan: DotPlan,
    row: SharedTile | Registers,
    column: SharedTile,
    result: Registers,
    slots: tuple[str, str],
    accumulates: bool,
) -> None:
    """result (+)= row * column, by `plan`; slots: as in `dot.emit_dot`."""
    w = scope.writer
    if not accumulates:
        w.line(unroll(result.layout.registers, result.dtype))
        w.line(f"for (int i = 0; i < {result.layout.registers}; i++) {result.name}[i] = 0;")
    with each_other(scope, plan.others, unroll(result.layout.registers, result.dtype)) as at:
        _emit_one(scope, plan, row, column, result, slots, at)


def _emit_one(
    scope: Scope, plan: DotPlan, row: SharedTile | Registers, column: SharedTile, result: Registers,
    slots: tuple[str, str], at: dict[str, str],
) -> None:  # fmt: skip
    """The product at positions `at` of the other axes."""
    w, dtype = scope.writer, result.dtype
    kind, vector, n_vector = c.register_type(dtype), vector_of(dtype, plan.k_axis), vector_of(dtype, plan.n_axis)
    rows_at_once = ROWS * scope.team.warps
    own_rows, own_columns = plan.m // rows_at_once, plan.n // LANES
    step = _step(plan.k_axis, plan.k, row, column, vector)
    passes = f"for (int kk = 0; kk < {plan.k // (step * LANES)}; kk++)"
    if isinstance(row, Registers):
        w.line(unroll(row.layout.registers, row.dtype))
    with w.block(passes) if isinstance(row, Registers) else w.block(""):
        w.line("#pragma unroll 1")
        if isinstance(row, Registers):
            head, base = f"for (int depth = 0; depth < {LANES}; depth++)", f"(kk * {LANES} + depth) * {step}"
        else:
            head, base = f"for (int depth = 0; depth < {plan.k // step}; depth++)", f"depth * {step}"
        with w.block(head):
            w.line(f"{kind} from_rows[{own_rows}][{step}], from_columns[{own_columns}][{step}];")
            others = in_tile(scope, at)
            if isinstance(row, Registers):
                _fetch_registers(scope, plan, row, own_rows, step, at)
            else:
                first = f"lane / {LANES} + warp_in_group * {ROWS} + {rows_at_once} * i"
                where = others | {plan.m_axis: _in_tile(scope, plan.m_axis, first)}
                _fetch(scope, "from_rows", own_rows, where, row, plan.k_axis, base, step, slots[0], kind)
            first = f"(lane % {LANES} + i / {n_vector} * {LANES}) * {n_vector} + i % {n_vector}"
            where = others | {plan.n_axis: _in_tile(scope, plan.n_axis, first)}
            _fetch(scope, "from_columns", own_columns, where, column, plan.k_axis, base, step, slots[1], kind)
            first = register_offset(plan.slice_layout, plan.others, plan.op.result, at)
            to = f"{result.name}[{first} + i]" if first else f"{result.name}[i]"
            w.line(unroll(own_rows * own_columns, dtype))
            with w.block(f"for (int i = 0; i < {own_rows * own_columns}; i++)"):
                w.line("#pragma unroll")
                product = f"from_rows[i / {own_columns}][e] * from_columns[i % {own_columns}][e]"
                w.line(f"for (int e = 0; e < {step}; e++) {to} += {product};")


def _in_tile(scope: Scope, axis: str, position: str) -> str:
    """A position of the worker's part as one of the EU's tile."""
    offset = scope.places[axis].offset if axis in scope.places else "0"
    return position if offset == "0" else f"{offset} + {position}"


def _step(k_axis: str, k: int, row: SharedTile | Registers, column: SharedTile, vector: int) -> int:
    """Depth of one pass: what an access brings along it."""
    if isinstance(row, Registers):
        return vector
    chunks = [128 // t.dtype.bits for t in (row, column) if t.column_axis == k_axis]
    return min([*chunks, k]) if chunks else 1


def _fetch_registers(
    scope: Scope, plan: DotPlan, row: Registers, own_rows: int, step: int, at: dict[str, str]
) -> None:
    """`from_rows` of a row operand in registers, from the lane that holds it."""
    first = register_offset(plan.row_slice_layout, plan.others, plan.row_operand, at)
    place = f"i / {step} * {plan.k // LANES} + kk * {step} + i % {step}"
    place, lane = f"{first} + {place}" if first else place, f"lane / {LANES} * {LANES} + depth"
    scope.writer.line("#pragma unroll")
    with scope.writer.block(f"for (int i = 0; i < {own_rows * step}; i++)"):
        held = f"__shfl_sync(0xffffffffu, {row.name}[{place}], {lane})"
        scope.writer.line(f"from_rows[i / {step}][i % {step}] = {held};")


def _fetch(
    scope: Scope, name: str, count: int, position: dict[str, str], shared: SharedTile, k_axis: str, base: str,
    step: int, slot: str, kind: str,
) -> None:  # fmt: skip
    """`name`[i][e]: the elements at `position` (axis -> an expression of `i`) and `base` + e along the depth."""
    w, chunk = scope.writer, 128 // shared.dtype.bits
    along = shared.column_axis == k_axis
    size = min(step, chunk) if along else 1
    w.line("#pragma unroll")
    with w.block(f"for (int i = 0; i < {count}; i++)"):
        w.line("#pragma unroll")
        with w.block(f"for (int e = 0; e < {step}; e += {size})"):
            where = position | {k_axis: f"{base} + e"}
            terms, place = [], 1
            for a, extent in reversed(shared.row_axes):
                if a in where:
                    terms.append(f"({where[a]})" if place == 1 else f"({where[a]}) * {place}")
                place *= extent
            at_row = " + ".join(terms) or "0"
            at_column = where.get(shared.column_axis, "0")
            w.line(f"const u32 at_row = {at_row}, at_column = {at_column};")
            w.line(f"{c.memory_type(shared.dtype)} piece[{size}];")
            bytes_ = size * shared.dtype.bits // 8
            w.line(f"read_shared<{bytes_}>(piece, {address(shared, slot, 'at_row', 'at_column')});")
            w.line("#pragma unroll")
            element = f"({kind})({c.from_memory(shared.dtype, 'piece[f]')})"
            w.line(f"for (int f = 0; f < {size}; f++) {name}[i][e + f] = {element};")
