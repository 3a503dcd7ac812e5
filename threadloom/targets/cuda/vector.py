"""VECTOR sTasks: elementwise code, reductions and scans on registers.

Consecutive elementwise operations whose results have the same register digits share one unrolled loop; values used
only inside it are plain variables. Positions of a tile beyond the axis' end hold garbage and stay so: they are
overwritten with the neutral element where a reduction (or, in `dot.py`, a product) would see them, under a branch that
is uniform and taken for the last tile only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.targets.cuda import across
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.across import emit_reduce_threads
from threadloom.targets.cuda.layout import Layout, Source, register_index
from threadloom.targets.cuda.masks import Mask, emit_mask, find_masks, masked
from threadloom.targets.cuda.positions import computed_in_place, narrow
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared_access import emit_piece, emit_read_shared
from threadloom.targets.cuda.unsupported import no_code
from threadloom.tile import ops as tile

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
WORTH_PIECES = 16  # registers from which on an operand in shared memory is fetched piece by piece
WORTH_REUSE = 8  # registers of an array from which on it is written over instead of declaring another

Elementwise = tile.Map | tile.Cast | tile.Full | tile.Index | tile.Const | tile.Bound | Mask


def emit_vector(
    scope: Scope,
    ops: tuple[tile.Op, ...],
    layouts: dict[str, Layout],
    kept: frozenset[str],
    dying: frozenset[str] = frozenset(),
) -> None:
    """Write `ops`. `layouts`: layout of every value they make; `kept`: values that later tasks or stores read; `dying`:
    values from outside that nobody reads after this task, whose registers may be reused."""
    dying |= frozenset(op.result.name for op in ops) - kept
    pending: list[Elementwise] = []
    layouts = computed_in_place(ops, layouts, kept)
    scope.narrow = narrow(ops, kept)
    ops = find_masks(ops, kept, dying)
    for k, op in enumerate(ops):
        if isinstance(op, Elementwise) and not _masks_registers(op, pending):
            pending.append(op)
            continue
        due, pending = _needed_for(op, pending)
        chain: list[Elementwise] = []
        if isinstance(op, tile.Reduce):
            due, chain = _fusible(op, due, layouts, kept | _read_by((*ops[k + 1 :], *pending)))
        needed = kept | _read_by((*ops[k:], *pending)) | _read_by(tuple(chain))
        _emit_loops(scope, due, layouts, needed, dying)
        match op:
            case tile.Reduce():
                emit_reduce(scope, op, layouts[op.result.name], chain, layouts)
            case Mask():
                bring(scope, op.source)
                emit_mask(scope, op, layouts[op.result.name])
            case tile.Scan():
                bring(scope, op.arg)
                emit_scan(scope, op, layouts[op.result.name])
            case _:
                raise InternalError(f"{type(op).__name__} is no vector operation")
    _emit_loops(scope, pending, layouts, kept, dying)


def _masks_registers(op: Elementwise, pending: list[Elementwise]) -> bool:
    """Whether `op` is a mask of what is in registers already, which a branch of its own may leave alone. One of what is
    about to be computed is part of that loop, which then needs no array."""
    return isinstance(op, Mask) and all(op.source.name != one.result.name for one in pending)


def _needed_for(op: tile.Op, pending: list[Elementwise]) -> tuple[list[Elementwise], list[Elementwise]]:
    """What `op` needs of `pending`, and the rest: elementwise code is written as late as possible, so that it shares a
    loop with its use and its result needs no array."""
    wanted = {v.name for v in operands(op)}
    due: list[Elementwise] = []
    for one in reversed(pending):
        if one.result.name in wanted:
            due.insert(0, one)
            wanted |= {v.name for v in operands(one)}
    return due, [p for p in pending if p not in due]


def _fusible(
    op: tile.Reduce, due: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str]
) -> tuple[list[Elementwise], list[Elementwise]]:
    """`due` without, and the part with, the operations that only make the reduction's operand: they run in its loop
    and their results need no registers of their own."""
    chain: list[Elementwise] = []
    wanted = {op.arg.name}
    for one in reversed(due):
        others = _read_by(tuple(d for d in due if d not in chain and d is not one))
        alike = layouts[one.result.name].of(Source.REGISTER) == layouts[op.arg.name].of(Source.REGISTER)
        if one.result.name in wanted and alike and one.result.name not in needed | others:
            chain.insert(0, one)
            wanted |= {v.name for v in operands(one)}
    if not chain or chain[-1].result.name != op.arg.name or layouts[op.arg.name].registers < WORTH_REUSE:
        return due, []
    return [d for d in due if d not in chain], chain


def _emit_loops(
    scope: Scope, ops: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str], dying: frozenset[str]
) -> None:
    """`ops` as loops: those with the same register digits share one where their order allows it. Built from the last
    operation backwards, so that what is used late is also computed late."""
    rest, groups = list(ops), []
    while rest:
        group: list[Elementwise] = []
        blocked: set[str] = set()  # values whose readers stay in earlier groups' way
        for op in reversed(rest):
            if _same_loop(layouts, rest[-1], op) and op.result.name not in blocked:
                group.insert(0, op)
            else:
                blocked |= {v.name for v in operands(op)}
        groups.insert(0, group)
        rest = [op for op in rest if op not in group]
    for k, group in enumerate(groups):
        _flush(scope, group, layouts, needed | _read_by(tuple(o for g in groups[k + 1 :] for o in g)), dying)


def _same_loop(layouts: dict[str, Layout], a: Elementwise, b: Elementwise) -> bool:
    la, lb = layouts[a.result.name], layouts[b.result.name]
    return la.of(Source.REGISTER) == lb.of(Source.REGISTER)


def _read_by(ops: tuple[tile.Op, ...]) -> frozenset[str]:
    return frozenset(v.name for op in ops for v in operands(op))


def operands(op: tile.Op) -> tuple[tile.Value, ...]:
    """The values `op` reads (not its subscripts' tensors)."""
    match op:
        case tile.Map():
            return op.args
        case tile.Cast() | tile.Reduce() | tile.Scan():
            return (op.arg,)
        case tile.Full():
            return (op.value,)
        case tile.Dot():
            return op.a, op.b
        case tile.Store() | tile.AtomicAdd():
            return (op.value, *subscript_values(op.subscripts))
        case tile.Load():
            return subscript_values(op.subscripts)
        case tile.If():
            return (op.cond,)
        case Mask():
            inside = dict(op.chain)
            outside = (v for made in inside.values() for v in operands(made) if v.name not in inside)
            return (op.source, op.fill, *outside)
    return ()


def subscript_values(subscripts: tuple[tile.Subscript, ...]) -> tuple[tile.Value, ...]:
    return tuple(t.value for s in subscripts for t in s.terms if t.value is not None)


# ---------------------------------------------------------------- elementwise loops


def _flush(
    scope: Scope, group: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str], dying: frozenset[str]
) -> None:
    if not group:
        return
    layout = layouts[group[0].result.name]
    if layout.registers == 1:
        for v in (v for op in group for v in operands(op)):
            bring(scope, v)
        for op in group:
            _define(scope, op, layouts[op.result.name], "0", as_array=op.result.name in needed)
        return
    for k, op in enumerate(group):
        if op.result.name in needed and op.result.name not in scope.registers:
            reused = _reusable(scope, group[: k + 1], group[k + 1 :], layouts, dying - needed)
            if reused is not None:
                scope.registers[op.result.name] = replace(reused, dtype=op.result.type.dtype)
                dying -= {reused.value}
            else:
                declare(scope, op.result, layouts[op.result.name])
    w = scope.writer
    with _loop(scope, layout, group):
        local = dict(scope.registers)
        for op in group:
            _note_difference(scope, op)
            if op.result.name in needed:
                target = scope.registers[op.result.name]
                w.line(f"{target.name}[i] = {_expression(scope, op, layouts[op.result.name], 'i')};")
            else:
                _define(scope, op, layouts[op.result.name], "i", as_array=False)
        scope.made_here.clear()
        for op in group:  # variables of the loop are gone after it
            if op.result.name not in needed:
                scope.registers.pop(op.result.name, None)
                if op.result.name in local:
                    scope.registers[op.result.name] = local[op.result.name]


