"""Minimum vertex cut: which values to keep so that all others can be recomputed, at the fewest bytes.

    sources {x, y}, edges x->a, y->b, x->c, y->c, sinks {a, b, c}, 4 bytes each      ->  keep {x, y}, not {a, b, c}

Among the minimum cuts it takes the one nearest to the sinks, which recomputes least.
Source: Ford-Fulkerson with shortest augmenting paths (Dinic); the use for fission is section 3.2 of the paper
(PPoPP'23). Ours works on all barriers of a kernel at once instead of one barrier at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_INFINITE = 1 << 60


@dataclass(slots=True)
class _Arc:
    head: int
    room: int
    back: int  # index of the reverse arc in `arcs[head]`


@dataclass(slots=True)
class _Network:
    """Residual network; vertex v of the graph is the pair of nodes 2v (in) and 2v + 1 (out)."""

    arcs: list[list[_Arc]] = field(default_factory=list)

    def connect(self, tail: int, head: int, capacity: int) -> None:
        while len(self.arcs) <= max(tail, head):
            self.arcs.append([])
        self.arcs[tail].append(_Arc(head, capacity, len(self.arcs[head])))
        self.arcs[head].append(_Arc(tail, 0, len(self.arcs[tail]) - 1))

    def augment(self, source: int, sink: int) -> bool:
        """Push as much as fits along one shortest path; False where there is none."""
        came: dict[int, tuple[int, int]] = {source: (-1, -1)}
        queue = deque([source])
        while queue and sink not in came:
            node = queue.popleft()
            for index, arc in enumerate(self.arcs[node]):
                if arc.room and arc.head not in came:
                    came[arc.head] = (node, index)
                    queue.append(arc.head)
        if sink not in came:
            return False
        path, node = [], sink
        while node != source:
            tail, index = came[node]
            path.append(self.arcs[tail][index])
            node = tail
        pushed = min(arc.room for arc in path)
        for arc in path:
            arc.room -= pushed
            self.arcs[arc.head][arc.back].room += pushed
        return True

    def reaching(self, sink: int) -> set[int]:
        """Nodes from which the sink can still be reached."""
        found, queue = {sink}, deque([sink])
        while queue:
            for arc in self.arcs[queue.popleft()]:
                if arc.head not in found and self.arcs[arc.head][arc.back].room:
                    found.add(arc.head)
                    queue.append(arc.head)
        return found


def minimum_cut(
    weights: Mapping[str, int],
    operands: Mapping[str, Sequence[str]],
    sources: Iterable[str],
    sinks: Iterable[str],
) -> frozenset[str]:
    """The lightest set of values that meets every path from a source to a sink along operand -> user edges."""
    number: dict[Hashable, int] = {name: index for index, name in enumerate(weights)}
    source, sink = 2 * len(number), 2 * len(number) + 1
    network = _Network([[] for _ in range(2 * len(number) + 2)])
    for name, weight in weights.items():
        network.connect(2 * number[name], 2 * number[name] + 1, weight)
        for operand in operands.get(name, ()):
            if operand in number:
                network.connect(2 * number[operand] + 1, 2 * number[name], _INFINITE)
    for name in sources:
        network.connect(source, 2 * number[name], _INFINITE)
    for name in sinks:
        network.connect(2 * number[name] + 1, sink, _INFINITE)
    while network.augment(source, sink):
        pass
    below = network.reaching(sink)
    return frozenset(name for name in weights if 2 * number[name] + 1 in below and 2 * number[name] not in below)
