"""While a block runs, the tiles that the next block of its worker will read are on their way.

    parallel blocks (%by, %bx) ... {
      parallel threads (%y, %x) = (0, 0) to (16, 16) { load float, ptr (%a + 4 * (%n * (16 %by + %y) + 16 %bx + %x)) }
 -> parallel blocks (%by, %bx) ... {
      parallel threads (%y, %x) = (0, 0) to (16, 16) { ... }
      for %row = 0 to 16 { llvm.prefetch(%a + 4 * (%n * (16 %by + %row) + 16 (%bx + 1) + 15)) }

A tile is a few cache lines in each of many rows that lie pages apart: the processor's own prefetchers follow too few
such streams, and a block has too little other work to wait behind. Workers take blocks in index order, so the next one
is known. A line is asked for by its last element, since the block before has touched the first ones, and behind the
loop that reads this block's: rows of both may share a set of the cache, and one would drive out the other. hotspot,
which waits for memory half its time, takes 5 to 25 % less; two blocks ahead, or what blocks write, gave nothing more.

Takes loads of kernels' arrays whose address is a polynomial in indices of block and thread and in what is fixed for the
launch, contiguous along the fastest thread dimension, in loops of a known number of threads that each block runs once.
Rows may also be those that each thread of a flat block goes through, as in nw, whose next block lies in other rows, so
that each row's first element is asked for, too. Guards are ignored: to prefetch what does not exist does no harm. Rows
that follow one another in memory are left to the processor. Needs: barriers lowered. Source: software prefetching
(Mowry, Lam, Gupta, ASPLOS 1992); not in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.traverse import expand, last_values, walk
from threadloom.cuda.optimize.affine import Arithmetic, Monomial, Polynomial, plus
from threadloom.cuda.optimize.raise_affine import plan_counted
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    I8,
    I32,
    I64,
    VOID,
    For,
    Function,
    If,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Value,
    While,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import operands, results

_LINE_BYTES = 64
_READ, _ALL_LEVELS, _DATA = 0, 3, 1  # operands of llvm.prefetch


@dataclass(frozen=True, slots=True)
class PrefetchBlocks:
    fewest_rows: int = 4
    most_rows: int = 32  # that one thread goes through
    most_row_bytes: int = 256  # longer rows are streams of their own
    most_tiles: int = 4
    most_terms: int = 10
    name: str = "prefetch-blocks"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        memory = Memory(function, module)
        editor = Editor(function, module)
        uses = Counter(o.name for op in walk(function.body.ops) for o in operands(op) if isinstance(o, Value))
        rows = _Rows(memory, uses, _computed_from(function.body.ops), self.most_rows)
        fixed = {param.value.name: param.value for param in function.params}
        fixed |= {value.name: value for op in function.body.ops for value in results(op)}

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
                return None
            tiles = self.plan_tiles(op, fixed, rows)
            return [_with_prefetches(op, tiles, fixed, editor)] if tiles else None

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def plan_tiles(self, blocks: Parallel, fixed: dict[str, Value], rows: _Rows) -> list[Tile]:
        """`fixed`: the values that do not change during a launch."""
        arithmetic = Arithmetic(blocks.body.ops)
        tiles: list[Tile] = []
        for loop in blocks.body.ops:
            if not isinstance(loop, Parallel) or loop.level is not Level.THREADS or len(loop.ivs) < 2:
                continue
            for load, row in rows.loads(loop.body.ops):
                tile = self._tile(load, row, loop, blocks, arithmetic, fixed, rows)
                if tile is None or any(tile.touches(other) for other in tiles):
                    continue
                if len(tiles) == self.most_tiles:
                    decline("next block's tile not prefetched", "the block reads too many", load.loc)
                    return tiles
                tiles.append(tile)
        return tiles

    def _tile(self, load: Leaf, row: Row | None, loop: Parallel, blocks: Parallel, arithmetic: Arithmetic,
              fixed: dict[str, Value], loops: _Rows) -> Tile | None:  # fmt: skip
        x, block, columns = loop.ivs[-1], blocks.ivs[-1], int_value(loop.uppers[-1])
        extents = [int_value(upper) for upper in loop.uppers]
        others = extents[:-2] if row is None else extents[:-1]
        if None in extents or any(int_value(lower) != 0 for lower in loop.lowers) or set(others) > {1}:
            return None
        y, rows = row or (loop.ivs[-2], extents[-2])
        size = size_bytes(load.result.type)
        address = arithmetic.address(load.operands[0]).flattened()
        index, base = address.index(1), address.base
        roots = loops.memory.roots(base)
        if not isinstance(base, Value) or base.name not in fixed or not all(root.kind in _GIVEN for root in roots):
            return None
        known = {y.name, x.name, *(iv.name for iv in (*loop.ivs, *blocks.ivs)), *fixed}
        along_y, along_x, along_block = (_with_atom(index, one.name) for one in (y, x, block))
        if not index.atoms() <= known or len(index.terms) > self.most_terms or along_x != {(x.name,): size}:
            return None
        row_bytes = along_y.get((y.name,)) if len(along_y) == 1 else None
        if rows < self.fewest_rows or columns * size > self.most_row_bytes or not along_y or not along_block:
            return None
        if row_bytes is not None and abs(row_bytes) <= 2 * self.most_row_bytes:
            return None
        by_rows = loops.by_rows(along_block, along_y, y.name)
        return Tile(base, index, y.name, x.name, block.name, rows, columns * size, size, by_rows, loop)


_GIVEN = (RootKind.PARAM, RootKind.NOALIAS)


@dataclass(frozen=True, slots=True)
class Tile:
    """What the threads of one block read of one array."""

    base: Value
    index: Polynomial  # bytes
    y: str
    x: str
    block: str
    rows: int
    row_bytes: int
    element_bytes: int
    by_rows: bool  # the next block's tile lies in other rows
    loop: Parallel

    def touches(self, other: Tile) -> bool:
        """Nearly the same lines: the same array, a constant few bytes or one row apart."""
        if self.base != other.base or (self.y, self.x) != (other.y, other.x):
            return self.base == other.base and self._renamed() == other._renamed()
        apart = plus(self.index, other.index, -1)
        row = Polynomial(tuple((_without(monomial, self.y), factor) for monomial, factor in self.index.terms
                               if self.y in monomial))  # fmt: skip
        return any(_is_small(plus(apart, row, rows)) for rows in (-1, 0, 1))

    def _renamed(self) -> dict[Monomial, int]:
        names = {self.y: "y", self.x: "x"}
        return {tuple(sorted(names.get(one, one) for one in monomial)): factor for monomial, factor in self.index.terms}


def _is_small(a: Polynomial) -> bool:
    return not a.atoms() and abs(a.coefficient()) <= _LINE_BYTES


def _with_atom(a: Polynomial, atom: str) -> dict[Monomial, int]:
    return {monomial: factor for monomial, factor in a.terms if atom in monomial}


def _without(monomial: Monomial, atom: str) -> Monomial:
    rest = list(monomial)
    rest.remove(atom)
    return tuple(rest)


def _computed_from(ops: Iterable[Op]) -> dict[str, frozenset[str]]:
    """The values that go into each one computed in front of the blocks."""
    found: dict[str, frozenset[str]] = {}
    for op in ops:
        if isinstance(op, Leaf) and op.result is not None:
            names = [one.name for one in op.operands if isinstance(one, Value)]
            found[op.result.name] = frozenset(names).union(*(found.get(name, frozenset()) for name in names))
    return found


Row = tuple[Value, int]  # a counter from 0 on, how many rows


@dataclass(frozen=True, slots=True)
class _Rows:
    memory: Memory
    uses: Counter[str]
    computed_from: dict[str, frozenset[str]]
    most: int

    def by_rows(self, along_block: dict[Monomial, int], along_y: dict[Monomial, int], y: str) -> bool:
        """The next block's tile lies in other rows: one block on moves by what one row moves by."""
        strides = {atom for monomial in along_y for atom in monomial} - {y}
        if strides:
            moved_by = {atom for monomial in along_block for atom in monomial}
            return bool(strides & moved_by.union(*(self.computed_from.get(atom, ()) for atom in moved_by)))
        return max(map(abs, along_block.values())) >= max(map(abs, along_y.values()))

    def loads(self, ops: Iterable[Op], row: Row | None = None) -> Iterator[tuple[Leaf, Row | None]]:
        """Those that a thread runs at most once, or once for each row."""
        for op in ops:
            if isinstance(op, Leaf) and op.opcode == "load" and not op.attrs.ordering and not op.attrs.volatile:
                yield op, row
            elif isinstance(op, If):
                yield from self.loads((*op.then.ops, *op.otherwise.ops), row)
            elif isinstance(op, For | While) and row is None and (counter := self._counter(op)) is not None:
                yield from self.loads((op.body if isinstance(op, For) else op.after).ops, counter)

    def _counter(self, loop: For | While) -> Row | None:
        if isinstance(loop, For):
            counter, start, bound, step = loop.iv, loop.lower, int_value(loop.upper), int_value(loop.step)
        else:
            plan = plan_counted(loop, self.memory, self.uses)
            if isinstance(plan, str) or plan.or_equal:
                return None
            start, bound, step = loop.inits[plan.position], int_value(plan.bound), plan.step
            passed = zip(loop.after_args, last_values(loop.before), strict=True)
            counter = next((arg for arg, value in passed if value == loop.args[plan.position]), None)
        if counter is None or int_value(start) != 0 or step != 1 or bound is None or bound > self.most:
            return None
        return counter, bound