@contextmanager
def _loop(scope: Scope, layout: Layout, ops: list[Elementwise], extra: tuple[tile.Value, ...] = ()) -> Iterator[None]:
    """A loop over registers `i` of `layout`. Operands that lie in shared memory are fetched in pieces of neighbours:
    the loop is then one over pieces with one over elements `e` inside."""
    wanted = {v.name: v for op in ops for v in operands(op)} | {v.name: v for v in extra}
    lazy = {name: scope.in_shared[name] for name in wanted if name in scope.in_shared and name not in scope.registers}
    w = scope.writer
    digits = layout.of(Source.REGISTER)
    for name, held in list(lazy.items()):
        if held.layout.of(Source.REGISTER)[0] != digits[0]:  # other neighbours: bring the whole
            emit_read_shared(scope, held.tile, declare(scope, wanted[name], held.layout), held.slot)
            del lazy[name]
    w.line("#pragma unroll")
    if not lazy:
        with w.block(f"for (int i = 0; i < {layout.registers}; i++)"):
            yield
        return
    size = digits[0].size
    with w.block(f"for (int p = 0; p < {layout.registers}; p += {size})"):
        for name, held in lazy.items():
            piece = scope.fresh(f"{name}_piece")
            at = register_index(layout, held.layout, "p")
            emit_piece(scope, held.tile, held.layout, held.slot, f"({at})", piece, size)
            scope.registers[name] = Registers(piece, wanted[name].type.dtype, held.layout, piece=True)
        w.line("#pragma unroll")
        with w.block(f"for (int e = 0; e < {size}; e++)"):
            w.line("const int i = p + e;")
            yield
    for name in lazy:
        scope.registers.pop(name, None)


