"""A value that is computed again from the same operands is the first one; what is known when it is built is folded.

    %a = splat %n                              %a = splat %n
    %b = splat %n                       ->     %c = add %x, %a
    %c = add %x, %b                            if ... { uses %a }
    if ... { %d = splat %n; uses %d }

Within loops over threads and lanes: each begins anew, so that none keeps values of its surroundings for the next.
Needs: nothing. Keeps: every access and call that is no pure intrinsic; flags (only equal ones are the same value).
Not handled: loads; operands in another order.
Source: dominator-scoped value numbering (LLVM's EarlyCSE); here the regions are the scopes.
"""

from __future__ import annotations

from threadloom.par.canonicalize import folded_leaf
from threadloom.par.intrinsics import effect_of
from threadloom.par.opcodes import Effect
from threadloom.par.ops import Block, Leaf, Op, Operand, Parallel, Value
from threadloom.par.walk import map_operands, with_regions

_Key = tuple[object, ...]


def reuse_values(block: Block) -> Block:
    """`block` with the values that its loops compute twice computed once. Unused operations are left behind."""
    return _Reuse().region(block, {})


class _Reuse:
    def __init__(self) -> None:
        self._instead: dict[str, Operand] = {}  # of a value's name: what stands for it

    def region(self, block: Block, known: dict[_Key, Operand]) -> Block:
        """`known`: the values that are there, by what computes them."""
        known = dict(known)
        ops: list[Op] = []
        for op in block.ops:
            if type(op) is not Leaf:
                inner = {} if isinstance(op, Parallel) else known
                op = map_operands(op, self._current)
                ops.append(with_regions(op, lambda one, inner=inner: self.region(one, inner)))
                continue
            if any(type(operand) is Value and operand.name in self._instead for operand in op.operands):
                op = map_operands(op, self._current)
            if op.result is None or (instead := self._same(op, known)) is None:
                ops.append(op)
            else:
                self._instead[op.result.name] = instead
        return Block(tuple(ops))

    def _current(self, operand: Operand) -> Operand:
        return self._instead.get(operand.name, operand) if type(operand) is Value else operand

    def _same(self, op: Leaf, known: dict[_Key, Operand]) -> Operand | None:
        if effect_of(op) is not Effect.NONE:
            return None
        if (folded := folded_leaf(op)) is not None:
            return folded
        given = tuple(one.name if type(one) is Value else one for one in op.operands)
        key = (op.opcode, given, op.result.type, op.attrs)
        if (earlier := known.get(key)) is not None:
            return earlier
        known[key] = op.result
        return None
