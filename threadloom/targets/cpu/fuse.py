"""Vector operations -> loop nests that share loops.

    mx = max over n of x[m, n]; e = exp(x - mx); s = sum over n of e; out[m, n] = e / s
    ->  for m { for n { mx }; for n { e, s }; for n { out } }

Greedy: the first operation left picks the axis under which most of those after it can run with it; what is
independent of them moves before the loop, what depends on a reduction that the loop finishes moves behind it. An axis
that an operation reduces or scans is opened only as that operation's last, so reductions live in registers.
Scans run alone in their loop, because they visit it in their own order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from threadloom.targets.cpu.steps import Uses
from threadloom.tile.functions import TABLE, Cost
from threadloom.tile.ops import AtomicAdd, Load, Map, Op, Reduce, Scan, Store, Value
from threadloom.tile.uses import operands, results


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop over `axis` of the current tile around `items`."""

    axis: str
    items: tuple[Nest | Op, ...]


Item = Nest | Op
_OPERATIONS = {Cost.EXP: 8.0, Cost.LOG: 10.0, Cost.TANH: 16.0, Cost.ERF: 20.0, Cost.TRIG: 16.0, Cost.DIV: 4.0,
               Cost.SQRT: 4.0}  # fmt: skip


def operation_cost(op: Op) -> float:
    """Instructions an element, about."""
    return _OPERATIONS.get(TABLE[op.fn].cost, 1.0) if isinstance(op, Map) and op.fn in TABLE else 1.0


Path = tuple[int, ...]  # index of an item in each enclosing list


