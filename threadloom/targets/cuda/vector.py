"""VECTOR sTasks: elementwise code, reductions and scans on registers.

Consecutive elementwise operations whose results have the same register digits share one unrolled loop; values used
only inside it are plain variables. Positions of a tile beyond the axis' end hold garbage and stay so: they are
overwritten with the neutral element where a reduction (or, in `dot.py`, a product) would see them, under a branch that
is uniform and taken for the last tile only.
"""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.targets.cuda.elements import bring
from threadloom.targets.cuda.elementwise import WORTH_REUSE, flush, matched
from threadloom.targets.cuda.layout import Layout, Source
from threadloom.targets.cuda.masks import Mask, emit_mask, find_masks
from threadloom.targets.cuda.operands import Elementwise, operands, read_by
from threadloom.targets.cuda.positions import computed_in_place, exact_casts, narrow
from threadloom.targets.cuda.reduce import emit_reduce, emit_scan
from threadloom.targets.cuda.registers import Scope
from threadloom.tile import ops as tile


def emit_vector(
    scope: Scope,
    ops: tuple[tile.Op, ...],
    layouts: dict[str, Layout],
    kept: frozenset[str],
    dying: frozenset[str] = frozenset(),
) -> None:
    """Write `ops`. `layouts`: layout of every value they make; `kept`: values that later tasks or stores read; `dying`:
    values from outside that nobody reads after this task, whose registers may be reused."""
    dying |= frozenset(op.result.name for op in ops) - kept
    pending: list[Elementwise] = []
    layouts = computed_in_place(ops, layouts, kept)
    scope.narrow, scope.exact = narrow(ops, kept), exact_casts(ops)
    ops = find_masks(ops, kept, dying)
    for k, op in enumerate(ops):
        if isinstance(op, Elementwise) and not _masks_registers(op, pending):
            pending.append(op)
            continue
        due, pending = _needed_for(op, pending)
        chain: list[Elementwise] = []
        if isinstance(op, tile.Reduce):
            due, chain = _fusible(op, due, layouts, kept | read_by((*ops[k + 1 :], *pending)))
        needed = kept | read_by((*ops[k:], *pending)) | read_by(tuple(chain))
        _emit_loops(scope, due, layouts, needed, dying)
        match op:
            case tile.Reduce():
                emit_reduce(scope, op, chain, layouts)
            case Mask():
                with matched(scope, [(op.source, layouts[op.result.name])]):
                    bring(scope, op.source)
                    emit_mask(scope, op, layouts[op.result.name])
            case tile.Scan():
                with matched(scope, [(op.arg, layouts[op.result.name])]):
                    bring(scope, op.arg)
                    emit_scan(scope, op, layouts[op.result.name])
            case _:
                raise InternalError(f"{type(op).__name__} is no vector operation")
    _emit_loops(scope, pending, layouts, kept, dying)


def _masks_registers(op: Elementwise, pending: list[Elementwise]) -> bool:
    """Whether `op` is a mask of what is in registers already, which a branch of its own may leave alone. One of what is
    about to be computed is part of that loop, which then needs no array."""
    return isinstance(op, Mask) and all(op.source.name != one.result.name for one in pending)


def _needed_for(op: tile.Op, pending: list[Elementwise]) -> tuple[list[Elementwise], list[Elementwise]]:
    """What `op` needs of `pending`, and the rest: elementwise code is written as late as possible, so that it shares a
    loop with its use and its result needs no array."""
    wanted = {v.name for v in operands(op)}
    due: list[Elementwise] = []
    for one in reversed(pending):
        if one.result.name in wanted:
            due.insert(0, one)
            wanted |= {v.name for v in operands(one)}
    return due, [p for p in pending if p not in due]


def _fusible(
    op: tile.Reduce, due: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str]
) -> tuple[list[Elementwise], list[Elementwise]]:
    """`due` without, and the part with, the operations that only make the reduction's operand: they run in its loop
    and their results need no registers of their own."""
    chain: list[Elementwise] = []
    wanted = {op.arg.name}
    for one in reversed(due):
        others = read_by(tuple(d for d in due if d not in chain and d is not one))
        alike = layouts[one.result.name].of(Source.REGISTER) == layouts[op.arg.name].of(Source.REGISTER)
        if one.result.name in wanted and alike and one.result.name not in needed | others:
            chain.insert(0, one)
            wanted |= {v.name for v in operands(one)}
    if not chain or chain[-1].result.name != op.arg.name or layouts[op.arg.name].registers < WORTH_REUSE:
        return due, []
    return [d for d in due if d not in chain], chain


def _emit_loops(
    scope: Scope, ops: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str], dying: frozenset[str]
) -> None:
    """`ops` as loops: those with the same register digits share one where their order allows it. Built from the last
    operation backwards, so that what is used late is also computed late."""
    rest, groups = list(ops), []
    while rest:
        group: list[Elementwise] = []
        blocked: set[str] = set()  # values whose readers stay in earlier groups' way
        for op in reversed(rest):
            if _same_loop(layouts, rest[-1], op) and op.result.name not in blocked:
                group.insert(0, op)
            else:
                blocked |= {v.name for v in operands(op)}
        groups.insert(0, group)
        rest = [op for op in rest if op not in group]
    readers = {k: _only_reader(groups, k, layouts, needed) for k in range(len(groups))}
    feeding = {reader: k for k, reader in readers.items() if reader is not None and readers[reader] is None}
    for k, group in enumerate(groups):
        if k not in feeding.values():
            later = needed | read_by(tuple(o for g in groups[k + 1 :] for o in g))
            flush(scope, group, layouts, later, dying, groups[feeding[k]] if k in feeding else [])


def _only_reader(
    groups: list[list[Elementwise]], k: int, layouts: dict[str, Layout], needed: frozenset[str]
) -> int | None:
    """The place of the group that alone reads what `groups[k]`, vectors, makes, where all between are scalars: both can
    then be written together."""
    made = {op.result.name for op in groups[k]}
    readers = [n for n, g in enumerate(groups) if n != k and made & read_by(tuple(g))]
    registers = [layouts[g[0].result.name].registers for g in groups]
    if made & needed or len(readers) != 1 or registers[k] == 1 or registers[readers[0]] <= registers[k]:
        return None
    return readers[0] if all(n == 1 for n in registers[k + 1 : readers[0]]) else None


def _same_loop(layouts: dict[str, Layout], a: Elementwise, b: Elementwise) -> bool:
    la, lb = layouts[a.result.name], layouts[b.result.name]
    return la.of(Source.REGISTER) == lb.of(Source.REGISTER)