def _reusable(
    scope: Scope, before: list[Elementwise], after: list[Elementwise], layouts: dict[str, Layout], dying: frozenset[str]
) -> Registers | None:
    """Registers of a value that the operations up to now read for the last time, of the shape the last one needs; a
    result that has a home takes no others."""
    result = before[-1].result
    home = scope.homes.get(result.name)
    wanted = (layouts[result.name], c.register_type(result.type.dtype))
    later = _read_by(tuple(after))
    for op in before:
        for arg in operands(op):
            held = scope.registers.get(arg.name)
            if held is None or arg.name not in dying or arg.name in later or home not in (None, held.name):
                continue
            large = held.layout.registers >= WORTH_REUSE and not scope.narrow & {arg.name, result.name}
            if large and (held.layout, c.register_type(held.dtype)) == wanted:
                return replace(held, value=arg.name)
    return None


def bring(scope: Scope, value: tile.Value) -> None:
    """Bring a value that lies in shared memory into registers."""
    held = scope.in_shared.get(value.name)
    if held is not None and value.name not in scope.registers:
        emit_read_shared(scope, held.tile, declare(scope, value, held.layout), held.slot)


def declare(scope: Scope, value: tile.Value, layout: Layout) -> Registers:
    """Declare the array of `value` (kept if it has one already: carried values are updated in place)."""
    known = scope.registers.get(value.name)
    if known and not known.scalar and known.layout == layout:
        return known
    made = Registers(scope.fresh(value.name), value.type.dtype, layout)
    scope.writer.line(f"{_kind(scope, value)} {made.name}[{layout.registers}];")
    scope.registers[value.name] = made
    return made


def _kind(scope: Scope, value: tile.Value) -> str:
    return "i32" if value.name in scope.narrow else c.register_type(value.type.dtype)


def _define(scope: Scope, op: Elementwise, layout: Layout, register: str, as_array: bool) -> None:
    value = op.result
    text = _expression(scope, op, layout, register)
    known = scope.registers.get(value.name)
    if as_array and value.type.axes:
        made = known if known and not known.scalar else declare(scope, value, layout)
        scope.writer.line(f"{made.name}[0] = {text};")
        return
    name = scope.fresh(value.name)
    scope.writer.line(f"const {_kind(scope, value)} {name} = {text};")
    scope.registers[value.name] = Registers(name, value.type.dtype, layout, scalar=True)


def _expression(scope: Scope, op: Elementwise, layout: Layout, register: str) -> str:
    match op:
        case tile.Map():
            args = [_widened(scope, op, a, read(scope, a, layout, register)) for a in op.args]
            if op.fn == "exp" and scope.rounds and op.args[-1].type.dtype.name != "f64":
                return _quick_exp(scope, op, layout, register)
            return _narrow(c.expression(op.fn, op.args[-1].type.dtype, args))
        case tile.Cast():
            value, kind = read(scope, op.arg, layout, register), c.register_type(op.result.type.dtype)
            if op.result.name in scope.unrounded and kind == c.register_type(op.arg.type.dtype):
                return value
            return c.convert(op.arg.type.dtype, op.result.type.dtype, value)
        case tile.Full():
            return read(scope, op.value, layout, register)
        case tile.Const():
            return literal(op.number, op.result.type.dtype)
        case tile.Bound():
            place = scope.places[op.axis]
            place = place.whole or place  # all roles must agree on bounds: the EU's tile, not a worker's part
            return place.first if op.which == "start" else f"min({place.first} + {place.extent}, {place.stop})"
        case tile.Index():
            return scope.index(layout, op.axis, register)
        case Mask():
            return masked(scope, op, layout, read(scope, op.source, layout, register), register)


