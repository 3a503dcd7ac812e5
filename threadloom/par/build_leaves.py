"""The leaf half of the builder: one method per operation, with names, constants and types worked out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from threadloom.errors import InternalError
from threadloom.par.constants import Number, const, fold_binary, fold_cast, fold_icmp, int_value
from threadloom.par.intrinsics import mangled
from threadloom.par.opcodes import OPCODES
from threadloom.par.ops import (
    I1,
    I8,
    I32,
    I64,
    NO_ATTRS,
    PTR,
    VOID,
    Attrs,
    Const,
    Float,
    Int,
    Leaf,
    Op,
    Operand,
    Ptr,
    Type,
    Value,
    Vector,
)
from threadloom.par.printing import typed
from threadloom.par.result_types import align_bytes as natural_align
from threadloom.par.result_types import result_type, scalar_of
from threadloom.source import Loc

Wanted = Operand | Number  # a number where the type is known from elsewhere
Flags = Sequence[str]
Metadata = Sequence[tuple[str, str]]


class Declares(Protocol):
    reuses: bool

    def declare(self, name: str, params: Sequence[Type], result: Type, variadic: bool = False) -> None: ...


# address arithmetic and masks
REUSED = frozenset("add sub mul udiv urem and or xor shl lshr ashr icmp getelementptr insertelement shufflevector "
                   "trunc zext sext ptrtoint bitcast".split())  # fmt: skip
REUSED_CALLS = frozenset("smin smax umin umax".split())


@lru_cache(maxsize=1 << 10)
def _attrs(flags: tuple[str, ...] = (), predicate: str = "", source_type: Type | None = None,
           align_bytes: int = 0) -> Attrs:  # fmt: skip
    """The few that most leaves have, made once."""
    return Attrs(flags, predicate, source_type, align_bytes)


class LeafBuilder:
    """Appends leaves to `ops`; the region half (loops, branches) is in builder.py."""

    def __init__(self, module: Declares):
        self.module = module
        self.ops: list[Op] = []
        self.loc: Loc | None = None
        self._taken: dict[str, int] = {}
        self._regions: dict[int, list[Op]] = {}  # by id, which is a region's as long as its list is kept here
        self._built: dict[tuple[object, ...], Value] = {}
        self._steps: dict[str, int] = {}  # loop counters that are multiples of a number

    # ------------------------------------------------------------ names and operands

    def fresh(self, hint: str, type_: Type) -> Value:
        """A value named after `hint`: `acc`, then `acc.1`, `acc.2` ..."""
        count = self._taken.get(hint)
        if count is None:
            self._taken[hint] = 0
            return Value(hint, type_)
        while True:
            count += 1
            name = f"{hint}.{count}"
            if name not in self._taken:
                self._taken[hint], self._taken[name] = count, 0
                return Value(name, type_)

    def wanted(self, value: Wanted, type_: Type) -> Operand:
        if isinstance(value, Value | Const):
            if value.type is not type_ and value.type != type_:
                raise InternalError(f"{value!r} should have type {type_!r}")
            return value
        return const(type_, value)

    def _pair(self, left: Wanted, right: Wanted) -> tuple[Operand, Operand]:
        """Two operands of one type; the one that is not a number says which."""
        if isinstance(left, Value | Const):
            return left, self.wanted(right, left.type)
        if isinstance(right, Value | Const):
            return self.wanted(left, right.type), right
        raise InternalError("two plain numbers: make one of them a constant with const(type, value)")

    def leaf(self, opcode: str, operands: Sequence[Operand], type_: Type | None = None, attrs: Attrs | None = None,
             name: str = "") -> Value | None:  # fmt: skip
        """Any leaf; `type_` only where the opcode's result is free (casts, loads, calls)."""
        attrs = attrs or NO_ATTRS
        if self.module.reuses and opcode in REUSED:
            return self._once(opcode, operands, type_, attrs, name)
        return self._append(opcode, operands, type_, attrs, name)

    def _once(self, opcode: str, operands: Sequence[Operand], type_: Type | None, attrs: Attrs,
              name: str) -> Value | None:  # fmt: skip
        """The value that the region holds already, else a new one."""
        region = id(self._regions.setdefault(id(self.ops), self.ops))
        named = tuple([o.name if isinstance(o, Value) else f"={o.text}" for o in operands])
        key = (region, opcode, named, type_, attrs.flags, attrs.predicate, attrs.source_type, attrs.indices,
               attrs.callee)
        known = self._built.get(key)
        if known is None:
            known = self._append(opcode, operands, type_, attrs, name)
            if known is not None:
                self._built[key] = known
        return known

    def _append(self, opcode: str, operands: Sequence[Operand], type_: Type | None, attrs: Attrs,
                name: str) -> Value | None:  # fmt: skip
        result = result_type(OPCODES[opcode], tuple(operands), attrs, type_)
        if result is None:
            raise InternalError(f"operands do not fit {opcode}: {operands!r}")
        value = None if result == VOID else self.fresh(name or opcode, result)
        self.ops.append(Leaf(opcode, tuple(operands), value, attrs, self.loc))
        return value

    def _value(self, opcode: str, operands: Sequence[Operand], type_: Type | None = None, attrs: Attrs | None = None,
               name: str = "") -> Value:  # fmt: skip
        value = self.leaf(opcode, operands, type_, attrs, name)
        if value is None:
            raise InternalError(f"{opcode} has no result")
        return value

    # ------------------------------------------------------------ integers

    def binary(self, opcode: str, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        """Any two-operand leaf; integer constants fold."""
        x, y = self._pair(left, right)
        folded = fold_binary(opcode, x, y)
        return folded if folded is not None else self._value(opcode, (x, y), None, _attrs(tuple(flags)), name)

    def add(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("add", left, right, flags, name)

    def sub(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("sub", left, right, flags, name)

    def mul(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("mul", left, right, flags, name)

    def udiv(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("udiv", left, right, (), name)

    def urem(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        by = right if isinstance(right, int) else None
        if by and isinstance(left, Value) and self._steps.get(left.name, 1) % by == 0:
            return const(left.type, 0)
        return self.binary("urem", left, right, (), name)

    def sdiv(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("sdiv", left, right, (), name)

    def srem(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("srem", left, right, (), name)

    def shl(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("shl", left, right, flags, name)

    def lshr(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("lshr", left, right, (), name)

    def ashr(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("ashr", left, right, (), name)

    def and_(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("and", left, right, (), name)

    def or_(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("or", left, right, (), name)

    def xor(self, left: Wanted, right: Wanted, name: str = "") -> Operand:
        return self.binary("xor", left, right, (), name)

    def icmp(self, predicate: str, left: Wanted, right: Wanted, name: str = "") -> Operand:
        x, y = self._pair(left, right)
        folded = fold_icmp(predicate, x, y)
        return folded if folded is not None else self._value("icmp", (x, y), None, _attrs((), predicate), name)

    def min(self, left: Wanted, right: Wanted, signed: bool = True, name: str = "min") -> Operand:
        """The smaller of two integers."""
        return self._min_or_max("min", left, right, signed, name)

    def max(self, left: Wanted, right: Wanted, signed: bool = True, name: str = "max") -> Operand:
        return self._min_or_max("max", left, right, signed, name)

    def _min_or_max(self, which: str, left: Wanted, right: Wanted, signed: bool, name: str) -> Operand:
        x, y = self._pair(left, right)
        known_x, known_y = int_value(x), int_value(y)
        if known_x is not None and known_y is not None and signed:
            return const(x.type, min(known_x, known_y) if which == "min" else max(known_x, known_y))
        return self.intrinsic(("s" if signed else "u") + which, (x, y), name=name)

    # ------------------------------------------------------------ floats

    def fadd(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("fadd", left, right, flags, name)

    def fsub(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("fsub", left, right, flags, name)

    def fmul(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("fmul", left, right, flags, name)

    def fdiv(self, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Operand:
        return self.binary("fdiv", left, right, flags, name)

    def fneg(self, value: Operand, flags: Flags = (), name: str = "") -> Value:
        return self._value("fneg", (value,), None, Attrs(flags=tuple(flags)), name)

    def fcmp(self, predicate: str, left: Wanted, right: Wanted, flags: Flags = (), name: str = "") -> Value:
        attrs = Attrs(predicate=predicate, flags=tuple(flags))
        return self._value("fcmp", self._pair(left, right), None, attrs, name)

    def fma(self, a: Wanted, b: Wanted, c: Operand, flags: Flags = (), name: str = "") -> Value:
        """a * b + c, rounded once."""
        operands = (self.wanted(a, c.type), self.wanted(b, c.type), c)
        return self.intrinsic("fma", operands, flags=flags, name=name or "fma")

    # ------------------------------------------------------------ selection and casts

    def select(self, cond: Operand, yes: Wanted, no: Wanted, flags: Flags = (), name: str = "") -> Operand:
        x, y = self._pair(yes, no)
        if (known := int_value(cond)) is not None:
            return x if known else y
        return self._value("select", (cond, x, y), None, _attrs(tuple(flags)), name)

    def cast(self, opcode: str, value: Operand, type_: Type, flags: Flags = (), name: str = "") -> Operand:
        """trunc zext sext fptrunc ...; a cast to its own type is the value itself; integer constants fold."""
        if value.type == type_:
            return value
        folded = fold_cast(opcode, value, type_)
        return folded if folded is not None else self._value(opcode, (value,), type_, _attrs(tuple(flags)), name)

    # ------------------------------------------------------------ memory

    def gep(self, element: Type, pointer: Operand, *indices: Wanted, flags: Flags = ("inbounds",),
            name: str = "") -> Operand:  # fmt: skip
        """The address of `pointer[indices]`, counted in `element`s; index 0 alone is the pointer itself."""
        operands = [index if isinstance(index, Value | Const) else const(I64, index) for index in indices]
        if all(int_value(index) == 0 for index in operands):
            return pointer
        base = pointer.name.split(".")[0] if isinstance(pointer, Value) else "at"
        attrs = _attrs(tuple(flags), "", element)
        return self._value("getelementptr", (pointer, *operands), None, attrs, name or f"{base}.at")

    def byte_offset(self, pointer: Operand, bytes_: Wanted, name: str = "") -> Operand:
        return self.gep(I8, pointer, bytes_, name=name)

    def load(self, type_: Type, pointer: Operand, align_bytes: int = 0, *, nontemporal: bool = False,
             volatile: bool = False, ordering: str = "", metadata: Metadata = (), name: str = "") -> Value:  # fmt: skip
        """`align_bytes` 0 means natural for a scalar and the *element's* alignment for a vector."""
        flags, align_bytes = ("nontemporal",) if nontemporal else (), align_bytes or element_align(type_)
        if volatile or ordering or metadata:
            attrs = Attrs(flags, "", None, align_bytes, ordering, volatile, metadata=tuple(metadata))
        else:
            attrs = _attrs(flags, "", None, align_bytes)
        return self._value("load", (pointer,), type_, attrs, name)

    def store(self, value: Operand, pointer: Operand, align_bytes: int = 0, *, nontemporal: bool = False,
              volatile: bool = False, ordering: str = "", metadata: Metadata = ()) -> None:  # fmt: skip
        flags, align_bytes = ("nontemporal",) if nontemporal else (), align_bytes or element_align(value.type)
        if volatile or ordering or metadata:
            attrs = Attrs(flags, "", None, align_bytes, ordering, volatile, metadata=tuple(metadata))
        else:
            attrs = _attrs(flags, "", None, align_bytes)
        self.leaf("store", (value, pointer), None, attrs)

    def masked_load(self, type_: Vector, pointer: Operand, mask: Operand, passthru: Wanted = 0, align_bytes: int = 0,
                    name: str = "") -> Value:  # fmt: skip
        """Lanes where `mask` is false are not touched in memory and take `passthru`'s value."""
        operands = (pointer, mask, self.wanted(passthru, type_))
        align = f"align {align_bytes or element_align(type_)}"
        return self._masked("llvm.masked.load", (type_, PTR), operands, type_, (align, "", ""), name or "load")

    def masked_store(self, value: Operand, pointer: Operand, mask: Operand, align_bytes: int = 0) -> None:
        align = f"align {align_bytes or element_align(value.type)}"
        operands = (value, pointer, mask)
        self.leaf("call", operands, VOID,
                  Attrs(callee=mangled("llvm.masked.store", (value.type, PTR)), arg_attrs=("", align, "")))  # fmt: skip

    def _masked(self, base: str, overloads: tuple[Type, ...], operands: Sequence[Operand], type_: Type,
                arg_attrs: tuple[str, ...], name: str) -> Value:  # fmt: skip
        attrs = Attrs(callee=mangled(base, overloads), arg_attrs=arg_attrs)
        return self._value("call", operands, type_, attrs, name)

    def atomicrmw(self, operation: str, pointer: Operand, value: Operand, ordering: str = "monotonic",
                  name: str = "old") -> Value:  # fmt: skip
        attrs = Attrs(predicate=operation, ordering=ordering, align_bytes=element_align(value.type))
        return self._value("atomicrmw", (pointer, value), None, attrs, name)

    def fence(self, ordering: str = "seq_cst") -> None:
        self.leaf("fence", (), None, Attrs(ordering=ordering))

    def prefetch(self, pointer: Operand, *, write: bool = False, locality: int = 3) -> None:
        """Bring the cache line of `pointer` closer: locality 3 to L1, 2 to L2, 1 to L3, 0 streaming."""
        numbers = (const(I32, int(write)), const(I32, locality), const(I32, 1))
        self.leaf("call", (pointer, *numbers), VOID, Attrs(callee="llvm.prefetch.p0"))

    def memcpy(self, to: Operand, source: Operand, bytes_: Wanted) -> None:
        operands = (to, source, self.wanted(bytes_, I64), const(I1, 0))
        self.leaf("call", operands, VOID, Attrs(callee="llvm.memcpy.p0.p0.i64"))

    # ------------------------------------------------------------ vectors

    def splat(self, value: Operand, lanes: int, name: str = "") -> Operand:
        """`lanes` copies of a scalar."""
        if not isinstance(value.type, Int | Float | Ptr):
            raise InternalError(f"splat of {value.type!r}")
        type_ = Vector(lanes, value.type)
        if isinstance(value, Const):
            return Const(type_, f"splat ({typed(value)})")
        base = name or f"{value.name}.splat"
        one = self._value("insertelement", (Const(type_, "poison"), value, const(I64, 0)), None, None, f"{base}.one")
        return self._value("shufflevector", (one, Const(type_, "poison")), None, Attrs(indices=(0,) * lanes), base)

    def shuffle(self, left: Operand, right: Operand | None, lanes: Sequence[int], name: str = "") -> Value:
        """Lanes picked from `left` then `right` (none: poison); -1 leaves a lane undefined."""
        right = right or Const(left.type, "poison")
        return self._value("shufflevector", (left, right), None, Attrs(indices=tuple(lanes)), name or "shuffled")

    def extract(self, vector: Operand, lane: Wanted, name: str = "lane") -> Value:
        lane = lane if isinstance(lane, Value | Const) else const(I64, lane)
        return self._value("extractelement", (vector, lane), None, None, name)

    def insert(self, vector: Operand, element: Operand, lane: Wanted, name: str = "vec") -> Value:
        lane = lane if isinstance(lane, Value | Const) else const(I64, lane)
        return self._value("insertelement", (vector, element, lane), None, None, name)

    def extractvalue(self, aggregate: Operand, *indices: int, name: str = "field") -> Value:
        return self._value("extractvalue", (aggregate,), None, Attrs(indices=indices), name)

    def reduce(self, operation: str, vector: Operand, start: Operand | None = None, flags: Flags = (),
               name: str = "") -> Value:  # fmt: skip
        """All lanes combined: add mul and or xor smin smax umin umax fmin fmax, and fadd fmul from a `start`."""
        if not isinstance(vector.type, Vector):
            raise InternalError(f"reduce of {vector.type!r}")
        operands = (start, vector) if start is not None else (vector,)
        attrs = Attrs(tuple(flags), callee=mangled(f"llvm.vector.reduce.{operation}", (vector.type,)))
        return self._value("call", operands, vector.type.element, attrs, name or operation)

    # ------------------------------------------------------------ calls

    def call(self, callee: str, operands: Sequence[Operand], result: Type = VOID, flags: Flags = (), name: str = "",
             variadic_after: int | None = None) -> Value | None:  # fmt: skip
        """Call a function by name; an external one is declared with these types. The first `variadic_after` operands
        of a variadic callee are its named parameters."""
        if not callee.startswith("llvm."):
            named = operands if variadic_after is None else operands[:variadic_after]
            variadic = variadic_after is not None
            self.module.declare(callee, [operand.type for operand in named], result, variadic)
        return self.leaf("call", operands, result, Attrs(tuple(flags), callee=callee), name or callee.split(".")[-1])

    def intrinsic(self, base: str, operands: Sequence[Operand], flags: Flags = (), name: str = "") -> Value:
        """An `llvm.*` function overloaded on its first operand's type and returning it: fma sqrt smin ctpop fabs ..."""
        type_ = operands[0].type
        callee = mangled(f"llvm.{base}", (type_,))
        extra = (const(I1, 0),) if base in ("ctlz", "cttz", "abs") and len(operands) == 1 else ()
        attrs = Attrs(tuple(flags), callee=callee)
        if self.module.reuses and base in REUSED_CALLS:
            return self._once("call", operands, type_, attrs, name or base)
        return self._value("call", (*operands, *extra), type_, attrs, name or base)


def element_align(type_: Type) -> int:
    """What may be assumed of an address that holds `type_` among others: a vector is as aligned as its elements."""
    return natural_align(scalar_of(type_))

