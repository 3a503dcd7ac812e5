"""The scheduling problem of one loop: nodes (an sTask as one role issues it), arcs, buffers with slots, capacities.

before: TaskGraph + Placement + costs. after: one Problem per loop, in cycles. Policies (greedy, optimal, a user's) see
only this; they know units and memories, no operator. Source: PipeThreader, section 4, figure 9; prototype study for the
formulation as a modulo schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from threadloom.machine.model import SEU, Completion
from threadloom.sched.placement import Place, Placement
from threadloom.sched.profile import Costs
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Edge, Kind, Method, TaskGraph


@dataclass(frozen=True, slots=True)
class Use:
    """`resource` is busy for `cycles` from the start, with `demand` of its capacity of 1."""

    resource: str
    cycles: int
    demand: float


@dataclass(frozen=True, slots=True)
class Node:
    """sTask `task` as issued by `role`: start -> `latency` cycles -> its result can be used.

    Where a role has other work than feeding a matrix unit, an sTask there is two nodes: its issue, which occupies the
    role and waits for operands, and its execution (`issued_by`: number of the issue), which follows in the unit's
    queue when its turn comes. So a role can queue two products and go on to vector work under both.
    """

    name: str
    task: str
    role: str
    seu: SEU
    method: Method
    uses: tuple[Use, ...]
    latency: int
    issued_by: int = -1
    is_issue: bool = False

    @property
    def is_async(self) -> bool:
        return self.seu.is_async


@dataclass(frozen=True, slots=True)
class Arc:
    """start[dst] + distance*ii >= start[src] + latency, nodes by number. `value`: the tile behind it, "" for order."""

    src: int
    dst: int
    latency: int
    distance: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """A buffer with slots: taken when `producer` starts, free when all `readers` (node, distance) are done."""

    name: str
    tile: str
    space: str
    role: str
    bytes: int
    producer: int
    readers: tuple[tuple[int, int], ...]
    fixed: bool = False  # never more than one slot


@dataclass(frozen=True, slots=True)
class Space:
    """Capacity left for this loop's buffers in a memory of the EU (`role` "") or of one role."""

    name: str
    role: str
    free_bytes: int
    granule_bytes: int = 1

    def taken(self, bytes_per_slot: int, slots: int) -> int:
        """Bytes that a buffer takes: each slot is rounded up to what the memory hands out."""
        return -(-bytes_per_slot // self.granule_bytes) * self.granule_bytes * slots


@dataclass(frozen=True, slots=True)
class Problem:
    loop: int
    nodes: tuple[Node, ...]  # in program order
    arcs: tuple[Arc, ...]
    pools: tuple[Pool, ...]
    spaces: tuple[Space, ...]

    def index(self, name: str) -> int:
        return next(i for i, n in enumerate(self.nodes) if n.name == name)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the nodes that a policy appends: issues go with their executions."""
        return tuple(n.name for n in self.nodes if not n.is_issue)

    def queues(self) -> dict[str, list[tuple[int, int]]]:
        """Matrix unit -> (issue, execution) of the sTasks that it executes in the order of their issues."""
        found: dict[str, list[tuple[int, int]]] = {}
        for i, node in enumerate(self.nodes):
            if node.issued_by >= 0:
                found.setdefault(node.seu.name, []).append((node.issued_by, i))
        return found

    def resources(self) -> dict[str, list[tuple[int, Use]]]:
        found: dict[str, list[tuple[int, Use]]] = {}
        for i, node in enumerate(self.nodes):
            for use in node.uses:
                found.setdefault(use.resource, []).append((i, use))
        return found


# ---------------------------------------------------------------- building


def build(loop: int, graph: TaskGraph, placement: Placement, costs: Costs, spaces: tuple[Space, ...]) -> Problem:
    """The problem of `loop`'s own sTasks (inner loops are not part of it)."""
    tile_map = costs.tile_map
    nodes = _nodes(loop, graph, placement, costs)
    start = {(n.task, n.role): i for i, n in enumerate(nodes) if n.issued_by < 0}  # where an sTask begins
    end = {(n.task, n.role): i for i, n in enumerate(nodes) if not n.is_issue}  # and where it is done
    arcs: dict[tuple[int, int, int], Arc] = {}
    edges = [e for e in graph.edges if _inside(e, loop, graph)]
    for edge in edges:
        tile = tile_map.of(edge.value)
        for src, dst in pairs(edge, placement, placement.places.get(tile)):
            _add(arcs, nodes, end[edge.src, src], start[edge.dst, dst], edge.distance, tile or edge.value)
    for edge in edges:
        for reader, updater, distance in updates_after(edge, graph, tile_map):
            for role in placement.units[reader].roles:
                if (updater, role) in start and reader != updater:
                    _add(arcs, nodes, end[reader, role], start[updater, role], distance, "")
    for first, second in _both_branches(loop, graph):  # in program order, as the checker reads them
        for role in placement.units[first].roles:
            if (first, role) in end and (second, role) in start:
                _add(arcs, nodes, end[first, role], start[second, role], 0, "")
    for i, node in enumerate(nodes):
        if node.issued_by >= 0:
            _add(arcs, nodes, node.issued_by, i, 0, "")
    pools = _pools(loop, graph, placement, start, end, edges, tile_map)
    return Problem(loop, nodes, tuple(arcs.values()), pools, spaces)


def _both_branches(loop: int, graph: TaskGraph) -> list[tuple[str, str]]:
    """Pairs of sTasks of the loop that write one value, each in its branch of a condition."""
    makers: dict[str, list[str]] = {}
    for task in graph.tasks:
        for name in task.writes if task.loop == loop else ():
            makers.setdefault(name, []).append(task.name)
    return [pair for names in makers.values() for pair in pairwise(names)]


def _nodes(loop: int, graph: TaskGraph, placement: Placement, costs: Costs) -> tuple[Node, ...]:
    """Nodes in program order, workers of one task side by side. Scalars cost nothing and are no nodes."""
    made: list[Node] = []
    own = [t for t in graph.tasks if t.loop == loop and t.kind is not Kind.SCALAR]
    busy_roles = {r for t in own if not placement.units[t.name].seu.is_async for r in placement.units[t.name].roles}
    for task in own:
        unit, cycles = placement.units[task.name], costs.of(task)
        occupancy, latency = max(1, round(cycles.occupancy)), max(1, round(cycles.latency))
        held = max(1, round(unit.seu.issue_cycles.value)) if unit.seu.is_async else occupancy
        for role in unit.roles:
            name, queued = f"{task.name}@{role}", role in busy_roles and unit.seu.completion is Completion.MMA_GROUP
            on_role, on_unit = Use(f"role:{role}", held, 1.0), Use(unit.seu.name, occupancy, cycles.demand)
            what = (task.name, role, unit.seu, unit.method)
            if queued:
                made.append(Node(f"issue {name}", *what, (on_role,), held, is_issue=True))
                made.append(Node(name, *what, (on_unit,), latency, issued_by=len(made) - 1))
            else:
                made.append(Node(name, *what, (on_role, on_unit), latency))
    return tuple(made)


def _inside(edge: Edge, loop: int, graph: TaskGraph) -> bool:
    src, dst = graph.task(edge.src), graph.task(edge.dst)
    return src.loop == dst.loop == loop and Kind.SCALAR not in (src.kind, dst.kind)


def pairs(edge: Edge, placement: Placement, place: Place | None) -> list[tuple[str, str]]:
    """Pairs of roles between which the edge carries a value: each with itself, over a shared place all with all."""
    sources, targets = placement.units[edge.src].roles, placement.units[edge.dst].roles
    if place is not None and place.shared:
        return [(s, t) for s in sources for t in targets]
    return [(r, r) for r in sources if r in targets]


def _add(arcs: dict, nodes: tuple[Node, ...], src: int, dst: int, distance: int, value: str) -> None:
    known = arcs.get((src, dst, distance))
    if known is None or (value and not known.value):
        arcs[src, dst, distance] = Arc(src, dst, nodes[src].latency, distance, value)


def updates_after(edge: Edge, graph: TaskGraph, tile_map: TileMap) -> list[tuple[str, str, int]]:
    """(reader, updater, distance): a carried tile is updated in place, so whoever reads what `edge.src` left there must
    be done before the next update."""
    tile = tile_map.of(edge.value)
    if not tile or tile_map.tile(tile).carried is None:
        return []
    loop = graph.task(edge.src).loop
    order = [t.name for t in graph.tasks if t.loop == loop and t.name in tile_map.tile(tile).producers]
    if edge.src not in order:
        return []
    at = order.index(edge.src)
    for step in range(1, 2 * len(order) + 1):
        wraps, place = divmod(at + step, len(order))
        following, distance = order[place], wraps - edge.distance
        if wraps == 0 and exclusive(edge.src, following, graph):
            continue
        if distance == 0 and exclusive(edge.dst, following, graph):
            continue  # it does not run where the reader does
        return [(edge.dst, following, distance)] if edge.dst != following else []
    return []


def exclusive(a: str, b: str, graph: TaskGraph) -> bool:
    """Whether the two sTasks stand in opposite branches of one condition, so that only one runs."""
    wanted = {(g.cond, g.wanted) for g in graph.guards if g.task == a}
    return any((g.cond, not g.wanted) in wanted for g in graph.guards if g.task == b)


def _pools(
    loop: int,
    graph: TaskGraph,
    placement: Placement,
    start: dict[tuple[str, str], int],
    end: dict[tuple[str, str], int],
    edges: list[Edge],
    tile_map: TileMap,
) -> tuple[Pool, ...]:
    """Buffers whose instances are made in this loop, one per role where each role holds its own."""
    made: list[Pool] = []
    for place in placement.places.values():
        tile = tile_map.tile(place.tile)
        if place.carried or not tile.producers or graph.task(tile.producers[0]).loop != loop:
            continue
        used = [e for e in edges if tile_map.of(e.value) == place.tile]
        for role in ("",) if place.shared else placement.units[tile.producers[0]].roles:
            producers = [i for (t, r), i in start.items() if t in tile.producers and role in ("", r)]
            readers = {
                (end[e.dst, r], e.distance) for e in used for r in placement.units[e.dst].roles if role in ("", r)
            }
            if producers:
                first = min(producers)
                ends = tuple(sorted(readers)) or ((max(end[t, r] for t, r in end if start[t, r] in producers), 0),)
                name = place.tile if role == "" else f"{place.tile}@{role}"
                fixed = place.most_slots == 1 or place.kept_slots > 0
                size = place.bytes_per_slot * place.least_slots  # kept slots come and go together
                made.append(Pool(name, place.tile, place.space, role, size, first, ends, fixed))
    return tuple(made)
