"""Shared arrays on which threads cannot race, by proof: there only bounds and uninitialised reads are left to check.

    tile[ty][tx] = x[i];         threads write different words
    __syncthreads();             between the same barriers nobody writes
    s += tile[ty][k];         -> tile is disjoint

An array is disjoint if no two accesses to it in one interval between barriers conflict (optimize/conflicts.py, as for
the elimination of barriers). Dimensions of the block that the kernel never asks for are taken to have extent 1; whether
a launch is so is looked up when it runs. Only plain loads and stores of whole words count, and no pointer to the array
may have escaped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import BLOCK
from threadloom.cuda.lower.effects import Access, Memory, Root, RootKind
from threadloom.cuda.lower.traverse import free_values
from threadloom.cuda.optimize.eliminate_barriers import Facts
from threadloom.cuda.optimize.neighbourhood import Seen
from threadloom.par.ops import I32, Const, Leaf, Parallel, Space, Value
from threadloom.par.result_types import stored_bytes

WORDS = (4, 8, 16)  # bytes of an access whose words have quick numbers


@dataclass(frozen=True, slots=True)
class Disjoint:
    roots: frozenset[Root] = frozenset()
    single: tuple[Value, ...] = ()  # extents of the block that must be 1


def find_disjoint(threads: Parallel, memory: Memory) -> Disjoint:
    candidates = _candidates(threads, memory)
    if not candidates:
        return Disjoint()
    used = free_values(threads.body.ops)
    ivs = [iv.name in used for iv in threads.ivs]
    uppers = tuple(upper if asked else Const(I32, "1") for upper, asked in zip(threads.uppers, ivs, strict=True))
    narrow = replace(threads, uppers=uppers)
    facts = Facts(narrow, memory)
    bad: set[Root] = set()
    for seen in facts.neighbourhood.intervals():
        accesses = [one for one in facts.accesses(seen) if one[1].roots & candidates]
        for number, (one, mine) in enumerate(accesses):
            for other, yours in accesses[number:]:
                if mine.roots == yours.roots and not mine.roots & bad and _meet(facts, one, mine, other, yours):
                    bad |= mine.roots
    single = tuple(extent for extent in BLOCK if extent in threads.uppers and extent not in uppers)
    return Disjoint(frozenset(candidates - bad), single)


def _meet(facts: Facts, one: Seen, mine: Access, other: Seen, yours: Access) -> bool:
    return facts.conflict(one, mine, other, yours) or facts.conflict(other, yours, one, mine)


def _candidates(threads: Parallel, memory: Memory) -> set[Root]:
    accesses = list(memory.accesses(threads.body.ops))
    shared = {root for access in accesses for root in access.roots if _is_shared(root, memory)}
    return shared - {root for access in accesses if not _is_plain(access) for root in access.roots}


def _is_shared(root: Root, memory: Memory) -> bool:
    if root.kind is not RootKind.ALLOCA or root.escaped:
        return False
    return memory.allocas[root.name].space is Space.SHARED


def _is_plain(access: Access) -> bool:
    op = access.op
    if not isinstance(op, Leaf) or op.opcode not in ("load", "store") or access.type is None or len(access.roots) != 1:
        return False
    loose = 0 < op.attrs.align_bytes < 4
    return not (op.attrs.volatile or op.attrs.ordering or loose) and stored_bytes(access.type) in WORDS

