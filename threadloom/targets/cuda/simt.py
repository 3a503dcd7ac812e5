"""DOT sTasks on ordinary arithmetic: exact f32 and f64 products, integers, and operands that wgmma does not take.

A warp's lanes are 4 rows x 8 columns; a thread holds every 16th row (of 4 warps) and pieces of 16 bytes of every 8th
piece of the columns, so each operand element that it fetches serves several multiplications. Operands come from shared
memory in chunks of 16 bytes where they lie along the depth, else element by element; a row operand in registers is
passed around among the 8 lanes of its row by shuffles.
"""

from __future__ import annotations

from threadloom.dtypes import Dtype
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Layout, rows
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.shared_access import address
from threadloom.tile import ops as tile

LANES = 8  # that share a row
ROWS = 4  # of a warp, one for each group of lanes


def vector_of(dtype: Dtype) -> int:
    """Neighbours along a row that a thread holds."""
    return max(1, 128 // max(32, dtype.bits))


def layout_of(row_axis: str, column_axis: str, m: int, n: int, dtype: Dtype, warps: int = 4) -> Layout:
    """The register layout of results and row operands in registers; m a multiple of ROWS * warps, n of 8 * vector."""
    return rows(((row_axis, m),), column_axis, n, vector_of(dtype), LANES, warps)


def emit_simt_dot(
    scope: Scope,
    op: tile.Dot,
    axes: tuple[str, str, str],
    extents: tuple[int, int, int],
    row: SharedTile | Registers,
    column: SharedTile,
    result: Registers,
    slots: tuple[str, str],
    accumulates: bool,
) -> None:
    """result (+)= row * column. axes: (m, n, k); extents: of one worker, padded; slots: as in `dot.emit_dot`."""
    (m_axis, n_axis, k_axis), (m, n, k) = axes, extents
    w, dtype = scope.writer, result.dtype
    kind, vector = c.register_type(dtype), vector_of(dtype)
    rows_at_once = ROWS * scope.team.warps
    own_rows, own_columns = m // rows_at_once, n // LANES
    if not accumulates:
        w.line("#pragma unroll")
        w.line(f"for (int i = 0; i < {result.layout.registers}; i++) {result.name}[i] = 0;")
    step = _step(k_axis, k, row, column, vector)
    w.line("#pragma unroll")
    with w.block(f"for (int kk = 0; kk < {k // (step * LANES)}; kk++)") if isinstance(row, Registers) else w.block(""):
        if isinstance(row, Registers):
            w.line("#pragma unroll 1")
            head, base = f"for (int depth = 0; depth < {LANES}; depth++)", f"(kk * {LANES} + depth) * {step}"
        else:
            w.line("#pragma unroll 1")
            head, base = f"for (int depth = 0; depth < {k // step}; depth++)", f"depth * {step}"
        with w.block(head):
            w.line(f"{kind} from_rows[{own_rows}][{step}], from_columns[{own_columns}][{step}];")
            if isinstance(row, Registers):
                per_row = k // LANES
                w.line("#pragma unroll")
                with w.block(f"for (int i = 0; i < {own_rows * step}; i++)"):
                    at = f"i / {step} * {per_row} + kk * {step} + i % {step}"
                    lane = f"lane / {LANES} * {LANES} + depth"
                    w.line(f"from_rows[i / {step}][i % {step}] = __shfl_sync(0xffffffffu, {row.name}[{at}], {lane});")
            else:
                first = f"lane / {LANES} + warp_in_group * {ROWS} + {rows_at_once} * i"
                offset = scope.places[m_axis].offset if m_axis in scope.places else "0"
                first = first if offset == "0" else f"{offset} + {first}"
                _fetch(scope, "from_rows", own_rows, first, row, m_axis, k_axis, base, step, slots[0], kind)
            first = f"(lane % {LANES} + i / {vector} * {LANES}) * {vector} + i % {vector}"
            _fetch(scope, "from_columns", own_columns, first, column, n_axis, k_axis, base, step, slots[1], kind)
            w.line("#pragma unroll")
            with w.block(f"for (int i = 0; i < {own_rows * own_columns}; i++)"):
                w.line("#pragma unroll")
                product = f"from_rows[i / {own_columns}][e] * from_columns[i % {own_columns}][e]"
                w.line(f"for (int e = 0; e < {step}; e++) {result.name}[i] += {product};")


def _step(k_axis: str, k: int, row: SharedTile | Registers, column: SharedTile, vector: int) -> int:
    """Depth of one pass: what an access brings along it."""
    if isinstance(row, Registers):
        return vector
    chunks = [128 // t.dtype.bits for t in (row, column) if t.column_axis == k_axis]
    return min([*chunks, k]) if chunks else 1


def _fetch(
    scope: Scope, name: str, count: int, position: str, shared: SharedTile, axis: str, k_axis: str, base: str,
    step: int, slot: str, kind: str,
) -> None:  # fmt: skip
    """`name`[i][e]: the elements at `position` (an expression of `i`) along `axis` and `base` + e along the depth."""
    w, chunk = scope.writer, 128 // shared.dtype.bits
    along = shared.column_axis == k_axis
    size = min(step, chunk) if along else 1
    w.line("#pragma unroll")
    with w.block(f"for (int i = 0; i < {count}; i++)"):
        w.line("#pragma unroll")
        with w.block(f"for (int e = 0; e < {step}; e += {size})"):
            where = {axis: position, k_axis: f"{base} + e"}
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
