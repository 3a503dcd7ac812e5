"""Loads into a worker's registers one pass ahead: the next pass's come while this one computes.

    before:  for (t) { w = load(t); use(w); }
    after:   ahead = load(0); for (t) { w = ahead; if (t + 1 < count) ahead = load(t + 1); use(w); }

A worker that loads for itself would wait for memory in each pass, and its SM with it. What is ahead stays as it lies in
memory (4-bit weights: eight to a register); what comes after that is asked into the second-level cache. Handled: loads
of inputs whose addresses depend on positions alone, in loops that are written as one body. Not handled: gathers, loads
under conditions, bodies in several copies (pipelines of products), tiles of more than MOST_WORDS registers; those wait.
The plan is the same either way: inputs do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from threadloom.sched.ops import Issue, Section
from threadloom.targets.cuda import copy
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.parts_in_turn import loop_of_turns
from threadloom.targets.cuda.registers import Place, Registers, unroll
from threadloom.task.ops import Kind, Loop, STask
from threadloom.tile import ops as tile

if TYPE_CHECKING:
    from threadloom.targets.cuda.section import RoleEmitter

MOST_WORDS = 16  # registers that one tile may take while it is ahead
MOST_POINTERS = 4  # accesses of a tile for which addresses are kept over the loop
SECTOR_BYTES = 32  # that come into the second-level cache together
FAR = 4  # passes ahead of its use that data is asked into the second-level cache: memory takes longer than a pass


@dataclass(frozen=True, slots=True)
class Ahead:
    """`name`: C array of what was loaded, `size` elements of `kind` for each `vector` elements of the tile; `instance`,
    `count`: C expressions of the pass being written and of how many there are; `pointers`: C array of where the loop's
    first tile would lie if it began at 0 ("": addresses are made anew)."""

    name: str
    kind: str
    size: int
    vector: int
    instance: str
    count: str
    pointers: str = ""


def begin_ahead_loads(e: RoleEmitter, loop: Loop, section: Section, stage: int, instance: str, count: str) -> None:
    """Before a loop whose passes are `instance` of `count`: declare what is ahead, and load for the first pass."""
    found = [t for t in _own_loads(e, loop, section, stage) if _may_be_ahead(e, t)]
    w = e.scope.writer
    for task in found:
        op = e.plan.load_op(task.name)
        facts, layout = e.plan.facts[op.tensor], e.plan.layouts[op.result.name]
        vector = copy.vector_elems(op.subscripts, facts, layout) if layout.registers > 1 else 1
        bits = vector * facts.tensor.dtype.bits
        kind, size = ("u32", bits // 32) if bits >= 32 and vector > 1 else (c.memory_type(facts.tensor.dtype), 1)
        if (vector > 1 and bits < 32) or layout.registers // vector * size > MOST_WORDS:
            continue
        name = e.scope.fresh(op.result.name + "_ahead")
        w.line(f"{kind} {name}[{layout.registers // vector * size}];")
        made = Ahead(name, kind, size, vector, instance, count)
        e.ahead[task.name] = replace(made, pointers=_keep_pointers(e, loop, op, made))
    mine = [t for t in found if t.name in e.ahead]
    if mine:
        with w.block(f"if ({count} > 0)"), _at(e, loop, "0", stage):
            for task in mine:
                _fetch(e, loop, task)
        later = e.scope.fresh("later")
        with w.block(f"for (i32 {later} = 1; {later} < min({FAR}, {count}); {later}++)"), _at(e, loop, later, stage):
            for task in mine:
                _prefetch(e, loop, task)


def take_ahead(e: RoleEmitter, loop: Loop, task: STask, stage: int, held: Registers) -> None:
    """The load's place in a pass: what came for it, then the request for the next."""
    ahead, w = e.ahead[task.name], e.scope.writer
    op = e.plan.load_op(task.name)
    dtype = e.plan.facts[op.tensor].tensor.dtype
    w.line(unroll(held.layout.registers, held.dtype))
    if ahead.vector == 1:
        value = f"{ahead.name}[i]"
        value = f"{value} & 15" if dtype.bits < 8 else c.from_memory(dtype, value)
        w.line(f"for (int i = 0; i < {held.layout.registers}; i++) {held.name}[i] = {value};")
    else:
        with w.block(f"for (int i = 0; i < {held.layout.registers}; i += {ahead.vector})"):
            elems = ahead.vector * dtype.bits // 8 if dtype.bits < 8 else ahead.vector
            w.line(f"{c.memory_type(dtype)} piece[{elems}];")
            w.line(f"from_words<{4 * ahead.size}>(piece, &{ahead.name}[i / {ahead.vector} * {ahead.size}]);")
            w.line("#pragma unroll")
            value = c.nibble("piece", "e") if dtype.bits < 8 else c.from_memory(dtype, "piece[e]")
            w.line(f"for (int e = 0; e < {ahead.vector}; e++) {held.name}[i + e] = {value};")
    w.note("for the next pass")
    with w.block(f"if ({ahead.instance} + 1 < {ahead.count})"), _at(e, loop, f"{ahead.instance} + 1", stage):
        _fetch(e, loop, task)
    with w.block(f"if ({ahead.instance} + {FAR} < {ahead.count})"), _at(e, loop, f"{ahead.instance} + {FAR}", stage):
        _prefetch(e, loop, task)


def _own_loads(e: RoleEmitter, loop: Loop, section: Section, stage: int) -> list[STask]:
    if e.role.kind != "worker" or loop_of_turns(e.plan) == loop.id:
        return []
    issued = [i for i in section.instrs if isinstance(i, Issue) and i.stage == stage]
    return [t for t in (e.plan.task(i.task) for i in issued) if t.kind is Kind.LOAD]


