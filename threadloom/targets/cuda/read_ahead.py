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
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.sched.ops import Issue, Section
from threadloom.targets.cuda import copy
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.parts_in_turn import loop_of_turns
from threadloom.targets.cuda.registers import Registers, unroll
from threadloom.task.ops import Kind, Loop, STask
from threadloom.tile import ops as tile

if TYPE_CHECKING:
    from threadloom.targets.cuda.section import RoleEmitter

MOST_WORDS = 16  # registers that one tile may take while it is ahead
FAR = 4  # passes ahead of its use that data is asked into the second-level cache: memory takes longer than a pass


@dataclass(frozen=True, slots=True)
class Ahead:
    """`name`: C array of what was loaded, `size` elements of `kind` for each `vector` elements of the tile; `instance`,
    `count`: C expressions of the pass being written and of how many there are."""

    name: str
    kind: str
    size: int
    vector: int
    instance: str
    count: str


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
        e.ahead[task.name] = Ahead(name, kind, size, vector, instance, count)
        w.line(f"{kind} {name}[{layout.registers // vector * size}];")
    mine = [t for t in found if t.name in e.ahead]
    if mine:
        with w.block(f"if ({count} > 0)"), _at(e, loop, "0", stage):
            for task in mine:
                _fetch(e, task)
        later = e.scope.fresh("later")
        with w.block(f"for (i32 {later} = 1; {later} < min({FAR}, {count}); {later}++)"), _at(e, loop, later, stage):
            for task in mine:
                _fetch(e, task, "prefetch")


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
            value = copy.nibble("piece", "e") if dtype.bits < 8 else c.from_memory(dtype, "piece[e]")
            w.line(f"for (int e = 0; e < {ahead.vector}; e++) {held.name}[i + e] = {value};")
    w.note("for the next pass")
    with w.block(f"if ({ahead.instance} + 1 < {ahead.count})"), _at(e, loop, f"{ahead.instance} + 1", stage):
        _fetch(e, task)
    with w.block(f"if ({ahead.instance} + {FAR} < {ahead.count})"), _at(e, loop, f"{ahead.instance} + {FAR}", stage):
        _fetch(e, task, "prefetch")


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


def _fetch(e: RoleEmitter, task: STask, only: str = "") -> None:
    """Load into the array, elements outside the tensor as 0; `only` prefetch: into the second-level cache."""
    ahead, op, w = e.ahead[task.name], e.plan.load_op(task.name), e.scope.writer
    facts, layout = e.plan.facts[op.tensor], e.plan.layouts[op.result.name]
    tensor = facts.tensor
    w.line(unroll(layout.registers, op.result.type.dtype))
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {ahead.vector})"):
        indices = copy.element_indices(e.scope, op.subscripts, layout, "i")
        at = f"{identifier(tensor.name)}[{copy.offset(tensor, indices)}]"
        if only:
            w.line(f"prefetch_global(&{at}, {copy.inside(tensor, indices)});")
        elif ahead.vector > 1:
            valid = copy.inside(tensor, indices)
            to = f"&{ahead.name}[i / {ahead.vector} * {ahead.size}]"
            w.line(f"load_words<{4 * ahead.size}>({to}, &{at}, {valid});")
        elif tensor.dtype.bits < 8:
            w.line(f"{ahead.name}[i] = {copy.guarded_element(tensor, indices)};")
        else:
            w.line(f"{ahead.name}[i] = {copy.stored_element(tensor, indices)};")
