"""Workers that change parts from one iteration of a loop to the next (decision `parts_in_turn`).

Inside the loop, positions along the split axis and descriptors of operands that it cuts begin at `part`, the number of
the part that the worker has in this iteration. Barriers, scratch and staging stay those of the worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from threadloom.sched.ops import Inner
from threadloom.targets.cuda.dot import descriptor_base, descriptor_name
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.task.ops import Loop

if TYPE_CHECKING:
    from threadloom.targets.cuda.section import RoleEmitter


def loop_of_turns(plan: KernelPlan) -> int | None:
    """The loop of the decision; None where there is none, or tiles are begun ahead, which the parts would confuse."""
    chosen = next((int(value) for key, value in plan.program.decisions if key == "parts_in_turn"), None)
    ahead = any(isinstance(i, Inner) and i.ahead + i.early for s in plan.program.sections for i in s.instrs)
    return None if ahead else chosen


@contextmanager
def parts_in_turn(e: RoleEmitter, loop: Loop, instance: str) -> Iterator[None]:
    """While iteration `instance` (a C expression) of `loop` is written."""
    if e.role.kind != "worker" or loop_of_turns(e.plan) != loop.id:
        yield
        return
    w, before = e.scope.writer, dict(e.places.grid)
    part = e.scope.fresh("part")
    w.line(f"const i32 {part} = worker ^ (({instance}) & 1);  // workers take turns with the parts of the tile")
    for name, place in before.items():
        if place.whole is not None:
            first, offset = e.scope.fresh(f"{name}_mine"), f"{part} * {place.extent}"
            w.line(f"const i32 {first} = {place.whole.first} + {offset};")
            e.places.grid[name] = replace(place, first=first, offset=offset)
    for name, base in _descriptors(e.plan, part).items():
        w.line(f"const u64 {name} = {base};")
    yield
    e.places.grid.clear()
    e.places.grid.update(before)


def _descriptors(plan: KernelPlan, part: str) -> dict[str, str]:
    """C name -> C expression of the descriptors of operands of which a worker reads its part."""
    found = {}
    for dot in plan.dots.values():
        for value, axis, split, size in dot.parts:
            shared = plan.shared_tile(value.name)
            if shared is not None and plan.worker_rows(split, size):
                found[descriptor_name(shared, axis)] = descriptor_base(shared, axis, f"{part} * {size}")
    return found
