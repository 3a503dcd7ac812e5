"""An sProgram in the making: the lines of its roles, and what those who synchronise them look up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.machine.model import SEU, Completion
from threadloom.sched.lines import Item, Line, subtree
from threadloom.sched.ops import Buffer, Issue, Signal
from threadloom.sched.pipeline import pairs
from threadloom.sched.placement import Placement
from threadloom.sched.queued import Queued
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Edge, Kind, TaskGraph


@dataclass(frozen=True, slots=True)
class Dependence:
    """Role `src_role` at `edge.src` -> role `dst_role` at `edge.dst`, in the lines of their common loop."""

    loop: int
    src_role: str
    dst_role: str
    edge: Edge
    tile: str


class Draft:
    """`lines` are changed in place; `signals` are those that they use so far."""

    def __init__(
        self,
        graph: TaskGraph,
        placement: Placement,
        lines: dict[tuple[int, str], Line],
        buffers: dict[tuple[str, str], Buffer],
    ):
        self.graph, self.placement, self.lines, self.buffers = graph, placement, lines, buffers
        self.signals: dict[str, Signal] = {}
        self.tiles = TileMap(graph)
        self.loop_of = self.tiles.loop_of_task
        self._parents = {loop.id: loop.parent for loop in graph.loops}

    # ------------------------------------------------ what depends on what

    def dependences(self) -> list[Dependence]:
        """Every graph edge between roles that really issue its ends, in the innermost loop that holds both."""
        found = []
        for edge in self.graph.edges:
            if Kind.SCALAR in (self.graph.task(edge.src).kind, self.graph.task(edge.dst).kind):
                continue
            tile = self.tiles.of(edge.value)
            for src, dst in pairs(edge, self.placement, self.placement.places.get(tile)):
                found.append(Dependence(self._common(edge), src, dst, edge, tile))
        return found

    def _chain(self, loop: int) -> list[int]:
        chain = [loop]
        while (up := self._parents[chain[-1]]) is not None:
            chain.append(up)
        return chain

    def _common(self, edge: Edge) -> int:
        inside = self._chain(self.loop_of[edge.src])
        return next(loop for loop in self._chain(self.loop_of[edge.dst]) if loop in inside)

    def needs_ring(self, dep: Dependence) -> bool:
        """A value that crosses roles, or that a unit with memory barriers makes."""
        return dep.src_role != dep.dst_role or self.seu(dep.edge.src).completion is Completion.MBARRIER

    # ------------------------------------------------ units, places, buffers

    def seu(self, task: str) -> SEU:
        return self.placement.units[task].seu

    def group(self, task: str) -> str:
        """The FIFO of the task's unit, one for each role."""
        return f"{self.seu(task).name}.group"

    def writes(self, task: str, tile: str) -> bool:
        return any(self.tiles.of(v) == tile for v in self.graph.task(task).writes)

    def buffer(self, tile: str, role: str) -> Buffer | None:
        return self.buffers.get((tile, role)) or self.buffers.get((tile, ""))

    def buffer_name(self, dep: Dependence) -> str:
        buffer = self.buffer(dep.tile, dep.src_role)
        return buffer.name if buffer else dep.tile

    def position(self, loop: int, role: str, task: str) -> int:
        """Where the role's line of `loop` holds the task, or the inner loop with it."""
        line, at = self.lines[loop, role], self.loop_of[task]
        if at == loop:
            return line.position(task)
        return line.inner(next(c for c in self._chain(at) if self._parents[c] == loop))

    def item(self, loop: int, role: str, task: str) -> Item:
        return self.lines[loop, role].items[self.position(loop, role, task)]

    def issued(self, role: str, task: str) -> Item:
        """The role's Issue of the task."""
        return self.item(self.loop_of[task], role, task)

    def queued(self, line: Line, task: str) -> Queued:
        """The group that the line's item with the task adds to its FIFO."""
        signal, came = self.group(task), self.position(line.loop, line.role, task)
        return Queued(line, signal, came, tuple(self._joins(item, signal) for item in line.items))

    def _joins(self, item: Item, signal: str) -> int | None:
        """Groups that the item adds to the FIFO; None where it is an inner loop that adds an unknown number."""
        if isinstance(item.instr, Issue):
            return 1 if item.instr.completes == signal else 0
        inside = subtree(self.graph, item.instr.loop)
        used = any(self.group(t.name) == signal for t in self.graph.tasks if t.loop in inside)
        return None if used else 0


def complete_at(item: Item, signal: str) -> None:
    """Let the item's task complete at `signal`."""
    assert isinstance(item.instr, Issue)
    item.instr = replace(item.instr, completes=signal)
