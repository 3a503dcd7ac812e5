"""Stores of what a tile of the grid is summed up to: they would depend on where tiles end, which no program knows.

    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n] - tl.max(x[m, n], n)        # the maximum of a tile's part of the row

Fine are: such a value as a bound of a loop, as a condition, in tl.atomic_add (partial sums); axes of streams, whose
parts the program puts together itself; and a grid axis whose m.start or m.stop the kernel reads, by which it may
account for what lies outside of the tile.
"""

from __future__ import annotations

from threadloom.errors import CompileError, slug
from threadloom.tile.ops import AxisKind, Block, Bound, Dot, Grid, If, Kernel, Op, Reduce, Scan, Store, Stream, Value
from threadloom.tile.uses import operands, regions, results, walk

TILE_DEPENDENT = slug("tile-dependent", "a result would depend on the size of the grid's tiles")


def check_tile_dependence(kernel: Kernel) -> None:
    """Raise CompileError where a store's value or place depends on the extent of a grid's tile."""
    ops = list(walk(kernel.body))
    tiles = {a.axis.name for op in ops if isinstance(op, Grid) for a in op.axes if a.axis.kind is AxisKind.TILE}
    tiles -= {op.axis for op in ops if isinstance(op, Bound)}
    if tiles:
        _Dependence(tiles).block(kernel.body)


class _Dependence:
    def __init__(self, tiles: set[str]) -> None:
        self._tiles = tiles
        self._cause: dict[str, tuple[Op, str]] = {}  # of values that depend on tiles: the operation that began it, axis

    def block(self, block: Block) -> None:
        for op in block.ops:
            self._visit(op)

    def _visit(self, op: Op) -> None:
        if isinstance(op, Stream):
            self._stream(op)
            return
        for region in regions(op):
            self.block(region)
        read = [v for r in regions(op) for v in r.ops[-1].values] if isinstance(op, If) else operands(op)
        cause = self._begins(op) or self._first(read)
        if cause is None:
            return
        if isinstance(op, Store):
            raise _error(op, *cause)
        for result in results(op):
            self._cause.setdefault(result.name, cause)

    def _stream(self, op: Stream) -> None:
        """What is carried depends on tiles where its first value does, or a following one."""
        following = op.body.ops[-1].values
        for _ in range(len(op.args) + 1):  # one may come to depend by the next
            for arg, init, value in zip(op.args, op.inits, following, strict=True):
                if (cause := self._first((init, value))) is not None:
                    self._cause.setdefault(arg.name, cause)
            known = len(self._cause)
            self.block(op.body)
            if len(self._cause) == known:
                break
        for result, init, value in zip(op.results, op.inits, following, strict=True):
            if (cause := self._first((init, value))) is not None:
                self._cause.setdefault(result.name, cause)

    def _first(self, values: tuple[Value, ...] | list[Value]) -> tuple[Op, str] | None:
        return next((self._cause[v.name] for v in values if v.name in self._cause), None)

    def _begins(self, op: Op) -> tuple[Op, str] | None:
        match op:
            case Reduce() | Scan():
                axes = (op.axis,)
            case Dot():
                axes = op.over
            case _:
                return None
        return next(((op, axis) for axis in axes if axis in self._tiles), None)


def _error(store: Store, cause: Op, axis: str) -> CompileError:
    by = "tl.dot(..., over=...) with the axes that are meant, or " if isinstance(cause, Dot) else ""
    return CompileError(
        TILE_DEPENDENT,
        f"what is stored to {store.tensor} depends on the size of the tiles of {axis}, over which this goes",
        why=f"{axis} is a tile of the grid, and the compiler chooses how large it is",
        try_=f"{by}a tl.stream over that dimension, whose parts are put together, or all of it as an axis, "
        f'tl.axis("...")',
        loc=cause.loc,
    )
