"""One element of elementwise code as a C expression, and the arrays and variables that hold values."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Layout, agrees, register_index
from threadloom.targets.cuda.masks import Mask, masked
from threadloom.targets.cuda.operands import Elementwise
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared_access import emit_read_shared
from threadloom.targets.cuda.unsupported import no_code
from threadloom.tile import ops as tile


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
                texts = (f"{name}[{_simplify(register_index(layout, of, register))}]"
                         for name, of in ((first, a), (second, b)))  # fmt: skip
                return " * ".join(texts)
            if op.result.name in scope.joined:
                (other,) = (v for v in op.args if v.name != scope.joined[op.result.name])
                return read(scope, other, layout, register)
            args = [_widened(scope, op, a, read(scope, a, layout, register)) for a in op.args]
            if op.fn == "exp" and scope.rounds and op.args[-1].type.dtype.name != "f64":
                return _quick_exp(scope, op, layout, register)
            return _narrow(c.expression(op.fn, op.args[-1].type.dtype, args))
        case tile.Cast():
            value, kind = read(scope, op.arg, layout, register), c.register_type(op.result.type.dtype)
            if op.result.name in scope.unrounded and kind == c.register_type(op.arg.type.dtype):
                return value
            if op.result.name in scope.exact:
                return f"(float)({value})"
            return c.convert(op.arg.type.dtype, op.result.type.dtype, value)
        case tile.Full():
            return read(scope, op.value, layout, register)
        case tile.Const():
            return c.literal(op.number, op.result.type.dtype)
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
        if held.dtype.bits < 8:
            return f"({c.nibble(held.name, 'e')})"
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