def _widened(scope: Scope, op: tile.Map, arg: tile.Value, text: str) -> str:
    """`text` of an operand as the operation needs it: arithmetic whose result may not fit 32 bits is done in 64."""
    in_32_bits = op.result.name in scope.narrow or op.result.type.dtype.kind == "bool" or op.fn == "where"
    return text if in_32_bits or arg.name not in scope.narrow else f"(i64)({text})"


def _quick_exp(scope: Scope, op: tile.Map, layout: Layout, register: str) -> str:
    """exp by 2 to a power; of a difference by one multiplication and addition, the other factor being made once for
    the operand with fewer elements."""
    made = scope.made_here.get(op.args[0].name)
    if made is None:
        return _narrow(c.expression("exp_fast", op.args[0].type.dtype, [read(scope, op.args[0], layout, register)]))
    a, b = (read(scope, v, layout, register) for v in made.args)
    if _elements(scope, made.args[0]) <= _elements(scope, made.args[1]):
        return f"exp2_fast(fmaf({b}, -LOOM_LOG2E, {a} * LOOM_LOG2E))"
    return f"exp2_fast(fmaf({a}, LOOM_LOG2E, -({b} * LOOM_LOG2E)))"


def _elements(scope: Scope, value: tile.Value) -> int:
    """Elements of a value that a thread holds."""
    held = scope.registers[value.name]
    return held.layout.registers if value.type.axes else 0


def _note_difference(scope: Scope, op: Elementwise) -> None:
    """Remember a difference that this loop makes, for exponentials of it."""
    if isinstance(op, tile.Map) and op.fn == "sub" and op.result.type.dtype.is_float:
        scope.made_here[op.result.name] = op


