"""LOAD, GATHER, STORE and ATOMIC sTasks: bulk tensor copies, and element accesses from registers.

Subscripts become C expressions of the index along each tensor dimension. A bulk copy needs each tile axis to stand
alone, with coefficient 1, in one dimension; everything else of its subscript is uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.driver import MapSpec
from threadloom.targets.cuda.elements import read
from threadloom.targets.cuda.layout import Layout, Source
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.registers import Place, Registers, Scope, unroll
from threadloom.targets.cuda.shared import BOX_ALIGN_BYTES, SharedTile
from threadloom.targets.cuda.unsupported import no_code
from threadloom.tile import ops as tile


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What is known of a tensor when code is written: which dimension is contiguous (-1: none), and whether base, the
    other strides and the contiguous extent are multiples of 16 bytes (bulk copies, vector accesses). `granules`: for
    axes of the kernel whose tiles do not begin at multiples of 16, of what they do."""

    tensor: tile.Tensor
    contiguous_dim: int
    aligned: bool
    granules: tuple[tuple[str, int], ...] = ()


BOX_GRANULE_BYTES = 16

# ---------------------------------------------------------------- bulk copies


def bulk_axes(op: tile.Load | tile.Store) -> tuple[str | None, ...] | None:
    """The tile axis of each tensor dimension (None: a uniform index); None where no bulk copy can do this access."""
    found: list[str | None] = []
    for s in op.subscripts:
        axes = [t for t in s.terms if t.axis is not None]
        if any(t.value is not None and t.value.type.axes for t in s.terms):
            return None
        tiled = [t for t in axes if t.axis in _tile_axes(op)]
        if len(tiled) > 1 or any(t.coefficient != 1 for t in tiled):
            return None
        found.append(tiled[0].axis if tiled else None)
    named = [a for a in found if a]
    return tuple(found) if len(named) == len(set(named)) else None


def _tile_axes(op: tile.Load | tile.Store) -> tuple[str, ...]:
    return op.result.type.axes if isinstance(op, tile.Load) else op.value.type.axes


def map_spec(
    facts: TensorFacts, axes: tuple[str | None, ...], box: dict[str, int], swizzle_bytes: int, shared: SharedTile
) -> MapSpec:
    """Tensor map for boxes of `box` elements along each tile axis (1 along the others) of a tile `shared`. Beside the
    only box lies what another tile will want, and it is fetched with it. Between boxes of one tile that asks
    for the same bytes twice: attention of 32 sequences of 8192 keys took 260 us so, and 241 without."""
    dims = order_in_tile(facts, axes, shared)
    sides = [box.get(axes[d], 1) if axes[d] else 1 for d in dims]
    sides[0] //= per_byte(facts)
    return MapSpec(
        facts.tensor.name,
        facts.tensor.dtype.name,
        dims,
        tuple(sides),
        swizzle_bytes,
        128 if shared.panels > 1 else 256,
    )


