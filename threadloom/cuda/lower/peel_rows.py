"""Splits a loop over threads where its slower dimensions meet a condition: `if (ty == 0)` costs one row, not all.

    parallel threads (%y, %x) = (0, 0) to (%ny, %nx) { %top = icmp eq i32 %y, 0; if i1 %top { A } else { B } }
 -> parallel threads (%y, %x) = (0, 0) to (min(1, %ny), %nx) { A }
    parallel threads (%y, %x) = (min(1, %ny), 0) to (%ny, %nx) { B }

Vectorised along x, every path of an if runs under a mask; in the rows between the edges of a stencil's tile most
conditions are false and vanish (fold.py). Compared are slower induction variables with constants; the fastest dimension
stays whole, since splitting it would leave ranges that fill no vector. Declines where the copies would exceed
`most_ops`. Source: index-set splitting (Griebl, Feautrier, Lengauer); not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.fold import fold_block
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.waits import waits
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I1, Const, Function, If, Leaf, Level, Module, Op, Operand, Parallel, Value
from threadloom.par.passes import decline, through_functions

_CUTS = {"eq": (0, 1), "ne": (0, 1), "lt": (0,), "ge": (0,), "le": (1,), "gt": (1,)}  # relative to the constant
_MOST_RANGES = 4


@dataclass(frozen=True, slots=True)
class PeelRows:
    most_ops: int = 1600  # operations of one loop over threads, all copies together
    name: str = "peel-rows"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS or len(op.ivs) < 2:
                return None
            return None if waits(op.body.ops, memory) else self._peel(op, editor)

        body = expand(function.body, change)
        return module if body == function.body else editor.finish(replace(function, body=body))

    def _peel(self, parallel: Parallel, editor: Editor) -> list[Op] | None:
        size = sum(1 for _ in walk(parallel.body.ops))
        for dimension in range(len(parallel.ivs) - 2, -1, -1):
            tests = _tests(parallel, dimension)
            cuts = sorted({cut for test in tests for cut in test.cuts if cut > 0})
            if not cuts or len(cuts) >= _MOST_RANGES or int_value(parallel.uppers[dimension]) == 1:
                continue
            if size * (len(cuts) + 1) > self.most_ops:
                decline("rows not split: too much code", f"{size} operations", parallel.loc)
                return None
            return _ranges(parallel, dimension, tests, cuts, editor)
        return None


@dataclass(frozen=True, slots=True)
class _Test:
    """`result` compares the dimension's index with `constant`."""

    result: Value
    relation: str
    constant: int

    @property
    def cuts(self) -> tuple[int, ...]:
        return tuple(self.constant + offset for offset in _CUTS[self.relation])

    def holds(self, first: int, end: int | None) -> bool | None:
        """In all of [first, end): true or false; None: it depends."""
        last = None if end is None else end - 1
        match self.relation:
            case "eq" | "ne":
                if last is not None and first == last == self.constant:
                    inside = True
                elif self.constant < first or (last is not None and self.constant > last):
                    inside = False
                else:
                    return None
                return inside == (self.relation == "eq")
            case "lt" | "ge":
                below = True if last is not None and last < self.constant else False if first >= self.constant else None
                return below if below is None else below == (self.relation == "lt")
        below = True if last is not None and last <= self.constant else False if first > self.constant else None
        return below if below is None else below == (self.relation == "le")


def _tests(parallel: Parallel, dimension: int) -> list[_Test]:
    """Comparisons of the index that decide an if somewhere."""
    iv = parallel.ivs[dimension]
    leaves = {op.result.name: op for op in walk(parallel.body.ops) if isinstance(op, Leaf) and op.result is not None}
    deciding = _deciding(parallel, leaves)
    found = []
    for name in deciding:
        leaf = leaves[name]
        if leaf.opcode == "icmp" and (test := _test(leaf, iv)) is not None:
            found.append(test)
    return found


def _deciding(parallel: Parallel, leaves: dict[str, Leaf]) -> list[str]:
    queue: list[Operand] = [op.cond for op in walk(parallel.body.ops) if isinstance(op, If)]
    found: dict[str, None] = {}
    while queue:
        operand = queue.pop()
        if isinstance(operand, Value) and operand.name in leaves and operand.name not in found:
            found[operand.name] = None
            leaf = leaves[operand.name]
            if leaf.opcode in ("and", "or", "xor", "select", "freeze"):
                queue.extend(o for o in leaf.operands if o.type == I1)
    return list(found)


def _test(leaf: Leaf, iv: Value) -> _Test | None:
    left, right = leaf.operands
    constant = int_value(right)
    if left != iv or constant is None or not 0 <= constant <= 1024 or leaf.result is None:
        return None
    predicate = leaf.attrs.predicate
    return _Test(leaf.result, predicate if predicate in ("eq", "ne") else predicate[1:], constant)


def _ranges(parallel: Parallel, dimension: int, tests: list[_Test], cuts: list[int], editor: Editor) -> list[Op]:
    bounds = [0, *cuts]
    ops: list[Op] = []
    edges: list[Operand] = [parallel.lowers[dimension]]
    with editor.collect() as limits:
        upper = parallel.uppers[dimension]
        for cut in cuts:
            edge = editor.min(const(upper.type, cut), upper, False, "edge")
            edges.append(edge if int_value(edges[0]) == 0 else editor.max(edge, edges[0], False, "edge"))
    edges.append(upper)
    ops.extend(limits)
    for number, first in enumerate(bounds):
        end = bounds[number + 1] if number + 1 < len(bounds) else None
        known: dict[str, Operand] = {}
        for test in tests:
            holds = test.holds(first, end)
            if holds is not None:
                known[test.result.name] = Const(I1, "true" if holds else "false")
        ops.append(_copy(parallel, dimension, edges[number], edges[number + 1], known, editor, fresh=number > 0))
    return ops


def _copy(parallel: Parallel, dimension: int, lower: Operand, upper: Operand, known: dict[str, Operand],
          editor: Editor, fresh: bool) -> Op:  # fmt: skip
    body = _folded(parallel, known)
    one = replace(
        body,
        lowers=tuple(lower if d == dimension else old for d, old in enumerate(parallel.lowers)),
        uppers=tuple(upper if d == dimension else old for d, old in enumerate(parallel.uppers)),
    )
    return editor.copy((one,), {})[0] if fresh else one


def _folded(parallel: Parallel, known: dict[str, Operand]) -> Parallel:
    kept = expand(
        parallel.body, lambda op: [] if isinstance(op, Leaf) and op.result and op.result.name in known else None
    )
    return replace(parallel, body=fold_block(kept, dict(known)))
