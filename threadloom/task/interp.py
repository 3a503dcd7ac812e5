"""The meaning of sTask-graphs: each sTask runs its tile operations (tile/interp.py), in the order of the loop tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from threadloom.task.ops import Loop, STask, TaskGraph
from threadloom.tile.interp import Run, convert, loop_range, run_op, tile_positions
from threadloom.tile.ops import LoopAxis, Value


def interpret_graph(
    graph: TaskGraph,
    tensors: Mapping[str, np.ndarray],
    scalars: Mapping[str, float | int | bool],
    dims: Mapping[str, int],
    tiles: Mapping[str, int] | None = None,
    exact: bool = False,
) -> None:
    """Run the graph on logical arrays, writing outputs in place; like tile.interp.interpret."""
    run = Run(graph.kernel, tensors, dims, tiles or {}, exact)
    for scalar in graph.kernel.scalars:
        run.values[scalar.name] = convert(run, np.asarray(scalars[scalar.name]), scalar.dtype)
    GraphRun(graph, run).grid()


class GraphRun:
    """One execution of a graph; a subclass may take notes (sched/simulate_tiles.py)."""

    def __init__(self, graph: TaskGraph, run: Run):
        self.graph, self.run = graph, run
        self.tasks = {t.name: t for t in graph.tasks}
        self.loops = {loop.id: loop for loop in graph.loops}
        self.makers = {name: t for t in graph.tasks for name in t.writes}
        self.guards: dict[str, list[tuple[str, bool]]] = {}
        for guard in graph.guards:
            self.guards.setdefault(guard.task, []).append((guard.cond, guard.wanted))
        self.again = {a.axis.name for a in self.loops[0].axes} & {
            a.axis.name for loop in graph.loops if loop.id != 0 for a in loop.axes
        }  # axes of the grid that an inner loop cuts again
        self.kept: dict[int, list[dict[str, np.ndarray]]] = {loop.like: [] for loop in graph.loops if loop.like}

    def grid(self) -> None:
        """Loop 0: bounds of an axis may need scalar sTasks of the body, with the axes before it."""
        root = self.loops[0]
        for _ in self._positions(root.axes):
            self.items(root)

    def _positions(self, axes: tuple[LoopAxis, ...]) -> Iterator[None]:
        if not axes:
            yield
            return
        for value in (axes[0].start, axes[0].stop):
            if value is not None:
                self._make(value)
        for _ in self._chunks(axes[0]) if axes[0].axis.name in self.again else tile_positions(self.run, axes[:1]):
            yield from self._positions(axes[1:])

    def _chunks(self, axis: LoopAxis) -> Iterator[None]:
        """A grid axis that is walked inside: as many of its indices as its tile has, also where it has no tiles."""
        start, stop = loop_range(self.run, axis)
        step = self.run.tiles.get(axis.axis.name, max(1, stop - start))
        for at in range(start, stop, step):
            self.run.ranges[axis.axis.name] = (at, min(at + step, stop))
            yield

    def _inner_positions(self, loop: Loop) -> Iterator[None]:
        """An axis of the grid once more: each of its indices inside the grid's tile. None where the loop stands in a
        branch not taken, so that nothing has computed its bounds: none of its sTasks would run."""
        bounds = [v.name for a in loop.axes for v in (a.start, a.stop) if v is not None]
        if any(name not in self.run.values for name in bounds):
            return
        if not any(a.axis.name in self.again for a in loop.axes):
            yield from tile_positions(self.run, loop.axes)
            return
        (name,) = (a.axis.name for a in loop.axes)
        start, stop = self.run.ranges[name]
        for at in range(start, stop):
            self.run.ranges[name] = (at, at + 1)
            yield
        self.run.ranges[name] = (start, stop)

    def _make(self, value: Value) -> None:
        """Run the scalar sTasks that a grid bound depends on."""
        task = self.makers.get(value.name)
        if task is None:
            return  # a parameter
        for name in task.reads:
            self._make(Value(name, value.type))
        self.task(task)

    def items(self, loop: Loop) -> None:
        for item in loop.items:
            if isinstance(item, int):
                self.stream(self.loops[item])
            else:
                self.task(self.tasks[item])

    def stream(self, loop: Loop) -> None:
        values = self.run.values
        carried = {arg.name: values.get(init.name) for init, arg, _, _ in loop.carried}
        made: list[dict[str, np.ndarray]] = []
        for at, _ in enumerate(self._inner_positions(loop)):
            values.update(carried)
            values.update(self.kept[loop.like][at] if loop.like is not None else {})
            self.items(loop)
            if loop.id in self.kept:
                made.append({v: values.get(v) for i in loop.items for v in self._written(i)})
            carried = {arg.name: values.get(following.name) for _, arg, following, _ in loop.carried}
        values.update((result.name, carried[arg.name]) for _, arg, _, result in loop.carried)
        if loop.id in self.kept:
            self.kept[loop.id] = made

    def _written(self, item: str | int) -> tuple[str, ...]:
        return self.tasks[item].writes if isinstance(item, str) else ()

    def task(self, task: STask) -> None:
        if all(bool(self.run.values[cond]) is wanted for cond, wanted in self.guards.get(task.name, ())):
            for op in task.ops:
                run_op(self.run, op)
