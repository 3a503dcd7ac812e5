"""The meaning of sTask-graphs: each sTask runs its tile operations (tile/interp.py), in the order of the loop tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from threadloom.task.ops import Loop, STask, TaskGraph
from threadloom.tile.interp import Run, convert, run_op, tile_positions
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
    _Graph(graph, run).grid()


class _Graph:
    def __init__(self, graph: TaskGraph, run: Run):
        self.graph, self.run = graph, run
        self.tasks = {t.name: t for t in graph.tasks}
        self.loops = {loop.id: loop for loop in graph.loops}
        self.makers = {name: t for t in graph.tasks for name in t.writes}
        self.guards: dict[str, list[tuple[str, bool]]] = {}
        for guard in graph.guards:
            self.guards.setdefault(guard.task, []).append((guard.cond, guard.wanted))

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
        for _ in tile_positions(self.run, axes[:1]):
            yield from self._positions(axes[1:])

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
        for _ in tile_positions(self.run, loop.axes):
            values.update(carried)
            self.items(loop)
            carried = {arg.name: values.get(following.name) for _, arg, following, _ in loop.carried}
        values.update((result.name, carried[arg.name]) for _, arg, _, result in loop.carried)

    def task(self, task: STask) -> None:
        if all(bool(self.run.values[cond]) is wanted for cond, wanted in self.guards.get(task.name, ())):
            for op in task.ops:
                run_op(self.run, op)