def per_byte(facts: TensorFacts) -> int:
    """Elements to a byte along the contiguous dimension, which bulk copies count in bytes then."""
    return max(1, 8 // facts.tensor.dtype.bits)


def order_of_dims(facts: TensorFacts) -> tuple[int, ...]:
    """Dimensions innermost (contiguous) first, the others from last to first."""
    rest = [d for d in reversed(range(len(facts.tensor.dims))) if d != facts.contiguous_dim]
    return (facts.contiguous_dim, *rest)


def order_in_tile(facts: TensorFacts, axes: tuple[str | None, ...], shared: SharedTile) -> tuple[int, ...]:
    """The same, with the dimensions of the tile's rows in the order in which the rows lie in shared memory."""
    own = {axis: d for d, axis in enumerate(axes) if axis and axis != shared.column_axis}
    left = iter([own[axis] for axis, _ in reversed(shared.row_axes)])
    return tuple(next(left) if d in own.values() else d for d in order_of_dims(facts))


def emit_bulk_load(
    scope: Scope,
    op: tile.Load,
    facts: TensorFacts,
    shared: SharedTile,
    map_name: str,
    slot: str,
    barrier: str,
    one_thread: str = "",
    multicast: int = 1,
) -> None:
    """Issue the boxes of one tile into slot `slot`; they complete on `barrier` (its bytes are already expected).
    `one_thread`: C condition that chooses the issuing thread, where several run this code; `multicast`: blocks that
    bring the tile together, each its share of the rows to all of them."""
    axes = bulk_axes(op)
    if axes is None:
        raise no_code(f"the load of {op.tensor}", "its subscripts have no boxes", op.loc)
    boxes = box_extents(shared, multicast)
    base = shared.base + (f" + {slot} * {shared.bytes_per_slot}" if shared.slots > 1 else "")
    rows_axis, rows = shared.row_axes[0] if shared.row_axes else ("", 1)
    row_bytes = shared.row_bytes * (shared.true_rows // max(1, rows))
    mine = rows // multicast
    if any(boxes[axis] < extent for axis, extent in shared.row_axes[1:]):
        raise no_code(f"the load of {op.tensor}", "only the slowest axis of its rows may be longer than a box", op.loc)
    if multicast > 1 and (rows % multicast or mine * row_bytes % (8 * shared.row_bytes)):
        raise no_code(f"the load of {op.tensor}", f"{multicast} blocks cannot share its {rows} rows", op.loc)
    for panel in range(shared.panels):
        for row in range(0, mine, boxes.get(rows_axis, mine) or 1):
            at = panel * shared.panel_bytes + row * row_bytes
            if at % BOX_ALIGN_BYTES:
                raise no_code(f"the load of {op.tensor}", f"a box would begin {at} bytes into its tile", op.loc)
            moved = " + ".join(x for x in (f"block_in_cluster * {mine}" if multicast > 1 else "", str(row)) if x)
            shift = {shared.column_axis: str(panel * shared.panel_columns), rows_axis: moved.removesuffix(" + 0")}
            dims = order_in_tile(facts, axes, shared)
            at_dims = [uniform_index(scope, op.subscripts[d], shift) for d in dims]
            if per_byte(facts) > 1 and at_dims[0] != "0":
                at_dims[0] = f"({at_dims[0]}) / {per_byte(facts)}"
            coordinates = ", ".join(at_dims)
            to = f"{base}{f' + {at}' if at else ''}"
            if multicast > 1:
                to += f" + block_in_cluster * {mine * row_bytes}"
                what = f"bulk_load_all({to}, &{map_name}, {barrier}, {hex(2**multicast - 1)}, {coordinates})"
            else:
                what = f"bulk_load({to}, &{map_name}, {barrier}, {coordinates})"
            scope.writer.line(f"{one_thread}{what};")


def box_extents(shared: SharedTile, multicast: int = 1) -> dict[str, int]:
    """Elements of one box along each axis of the tile: at most one panel wide and 256 rows high; of the first axis of
    its rows, the share of one of `multicast` blocks."""
    boxes = {shared.column_axis: shared.panel_columns}
    for at, (axis, extent) in enumerate(shared.row_axes):
        boxes[axis] = _largest_piece(extent // multicast if at == 0 else extent)
    return boxes


def _largest_piece(extent: int) -> int:
    pieces = -(-extent // 256)
    while extent % pieces:
        pieces += 1
    return extent // pieces


def uniform_index(scope: Scope, subscript: tile.Subscript, shift: dict[str, str]) -> str:
    """C expression of a uniform index: first positions of axes (moved by `shift`), scalars and the offset."""
    terms = []
    for t in subscript.terms:
        if t.axis is not None:
            text = scope.places[t.axis].first
            moved = shift.get(t.axis, "0")
            text = " + ".join(x for x in (text, moved) if x != "0") or "0"
        else:
            text = scope.scalar(t.value.name)
        if text != "0":
            terms.append(text if t.coefficient == 1 else f"{t.coefficient} * ({text})")
    if subscript.offset:
        terms.append(str(subscript.offset))
    return " + ".join(terms) or "0"


# ---------------------------------------------------------------- accesses from registers


def emit_load(scope: Scope, op: tile.Load, facts: TensorFacts, result: Registers) -> None:
    """Each thread loads the elements its layout gives it; elements outside the tensor are 0."""
    w, layout = scope.writer, result.layout
    vector = vector_elems(op.subscripts, facts, layout)
    tensor = facts.tensor
    if layout.registers == 1:
        w.line(f"{result.name}[0] = {_load_expression(scope, op, tensor, layout, '0')};")
        return
    w.line(unroll(layout.registers, result.dtype))
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        if vector == 1:
            w.line(f"{result.name}[i] = {_load_expression(scope, op, tensor, layout, 'i')};")
            return
        indices = element_indices(scope, op.subscripts, layout, "i")
        kind, bytes_ = c.memory_type(tensor.dtype), vector * tensor.dtype.bits // 8
        w.line(f"{kind} piece[{bytes_ if tensor.dtype.bits < 8 else vector}];")
        valid = inside(tensor, indices)
        address = f"&{identifier(tensor.name)}[{offset(tensor, indices)}]"
        w.line(f"load_vector<{bytes_}>(piece, {address}, {valid});")
        w.line("#pragma unroll")
        value = c.nibble("piece", "e") if tensor.dtype.bits < 8 else c.from_memory(tensor.dtype, "piece[e]")
        w.line(f"for (int e = 0; e < {vector}; e++) {result.name}[i + e] = {value};")


def emit_store(scope: Scope, op: tile.Store | tile.AtomicAdd, facts: TensorFacts, layout: Layout) -> None:
    """Each thread stores (or adds) the elements it holds; replicated elements are stored by one thread."""
    w, tensor = scope.writer, facts.tensor
    atomic = isinstance(op, tile.AtomicAdd)
    if tensor.dtype.bits < 8:
        _emit_store_nibbles(scope, op, facts, layout)
        return
    vector = 1 if atomic else vector_elems(op.subscripts, facts, layout)
    source = op.value.type.dtype
    missing = missing_axes(scope, op)
    owner = "" if missing else owner_test(layout)
    with w.block(f"if ({owner})" if owner else ""), _along(scope, missing, layout):
        w.line(unroll(layout.registers, source))
        with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
            indices = element_indices(scope, op.subscripts, layout, "i")
            valid = inside(tensor, indices, _valid(scope, op.value, layout))
            address = f"&{identifier(tensor.name)}[{offset(tensor, indices)}]"

            def element(register: str) -> str:
                return c.to_memory(
                    tensor.dtype, c.convert(source, tensor.dtype, read(scope, op.value, layout, register))
                )

            bytes_ = vector * tensor.dtype.bits // 8
            if not atomic and vector > 1 and tensor.dtype.name in c.PAIRED and source.is_float:
                w.line(f"u32 words[{vector // 2}];")
                w.line("#pragma unroll")
                pair = (read(scope, op.value, layout, f"(i + 2 * e + {k})") for k in (0, 1))
                packed = f"pack_{tensor.dtype.name}({', '.join(c.convert(source, tensor.dtype, x) for x in pair)})"
                w.line(f"for (int e = 0; e < {vector // 2}; e++) words[e] = {packed};")
                w.line(f"store_words<{bytes_}>({address}, words, {valid});")
            elif atomic:
                value = c.convert(source, tensor.dtype, read(scope, op.value, layout, "i"))
                w.line(f"if ({valid}) {c.atomic_add(tensor.dtype, address, value)};")
            elif vector == 1:
                w.line(f"if ({valid}) *({address}) = {element('i')};")
            else:
                w.line(f"{c.memory_type(tensor.dtype)} piece[{vector}];")
                w.line("#pragma unroll")
                w.line(f"for (int e = 0; e < {vector}; e++) piece[e] = {element('i + e')};")
                w.line(f"store_vector<{bytes_}>({address}, piece, {valid});")


def _emit_store_nibbles(scope: Scope, op: tile.Store | tile.AtomicAdd, facts: TensorFacts, layout: Layout) -> None:
    """Two elements a byte, the low half first. A last element alone leaves 0 beside it."""
    w, tensor, source = scope.writer, facts.tensor, op.value.type.dtype
    if missing_axes(scope, op) or not _holds_pairs(scope, op, facts, layout):
        _emit_store_halves(scope, op, facts, layout)
        return
    owner = owner_test(layout)
    with w.block(f"if ({owner})" if owner else ""):
        w.line(unroll(layout.registers, source))
        with w.block(f"for (int i = 0; i < {layout.registers}; i += 2)"):
            valid, halves = [], []
            for register in ("i", "(i + 1)"):
                indices = element_indices(scope, op.subscripts, layout, register)
                valid.append(inside(tensor, indices, _valid(scope, op.value, layout, register)))
                value = c.convert(source, tensor.dtype, read(scope, op.value, layout, register))
                halves.append(f"(({value}) & 15)")
            indices = element_indices(scope, op.subscripts, layout, "i")
            address = f"{identifier(tensor.name)}[{offset(tensor, indices)}]"
            w.line(f"if ({valid[0]}) {address} = (u8)({halves[0]} | ({valid[1]} ? {halves[1]} : 0) << 4);")


def _emit_store_halves(scope: Scope, op: tile.Store, facts: TensorFacts, layout: Layout) -> None:
    """Element by element, where the two of a byte are in different threads."""
    w, tensor, missing = scope.writer, facts.tensor, missing_axes(scope, op)
    owner = "" if missing else owner_test(layout)
    with w.block(f"if ({owner})" if owner else ""), _along(scope, missing, layout):
        w.line(unroll(layout.registers, op.value.type.dtype))
        with w.block(f"for (int i = 0; i < {layout.registers}; i++)"):
            indices = element_indices(scope, op.subscripts, layout, "i")
            valid, last = inside(tensor, indices, _valid(scope, op.value, layout)), indices[-1]
            value = c.convert(op.value.type.dtype, tensor.dtype, read(scope, op.value, layout, "i"))
            at = f"&{identifier(tensor.name)}[{offset(tensor, indices)}]"
            ends = f"({last}) + 1 == {dim_name(tensor.dims[-1])}"
            w.line(f"if ({valid}) store_nibble({at}, ({last}) & 1, (u32)({value}) & 15, {ends});")


def _holds_pairs(scope: Scope, op: tile.Store, facts: TensorFacts, layout: Layout) -> bool:
    """Whether each pair of elements that share a byte is in neighbouring registers of one thread, of one tile."""
    digits, last = layout.of(Source.REGISTER), len(op.subscripts) - 1
    if not digits or digits[0].stride != 1 or digits[0].size % 2 or facts.contiguous_dim != last:
        return False
    axis, s = digits[0].axis, op.subscripts[last]
    others = [t.axis for o in op.subscripts[:last] for t in o.terms]
    alone = len(s.terms) == 1 and s.terms[0].axis == axis and s.terms[0].coefficient == 1 and s.offset % 2 == 0
    place = scope.places[axis] if alone else None
    whole = place is not None and (place.full or place.stop == dim_name(facts.tensor.dims[last]))
    return alone and whole and axis not in others and dict(facts.granules).get(axis, 2) % 2 == 0


def missing_axes(scope: Scope, op: tile.Store | tile.AtomicAdd) -> tuple[str, ...]:
    """Axes of a store's subscripts that its value lacks: every position along them gets the same."""
    terms = [t for s in op.subscripts for t in s.terms]
    for t in terms:
        if t.value is not None and not set(t.value.type.axes) <= set(op.value.type.axes):
            raise no_code(f"a store to {op.tensor}", f"its index {t.value.name} has axes that the value lacks", op.loc)
    named = dict.fromkeys(t.axis for t in terms if t.axis is not None)
    return tuple(a for a in named if a not in op.value.type.axes and scope.places[a].extent > 1)


@contextmanager
def _along(scope: Scope, axes: tuple[str, ...], layout: Layout) -> Iterator[None]:
    """Loops over the valid positions of the current tile of `axes`, one at a time; along the last one, threads that
    hold the same element take turns."""
    outside = dict(scope.places)
    with ExitStack() as loops:
        for axis in axes:
            place, at = scope.places[axis], scope.fresh(f"{axis}_each")
            stop = f"{place.first} + {place.extent}" if place.first != "0" else str(place.extent)
            stop = stop if place.full else f"min({place.stop}, {stop})"
            mine, count = _replica(layout) if axis == axes[-1] else ("0", 1)
            first = " + ".join(x for x in (place.first, mine) if x != "0") or "0"
            loops.enter_context(scope.writer.block(f"for (i32 {at} = {first}; {at} < {stop}; {at} += {count})"))
            scope.places[axis] = Place(at, stop, 1, full=True)
        yield
    scope.places = outside


def _replica(layout: Layout) -> tuple[str, int]:
    """(C expression of a thread's number among those that hold the same element, how many these are)."""
    terms, count = [], 1
    for source, variable in ((Source.LANE, "lane"), (Source.WARP, "warp_in_group")):
        place = 1
        for d in layout.of(source):
            if not d.axis and d.size > 1:
                digit = f"{variable} / {place} % {d.size}" if place > 1 else f"{variable} % {d.size}"
                terms.append(f"{digit} * {count}" if count > 1 else digit)
                count *= d.size
            place *= d.size
    return " + ".join(terms) or "0", count


def _load_expression(scope: Scope, op: tile.Load, tensor: tile.Tensor, layout: Layout, register: str) -> str:
    return guarded_element(tensor, element_indices(scope, op.subscripts, layout, register))


def guarded_element(tensor: tile.Tensor, indices: list[str]) -> str:
    """C expression of one element, 0 outside the tensor."""
    value = c.from_memory(tensor.dtype, f"{identifier(tensor.name)}[{offset(tensor, indices)}]")
    if tensor.dtype.bits < 8:
        value = f"({identifier(tensor.name)}[{offset(tensor, indices)}] >> 4 * (({indices[-1]}) & 1)) & 15"
    return f"{inside(tensor, indices)} ? {value} : {c.register_type(tensor.dtype)}(0)"


def stored_element(tensor: tile.Tensor, indices: list[str]) -> str:
    """C expression of one element as it stands in memory, 0 outside the tensor."""
    value = f"{identifier(tensor.name)}[{offset(tensor, indices)}]"
    return f"{inside(tensor, indices)} ? {value} : {c.memory_type(tensor.dtype)}(0)"


def element_indices(scope: Scope, subscripts: tuple[tile.Subscript, ...], layout: Layout, register: str) -> list[str]:
    """C expression of the index along each tensor dimension for the element in `register`."""
    out = []
    for s in subscripts:
        terms = []
        for t in s.terms:
            if t.value is not None:
                text = read(scope, t.value, layout, register)
            elif t.axis in layout.axes:
                text = scope.index(layout, t.axis, register)
            else:
                text = scope.places[t.axis].first
            if text != "0":
                terms.append(text if t.coefficient == 1 else f"{t.coefficient} * ({text})")
        if s.offset:
            terms.append(str(s.offset))
        out.append(" + ".join(terms) or "0")
    return out


def offset(tensor: tile.Tensor, indices: list[str], contiguous: int = -1) -> str:
    """C expression of an element's distance from the tensor's first (two 4-bit elements are one byte). `contiguous`:
    the dimension whose stride is known to be 1."""
    if tensor.dtype.bits < 8:
        indices = [*indices[:-1], f"({indices[-1]} >> 1)"]
    strides = ["" if d == contiguous else f" * {identifier(tensor.name)}_stride{d}" for d in range(len(indices))]
    return " + ".join(f"(i64)({x}){s}" for x, s in zip(indices, strides, strict=True) if x != "0") or "0"


def inside(tensor: tile.Tensor, indices: list[str], more: list[str] | None = None) -> str:
    tests = [f"(u32)({x}) < (u32){dim_name(d)}" for x, d in zip(indices, tensor.dims, strict=True) if x != "0"]
    return " && ".join(tests + (more or [])) or "true"


def dim_name(dim: tile.Dim) -> str:
    return str(dim) if isinstance(dim, int) else f"dim_{dim}"


def _valid(scope: Scope, value: tile.Value, layout: Layout, register: str = "i") -> list[str]:
    """Tests that an element belongs to its tile: needed where a tile can end inside the tensor."""
    tests = []
    for axis in value.type.axes:
        place = scope.places[axis]
        if axis in layout.axes and not place.holds(layout.extent(axis)):
            tests.append(f"{scope.index(layout, axis, register)} < {place.end(layout.extent(axis))}")
    return tests


def owner_test(layout: Layout) -> str:
    """C condition that holds in one of the threads that hold the same element."""
    tests = []
    for source, variable in ((Source.LANE, "lane"), (Source.WARP, "warp_in_group")):
        place = 1
        for d in layout.of(source):
            if not d.axis and d.size > 1:
                tests.append(f"({variable} / {place}) % {d.size} == 0" if place > 1 else f"{variable} % {d.size} == 0")
            place *= d.size
    return " && ".join(tests)


def vector_elems(subscripts: tuple[tile.Subscript, ...], facts: TensorFacts, layout: Layout) -> int:
    """Elements of one access: the first register digit, where it runs along the contiguous dimension, aligned: what
    else its index has is a multiple of as many."""
    digits = layout.of(Source.REGISTER)
    if not digits or not facts.aligned or facts.contiguous_dim < 0 or digits[0].stride != 1:
        return 1
    s, size = subscripts[facts.contiguous_dim], digits[0].size
    along = [t for t in s.terms if t.axis == digits[0].axis]
    others = [t for t in s.terms if t.axis != digits[0].axis]
    if [t.coefficient for t in along] != [1] or s.offset % size or any(t.coefficient % size for t in others):
        return 1
    if any(t.value is not None and digits[0].axis in t.value.type.axes for t in others):
        return 1
    if dict(facts.granules).get(digits[0].axis, digits[0].size) % digits[0].size:
        return 1
    elsewhere = [t.axis for d, o in enumerate(subscripts) if d != facts.contiguous_dim for t in o.terms]
    bits = size * facts.tensor.dtype.bits
    return size if digits[0].axis not in elsewhere and bits in (16, 32, 64, 128) else 1