def _may_be_ahead(e: RoleEmitter, task: STask) -> bool:
    op = e.plan.load_op(task.name)
    tensor = e.plan.facts[op.tensor].tensor
    by_position = all(term.axis is not None for s in op.subscripts for term in s.terms)
    alone = len(task.ops) == 1 and not e.plan.guards(task) and e.plan.shared_tile(op.result.name) is None
    return by_position and alone and tensor.access is tile.Access.IN and bool(e.plan.layouts.get(op.result.name))


@contextmanager
def _at(e: RoleEmitter, loop: Loop, instance: str, stage: int) -> Iterator[None]:
    """While the loop's axes stand at another pass."""
    loops, before = e.places.loops[-1], e.scope.places
    own = loops.get(stage)
    e.places.enter_instance(loop, instance, stage)
    e.scope.places = e.places.at(stage)
    yield
    e.scope.places = before
    loops.pop(stage)
    if own is not None:
        loops[stage] = own


def _keep_pointers(e: RoleEmitter, loop: Loop, op: tile.Load, ahead: Ahead) -> str:
    """Declare the addresses of a tile's accesses less what the loop adds to them; "" where they would be too many, or
    where elements are less than a byte."""
    facts, layout = e.plan.facts[op.tensor], e.plan.layouts[op.result.name]
    tensor, accesses = facts.tensor, layout.registers // ahead.vector
    if accesses > MOST_POINTERS or tensor.dtype.bits < 8:
        return ""
    name, w, before = e.scope.fresh(op.result.name + "_from"), e.scope.writer, e.scope.places
    e.scope.places = before | {a.axis.name: Place("0", "0", e.plan.extents[a.axis.name], False) for a in loop.axes}
    w.line(f"const {c.memory_type(tensor.dtype)}* {name}[{accesses}];")
    indices = copy.element_indices(e.scope, op.subscripts, layout, f"(i * {ahead.vector})" if ahead.vector > 1 else "i")
    e.scope.places = before
    w.line("#pragma unroll")
    at = copy.offset(tensor, indices, facts.contiguous_dim)
    w.line(f"for (int i = 0; i < {accesses}; i++) {name}[i] = &{identifier(tensor.name)}[{at}];")
    return name


def _moved(e: RoleEmitter, loop: Loop, op: tile.Load) -> list[str]:
    """C expression along each dimension: what the loop adds to the index there."""
    own = {a.axis.name for a in loop.axes}
    return [copy.uniform_index(e.scope, replace(s, terms=tuple(t for t in s.terms if t.axis in own), offset=0), {})
            for s in op.subscripts]  # fmt: skip


def _fetch(e: RoleEmitter, loop: Loop, task: STask) -> None:
    """Load into the array, elements outside the tensor as 0."""
    ahead, op, w = e.ahead[task.name], e.plan.load_op(task.name), e.scope.writer
    facts, layout = e.plan.facts[op.tensor], e.plan.layouts[op.result.name]
    tensor, number = facts.tensor, f"i / {ahead.vector}" if ahead.vector > 1 else "i"
    if ahead.pointers:
        moved = e.scope.fresh(op.result.name + "_moved")
        w.line(f"const i64 {moved} = {copy.offset(tensor, _moved(e, loop, op), facts.contiguous_dim)};")
    w.line(unroll(layout.registers, op.result.type.dtype))
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {ahead.vector})"):
        indices = copy.element_indices(e.scope, op.subscripts, layout, "i")
        element = f"{identifier(tensor.name)}[{copy.offset(tensor, indices, facts.contiguous_dim)}]"
        element = f"{ahead.pointers}[{number}][{moved}]" if ahead.pointers else element
        valid = copy.inside(tensor, indices)
        if ahead.vector > 1:
            w.line(f"load_words<{4 * ahead.size}>(&{ahead.name}[{number} * {ahead.size}], &{element}, {valid});")
        elif tensor.dtype.bits < 8:
            w.line(f"{ahead.name}[i] = {copy.guarded_element(tensor, indices)};")
        else:
            w.line(f"{ahead.name}[i] = {valid} ? {element} : {c.memory_type(tensor.dtype)}(0);")


def _prefetch(e: RoleEmitter, loop: Loop, task: STask) -> None:
    """Ask for what the pass at the current places loads, where no earlier one asked for its sectors."""
    ahead, op, w = e.ahead[task.name], e.plan.load_op(task.name), e.scope.writer
    facts, layout = e.plan.facts[op.tensor], e.plan.layouts[op.result.name]
    tensor, moved = facts.tensor, _moved(e, loop, op)
    along = moved[facts.contiguous_dim] if facts.contiguous_dim >= 0 else "0"
    still = all(x == "0" for d, x in enumerate(moved) if d != facts.contiguous_dim)
    sector = SECTOR_BYTES * 8 // tensor.dtype.bits
    steps = [t.coefficient * e.plan.extents[t.axis] for t in op.subscripts[facts.contiguous_dim].terms
             if t.axis in {a.axis.name for a in loop.axes}]  # fmt: skip
    seldom = still and len(steps) == 1 and 0 < steps[0] < sector and along != "0"
    with w.block(f"if (({along}) % {sector} < {steps[0]})") if seldom else nullcontext():
        w.line(unroll(layout.registers, op.result.type.dtype))
        with w.block(f"for (int i = 0; i < {layout.registers}; i += {ahead.vector})"):
            indices = copy.element_indices(e.scope, op.subscripts, layout, "i")
            at = f"{identifier(tensor.name)}[{copy.offset(tensor, indices, facts.contiguous_dim)}]"
            w.line(f"prefetch_global(&{at}, {copy.inside(tensor, indices)});")
