"""Which tile a value of a task graph lies in."""

from __future__ import annotations

from threadloom.task.ops import TaskGraph, Tile
from threadloom.tile.ops import TileType


class TileMap:
    """Values of a loop-carried quadruple (init, argument, next, result) share the one carried tile."""

    def __init__(self, graph: TaskGraph):
        self._tiles = {t.name: t for t in graph.tiles}
        self.living: dict[tuple[str, bool, int], bool] = {}  # (tile, carried, loop): lives across it (candidate.py)
        self.loop_of_task: dict[str, int] = {t.name: t.loop for t in graph.tasks}
        self._of: dict[str, str] = {name: name for name in self._tiles}
        self._of |= {value: t.name for t in graph.tiles for value in t.values}
        grew = True
        while grew:  # nested loops chain quadruples: an inner result is an outer next
            grew = False
            for loop in graph.loops:
                for quadruple in loop.carried:
                    known = next((self._of[v.name] for v in quadruple if v.name in self._of), "")
                    for value in quadruple if known else ():
                        if value.name not in self._of:
                            self._of[value.name] = known
                            grew = True

    def of(self, value: str) -> str:
        """The tile's name, or "" where the value needs no place."""
        return self._of.get(value, "")

    def tile(self, name: str) -> Tile:
        return self._tiles[name]

    def type(self, name: str) -> TileType:
        return self._tiles[name].type
