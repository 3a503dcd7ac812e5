"""hoist-invariant: move what does not change out of serial loops.

    for %i = 0 to %n step 1 {                  %a = mul i64 %x, %y
      %a = mul i64 %x, %y                 ->   for %i = 0 to %n step 1 {
      ...                                        ...
    }                                          }

Moves leaves whose operands come from outside the loop and that may run even if the loop does not (no trap, no memory
access), from the innermost loop outwards. Loads move too, out of a `for` that surely runs at least once and whose body
writes nothing, calls nothing and has no barrier.
Not handled: parallel loops (parallel LICM has its own rules and pass), ifs as a whole, loads beside stores.
Source: the classic transformation; speculation safety as in LLVM's LICM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.par.constants import int_value
from threadloom.par.intrinsics import effect_of, is_ignored, is_speculatable
from threadloom.par.opcodes import Effect
from threadloom.par.ops import Barrier, Block, For, Function, Leaf, Module, Op, Value, While
from threadloom.par.passes import decline, map_functions
from threadloom.par.walk import arguments, defined, operands, walk, with_regions


@dataclass(frozen=True, slots=True)
class HoistInvariant:
    name: str = "hoist-invariant"

    def apply(self, module: Module) -> Module:
        return map_functions(module, _in_function)


def _in_function(function: Function) -> Function:
    assert function.body is not None
    body = hoisted(function.body)
    return function if body == function.body else replace(function, body=body)


def hoisted(block: Block) -> Block:
    """`block` with the invariant leaves of each loop in it moved before that loop, inner loops first."""
    ops: list[Op] = []
    for op in block.ops:
        op = with_regions(op, hoisted)
        if isinstance(op, For | While):
            moved, op = _split_loop(op)
            ops.extend(moved)
        ops.append(op)
    return Block(tuple(ops))


def _split_loop(loop: For | While) -> tuple[list[Leaf], Op]:
    """The leaves to move out of `loop`, in order, and what is left of it."""
    varying = {value.name for value in arguments(loop)}
    for region in _bodies(loop):
        varying |= defined(region)
    loads_too = isinstance(loop, For) and _surely_runs(loop) and _only_reads(loop)
    moved: list[Leaf] = []

    def strip(block: Block) -> Block:
        kept = []
        for op in block.ops:
            if isinstance(op, Leaf) and op.result is not None and not _uses(op, varying) and _may_move(op, loads_too):
                moved.append(op)
                varying.discard(op.result.name)
            else:
                kept.append(op)
        return Block(tuple(kept))

    return moved, with_regions(loop, strip)


def _bodies(loop: For | While) -> tuple[Block, ...]:
    return (loop.body,) if isinstance(loop, For) else (loop.before, loop.after)


def _uses(op: Op, names: set[str]) -> bool:
    return any(isinstance(operand, Value) and operand.name in names for operand in operands(op))


def _may_move(leaf: Leaf, loads_too: bool) -> bool:
    if is_speculatable(leaf):
        return True
    if effect_of(leaf) is not Effect.READ or leaf.attrs.volatile or leaf.attrs.ordering:
        return False
    if not loads_too:
        decline("load in a loop that writes or may not run", loc=leaf.loc)
    return loads_too


def _surely_runs(loop: For) -> bool:
    first, end = int_value(loop.lower), int_value(loop.upper)
    return first is not None and end is not None and first < end


def _only_reads(loop: For) -> bool:
    for op in walk(loop.body):
        if isinstance(op, Barrier):
            return False
        if isinstance(op, Leaf) and effect_of(op) not in (Effect.NONE, Effect.READ):
            if op.opcode == "call" and is_ignored(op.attrs.callee):
                continue
            return False
    return True
