"""An sProgram's facts as the sm_80 emitter sees them: products by mma.sync, one worker of all warps of the block."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from threadloom.sched.boxes import has_rows
from threadloom.sched.sizes import Sizes
from threadloom.targets.cuda.dot import wanted_rows
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.sm80.mma import MmaPlan, plan_products
from threadloom.targets.cuda.team import BLOCK, Team
from threadloom.task.ops import Kind
from threadloom.tile import ops as tile


class AmperePlan(KernelPlan):
    """A KernelPlan whose worker is the whole block."""

    team: ClassVar[Team] = BLOCK

    @cached_property
    def dots(self) -> dict[str, MmaPlan]:
        tasks = [t for t in self.tasks.values() if t.kind is Kind.DOT]
        rows = wanted_rows([o for t in self.tasks.values() for o in t.ops], self.computed)
        return plan_products(tasks, self.extents, self.computed, self._reduced, self.shared_column, rows)

    @cached_property
    def _reduced(self) -> frozenset[str]:
        """Axes along which vector code reduces or scans."""
        ops = [op for t in self.tasks.values() for op in t.ops]
        return frozenset(op.axis for op in ops if isinstance(op, tile.Reduce | tile.Scan))

    def rows_begin(self, op: tile.Load) -> bool:
        """Whether the rows of the tile that `op` loads begin at multiples of 16 bytes in an aligned tensor."""
        whole = {a.name: a.dim if isinstance(a.dim, int) else self.dims[a.dim] for a in self.axes.values()}
        return has_rows(op, self.program.graph, Sizes(self.extents, whole, "", 1))

    def is_packed(self, value: str) -> bool:
        """Whether `value` is kept packed, two to a register: a computed 16-bit row operand."""
        made = [d.row_operand for d in self.dots.values() if not d.simt and d.row_operand.name in self.computed]
        return any(v.name == value and v.type.dtype.bits == 16 for v in made)

    def is_staged(self, value: str) -> bool:
        return False

    def read_by_threads(self, task: str) -> bool:
        """Fragments, too, are read by the threads themselves."""
        return task in self.tasks
