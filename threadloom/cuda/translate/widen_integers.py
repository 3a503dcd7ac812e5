"""Integers of widths that C++ lacks, as bit fields of packed structures have them, in the next wider type.

    %x = load i24, ptr %p, align 1       %x.part = load i16, ptr %p, align 1; %x.at = getelementptr i8, ptr %p, i64 2
    %y = sext i24 %x to i32         ->   %x.part2 = load i8, ptr %x.at; ...; %x = or i32 %x.wide, %x.up
                                         %y.up = shl i32 %x, 8; %y = ashr i32 %y.up, 8

The bits above are zero always. So are vectors of three, five, six or seven bytes, which such a structure becomes when
it is passed by value: integers. Not handled, with an error where they are written: other vectors, and operations that
bit fields do not need (division, signed shifts of the odd width itself).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from threadloom.cuda.lower.traverse import rename
from threadloom.par.constants import int_value
from threadloom.par.ops import (
    I8,
    I64,
    NO_ATTRS,
    PTR,
    Alloca,
    Array,
    Attrs,
    Block,
    Const,
    Function,
    Int,
    Leaf,
    Module,
    Op,
    Operand,
    Type,
    Value,
    Vector,
)
from threadloom.par.passes import map_functions
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import arguments, map_operands, results, substitute, walk, with_regions

_WIDTHS = (8, 16, 32, 64)
_ODD_LANES = (3, 5, 6, 7)
_PLAIN = ("and", "or", "xor", "add", "sub", "mul", "shl", "lshr")


@dataclass(frozen=True, slots=True)
class WidenIntegers:
    name: str = "widen-integers"

    def apply(self, module: Module) -> Module:
        return map_functions(module, _widened)


def odd_bits(type_: Type) -> int | None:
    """How many bits of a wider integer stand for `type_`; None where C++ has it."""
    match type_:
        case Int(bits) if 1 < bits < 64 and bits not in _WIDTHS:
            return bits
        case Vector(lanes, Int(8)) if lanes in _ODD_LANES:
            return 8 * lanes
    return None


def wide(type_: Type) -> Type:
    bits = odd_bits(type_)
    return type_ if bits is None else Int(next(width for width in _WIDTHS if width >= bits))


def _widened(function: Function) -> Function:
    assert function.body is not None
    defined = [param.value for param in function.params]
    for op in walk(function.body):
        defined += [*results(op), *arguments(op)]
    odd = {value.name: value.type for value in defined if odd_bits(value.type) is not None}
    mentioned = any(isinstance(op, Leaf) and any(odd_bits(o.type) for o in op.operands) for op in walk(function.body))
    if not odd and not mentioned:
        return function
    widener = _Widener(odd)
    body = substitute(widener.block(function.body), widener.same)
    params = tuple(replace(param, value=widener.value(param.value)) for param in function.params)
    return replace(function, params=params, result=wide(function.result), body=body)


@dataclass(slots=True)
class _Widener:
    odd: dict[str, Type]
    same: dict[str, Operand] = field(default_factory=dict)  # results that need no operation any more
    ops: list[Op] = field(default_factory=list)
    count: int = 0

    def value(self, value: Value) -> Value:
        return replace(value, type=wide(value.type))

    def operand(self, operand: Operand) -> Operand:
        bits = odd_bits(operand.type)
        if bits is None:
            return operand
        if isinstance(operand, Value):
            return self.value(operand)
        number = int_value(operand) if isinstance(operand.type, Int) else 0
        return Const(wide(operand.type), str((number or 0) % (1 << bits)))

    def block(self, block: Block) -> Block:
        outer, self.ops = self.ops, []
        for op in block.ops:
            if isinstance(op, Leaf):
                self._leaf(op)
                continue
            inner = map_operands(with_regions(op, self.block), self.operand)
            own = {value.name: self.value(value) for value in (*results(op), *arguments(op)) if value.name in self.odd}
            if isinstance(inner, Alloca) and odd_bits(inner.element):
                inner = replace(inner, element=Array(size_bytes(inner.element), I8))
            self.ops.append(rename(inner, own))
        made, self.ops = Block(tuple(self.ops)), outer
        return made

    # ------------------------------------------------------------ leaves

    def _leaf(self, op: Leaf) -> None:
        of, to = odd_bits(op.operands[0].type) if op.operands else None, odd_bits(op.result.type) if op.result else None
        given = tuple(self.operand(operand) for operand in op.operands)
        change: Callable[[Leaf, tuple[Operand, ...]], None] | None = None
        if op.opcode in ("load", "store") and (to if op.opcode == "load" else of) and not op.attrs.ordering:
            change = self._load if op.opcode == "load" else self._store
        elif of or to:
            change = {"zext": self._zext, "sext": self._sext, "trunc": self._trunc, "bitcast": self._cast,
                      "icmp": self._compare, "insertelement": self._insert,
                      "extractelement": self._extract}.get(op.opcode)  # fmt: skip
            change = self._plain if op.opcode in _PLAIN else change
        if change is not None:
            change(op, given)
            return
        source = op.attrs.source_type
        attrs = (
            replace(op.attrs, source_type=Array(size_bytes(source), I8)) if source and odd_bits(source) else op.attrs
        )
        if attrs.source_type is not source:
            attrs = replace(attrs, flags=())
        self.ops.append(Leaf(op.opcode, given, self.value(op.result) if op.result else None, attrs, op.loc))

    def _add(
        self, op: Leaf, opcode: str, operands: tuple[Operand, ...], type_: Type, name: str = "", attrs: Attrs = NO_ATTRS
    ) -> Value:
        """One operation; without a name the last, which gives the result of `op`."""
        result = op.result or Value("part", type_)
        self.count += 1
        result = Value(f"{result.name}.{name}{self.count}" if name else result.name, type_)
        self.ops.append(Leaf(opcode, operands, result, attrs, op.loc))
        return result

    def _masked(self, op: Leaf, value: Operand, bits: int) -> None:
        self._add(op, "and", (value, Const(value.type, str((1 << bits) - 1))), value.type)

    def _resized(self, op: Leaf, value: Operand, type_: Type, name: str = "wide") -> Operand:
        """`value`, zeros above, in another width."""
        if value.type == type_:
            return value
        return self._add(op, "zext" if value.type.bits < type_.bits else "trunc", (value,), type_, name)

    def _is(self, op: Leaf, value: Operand) -> None:
        self.same[op.result.name] = value

    def _plain(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        made = self._add(op, op.opcode, given, given[0].type, "all")
        self._masked(op, made, odd_bits(op.result.type))

    def _zext(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        self._is(op, self._resized(op, given[0], wide(op.result.type)))

    def _signed(self, op: Leaf, value: Operand, bits: int, type_: Type) -> Operand:
        """The lower `bits` of `value` as a signed number."""
        value = self._resized(op, value, type_)
        up = Const(type_, str(type_.bits - bits))
        if up.text == "0":
            return value
        return self._add(op, "ashr", (self._add(op, "shl", (value, up), type_, "up"), up), type_, "signed")

    def _sext(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        type_, to = wide(op.result.type), odd_bits(op.result.type)
        bits = odd_bits(op.operands[0].type) or op.operands[0].type.bits
        value = self._signed(op, given[0], bits, type_)
        self._is(op, value) if to is None else self._masked(op, value, to)

    def _trunc(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        value, to = self._resized(op, given[0], wide(op.result.type)), odd_bits(op.result.type)
        self._is(op, value) if to is None else self._masked(op, value, to)

    def _cast(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        self._is(op, given[0])

    def _compare(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        if op.attrs.predicate.startswith("s"):
            bits = odd_bits(op.operands[0].type)
            given = tuple(self._signed(op, one, bits, one.type) for one in given)
        self._add(op, "icmp", given, op.result.type, attrs=op.attrs)

    def _insert(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        lane = 8 * (int_value(op.operands[2]) or 0)
        type_ = given[0].type
        others = ((1 << odd_bits(op.operands[0].type)) - 1) & ~(255 << lane)
        rest = self._add(op, "and", (given[0], Const(type_, str(others))), type_, "rest")
        byte = self._add(op, "shl", (self._resized(op, given[1], type_), Const(type_, str(lane))), type_, "up")
        self._add(op, "or", (rest, byte), type_)

    def _extract(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        lane = 8 * (int_value(op.operands[1]) or 0)
        type_ = given[0].type
        low = self._add(op, "lshr", (given[0], Const(type_, str(lane))), type_, "low") if lane else given[0]
        self._is(op, self._resized(op, low, I8))

    # ------------------------------------------------------------ memory, in parts

    def _parts(self, op: Leaf, pointer: Operand, bits: int) -> list[tuple[int, Int, Operand]]:
        """Offset in bits, type and address of the parts that make up `bits`, rounded up to bytes."""
        parts, at, left = [], 0, -(-bits // 8) * 8
        while left:
            width = next(width for width in reversed(_WIDTHS) if width <= left)
            place = pointer
            if at:
                operands = (pointer, Const(I64, str(at // 8)))
                place = self._add(op, "getelementptr", operands, PTR, "at", Attrs(source_type=I8))
            parts.append((at, Int(width), place))
            at, left = at + width, left - width
        return parts

    def _load(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        bits, type_ = odd_bits(op.result.type), wide(op.result.type)
        whole: Operand | None = None
        for at, part, place in self._parts(op, given[0], bits):
            value: Operand = self._add(op, "load", (place,), part, "part", Attrs(align_bytes=1))
            value = self._resized(op, value, type_)
            value = self._add(op, "shl", (value, Const(type_, str(at))), type_, "up") if at else value
            whole = value if whole is None else self._add(op, "or", (whole, value), type_, "both")
        self._masked(op, whole, bits)

    def _store(self, op: Leaf, given: tuple[Operand, ...]) -> None:
        for at, part, place in self._parts(op, given[1], odd_bits(op.operands[0].type)):
            value = given[0]
            if at:
                value = self._add(op, "lshr", (value, Const(value.type, str(at))), value.type, "low")
            value = self._resized(op, value, part)
            self.ops.append(Leaf("store", (value, place), None, Attrs(align_bytes=1), op.loc))
