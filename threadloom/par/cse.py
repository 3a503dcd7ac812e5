"""cse: compute each value once.

    %a = add i32 %x, %y                        %a = add i32 %x, %y
    ...                                   ->   ...
    %b = add i32 %x, %y                        (nothing; uses of %b say %a)

Needs: nothing. Keeps: the first of equal leaves, where it dominates the others, with the flags that both have (a
promise such as nsw that only one makes is dropped). Not handled: loads (they need memory facts) and operations with
regions.
Source: scoped hash table over structured regions, as LLVM's EarlyCSE; here region nesting is dominance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.par.intrinsics import effect_of
from threadloom.par.opcodes import Effect
from threadloom.par.ops import Block, Function, Leaf, Module, Op, Operand, Type, Value
from threadloom.par.passes import map_functions
from threadloom.par.walk import map_operands, with_regions

_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "fadd", "fmul"})


@dataclass(frozen=True, slots=True)
class _Key:
    """What two leaves must share to compute the same value; flags may differ."""

    opcode: str
    operands: tuple[Operand, ...]
    result: Type
    predicate: str
    callee: str
    indices: tuple[int, ...]
    source_type: Type | None


@dataclass(frozen=True, slots=True)
class Cse:
    name: str = "cse"

    def apply(self, module: Module) -> Module:
        return map_functions(module, _in_function)


def _in_function(function: Function) -> Function:
    assert function.body is not None
    plan = _Plan()
    plan.read(function.body, {})
    if not plan.same:
        return function
    return replace(function, body=plan.rewrite(function.body))


class _Plan:
    """Which value stands for which, and the flags that the kept leaves may keep."""

    def __init__(self) -> None:
        self.same: dict[str, Value] = {}
        self.flags: dict[str, tuple[str, ...]] = {}

    def _current(self, operand: Operand) -> Operand:
        return self.same.get(operand.name, operand) if isinstance(operand, Value) else operand

    def read(self, block: Block, seen: dict[_Key, Value]) -> None:
        """`seen`: leaves that dominate this point."""
        seen = dict(seen)
        for op in block.ops:
            op = map_operands(op, self._current)
            if isinstance(op, Leaf) and (key := _key(op)) is not None and op.result is not None:
                first = seen.setdefault(key, op.result)
                if first != op.result:
                    self.same[op.result.name] = first
                    self.flags[first.name] = tuple(f for f in self.flags[first.name] if f in op.attrs.flags)
                else:
                    self.flags[first.name] = op.attrs.flags
            with_regions(op, lambda inner: self._read_region(inner, seen))

    def _read_region(self, block: Block, seen: dict[_Key, Value]) -> Block:
        self.read(block, seen)
        return block

    def rewrite(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, Leaf) and op.result is not None and op.result.name in self.same:
                continue
            op = map_operands(op, self._current)
            if isinstance(op, Leaf) and op.result is not None:
                flags = self.flags.get(op.result.name, op.attrs.flags)
                if flags != op.attrs.flags:
                    op = replace(op, attrs=replace(op.attrs, flags=flags))
            ops.append(with_regions(op, self.rewrite))
        return Block(tuple(ops))


def _key(leaf: Leaf) -> _Key | None:
    if leaf.result is None or effect_of(leaf) is not Effect.NONE or leaf.opcode == "freeze":
        return None
    operands = leaf.operands
    if leaf.opcode in _COMMUTATIVE:
        operands = tuple(sorted(operands, key=repr))
    a = leaf.attrs
    return _Key(leaf.opcode, operands, leaf.result.type, a.predicate, a.callee, a.indices, a.source_type)
