"""Loops that have become functions and differ in numbers that are added, compared or chosen become one function.

    call @k.loop.1(%n, %tile)                            call @k.loop.1(%n, %tile, -1.586, 1)
    call @k.loop.3(%n, %tile)                        ->  call @k.loop.1(%n, %tile, 0.882, 2)
    define @k.loop.1(...) { ... fmul %x, -1.586 ...      define @k.loop.1(..., %factor, %shift) { ... fmul %x, %factor
                            add %i, 1 }                                                           add %i, %shift }
    define @k.loop.3(...) { ... the same with 0.882 and 2 }

A device function that a kernel calls for each step of an algorithm leaves such loops. Numbers stay where they are worth
something to what follows: factors of integers, which are strides, divisors, sizes, masks.
Only for outline_loops.py, which has made the functions. Source: as merge_instances.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from threadloom.cuda.lower.traverse import rename, walk
from threadloom.par.ops import (
    Block,
    Const,
    Float,
    For,
    Function,
    Int,
    Leaf,
    Op,
    Operand,
    Param,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import decline
from threadloom.par.walk import arguments, results, with_regions

_ADDING = frozenset("add sub icmp fadd fsub fmul fdiv fcmp select store".split())
_MOST_NUMBERS = 12  # that become parameters; more of them cost more than they gain


@dataclass(frozen=True, slots=True)
class Merged:
    """The function that is called instead, and the numbers it gets behind the other arguments."""

    name: str
    numbers: tuple[Const, ...]


def merge_loops(functions: list[Function]) -> tuple[list[Function], dict[str, Merged]]:
    """The functions that are left, and what stands for those that have gone or changed."""
    alike: dict[object, list[tuple[Function, tuple[Const, ...]]]] = {}
    for function in functions:
        skeleton, numbers = _apart(function)
        alike.setdefault(skeleton, []).append((function, numbers))
    left: list[Function] = []
    merged: dict[str, Merged] = {}
    for group in alike.values():
        columns = list(zip(*(numbers for _, numbers in group), strict=True))
        differing = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
        if not differing or len(differing) > _MOST_NUMBERS:
            left.extend(function for function, _ in group)
            continue
        whole = _with_parameters(group[0][0], columns, differing)
        left.append(whole)
        for index, (function, _) in enumerate(group):
            decline("compiled together with loops that differ in numbers", whole.name, function.loc)
            merged[function.name] = Merged(whole.name, tuple(column[index] for column in differing))
    return left, merged


def calling(op: Op, merged: Mapping[str, Merged]) -> list[Op] | None:
    """A call of a function that has gone or changed, as it must be now."""
    instead = merged.get(op.attrs.callee) if isinstance(op, Leaf) and op.opcode == "call" else None
    if instead is None:
        return None
    return [replace(op, operands=(*op.operands, *instead.numbers), attrs=replace(op.attrs, callee=instead.name))]


def _apart(function: Function) -> tuple[object, tuple[Const, ...]]:
    """What is equal for functions that differ in numbers only, and these numbers in order."""
    numbers: list[Const] = []

    def taken(number: Const) -> Operand:
        numbers.append(number)
        return Const(number.type, "?")

    ops = tuple(_changed(op, taken) for op in function.body.ops)  # type: ignore[union-attr]
    values = [param.value for param in function.params]
    values += [value for op in walk(ops) for value in (*results(op), *arguments(op))]
    canonical = {value.name: Value(f"v{number}", value.type) for number, value in enumerate(values)}
    params = tuple(Param(canonical[param.value.name], param.attrs) for param in function.params)
    return (function.attrs, params, tuple(rename(op, canonical) for op in ops)), tuple(numbers)


def _with_parameters(function: Function, columns: list[tuple[Const, ...]], differing: list[tuple[Const, ...]]
                     ) -> Function:  # fmt: skip
    names = {param.value.name for param in function.params}
    names |= {value.name for op in walk(function.body.ops) for value in (*results(op), *arguments(op))}  # type: ignore[union-attr]
    added: dict[tuple[Const, ...], Value] = {}
    for column in differing:
        number = len(added)
        while (name := f"number.{number}") in names:
            number += 1
        names.add(name)
        added[column] = Value(name, column[0].type)
    places = iter(columns)

    def given(number: Const) -> Operand:
        return added.get(next(places), number)

    ops = tuple(_changed(op, given) for op in function.body.ops)  # type: ignore[union-attr]
    params = (*function.params, *(Param(value) for value in added.values()))
    return replace(function, params=params, body=Block(ops))


def _changed(op: Op, change: Callable[[Const], Operand]) -> Op:
    """`op` with what `change` gives for its numbers, in its regions too, always in the same order."""

    def all_of(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(change(one) if _is_number(one) else one for one in operands)  # type: ignore[arg-type]

    match op:
        case Leaf(opcode, operands, result, attrs, loc):
            if opcode not in _ADDING or not any(type(operand) is Const for operand in operands):
                return op
            return Leaf(opcode, all_of(operands), result, attrs, loc)
        case Yield(values):
            return Yield(all_of(values))
        case For():
            op = replace(op, inits=all_of(op.inits))
        case While():
            op = replace(op, inits=all_of(op.inits))
    return with_regions(op, lambda region: Block(tuple(_changed(one, change) for one in region.ops)))


def _is_number(operand: Operand) -> bool:
    if type(operand) is not Const or not isinstance(operand.type, Int | Float):
        return False
    return operand.type != Int(1) and operand.text not in ("poison", "undef")