def _narrow(text: str) -> str:
    """Drop the outer parentheses of a whole right-hand side."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]


def read(scope: Scope, value: tile.Value, layout: Layout, register: str) -> str:
    """C expression: the element of `value` that meets register `register` of `layout`."""
    held = scope.registers.get(value.name)
    if held is None:
        raise InternalError(f"{value.name} is not in registers here")
    if held.scalar:
        return held.name
    if held.piece:
        element = c.from_memory(held.dtype, f"{held.name}[e]")
        return f"(i32)({element})" if held.dtype.name in ("i8", "u8") else element
    if held.packed:
        return unpacked(held, register_index(layout, held.layout, register))
    return f"{held.name}[{_simplify(register_index(layout, held.layout, register))}]"


def unpacked(held: Registers, index: str) -> str:
    """C expression: element `index` of packed registers."""
    half = f"(u16)({held.name}[({index}) / 2] >> 16 * (({index}) % 2))"
    return c.from_memory(held.dtype, half)


def _simplify(index: str) -> str:
    return str(eval(index.replace("/", "//"))) if all(ch in "0123456789+-*/%() " for ch in index) else index


def literal(number: int | float | bool, dtype: Dtype) -> str:
    if dtype.kind == "bool":
        return "true" if number else "false"
    if not dtype.is_float:
        return f"{int(number)}{'LL' if abs(int(number)) >= 2**31 else ''}"
    value = float(number)
    if value != value:
        return "__int_as_float(0x7fffffff)"
    if value in (float("inf"), float("-inf")):
        return "LOOM_INF" if value > 0 else "-LOOM_INF"
    return repr(value) if dtype.name == "f64" else f"{value!r}f"


# ---------------------------------------------------------------- reductions


def overwrite_invalid(scope: Scope, held: Registers, axis: str, with_: str) -> None:
    """Give the positions beyond the end of `axis` the value `with_` (they are garbage by definition)."""
    place = scope.places[axis]
    covered = held.layout.extent(axis)
    if axis not in held.layout.axes or place.holds(covered):
        return
    w, end = scope.writer, place.end(covered)
    if covered <= place.extent and scope.assumes(f"{place.first} + {covered} <= {end}"):
        return
    with w.block(f"if ({place.first} + {covered} > {end})"):
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {held.layout.registers}; i++)"):
            w.line(f"if ({scope.index(held.layout, axis, 'i')} >= {end}) {held.name}[i] = {with_};")


def emit_reduce(
    scope: Scope, op: tile.Reduce, layout: Layout, chain: list[Elementwise], layouts: dict[str, Layout]
) -> None:
    """In registers first, then over the lanes that share a row by shuffles, then over warps through shared memory.

    chain: operations that make the operand, element by element in the same loop."""
    lazy = op.arg.name in scope.in_shared and op.arg.name not in scope.registers
    source = layouts[op.arg.name] if chain or lazy else scope.registers[op.arg.name].layout
    dtype = op.result.type.dtype
    if op.fn not in REDUCTIONS:
        raise no_code(f"{op.fn} along {op.axis}", "positions of extremes are not kept", op.loc)
    if (place := scope.places[op.axis]).whole is not None and place.whole.extent > place.extent:
        raise no_code(f"a {op.fn} along {op.axis}", "workers share that axis in this plan", op.loc)
    start = c.identity(op.fn, dtype)
    if not chain and not lazy:
        overwrite_invalid(scope, scope.registers[op.arg.name], op.axis, start)
    result = declare(scope, op.result, layout)
    w, n, chains = scope.writer, layout.registers, _chains(source, op.axis)
    parts = result.name
    if chains > 1:
        parts = scope.fresh(f"{result.name}_parts")
        w.line(f"{c.register_type(dtype)} {parts}[{n * chains}];  // {chains} chains a row: additions overlap")
    w.line("#pragma unroll")
    w.line(f"for (int r = 0; r < {n * chains}; r++) {parts}[r] = {start};")
    inner = register_index(source, layout, "i")
    with _loop(scope, source, chain, (op.arg,)):
        element = f"{parts}[({inner}) * {chains} + i % {chains}]" if chains > 1 else f"{parts}[{inner}]"
        outside = dict(scope.registers)
        for one in chain:
            _note_difference(scope, one)
            _define(scope, one, layouts[one.result.name], "i", as_array=False)
        value = c.convert(op.arg.type.dtype, dtype, read(scope, op.arg, source, "i"))
        if (chain or lazy) and (test := _invalid(scope, source, op.axis)):
            value = f"({test} ? {start} : {value})"
        w.line(f"{element} = {c.combine(op.fn, dtype, element, value)};")
        scope.made_here.clear()
        scope.registers.clear()
        scope.registers.update(outside)
    if chains > 1:
        w.line("#pragma unroll")
        with w.block(f"for (int r = 0; r < {n}; r++)"):
            total = f"{parts}[{chains} * r]"
            for k in range(1, chains):
                total = c.combine(op.fn, dtype, total, f"{parts}[{chains} * r + {k}]")
            w.line(f"{result.name}[r] = {total};")
    emit_reduce_threads(scope, op, source, result)


def _invalid(scope: Scope, layout: Layout, axis: str) -> str:
    """C condition that register `i` lies beyond the end of `axis`; "" where none can."""
    place, covered = scope.places[axis], layout.extent(axis)
    if place.holds(covered) or (
        covered <= place.extent and scope.assumes(f"{place.first} + {covered} <= {place.end(covered)}")
    ):
        return ""
    return f"{scope.index(layout, axis, 'i')} >= {place.end(covered)}"


def _chains(layout: Layout, axis: str) -> int:
    """How many independent chains a thread's part of a reduction is split into: elements that are neighbours in
    registers and along the axis go to different ones."""
    digits = layout.of(Source.REGISTER)
    if not digits or digits[0].axis != axis or layout.registers < 16:
        return 1
    return 4 if digits[0].size % 4 == 0 else 2 if digits[0].size % 2 == 0 else 1


def emit_scan(scope: Scope, op: tile.Scan, layout: Layout) -> None:
    """Copy the operand, as the result's dtype, and scan it in place."""
    result = declare(scope, op.result, layout)
    w = scope.writer
    w.line("#pragma unroll")
    value = c.convert(op.arg.type.dtype, op.result.type.dtype, read(scope, op.arg, layout, "i"))
    w.line(f"for (int i = 0; i < {layout.registers}; i++) {result.name}[i] = {value};")
    if op.reverse:  # what lies beyond the end comes first
        overwrite_invalid(scope, result, op.axis, c.identity(op.fn, op.result.type.dtype))
    across.emit_scan(scope, op, result)
