"""Large kernels that differ in constants, as instances of a template do, become one that gets them as parameters.

    define @k<8>(ptr %x, GEOMETRY) { ... mul i32 %i, 8 ... }       define @k<8>(ptr %x, GEOMETRY) {
    define @k<6>(ptr %x, GEOMETRY) { ... mul i32 %i, 6 ... }  ->     call @k<8>.instances(%x, 8, GEOMETRY) }
                                                                   define @k<6>(ptr %x, GEOMETRY) {
                                                                     call @k<8>.instances(%x, 6, GEOMETRY) }
                                                                   define internal @k<8>.instances(
                                                                     ptr %x, i32 %constant, GEOMETRY)
                                                                     { ... mul i32 %i, %constant ... }

All that follows, of which LLVM is the most, is then done once. Constants with the same values in each instance are one
parameter. A shared array gets the largest of its sizes; addresses in arrays of different lengths become addresses of
elements. Only kernels that are compiled as functions of single loops anyway (outline_loops.py), in which no loop is
unrolled, so that numbers are worth little. Declines where loops of threads would divide by what is no number any more:
vectors have no division.
Needs: kernels as raised. Keeps: locations, which are equal (else they are no instances). Source: none; LLVM's
MergeFunctions merges what is equal, "similar function merging" (von Koch et al., LCTES'14) by one selector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from threadloom.cuda.kernel import GEOMETRY, INSTANCES, is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.traverse import rename, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.ops import (
    I8,
    Alloca,
    Array,
    Block,
    Condition,
    Const,
    Float,
    For,
    Function,
    Int,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Param,
    Return,
    Space,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import decline
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import arguments, results, with_regions

_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_FIXED = ("call", "extractvalue", "insertvalue", "shufflevector", "fence")  # their constants say what they do


@dataclass(frozen=True, slots=True)
class MergeInstances:
    name: str = "merge-instances"
    fewest_ops: int = 1500  # of a kernel, as in outline_loops.py

    def apply(self, module: Module) -> Module:
        alike: dict[object, list[_Instance]] = {}
        for function in module.functions:
            if function.body is not None and is_kernel(function) and _size(function) >= self.fewest_ops:
                instance = _Instance.of(function)
                alike.setdefault(instance.skeleton, []).append(instance)
        for instances in alike.values():
            if len(instances) < 2:
                continue
            differing = plan_parameters(instances)
            if _divides_by(differing, instances[0], module):
                decline("threads divide by what differs between instances", "", instances[0].function.loc)
            else:
                module = _merged(instances, differing, module)
        return module


@dataclass(frozen=True, slots=True)
class _Place:
    """A constant that may become a parameter; `dividend` is what it divides in a loop of a thread."""

    constant: Const
    dividend: Operand | None = None


@dataclass(frozen=True, slots=True)
class _Instance:
    function: Function
    skeleton: object  # equal for instances that differ in the constants and shared arrays below only
    places: tuple[_Place, ...]
    shared: tuple[Type, ...]  # elements of the shared arrays

    @staticmethod
    def of(function: Function) -> _Instance:
        numbers = _Numbers(function)
        function = replace(function, body=numbers.ordered(function.body)) if function.body else function
        places: list[_Place] = []
        shared: list[Type] = []

        def constant(place: _Place) -> Operand:
            places.append(place)
            return Const(place.constant.type, "?")

        def array(element: Type) -> Type:
            shared.append(element)
            return I8

        ops = tuple(_changed(op, constant, array) for op in function.body.ops) if function.body else ()
        attrs = tuple(_lasting(param).attrs for param in function.params)
        skeleton = (function.attrs, attrs, function.result, tuple(rename(op, numbers.known) for op in ops))
        return _Instance(function, skeleton, tuple(places), tuple(shared))


class _Numbers:
    """Values by the order of their definition. LLVM leaves selects of one condition in any order: they are sorted."""

    def __init__(self, function: Function):
        self.known: dict[str, Operand] = {}
        self._define(param.value for param in function.params)

    def _define(self, values: Iterable[Value]) -> None:
        for value in values:
            self.known[value.name] = Value(f"v{len(self.known):06}", value.type)

    def ordered(self, block: Block) -> Block:
        ops: list[Op] = []
        selects: list[Leaf] = []  # of one condition, none of which uses another

        def close() -> None:
            for select in sorted(selects, key=self._key):
                self._define(results(select))
                ops.append(select)
            selects.clear()

        for op in block.ops:
            if isinstance(op, Leaf) and op.opcode == "select":
                if selects and (selects[0].operands[0] != op.operands[0] or not self._is_known(op)):
                    close()
                selects.append(op)
                continue
            close()
            self._define(arguments(op))
            ops.append(with_regions(op, self.ordered))
            self._define(results(op))
        close()
        return Block(tuple(ops))

    def _is_known(self, op: Leaf) -> bool:
        return all(operand.name in self.known for operand in op.operands if isinstance(operand, Value))

    def _key(self, op: Leaf) -> list[str]:
        return [self.known[o.name].name if isinstance(o, Value) else "" for o in op.operands]  # type: ignore[union-attr]


def plan_parameters(instances: list[_Instance]) -> dict[int, tuple[Const, ...]]:
    """Which places differ, each with its constant in each instance."""
    columns = zip(*(instance.places for instance in instances), strict=True)
    constants = (tuple(place.constant for place in column) for column in columns)
    return {number: column for number, column in enumerate(constants) if len(set(column)) > 1}


def _divides_by(differing: dict[int, tuple[Const, ...]], instance: _Instance, module: Module) -> bool:
    dividends = [d for number in differing if (d := instance.places[number].dividend) is not None]
    if not dividends:
        return False
    ops = walk(instance.function.body.ops if instance.function.body else ())
    threads = next(op for op in ops if isinstance(op, Parallel) and op.level is Level.THREADS)
    uniform = Uniformity(threads, Memory(instance.function, module))
    return any(uniform.varies(dividend) for dividend in dividends)


def _merged(instances: list[_Instance], differing: dict[int, tuple[Const, ...]], module: Module) -> Module:
    first = instances[0].function
    editor = Editor(first, module)
    columns = list(dict.fromkeys(differing.values()))
    values = {column: editor.fresh("constant", column[0].type) for column in columns}
    numbers = iter(range(len(instances[0].places)))
    largest = iter([max(sizes, key=size_bytes) for sizes in zip(*(one.shared for one in instances), strict=True)])

    def constant(place: _Place) -> Operand:
        column = differing.get(next(numbers))
        return place.constant if column is None else values[column]

    ops = tuple(_changed(op, constant, lambda _: next(largest)) for op in (first.body.ops if first.body else ()))
    own = len(first.params) - len(GEOMETRY)
    params = [_lasting(param) for param in first.params]
    params[own:own] = [Param(value) for value in values.values()]
    whole = replace(first, name=first.name + INSTANCES, params=tuple(params), body=Block(ops), exported=False)
    module = replace(module, functions=(*module.functions, whole))
    for number, instance in enumerate(instances):
        decline("compiled together with instances that differ in constants", whole.name, instance.function.loc)
        module = _calling(instance.function, whole, [column[number] for column in columns], own, module)
    return module


def _calling(kernel: Function, whole: Function, constants: list[Const], own: int, module: Module) -> Module:
    """`kernel` as a call of `whole`."""
    kernel = replace(kernel, params=tuple(_lasting(param) for param in kernel.params), body=Block(()))
    given: list[Operand] = [param.value for param in kernel.params]
    given[own:own] = constants
    editor = Editor(kernel, module)
    editor.defined_elsewhere.add(whole.name)
    with editor.collect() as ops:
        editor.call(whole.name, given, kernel.result)
        ops.append(Return())
    return editor.finish(replace(kernel, body=Block(tuple(ops))))


def _lasting(param: Param) -> Param:
    """Without what is known of one instance's launches, which is for smaller kernels (specialize_launch.py)."""
    from threadloom.cuda.host_launches import ATTRIBUTE

    return replace(param, attrs=tuple(attr for attr in param.attrs if not attr.startswith(f'"{ATTRIBUTE}"')))


