"""Fission of loops over work-items at barriers, and their interchange with the if, for and while around barriers.

    parallel threads (%t) = (i32 0) to (i32 %n) {      %x.kept = alloca worker float, i64 %items
      %x = load float, ptr %p                          parallel threads (%t.1) = (i32 0) to (i32 %n) {
      store float %x, ptr %q                              %x = load float, ptr %p
      barrier threads                            ->       store float %x, ptr %q
      %y = load float, ptr %r                             store float %x, ptr (%x.kept at %t.1)
      %z = fadd float %x, %y                           }
    }                                                  parallel threads (%t.2) = (i32 0) to (i32 %n) {
                                                          %x.1 = load float, ptr (%x.kept at %t.2)
                                                          %y = load float, ptr %r
                                                          %z = fadd float %x.1, %y
                                                       }

Works for threads (barriers of a block), lanes (barriers of a warp) and blocks (the grid's barrier). Values that cross
are kept or recomputed as the minimum cut says (split_cut.py); a private allocation that lives across is expanded to
one per work-item. A for, while or if with barriers inside moves outside the loops over work-items (split_plan.py):

    parallel threads (%t) { while (...) { %c = ...; condition %c } do () { A; barrier; B } }
 -> %go = ...; while () { parallel threads { ...; mask[%t] = %c }; %any = ...; condition %any } do () {
      parallel threads { if mask[%t] { A } }
      parallel threads { if mask[%t] { B } } }

The mask is needed only where the condition is not scalar. Needs: `for` bounds with barriers inside are scalar
(for_to_while.py), and divergence that CUDA forbids has been checked (check_divergence.py).
Source: PPoPP'23, sections 3.2 and 3.3; the masks, which let exited threads stand aside, are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import meets
from threadloom.cuda.lower.split_cut import Crossing, plan_crossing
from threadloom.cuda.lower.split_emit import SplitEmitter
from threadloom.cuda.lower.split_plan import SplitPlan, plan_split
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.ops import Function, Level, Module, Op, Parallel


@dataclass(frozen=True, slots=True)
class Split:
    """The pass; `level` says whose barriers go. `max_recompute` caps the operations that replace keeping a value.
    Without `minimum` every value that crosses is kept (the switch minimum-cut of pipeline.py)."""

    level: Level
    max_recompute: int = 24
    minimum: bool = True

    @property
    def name(self) -> str:
        return f"split-{self.level}"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None and any(meets(op, self.level) for op in walk(function.body.ops)):
                module = self._function(function, module)
        return module

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not meets(op, self.level):
                return None
            plan, crossing = self.plan(op, memory)
            return SplitEmitter(editor, plan, crossing).emit()

        return editor.finish(replace(function, body=expand(function.body, change)))

    def plan(self, parallel: Parallel, memory: Memory) -> tuple[SplitPlan, Crossing]:
        """The decisions, before anything changes."""
        scalars = Scalars(parallel, memory, Uniformity(parallel, memory))
        plan = plan_split(parallel, scalars)
        return plan, plan_crossing(plan, memory, self.max_recompute, self.minimum)
