"""Leaves -> Python closures: the half of interp_code.py that computes and accesses memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.interp_constants import evaluate, offset_of
from threadloom.par.interp_leaves import DivisionByZero, atomic_function, scalar_function, signed
from threadloom.par.interp_values import (
    POISON,
    InterpValue,
    bitcast,
    from_bytes,
    reader,
    stored_bytes,
    to_bytes,
    zero_of,
)
from threadloom.par.ops import Array, Const, Int, Leaf, Op, Operand, Struct, Type, Value, Vector
from threadloom.par.result_types import size_bytes

if TYPE_CHECKING:
    from threadloom.par.interp import Interpreter
    from threadloom.par.interp_parallel import Item

Env = dict[str, InterpValue]
Get = Callable[[Env], InterpValue]
Run = Callable[[Env, "Item"], None]


class LeafCode:
    """Compiles operands and leaves of one interpreter's module."""

    def __init__(self, interpreter: Interpreter):
        self.interpreter = interpreter

    def get(self, operand: Operand) -> Get:
        if isinstance(operand, Value):
            return itemgetter(operand.name)
        value = self.constant(operand)
        return lambda env: value

    def constant(self, const: Const) -> InterpValue:
        return evaluate(const, self.interpreter.address_of, self.interpreter.named_types)

    def gets(self, operands: Sequence[Operand]) -> Callable[[Env], list[InterpValue]]:
        each = [self.get(operand) for operand in operands]
        match each:
            case [first]:
                return lambda env: [first(env)]
            case [first, second]:
                return lambda env: [first(env), second(env)]
            case [first, second, third]:
                return lambda env: [first(env), second(env), third(env)]
        return lambda env: [one(env) for one in each]

    def defined(self, value: InterpValue, op: Op) -> int:
        """A condition or bound, which must not be poison."""
        if isinstance(value, int):
            return value
        leaf = op if isinstance(op, Leaf) else Leaf("unreachable", (), loc=getattr(op, "loc", None))
        self.interpreter.memory.report("undefined", f"{type(op).__name__.lower()} depends on poison", leaf, key=id(op))
        return 0

    # ------------------------------------------------------------ leaves

    def leaf(self, leaf: Leaf) -> Run:
        match leaf.opcode:
            case "load":
                return self._load(leaf)
            case "store":
                return self._released(leaf, self._store(leaf))
            case "atomicrmw":
                return self._released(leaf, self._atomicrmw(leaf))
            case "cmpxchg":
                return self._released(leaf, self._cmpxchg(leaf))
            case "fence":
                return self._fence(leaf)
            case "call":
                return self.interpreter.call(leaf)
            case "unreachable":
                return self._unreachable(leaf)
        function = self._value_function(leaf)
        args, name = self.gets(leaf.operands), leaf.result.name if leaf.result else ""

        def run(env: Env, item: Item) -> None:
            env[name] = function(*args(env))

        return run

    def _fence(self, leaf: Leaf) -> Run:
        """Of the whole device; an acq_rel fence is one of a block, whose threads run in turn."""
        order = self.interpreter.memory.order
        return (lambda env, item: order.fence(item.position)) if leaf.attrs.ordering == "seq_cst" else lambda *_: None

    def _released(self, leaf: Leaf, run: Run) -> Run:
        """An atomic that releases has a fence in front."""
        if leaf.attrs.ordering not in ("release", "acq_rel", "seq_cst"):
            return run
        order = self.interpreter.memory.order

        def fenced(env: Env, item: Item) -> None:
            order.fence(item.position)
            run(env, item)

        return fenced

    def _unreachable(self, leaf: Leaf) -> Run:
        def run(env: Env, item: Item) -> None:
            self.interpreter.memory.report("undefined", "unreachable was reached", leaf)

        return run

    def _value_function(self, leaf: Leaf) -> Callable[..., InterpValue]:
        """A function of the operands' whole values."""
        scalar = scalar_function(leaf)
        if scalar is not None:
            return self.lanewise(scalar, leaf)
        match leaf.opcode:
            case "getelementptr":
                return self._address(leaf)
            case "select":
                return self._select(leaf)
            case "bitcast":
                source, target = leaf.operands[0].type, leaf.result.type if leaf.result else leaf.operands[0].type
                return lambda value: bitcast(source, target, value)
            case "freeze":
                return lambda value: _frozen(value, leaf.operands[0].type)
            case "shufflevector":
                lanes = leaf.attrs.indices
                return lambda x, y: tuple(
                    POISON if lane < 0 else (_lanes(x, leaf) + _lanes(y, leaf))[lane] for lane in lanes
                )
            case "extractelement":
                return lambda vector, lane: _element(vector, lane)
            case "insertelement":
                return lambda vector, element, lane: _replaced(_lanes(vector, leaf), element, lane)
            case "extractvalue":
                return lambda aggregate: _field(aggregate, leaf.attrs.indices)
            case "insertvalue":
                type_ = leaf.operands[0].type
                return lambda aggregate, value: _inserted(aggregate, type_, leaf.attrs.indices, value)
        raise InternalError(f"the interpreter has no {leaf.opcode}")

    def lanewise(self, scalar: Callable[..., InterpValue], leaf: Leaf) -> Callable[..., InterpValue]:
        """`scalar` on each lane where the leaf works on vectors; poison in, poison out."""
        memory = self.interpreter.memory

        def one(*args: InterpValue) -> InterpValue:
            try:
                return scalar(*args)
            except TypeError:
                if any(arg is POISON for arg in args):
                    return POISON
                raise
            except DivisionByZero:
                memory.report("undefined", "integer division by zero, or its quotient does not fit", leaf)
                return 0

        vectors = [isinstance(operand.type, Vector) for operand in leaf.operands]
        if not any(vectors):
            return one
        width = next(operand.type.lanes for operand in leaf.operands if isinstance(operand.type, Vector))

        def each(*args: InterpValue) -> InterpValue:
            spread = [
                _lanes(arg, leaf, width) if wide else (arg,) * width for arg, wide in zip(args, vectors, strict=True)
            ]
            return tuple(one(*lane) for lane in zip(*spread, strict=True))

        return each

    def _address(self, leaf: Leaf) -> Callable[..., InterpValue]:
        source = leaf.attrs.source_type
        assert source is not None
        widths = [_index_bits(operand.type) for operand in leaf.operands[1:]]
        if len(widths) == 1:
            stride, bits = size_bytes(source), widths[0]
            return self.lanewise(lambda base, index: (base + signed(index, bits) * stride) % (1 << 64), leaf)

        def one(base: int, *indices: int) -> InterpValue:
            steps = [signed(index, bits) for index, bits in zip(indices, widths, strict=True)]
            return (base + offset_of(source, steps)) % (1 << 64)

        return self.lanewise(one, leaf)

    def _select(self, leaf: Leaf) -> Callable[..., InterpValue]:
        if isinstance(leaf.operands[0].type, Vector):
            return self.lanewise(lambda cond, yes, no: POISON if cond is POISON else (yes if cond else no), leaf)
        return lambda cond, yes, no: POISON if cond is POISON else (yes if cond else no)

    # ------------------------------------------------------------ memory leaves

    def _load(self, leaf: Leaf) -> Run:
        assert leaf.result is not None
        pointer, memory, type_ = self.get(leaf.operands[0]), self.interpreter.memory, leaf.result.type
        bytes_, atomic, name = stored_bytes(type_), _may_meet(leaf), leaf.result.name
        value_of = reader(type_)

        def run(env: Env, item: Item) -> None:
            env[name] = value_of(memory.read(self.defined(pointer(env), leaf), bytes_, item.position, leaf, atomic))

        return run

    def _store(self, leaf: Leaf) -> Run:
        value, pointer = self.get(leaf.operands[0]), self.get(leaf.operands[1])
        memory, type_, atomic = self.interpreter.memory, leaf.operands[0].type, _may_meet(leaf)

        def run(env: Env, item: Item) -> None:
            image = to_bytes(type_, value(env))
            memory.write(self.defined(pointer(env), leaf), image, item.position, leaf, atomic)

        return run

    def _atomicrmw(self, leaf: Leaf) -> Run:
        pointer, value, memory = self.get(leaf.operands[0]), self.get(leaf.operands[1]), self.interpreter.memory
        type_ = leaf.operands[1].type
        update, bytes_ = atomic_function(leaf.attrs.predicate, type_), stored_bytes(type_)
        name = leaf.result.name if leaf.result else ""

        def run(env: Env, item: Item) -> None:
            address = self.defined(pointer(env), leaf)
            old = from_bytes(type_, memory.read(address, bytes_, item.position, leaf, True))
            memory.write(address, to_bytes(type_, update(old, value(env))), item.position, leaf, True)
            env[name] = old

        return run

    def _cmpxchg(self, leaf: Leaf) -> Run:
        pointer, expected, new = (self.get(operand) for operand in leaf.operands)
        memory, type_ = self.interpreter.memory, leaf.operands[1].type
        bytes_, name = stored_bytes(type_), leaf.result.name if leaf.result else ""

        def run(env: Env, item: Item) -> None:
            address = self.defined(pointer(env), leaf)
            old = from_bytes(type_, memory.read(address, bytes_, item.position, leaf, True))
            if swapped := old == expected(env):
                memory.write(address, to_bytes(type_, new(env)), item.position, leaf, True)
            env[name] = (old, int(swapped))

        return run