# ------------------------------------------------------------ the change


def _with_prefetches(blocks: Parallel, tiles: list[Tile], fixed: dict[str, Value], editor: Editor) -> Parallel:
    values = fixed | {iv.name: iv for iv in blocks.ivs}
    ops: list[Op] = []
    for op in blocks.body.ops:
        ops.append(op)
        for tile in tiles:
            if tile.loop is op:
                with editor.collect() as asked, editor.at(op.loc):
                    _prefetch(tile, values, editor)
                ops += asked
    return replace(blocks, body=replace(blocks.body, ops=tuple(ops)))


def _prefetch(tile: Tile, values: dict[str, Value], editor: Editor) -> None:
    with editor.loop(0, tile.rows, iv="row") as loop:
        known: dict[str, Operand] = {tile.y: loop.iv, tile.x: const(I64, tile.row_bytes // tile.element_bytes - 1)}
        total: Operand = const(I64, 0)
        for monomial, factor in tile.index.terms:
            term: Operand = const(I64, factor)
            for atom in monomial:
                value = known[atom] if atom in known else editor.cast("sext", values[atom], I64)
                term = editor.mul(term, editor.add(value, 1) if atom == tile.block else value)
            total = editor.add(total, term)
        first = [tile.row_bytes - tile.element_bytes] if tile.by_rows else []
        for back in [*range(0, tile.row_bytes, _LINE_BYTES), *first]:
            place = editor.gep(I8, tile.base, editor.sub(total, back), flags=(), name="next.tile")
            hints = [const(I32, one) for one in (_READ, _ALL_LEVELS, _DATA)]
            editor.call("llvm.prefetch.p0", [place, *hints], VOID)