@dataclass(frozen=True, slots=True)
class AxesOf:
    """Which loops an operation needs; `each` are axes whose index is a scalar, which need none."""

    each: frozenset[str]

    def __call__(self, op: Op) -> frozenset[str]:
        axes = {axis for value in (*operands(op), *results(op)) for axis in value.type.axes}
        if isinstance(op, Store | AtomicAdd | Load):
            axes |= {t.axis for s in op.subscripts for t in s.terms if t.axis is not None}
        return frozenset(axes) - self.each


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fuses one Vector step. `last` is the vectorised axis: where there is a choice, loops over others go outside."""

    uses: Uses
    axes_of: AxesOf
    last: frozenset[str]

    def nests(self, ops: Sequence[Op]) -> tuple[Item, ...]:
        return self._nests(list(ops), frozenset())

    def _nests(self, pending: list[Op], bound: frozenset[str]) -> tuple[Item, ...]:
        items: list[Item] = []
        while pending:
            first = pending[0]
            open_axes = self.axes_of(first) - bound
            if not open_axes:
                items.append(pending.pop(0))
                continue
            before, taken, pending, axis = self._best_split(pending, bound, self._candidates(first, open_axes))
            items += self._nests(before, bound)
            items.append(Nest(axis, self._nests(taken, bound | {axis})))
        return tuple(items)

    def _candidates(self, op: Op, open_axes: frozenset[str]) -> list[str]:
        order = [value.type.axes for value in (*results(op), *operands(op)) if value.type.axes]
        listed = dict.fromkeys(axis for axes in order for axis in axes if axis in open_axes)
        axes = [*listed, *sorted(open_axes - listed.keys())]
        allowed = [axis for axis in axes if _may_open(op, axis, open_axes)]
        return sorted(allowed, key=lambda axis: axis in self.last)

    def _best_split(
        self, pending: list[Op], bound: frozenset[str], candidates: list[str]
    ) -> tuple[list[Op], list[Op], list[Op], str]:
        splits = [(*self._split(pending, bound, axis), axis) for axis in candidates]
        return max(splits, key=lambda split: len(split[1]))  # the first of equals

    def _split(self, pending: list[Op], bound: frozenset[str], axis: str) -> tuple[list[Op], list[Op], list[Op]]:
        """(what moves before a loop over `axis`, what runs in it, what stays behind it)."""
        before: list[Op] = []
        taken: list[Op] = []
        left: list[Op] = []
        made_in_loop: set[str] = set()
        late: set[str] = set()  # values that exist only after the loop
        for op in pending:
            reads = {root.name for value in operands(op) for root in self.uses.roots(value)}
            open_axes = self.axes_of(op) - bound
            waits = bool(reads & late) or _conflicts(op, left)
            fits = axis in open_axes and _may_open(op, axis, open_axes) and not self._keeps_alone(op, axis, taken)
            if not waits and fits:
                taken.append(op)
                finished = late if _finishes(op, axis) else made_in_loop
                finished |= {value.name for value in results(op)}
            elif not waits and not reads & made_in_loop and axis not in open_axes and not _conflicts(op, taken):
                before.append(op)
            else:
                left.append(op)
                late |= {value.name for value in results(op)}
        return before, taken, left

    def _keeps_alone(self, op: Op, axis: str, taken: list[Op]) -> bool:
        """Whether `op` and what runs in the loop already exclude each other: a scan along the axis is alone."""
        scans = [other for other in (op, *taken) if isinstance(other, Scan) and other.axis == axis]
        return bool(scans) and bool(taken)


def _may_open(op: Op, axis: str, open_axes: frozenset[str]) -> bool:
    return not (isinstance(op, Reduce | Scan) and op.axis == axis and len(open_axes) > 1)


def _finishes(op: Op, axis: str) -> bool:
    return isinstance(op, Reduce | Scan) and op.axis == axis


def _conflicts(op: Op, others: Iterable[Op]) -> bool:
    """Whether `op` must keep its place behind one of `others`: both touch a tensor that is written."""
    if not isinstance(op, Store | AtomicAdd | Load):
        return False
    for other in others:
        if isinstance(other, Store | AtomicAdd | Load) and other.tensor == op.tensor:
            both_read = isinstance(op, Load) and isinstance(other, Load)
            both_add = isinstance(op, AtomicAdd) and isinstance(other, AtomicAdd)
            if not both_read and not both_add:
                return True
    return False


def placed(
    items: Sequence[Item], path: Path = (), loops: tuple[str, ...] = ()
) -> Iterator[tuple[Op, Path, tuple[str, ...]]]:
    """Every operation with its path and the axes of the loops around it, outermost first."""
    for at, item in enumerate(items):
        if isinstance(item, Nest):
            yield from placed(item.items, (*path, at), (*loops, item.axis))
        else:
            yield item, (*path, at), loops


def shared_depth(left: Path, right: Path) -> int:
    """How many loops two operations have in common."""
    depth = 0
    while depth < min(len(left), len(right)) - 1 and left[depth] == right[depth]:
        depth += 1
    return depth


def temporaries(items: Sequence[Item], uses: Uses) -> dict[str, tuple[Value, int]]:
    """Values that are read in another loop than the one they are made in, with the number of loops that maker and all
    readers share: they need room for the axes of the loops below that."""
    made: dict[str, tuple[Value, Path]] = {}
    found: dict[str, tuple[Value, int]] = {}
    for op, path, _ in placed(items):
        for value in operands(op):
            for root in uses.roots(value):
                if root.name not in made or not root.type.axes:
                    continue
                depth = shared_depth(made[root.name][1], path)
                if depth < len(made[root.name][1]) - 1:
                    found[root.name] = (root, min(depth, found.get(root.name, (root, depth))[1]))
        for value in results(op):
            made[value.name] = (value, path[:-1] if isinstance(op, Reduce) else path)
    return found


def fetched_ahead(items: Sequence[Item], uses: Uses, axis: str | None) -> dict[Path, tuple[tuple[Load, str], ...]]:
    """Loads that several vector loops inside one loop read again: while the costliest of them runs, the loop's next
    position is fetched. Path of the vector loop -> (load, axis of the loop around it)."""
    readers: dict[str, list[tuple[float, Path, Load, str]]] = {}
    for nest, path, loops in _innermost(items):
        if nest.axis != axis or not loops:
            continue
        ops = [op for op in nest.items if not isinstance(op, Nest)]
        seen = {
            f"{load.tensor} {load.subscripts!r}": load for op in ops for v in operands(op) for load in uses.loads(v)
        }
        cost = sum(operation_cost(op) for op in ops)
        for key, load in seen.items():
            if loops[-1] in load.result.type.axes and axis in load.result.type.axes:
                readers.setdefault(key, []).append((cost, path, load, loops[-1]))
    chosen: dict[Path, tuple[tuple[Load, str], ...]] = {}
    for found in readers.values():
        if len(found) > 1:
            _, path, load, around = max(found, key=lambda reader: (reader[0], reader[1]))
            chosen[path] = (*chosen.get(path, ()), (load, around))
    return chosen


def _innermost(
    items: Sequence[Item], path: Path = (), loops: tuple[str, ...] = ()
) -> Iterator[tuple[Nest, Path, tuple[str, ...]]]:
    for at, item in enumerate(items):
        if isinstance(item, Nest):
            if any(isinstance(inner, Nest) for inner in item.items):
                yield from _innermost(item.items, (*path, at), (*loops, item.axis))
            else:
                yield item, (*path, at), loops