# ---------------------------------------------------------------- aggregates


def _index_bits(type_: Type) -> int:
    element = type_.element if isinstance(type_, Vector) else type_
    return element.bits if isinstance(element, Int) else 64


def _lanes(value: InterpValue, leaf: Leaf, width: int = 0) -> tuple[InterpValue, ...]:
    if isinstance(value, tuple):
        return value
    type_ = leaf.operands[0].type
    return (POISON,) * (width or (type_.lanes if isinstance(type_, Vector) else 1))


def _element(vector: InterpValue, lane: InterpValue) -> InterpValue:
    if not isinstance(vector, tuple) or not isinstance(lane, int) or lane >= len(vector):
        return POISON
    return vector[lane]


def _replaced(vector: tuple[InterpValue, ...], element: InterpValue, lane: InterpValue) -> InterpValue:
    if not isinstance(lane, int) or lane >= len(vector):
        return POISON
    return (*vector[:lane], element, *vector[lane + 1 :])


def _field(aggregate: InterpValue, indices: tuple[int, ...]) -> InterpValue:
    for index in indices:
        aggregate = aggregate[index] if isinstance(aggregate, tuple) else POISON
    return aggregate


def _inserted(aggregate: InterpValue, type_: Type, indices: tuple[int, ...], value: InterpValue) -> InterpValue:
    if not indices:
        return value
    fields = aggregate if isinstance(aggregate, tuple) else _poisoned(type_)
    inner = (
        type_.fields[indices[0]] if isinstance(type_, Struct) else type_.element if isinstance(type_, Array) else type_
    )
    changed = _inserted(fields[indices[0]], inner, indices[1:], value)
    return (*fields[: indices[0]], changed, *fields[indices[0] + 1 :])


def _poisoned(type_: Type) -> tuple[InterpValue, ...]:
    match type_:
        case Struct(fields):
            return (POISON,) * len(fields)
        case Array(length):
            return (POISON,) * length
    raise InternalError(f"insertvalue into {type_!r}")


def _frozen(value: InterpValue, type_: Type) -> InterpValue:
    if value is POISON:
        return zero_of(type_)
    if isinstance(value, tuple) and isinstance(type_, Vector):
        return tuple(_frozen(lane, type_.element) for lane in value)
    return value


def _may_meet(leaf: Leaf) -> bool:
    """An access that may race with others of its kind: atomic, or volatile (what CUDA programs poll and publish by)."""
    return bool(leaf.attrs.ordering) or leaf.attrs.volatile
