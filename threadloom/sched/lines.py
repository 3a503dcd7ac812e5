"""Lines: what each role issues in each loop, in order and with stages, before any synchronisation.

before: the modulo schedule of every loop. after: per (loop, role) a Line of Items. In a loop without inner loops the
order is that of the start times modulo ii; a loop with inner loops runs its items in program order with one stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from threadloom.sched.fold import Modulo, in_order
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
    lead: list[Instr] = field(default_factory=list)  # before the items

    def position(self, task: str) -> int:
        return next(i for i, item in enumerate(self.items) if item.task == task)

    def inner(self, loop: int) -> int:
        return next(i for i, item in enumerate(self.items) if isinstance(item.instr, Inner) and item.instr.loop == loop)

    def instrs(self) -> tuple[Instr, ...]:
        return (*self.lead, *(i for item in self.items for i in (*item.before, item.instr, *item.after)))


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
                line = _straight(loop, placement, role.name, active[role.name])
            else:
                line = _modulo(loop, graph, placement, role.name, schedules[loop.id])
            lines[loop.id, role.name] = line
    return lines


def _active_loops(graph: TaskGraph, placement: Placement, role: str) -> set[int]:
    """Loops in which, or inside which, the role issues something other than scalars or waits for tiles that it reads
    later."""
    mine = [t for t in graph.tasks if t.kind is not Kind.SCALAR and role in placement.units[t.name].roles]
    own = {t.loop for t in mine}
    own |= {loop for loop, values in graph.kept_loops().items() if any(values & set(t.reads) for t in mine)}
    return {loop.id for loop in graph.loops if subtree(graph, loop.id) & own}


def _issue(task: str, placement: Placement, stage: int = 0) -> Issue:
    unit = placement.units[task]
    return Issue(task, unit.seu.name, unit.method, stage)


def _straight(loop: Loop, placement: Placement, role: str, active: set[int]) -> Line:
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
    """The role's part of the schedule, cut where its pass begins (`_cut`)."""
    nodes = made.problem.nodes
    starts = {n.name: s for n, s in zip(nodes, made.starts, strict=True)}
    ends = {(n.task, n.role): starts[n.name] + max(u.cycles for u in n.uses) for n in nodes}
    rank = {at: number for number, at in enumerate(in_order(made.problem))}  # of those that start together
    own = [(starts[n.name], rank[at], n) for at, n in enumerate(nodes) if n.role == role and n.issued_by < 0]
    begin = _cut([(start, node.is_issue) for start, _, node in own], made.ii)
    first = min(((start - begin) // made.ii for start, _, _ in own), default=0)
    offset = _offset(made, placement, role, begin)
    placed = []
    for start, number, node in own:
        stage, phase = divmod(start - begin, made.ii)
        placed.append((phase, number, stage - first, node))
    items = []
    for phase, _, stage, node in sorted(placed, key=lambda p: (p[0], p[1])):
        busy = ends[node.task, node.role] - starts[node.name]  # until its execution leaves the unit
        issue = Issue(node.task, node.seu.name, node.method, stage)
        items.append(Item(issue, offset + phase, offset + phase + busy))
    scalars = [t.name for t in graph.tasks if t.loop == loop.id and t.kind is Kind.SCALAR]
    lead = [Item(_issue(s, placement, min((item.stage for item in items), default=0))) for s in scalars]
    return Line(loop.id, role, made.ii, [*lead, *items])


def _cut(own: list[tuple[int, bool]], ii: int) -> int:
    """The start time at which the role's pass begins: few stages, then with a product that the role queues (what is
    queued together stands together then), then early. `own`: (start, is an issue to a queue)."""

    def cost(begin: int, is_issue: bool) -> tuple[int, bool, int]:
        stages = [(start - begin) // ii for start, _ in own]
        before = max((p for p in own if (p[0] - begin) % ii), key=lambda p: (p[0] - begin) % ii, default=None)
        heads = is_issue and (before is None or not before[1])
        return max(stages) - min(stages), not heads, begin

    return min((cost(start, is_issue) for start, is_issue in own), default=(0, False, 0))[2]


def _offset(made: Modulo, placement: Placement, role: str, begin: int) -> int:
    """When the role's passes begin after those of the first role of its kind, less than one interval."""
    kind = next(r.kind for r in placement.roles if r.name == role)
    first = next(r.name for r in placement.roles if r.kind == kind)
    peer = [
        (start, n.is_issue)
        for n, start in zip(made.problem.nodes, made.starts, strict=True)
        if n.role == first and n.issued_by < 0
    ]
    return (begin - _cut(peer, made.ii)) % made.ii
