"""What a call means to the interpreter: functions of the module, `llvm.*`, the C library."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.interp_intrinsics import library_function, reduction, scalar_intrinsic
from threadloom.par.interp_leaves import signed
from threadloom.par.interp_values import POISON, InterpValue, from_bytes, stored_bytes, to_bytes
from threadloom.par.intrinsics import is_ignored
from threadloom.par.ops import VOID, Int, Leaf, Vector
from threadloom.par.result_types import scalar_of, size_bytes

if TYPE_CHECKING:
    from threadloom.par.interp import Interpreter
    from threadloom.par.interp_parallel import Item

Callee = Callable[..., InterpValue]  # (item, *args) -> result


def resolve(interpreter: Interpreter, leaf: Leaf) -> Callee:
    """The meaning of a call leaf."""
    name = leaf.attrs.callee
    if not name:
        return _indirect(interpreter, leaf)
    if (defined := interpreter.definition(name)) is not None:
        return defined
    if name.startswith("llvm."):
        return _intrinsic(interpreter, leaf)
    result = leaf.result.type if leaf.result else VOID
    if (math_function := library_function(name, result, tuple(op.type for op in leaf.operands))) is not None:
        return lambda item, *args: math_function(*args)
    if name in _C_LIBRARY:
        function = _C_LIBRARY[name]
        return lambda item, *args: function(interpreter, leaf, item, *args)
    raise InternalError(f"the interpreter does not know @{name}; give it in externals")


def _indirect(interpreter: Interpreter, leaf: Leaf) -> Callee:
    def call(item: Item, address: InterpValue, *args: InterpValue) -> InterpValue:
        defined = interpreter.definition(interpreter.function_at(address))
        if defined is None:
            interpreter.memory.report("undefined", "call through a pointer to no function", leaf)
            return 0
        return defined(item, *args)

    return call


# ---------------------------------------------------------------- llvm.*


def _intrinsic(interpreter: Interpreter, leaf: Leaf) -> Callee:
    name = leaf.attrs.callee.removeprefix("llvm.")
    if is_ignored(leaf.attrs.callee) or name.startswith(("stackrestore", "stacksave")):
        return lambda item, *args: 0
    base = _base_name(name)
    if base.startswith("vector.reduce."):
        vector = leaf.operands[-1].type
        assert isinstance(vector, Vector)
        combine = reduction(base.removeprefix("vector.reduce."), vector)
        return lambda item, *args: POISON if any(_has_poison(arg) for arg in args) else combine(*args)
    if base in _MEMORY:
        function = _MEMORY[base]
        return lambda item, *args: function(interpreter, leaf, item, *args)
    types = [scalar_of(operand.type) for operand in leaf.operands]
    scalar = scalar_intrinsic(base, types, scalar_of(leaf.result.type) if leaf.result else VOID)
    if scalar is not None:
        whole = interpreter.code.lanewise(scalar, leaf)
        return lambda item, *args: whole(*args)
    if base in ("trap", "debugtrap", "ubsantrap"):
        return lambda item, *args: _stop(interpreter, leaf, base)
    if base == "is.constant":
        return lambda item, *args: 0
    raise InternalError(f"the interpreter has no @{leaf.attrs.callee}")


_OVERLOAD = re.compile(r"(\.(v\d+)?(i\d+|f\d+|bf16|p0))+$")


def _base_name(name: str) -> str:
    """`fma.v8f32` is `fma`; `masked.load.v8f32.p0` is `masked.load`."""
    return _OVERLOAD.sub("", name)


def _has_poison(value: InterpValue) -> bool:
    return value is POISON or (isinstance(value, tuple) and POISON in value)


def _stop(interpreter: Interpreter, leaf: Leaf, why: str) -> InterpValue:
    interpreter.memory.report("undefined", f"{why} was reached", leaf)
    return 0


def _masked_load(
    interpreter: Interpreter, leaf: Leaf, item: Item, pointer: int, mask: tuple, otherwise: tuple
) -> tuple:
    assert leaf.result is not None and isinstance(leaf.result.type, Vector)
    element = leaf.result.type.element
    addresses = [pointer + lane * size_bytes(element) for lane in range(leaf.result.type.lanes)]
    return _gather(interpreter, leaf, item, tuple(addresses), mask, otherwise)


def _gather(interpreter: Interpreter, leaf: Leaf, item: Item, pointers: tuple, mask: tuple, otherwise: tuple) -> tuple:
    assert leaf.result is not None and isinstance(leaf.result.type, Vector)
    element, lanes = leaf.result.type.element, []
    spare = otherwise if isinstance(otherwise, tuple) else (POISON,) * len(mask)
    for pointer, wanted, passed in zip(pointers, mask, spare, strict=True):
        if wanted:
            image = interpreter.memory.read(pointer, stored_bytes(element), item.position, leaf)
            lanes.append(from_bytes(element, image))
        else:
            lanes.append(passed)
    return tuple(lanes)


def _masked_store(
    interpreter: Interpreter, leaf: Leaf, item: Item, value: tuple, pointer: int, mask: tuple
) -> InterpValue:
    vector = leaf.operands[0].type
    assert isinstance(vector, Vector)
    addresses = [pointer + lane * size_bytes(vector.element) for lane in range(vector.lanes)]
    return _scatter(interpreter, leaf, item, value, tuple(addresses), mask)


def _scatter(
    interpreter: Interpreter, leaf: Leaf, item: Item, value: tuple, pointers: tuple, mask: tuple
) -> InterpValue:
    vector = leaf.operands[0].type
    assert isinstance(vector, Vector)
    for lane, pointer, wanted in zip(value, pointers, mask, strict=True):
        if wanted:
            interpreter.memory.write(pointer, to_bytes(vector.element, lane), item.position, leaf)
    return 0


def _copy(interpreter: Interpreter, leaf: Leaf, item: Item, to: int, source: int, bytes_: int, *_: int) -> InterpValue:
    if bytes_:
        image = interpreter.memory.read(source, bytes_, item.position, leaf)
        interpreter.memory.write(to, image, item.position, leaf)
    return to


def _fill(interpreter: Interpreter, leaf: Leaf, item: Item, to: int, byte: int, bytes_: int, *_: int) -> InterpValue:
    if bytes_:
        interpreter.memory.write(to, bytes([byte & 255]) * bytes_, item.position, leaf)
    return to


_MEMORY: dict[str, Callee] = {
    "masked.load": _masked_load,
    "masked.gather": _gather,
    "masked.store": _masked_store,
    "masked.scatter": _scatter,
    "memcpy": _copy,
    "memcpy.inline": _copy,
    "memmove": _copy,
    "memset": _fill,
}


# ---------------------------------------------------------------- the C library


def _malloc(interpreter: Interpreter, leaf: Leaf, item: Item, bytes_: int) -> InterpValue:
    return interpreter.memory.allocate("malloc", bytes_)


def _calloc(interpreter: Interpreter, leaf: Leaf, item: Item, count: int, bytes_: int) -> InterpValue:
    return interpreter.memory.allocate("calloc", count * bytes_, initial=bytes(count * bytes_))


def _aligned_alloc(interpreter: Interpreter, leaf: Leaf, item: Item, align: int, bytes_: int) -> InterpValue:
    return interpreter.memory.allocate("aligned_alloc", bytes_)


def _free(interpreter: Interpreter, leaf: Leaf, item: Item, address: int) -> InterpValue:
    if address:
        interpreter.memory.free(address)
    return 0


def _abort(interpreter: Interpreter, leaf: Leaf, item: Item, *args: InterpValue) -> InterpValue:
    raise InternalError("the program aborted")


def _c_string(interpreter: Interpreter, leaf: Leaf, item: Item, address: int) -> bytes:
    text = bytearray()
    while (byte := interpreter.memory.read(address + len(text), 1, item.position, leaf)) != b"\0":
        text += byte
        if len(text) > 1 << 16:
            raise InternalError("a C string has no end")
    return bytes(text)


_DIRECTIVE = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*))?(hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGcspn%])")


def _printf(interpreter: Interpreter, leaf: Leaf, item: Item, text: int, *args: InterpValue) -> InterpValue:
    source = _c_string(interpreter, leaf, item, text).decode("utf-8", "replace")
    values = iter(zip(args, [operand.type for operand in leaf.operands[1:]], strict=True))

    def directive(match: re.Match[str]) -> str:
        flags, width, precision, _size, kind = match.groups()
        if kind == "%":
            return "%"
        width = str(next(values)[0]) if width == "*" else width or ""
        precision = str(next(values)[0]) if precision == "*" else precision
        value, type_ = next(values)
        if kind == "s":
            value = _c_string(interpreter, leaf, item, int(value)).decode("utf-8", "replace")
        elif kind in "di" and isinstance(type_, Int):
            value = signed(int(value), type_.bits)
        elif kind == "c":
            value = chr(int(value) & 255)
        elif kind == "p":
            kind, flags = "x", flags + "#"
        return f"%{flags}{width}{'.' + precision if precision is not None else ''}{kind.replace('u', 'd')}" % value

    printed = _DIRECTIVE.sub(directive, source)
    interpreter.output.append(printed)
    return len(printed.encode())


def _puts(interpreter: Interpreter, leaf: Leaf, item: Item, text: int) -> InterpValue:
    interpreter.output.append(_c_string(interpreter, leaf, item, text).decode("utf-8", "replace") + "\n")
    return 1


def _putchar(interpreter: Interpreter, leaf: Leaf, item: Item, char: int) -> InterpValue:
    interpreter.output.append(chr(char & 255))
    return char


_C_LIBRARY: dict[str, Callee] = {
    "malloc": _malloc,
    "calloc": _calloc,
    "aligned_alloc": _aligned_alloc,
    "free": _free,
    "abort": _abort,
    "memcpy": _copy,
    "memmove": _copy,
    "memset": _fill,
    "printf": _printf,
    "puts": _puts,
    "putchar": _putchar,
}
