"""Elementwise code on registers: a group of operations as one unrolled loop over the registers of their layout.

Values used only inside are plain variables. Operands that lie in shared memory are fetched in pieces; those in
registers of another layout are brought to this one first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.convert import emit_conversion
from threadloom.targets.cuda.factors import LEAST_REGISTERS, emit_factors, find_splits
from threadloom.targets.cuda.layout import Layout, Source, agrees, register_index
from threadloom.targets.cuda.masks import Mask, always_whole, masked
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared_access import emit_piece, emit_read_shared
from threadloom.targets.cuda.unsupported import no_code
from threadloom.tile import ops as tile

WORTH_PIECES = 16  # registers from which on an operand in shared memory is fetched piece by piece
WORTH_REUSE = 8  # registers of an array from which on it is written over instead of declaring another

Elementwise = tile.Map | tile.Cast | tile.Full | tile.Index | tile.Const | tile.Bound | Mask


def read_by(ops: tuple[tile.Op, ...]) -> frozenset[str]:
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


def flush(
    scope: Scope, group: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str], dying: frozenset[str]
) -> None:
    if not group:
        return
    with matched(scope, [(v, layouts[op.result.name]) for op in group for v in operands(op)]):
        _flush_matched(scope, group, layouts, needed, dying)


@contextmanager
def matched(scope: Scope, wanted: list[tuple[tile.Value, Layout]]) -> Iterator[None]:
    """While the code is written, values from before lie in the layouts that it reads them in."""
    before: dict[str, Registers | None] = {}
    for value, layout in wanted:
        held, lies = scope.registers.get(value.name), scope.in_shared.get(value.name)
        if value.name in before or not value.type.axes:
            continue
        target = layout.keeping(value.type.axes)
        if held is None and lies is not None and not agrees(layout, lies.layout, value.type.axes):
            made = Registers(scope.fresh(value.name), value.type.dtype, target)
            scope.writer.line(f"{kind_of(scope, value)} {made.name}[{target.registers}];")
            emit_read_shared(scope, lies.tile, made, lies.slot)
        elif held is None or held.scalar or held.piece or agrees(layout, held.layout, value.type.axes):
            continue
        else:
            element = read(scope, value, held.layout, "i")
            made = emit_conversion(scope, value, element, held, kind_of(scope, value), target)
        before[value.name] = held
        scope.registers[value.name] = made
    converted = {name: scope.registers[name] for name in before}
    yield
    for name, held in before.items():
        if scope.registers.get(name) == converted[name]:
            scope.registers.pop(name)
            if held is not None:
                scope.registers[name] = held


def _flush_matched(
    scope: Scope, group: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str], dying: frozenset[str]
) -> None:
    layout = layouts[group[0].result.name]
    if layout.registers == 1:
        for v in (v for op in group for v in operands(op)):
            bring(scope, v)
        for op in group:
            define(scope, op, layouts[op.result.name], "0", as_array=op.result.name in needed)
        return
    for k, op in enumerate(group):
        if op.result.name in needed and op.result.name not in scope.registers:
            reused = _reusable(scope, group[: k + 1], group[k + 1 :], layouts, dying - needed)
            if reused is not None:
                scope.registers[op.result.name] = replace(reused, dtype=op.result.type.dtype)
                dying -= {reused.value}
            else:
                declare(scope, op.result, layouts[op.result.name])
    splits = find_splits(scope, group, layout.registers, _counts(scope, group))
    inside = _inside(scope, group, layouts) if layout.registers >= LEAST_REGISTERS else ""
    w = scope.writer
    if splits:
        for v in (v for one in splits for v in (one.a, one.b)):
            bring(scope, v)
        test, scope.factors = emit_factors(scope, splits)
        with w.block(f"if ({test})"):
            _versions(scope, layout, group, layouts, needed, inside)
        scope.factors = {}
        with w.block("else"):
            _write_loop(scope, layout, group, layouts, needed)
    else:
        _versions(scope, layout, group, layouts, needed, inside)


def _counts(scope: Scope, group: list[Elementwise]) -> dict[str, int]:
    """Registers of the arrays that the group reads, or would read once they are brought from shared memory."""
    found: dict[str, int] = {}
    for name in {v.name for op in group for v in operands(op)}:
        held, lies = scope.registers.get(name), scope.in_shared.get(name)
        if held is None and lies is not None:
            found[name] = lies.layout.registers
        elif held is not None and not (held.scalar or held.piece or held.packed):
            found[name] = held.layout.registers
    return found


def _inside(scope: Scope, group: list[Elementwise], layouts: dict[str, Layout]) -> str:
    """C condition, the same in all threads of a worker, under which no mask of the group changes anything; "" where
    none is known, or the code being written is for such tiles only."""
    tests = [always_whole(scope, op, layouts[op.result.name]) for op in group if isinstance(op, Mask)]
    return " && ".join(tests) if tests and all(tests) and scope.assumed is None else ""


def _versions(
    scope: Scope,
    layout: Layout,
    group: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
    inside: str,
) -> None:
    """The loop, without its masks for tiles that they leave alone."""
    if not inside:
        _write_loop(scope, layout, group, layouts, needed)
        return
    scope.unmasked = True
    with scope.writer.block(f"if ({inside})"):
        _write_loop(scope, layout, group, layouts, needed)
    scope.unmasked = False
    with scope.writer.block("else"):
        _write_loop(scope, layout, group, layouts, needed)


def _write_loop(
    scope: Scope, layout: Layout, group: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str]
) -> None:
    w = scope.writer
    with register_loop(scope, layout, group):
        local = dict(scope.registers)
        for op in group:
            note_difference(scope, op)
            if op.result.name in needed:
                target = scope.registers[op.result.name]
                w.line(f"{target.name}[i] = {_expression(scope, op, layouts[op.result.name], 'i')};")
            else:
                define(scope, op, layouts[op.result.name], "i", as_array=False)
        scope.made_here.clear()
        for op in group:  # variables of the loop are gone after it
            if op.result.name not in needed:
                scope.registers.pop(op.result.name, None)
                if op.result.name in local:
                    scope.registers[op.result.name] = local[op.result.name]


@contextmanager
def register_loop(
    scope: Scope, layout: Layout, ops: list[Elementwise], extra: tuple[tile.Value, ...] = ()
) -> Iterator[None]:
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
    later = read_by(tuple(after))
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
    scope.writer.line(f"{kind_of(scope, value)} {made.name}[{layout.registers}];")
    scope.registers[value.name] = made
    return made


def kind_of(scope: Scope, value: tile.Value) -> str:
    return "i32" if value.name in scope.narrow else c.register_type(value.type.dtype)


def define(scope: Scope, op: Elementwise, layout: Layout, register: str, as_array: bool) -> None:
    value = op.result
    text = _expression(scope, op, layout, register)
    known = scope.registers.get(value.name)
    if as_array and value.type.axes:
        made = known if known and not known.scalar else declare(scope, value, layout)
        scope.writer.line(f"{made.name}[0] = {text};")
        return
    name = scope.fresh(value.name)
    scope.writer.line(f"const {kind_of(scope, value)} {name} = {text};")
    scope.registers[value.name] = Registers(name, value.type.dtype, layout, scalar=True)


def _expression(scope: Scope, op: Elementwise, layout: Layout, register: str) -> str:
    match op:
        case tile.Map():
            if op.result.name in scope.factors:
                first, a, second, b = scope.factors[op.result.name]
                texts = (f"{name}[{_simplify(register_index(layout, held.layout, register))}]"
                         for name, held in ((first, a), (second, b)))  # fmt: skip
                return " * ".join(texts)
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
        case Mask() if scope.unmasked:
            return read(scope, op.source, layout, register)
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


def note_difference(scope: Scope, op: Elementwise) -> None:
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
    if not agrees(layout, held.layout, value.type.axes):
        raise no_code(f"code on {value.name} and other tiles", "their register layouts do not agree here", None)
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
