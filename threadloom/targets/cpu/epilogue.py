"""The ends of a stream that accumulates a product.

    acc = 0; stream k: acc += dot(a, b); out = f(acc)
    ->  stream k: acc (first trip: =, else +=) dot(a, b) by blocks; last trip: out = f(block) right after each block

A block is stored while it is still in L1 and while the next one is computed, and the accumulator is not cleared first.
Where the stream makes no trip, zeros and the epilogue come after it.

Needs: the product is the stream's last step and alone updates the accumulator; the epilogue is elementwise over all the
accumulator's axes, right after the stream, and reads nothing else that the stream makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.targets.cpu.fuse import AxesOf, placed
from threadloom.targets.cpu.plan import Branches, Home, Loop, Loops, Multiply, Planned, PlannedBody
from threadloom.targets.cpu.steps import Uses
from threadloom.tile.ops import AtomicAdd, Const, Full, Op, Reduce, Scan, Stream, Value
from threadloom.tile.uses import operands, results


@dataclass(frozen=True, slots=True)
class EpiloguePlanner:
    uses: Uses
    axes_of: AxesOf
    homes: dict[str, Home]

    def plan(self, body: PlannedBody) -> PlannedBody:
        steps: list[Planned] = []
        for step in body.steps:
            match step:
                case Loop():
                    steps.append(self._starting(replace(step, body=self.plan(step.body))))
                case Branches():
                    steps.append(replace(step, then=self.plan(step.then), otherwise=self.plan(step.otherwise)))
                case Loops() if steps and isinstance(steps[-1], Loop) and self._may_follow(steps[-1], step):
                    steps[-1] = replace(steps[-1], epilogue=step)
                case _:
                    steps.append(step)
        return PlannedBody(tuple(steps), body.yields)

    def _accumulator(self, loop: Loop) -> tuple[Multiply, Value, Value, Value] | None:
        """(the product, what the accumulator starts as, its argument, the stream's result)."""
        if not isinstance(loop.op, Stream) or len(loop.op.axes) != 1 or not loop.body.steps:
            return None
        last = loop.body.steps[-1]
        if not isinstance(last, Multiply) or len(last.product.dot.over) != 1:
            return None
        for init, arg, made, out in zip(loop.op.inits, loop.op.args, loop.body.yields, loop.op.results, strict=True):
            if made.name == last.product.result.name and self._shared(made, arg):
                return last, init, arg, out
        return None

    def _shared(self, left: Value, right: Value) -> bool:
        a, b = self.homes.get(left.name), self.homes.get(right.name)
        return a is not None and b is not None and a.buffer == b.buffer

    def _starting(self, loop: Loop) -> Loop:
        """Leave out clearing the accumulator where the product can begin with a plain store."""
        found = self._accumulator(loop)
        if found is None:
            return loop
        product, init, arg, _ = found
        copies = [copy for copy in loop.before if copy.target.name == arg.name]
        addend = product.product.addend
        alone = addend is not None and addend.name == arg.name and self.uses.counts.get(arg.name) == 1
        if not (alone and copies and self._is_zero(init)):
            return loop
        before = tuple(copy for copy in loop.before if copy not in copies)
        return replace(loop, before=before, starts=product.product.result.name)

    def _is_zero(self, value: Value) -> bool:
        full = self.uses.definitions.get(value.name)
        if not isinstance(full, Full):
            return False
        number = self.uses.definitions.get(full.value.name)
        return isinstance(number, Const) and number.number == 0

    def _may_follow(self, loop: Loop, nest: Loops) -> bool:
        found = self._accumulator(loop)
        if found is None or nest.rooms or nest.axis != found[0].axis:
            return False
        product, _, _, out = found
        axes = frozenset(product.product.result.type.axes)
        if axes != {product.axis, product.row_axis} or product.matrix:  # tiles are stored too late to be read at once
            return False
        made = {value.name for value in results(loop.op)} - {out.name}
        ops = [op for op, _, _ in placed(nest.items)]
        return all(self._is_elementwise(op, axes) and not self._roots(op) & made for op in ops) and any(
            out.name in self._roots(op) for op in ops
        )

    def _is_elementwise(self, op: Op, axes: frozenset[str]) -> bool:
        return not isinstance(op, Reduce | Scan | AtomicAdd) and self.axes_of(op) == axes

    def _roots(self, op: Op) -> set[str]:
        return {root.name for value in operands(op) for root in self.uses.roots(value)}