# ---------------------------------------------------------------- the places, always in the same order


def _changed(op: Op, constant: Callable[[_Place], Operand], array: Callable[[Type], Type], looped: bool = False) -> Op:
    """`op` with what `constant` gives for its numbers and `array` for its shared arrays, in its regions too."""

    def one(operand: Operand, dividend: Operand | None = None) -> Operand:
        return constant(_Place(operand, dividend)) if _is_number(operand) else operand  # type: ignore[arg-type]

    def all_of(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(one(operand) for operand in operands)

    match op:
        case Leaf(opcode=opcode) if opcode in _FIXED:
            return op
        case Leaf(opcode=opcode) if opcode in _DIVISIONS:
            dividend, divisor = op.operands
            return replace(op, operands=(one(dividend), one(divisor, dividend if looped else None)))
        case Leaf(opcode="getelementptr"):
            op = _of_elements(op)
            return replace(op, operands=all_of(op.operands)) if _is_plain(op.attrs.source_type) else op
        case Leaf(opcode, operands, result, attrs, loc):  # `replace` takes five times as long
            if not any(type(operand) is Const for operand in operands):
                return op
            return Leaf(opcode, all_of(operands), result, attrs, loc)
        case Alloca(space=Space.SHARED):
            return replace(op, element=array(op.element))
        case Yield(values):
            return Yield(all_of(values))
        case Condition(cond, values):
            return Condition(cond, all_of(values))
        case For():
            op = replace(op, lower=one(op.lower), upper=one(op.upper), inits=all_of(op.inits))
        case While():
            op = replace(op, inits=all_of(op.inits))
    looped = looped or isinstance(op, For | While)
    return with_regions(op, lambda region: Block(tuple(_changed(o, constant, array, looped) for o in region.ops)))


def _is_number(operand: Operand) -> bool:
    if not isinstance(operand, Const) or not isinstance(operand.type, Int | Float):
        return False
    return operand.type != Int(1) and operand.text not in ("poison", "undef")


def _is_plain(element: Type | None) -> bool:
    return isinstance(element, Int | Float)


def _of_elements(op: Leaf) -> Leaf:
    """getelementptr [8 x T], %p, 0, %i -> getelementptr T, %p, %i, in which the length does not matter."""
    base, *indices = op.operands
    element = op.attrs.source_type
    while isinstance(element, Array) and len(indices) > 1 and isinstance(indices[0], Const) and indices[0].text == "0":
        element, indices = element.element, indices[1:]
    return replace(op, operands=(base, *indices), attrs=replace(op.attrs, source_type=element))


def _size(function: Function) -> int:
    return sum(1 for _ in walk(function.body.ops)) if function.body else 0
