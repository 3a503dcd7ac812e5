"""Lines: what each role issues in each loop, in order and with stages, before any synchronisation.

before: the modulo schedule of every loop. after: per (loop, role) a Line of Items. In a loop without inner loops the
order is that of the start times modulo ii; a loop with inner loops runs its items in program order with one stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from threadloom.sched.fold import Modulo
from threadloom.sched.ops import Inner, Instr, Issue
from threadloom.sched.placement import Placement
from threadloom.task.ops import Kind, Loop, TaskGraph


@dataclass(slots=True)
class Item:
    """An Issue or Inner with what must come directly before and after it. `start`: cycles since the line began."""

    instr: Issue | Inner
    start: int = 0
    done: int = 0
    before: list[Instr] = field(default_factory=list)
    after: list[Instr] = field(default_factory=list)

    @property
    def stage(self) -> int:
        return self.instr.stage

    @property
    def task(self) -> str:
        return self.instr.task if isinstance(self.instr, Issue) else ""


@dataclass(slots=True)
class Line:
    loop: int
    role: str
    ii: int
    items: list[Item]

    def position(self, task: str) -> int:
        return next(i for i, item in enumerate(self.items) if item.task == task)

    def inner(self, loop: int) -> int:
        return next(i for i, item in enumerate(self.items) if isinstance(item.instr, Inner) and item.instr.loop == loop)

    def instrs(self) -> tuple[Instr, ...]:
        return tuple(i for item in self.items for i in (*item.before, item.instr, *item.after))


def inner_loops(loop: Loop) -> list[int]:
    return [item for item in loop.items if isinstance(item, int)]


def subtree(graph: TaskGraph, loop: int) -> set[int]:
    """`loop` and all loops inside it."""
    found = {loop}
    for other in graph.loops:  # program order: parents come first
        if other.parent in found:
            found.add(other.id)
    return found


def lines_of(graph: TaskGraph, placement: Placement, schedules: dict[int, Modulo]) -> dict[tuple[int, str], Line]:
    """A line for every loop and role that has something to do there or in a loop inside."""
    lines: dict[tuple[int, str], Line] = {}
    active = {r.name: _active_loops(graph, placement, r.name) for r in placement.roles}
    for loop in graph.loops:
        for role in placement.roles:
            if loop.id not in active[role.name] and loop.id != 0:
                continue
            if inner_loops(loop):
                line = _straight(loop, graph, placement, role.name, active[role.name])
            else:
                line = _modulo(loop, graph, placement, role.name, schedules[loop.id])
            lines[loop.id, role.name] = line
    return lines


def _active_loops(graph: TaskGraph, placement: Placement, role: str) -> set[int]:
    """Loops in which, or inside which, the role issues something other than scalars."""
    own = {t.loop for t in graph.tasks if t.kind is not Kind.SCALAR and role in placement.units[t.name].roles}
    return {loop.id for loop in graph.loops if subtree(graph, loop.id) & own}


def _issue(task: str, placement: Placement, stage: int = 0) -> Issue:
    unit = placement.units[task]
    return Issue(task, unit.seu.name, unit.method, stage)


def _straight(loop: Loop, graph: TaskGraph, placement: Placement, role: str, active: set[int]) -> Line:
    items = []
    for item in loop.items:
        if isinstance(item, int):
            if item in active:
                items.append(Item(Inner(item)))
        elif role in placement.units[item].roles:
            items.append(Item(_issue(item, placement)))
    for at, item in enumerate(items):
        item.start, item.done = at, at + 1
    return Line(loop.id, role, max(1, len(items)), items)


def _modulo(loop: Loop, graph: TaskGraph, placement: Placement, role: str, made: Modulo) -> Line:
    """Roles of one kind share the moment from which stages count, so that turns between them stay in step."""
    kind = next(r.kind for r in placement.roles if r.name == role)
    peers = {r.name for r in placement.roles if r.kind == kind}
    starts = {n.name: s for n, s in zip(made.problem.nodes, made.starts, strict=True)}
    base = min((starts[n.name] for n in made.problem.nodes if n.role in peers), default=0)
    ends = {(n.task, n.role): starts[n.name] + max(u.cycles for u in n.uses) for n in made.problem.nodes}
    placed = []
    for number, node in enumerate(made.problem.nodes):
        if node.role == role and node.issued_by < 0:
            at = starts[node.name] - base
            placed.append((at % made.ii, number, at // made.ii, node))
    items = []
    for phase, _, stage, node in sorted(placed, key=lambda p: (p[0], p[1])):
        busy = ends[node.task, node.role] - starts[node.name]  # until its execution leaves the unit
        items.append(Item(Issue(node.task, node.seu.name, node.method, stage), phase, phase + busy))
    scalars = [t.name for t in graph.tasks if t.loop == loop.id and t.kind is Kind.SCALAR]
    first = min((item.stage for item in items), default=0)
    lead = [Item(_issue(s, placement, first)) for s in scalars]
    return Line(loop.id, role, made.ii, [*lead, *items])
