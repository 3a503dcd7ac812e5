"""Which operations of a loop body form one sTask: vector code that hangs together, scalar code that hangs together.

Two groups joined by a value are fused if nothing else stands between them: if every path from one to the other is
direct, so that the fused group never waits for something that waits for it. Fusing until nothing more can be fused
gives maximal convex groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.task.flatten import Guards
from threadloom.task.ops import Kind
from threadloom.tile.ops import Op, Reduce, Scan
from threadloom.tile.uses import operands, results


@dataclass(slots=True)
class Node:
    """A group of operations on its way to an sTask. `at` is the place of its first operation; `depth` the number of
    grid axes it needs to know; `space` and `part` (axes iterated over, reductions before it) only matter where groups
    are split."""

    at: int
    kind: Kind | None  # None: an inner loop
    ops: list[Op]
    guards: Guards
    loop: int | None
    reads: set[str]
    writes: set[str]
    depth: int = 0
    space: frozenset[str] = frozenset()
    part: int = 0


def fuse(nodes: list[Node], split: bool) -> list[Node]:
    """The groups of `nodes`, as merged nodes. With `split`, groups end at reductions and where the space changes."""
    if split:
        _set_parts(nodes)
    changed = True
    while changed:
        changed = False
        for a, b in _pairs(nodes):
            if _alike(a, b) and not _indirect_path(nodes, a, b):
                _absorb(a, b)
                nodes = [n for n in nodes if n is not b]
                changed = True
                break
    return nodes


def _set_parts(nodes: list[Node]) -> None:
    part_of: dict[str, int] = {}
    for node in ordered(nodes):
        if node.kind is not Kind.VECTOR:
            continue
        op = node.ops[0]
        node.space = frozenset(a for v in (*results(op), *operands(op)) for a in v.type.axes)
        node.part = max((part_of.get(name, 0) for name in node.reads), default=0)
        part_of.update(dict.fromkeys(node.writes, node.part + isinstance(op, Reduce | Scan)))


def _pairs(nodes: list[Node]) -> list[tuple[Node, Node]]:
    """Neighbours along a value, in program order."""
    makers = _makers(nodes)
    fusable = (Kind.VECTOR, Kind.SCALAR)
    return [
        (before, node)
        for node in nodes
        if node.kind in fusable
        for before in _before(node, makers)
        if before.kind is node.kind
    ]


def _alike(a: Node, b: Node) -> bool:
    same_place = a.kind is b.kind and a.guards == b.guards and a.space == b.space and a.part == b.part
    return same_place and (a.kind is Kind.VECTOR or a.depth == b.depth)


def _indirect_path(nodes: list[Node], a: Node, b: Node) -> bool:
    """Whether b depends on a through some other node."""
    makers = _makers(nodes)
    pending = [n for n in _before(b, makers) if n is not a]
    seen = {id(n) for n in pending}
    while pending:
        node = pending.pop()
        for before in _before(node, makers):
            if before is a:
                return True
            if id(before) not in seen:
                seen.add(id(before))
                pending.append(before)
    return False


def _absorb(a: Node, b: Node) -> None:
    a.ops = [*a.ops, *b.ops]
    a.reads |= b.reads
    a.writes |= b.writes
    a.reads -= a.writes - {cond for cond, _ in a.guards}
    a.at = max(a.at, b.at)


def _makers(nodes: list[Node]) -> dict[str, list[Node]]:
    """Who makes each value (both branches of a condition may)."""
    makers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.writes:
            makers.setdefault(name, []).append(node)
    return makers


def _before(node: Node, makers: dict[str, list[Node]]) -> list[Node]:
    found = {id(m): m for name in sorted(node.reads) for m in makers.get(name, ()) if m is not node}
    return list(found.values())


def ordered(nodes: list[Node]) -> list[Node]:
    """Makers first; earliest in the program first among those that are ready."""
    makers = _makers(nodes)
    waiting = {at: {id(p) for p in _before(n, makers)} for at, n in enumerate(nodes)}
    order: list[Node] = []
    while waiting:
        ready = [at for at, before in waiting.items() if not before]
        if not ready:
            raise InternalError("the operations of a loop depend on one another in a circle")
        first = min(ready, key=lambda at: nodes[at].at)
        order.append(nodes[first])
        del waiting[first]
        for before in waiting.values():
            before.discard(id(nodes[first]))
    return order
