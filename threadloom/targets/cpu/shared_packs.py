"""Packing once for all tiles of the grid, where several of them read the same operand.

    grid (m, n): stream k: pack b[k, n]; c += a * b
    ->  parallel (k, n): pack b[k, n] into its part of a copy of b; then grid (m, n): stream k: c += a * b

The copies of all tiles lie one after the other, so a tile of the grid finds its own by its index. Every core packs its
share, and the tiles of the grid can be chosen without regard to how often something is packed.

Needs: the plan wants it (decision `share_packing`), the value depends on nothing but tensors that are only read,
scalars and the axes of loops over whole dimensions, and the pack stands in no branch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from threadloom.targets.cpu.plan import Attach, Loop, Pack, Planned, PlannedBody, SharedPack
from threadloom.targets.cpu.schedule import CpuSchedule
from threadloom.targets.cpu.steps import Uses
from threadloom.tile.ops import Axis, AxisKind, Bound, Grid, Index, Load, LoopAxis, Value
from threadloom.tile.uses import operands


@dataclass(slots=True)
class SharedPacks:
    """`found`: the packs that were moved before the grid."""

    schedule: CpuSchedule
    uses: Uses
    axes: dict[str, Axis]
    found: list[SharedPack] = field(default_factory=list)

    def split(self, body: PlannedBody, loops: tuple[LoopAxis, ...]) -> PlannedBody:
        """`body`, inside `loops`, with shared packs replaced by the places of their copies."""
        steps: list[Planned] = []
        for step in body.steps:
            match step:
                case Loop(op, inner) if not isinstance(op, Grid) or len(op.axes) == 1:
                    steps.append(replace(step, body=self.split(inner, (*loops, *op.axes))))
                case Pack() if (axes := self._shared_axes(step, loops)) is not None:
                    self.found.append(SharedPack(step, axes))
                    steps.append(Attach(step.home))
                case _:
                    steps.append(step)
        return PlannedBody(tuple(steps), body.yields)

    def _shared_axes(self, pack: Pack, loops: tuple[LoopAxis, ...]) -> tuple[LoopAxis, ...] | None:
        """The loops that the pack depends on, outermost first; None where it cannot be moved."""
        tensors = {load.tensor for load in self.uses.loads(pack.value)}
        if not tensors or not tensors <= self.schedule.shared or not self._is_free(pack.value):
            return None
        used = self._axes_of(pack.value)
        needed = tuple(axis for axis in loops if axis.axis.name in used)
        looped = {axis.axis.name for axis in needed}
        whole = {name for name in used if self.axes[name].kind is AxisKind.WHOLE}
        plain = all(axis.start is None and axis.stop is None for axis in needed)
        return needed if plain and used == looped | whole and len(needed) < len(loops) else None

    def _is_free(self, value: Value) -> bool:
        """Whether computing `value` needs nothing that a tile of the grid makes."""
        op = self.uses.definitions.get(value.name)
        if op is None:
            return not value.type.axes  # a scalar argument
        if isinstance(op, Bound) or not self.uses.is_inline(value):
            return False
        if isinstance(op, Load) and any(term.value is not None for s in op.subscripts for term in s.terms):
            return False
        return all(self._is_free(operand) for operand in operands(op))

    def _axes_of(self, value: Value) -> set[str]:
        op = self.uses.definitions.get(value.name)
        found = set(value.type.axes)
        if isinstance(op, Index):
            found.add(op.axis)
        if isinstance(op, Load):
            found |= {term.axis for s in op.subscripts for term in s.terms if term.axis is not None}
        return found.union(*(self._axes_of(operand) for operand in operands(op)) if op is not None else ())
