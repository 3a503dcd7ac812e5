"""A loop over threads as several: what all threads do before a guard, the guarded part, what all do behind it.

    parallel threads (%y, %x) ... { A; %c = icmp eq i32 %x, 0; if i1 %c { B }; C }
 -> parallel threads (%y, %x) ... { A }; parallel threads (%y, %x) ... { %c = ...; if i1 %c { B } };
    parallel threads (%y, %x) ... { C }

Legal in any loop without barriers: each thread still does the same in the same order, and any order between threads is
one that could happen. Indices are computed again in each loop, so it is for guards that need nothing else from before.
Narrowing then leaves A and C whole rows, which vectors like, where it would cut them around the range of B.
Source: loop distribution; not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.cuda.lower.effects import is_pure
from threadloom.cuda.lower.traverse import free_values
from threadloom.par.intrinsics import is_speculatable
from threadloom.par.ops import Alloca, Block, Float, If, Leaf, Op, Parallel
from threadloom.par.walk import results

_MOST_LEAVES = 24  # that run again


@dataclass(frozen=True, slots=True)
class Parts:
    """Bodies of loops over the same threads, to run one after the other."""

    before: Block | None  # None: does nothing that is seen
    guarded: Block
    behind: Block | None


def split_guard(op: Parallel, guard: If) -> Parts | None:
    """None where the guarded part, or what follows, needs more from before than indices."""
    place = op.body.ops.index(guard)
    before, behind = op.body.ops[:place], op.body.ops[place + 1 :]
    again = _indices(before)
    kept = {one.result.name for one in again}
    lost = {value.name for one in before for value in results(one)} - kept
    if len(again) > _MOST_LEAVES or lost & free_values((guard,)).keys():
        return None
    if not _is_seen(behind):
        return Parts(Block(before) if _is_seen(before) else None, Block((*again, guard)), None)
    if (lost | {value.name for value in guard.results}) & free_values(behind).keys():
        return None
    return Parts(Block(before) if _is_seen(before) else None, Block((*again, guard)), Block((*again, *behind)))


def _is_seen(ops: tuple[Op, ...]) -> bool:
    return not all(isinstance(op, Alloca) or (isinstance(op, Leaf) and _is_silent(op)) for op in ops)


def _is_silent(op: Leaf) -> bool:
    return is_pure(op) or (op.opcode == "load" and not op.attrs.volatile and not op.attrs.ordering)


def _indices(ops: tuple[Op, ...]) -> tuple[Leaf, ...]:
    """The leaves that compute indices, addresses and conditions from nothing but those."""
    found: dict[str, Leaf] = {}
    defined = {value.name for op in ops for value in results(op)}
    for op in ops:
        if not isinstance(op, Leaf) or op.result is None or op.opcode == "freeze" or not is_speculatable(op):
            continue
        types = (op.result.type, *(operand.type for operand in op.operands))
        if any(isinstance(type_, Float) for type_ in types):
            continue
        if all(getattr(operand, "name", "") not in defined or operand.name in found for operand in op.operands):
            found[op.result.name] = op
    return tuple(found.values())
