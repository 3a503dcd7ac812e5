"""Reductions that a loop accumulates and does not look at: each lane keeps its own part until the loop has ended.

    before:  loop { part = sum of the lane's elements; all = sum of part over lanes; acc = acc * weight + all }
    after:   loop { part = sum of the lane's elements; acc = acc * weight + part }      acc = sum of acc over lanes

Right where the next value of what is carried is fn(carried, reduced), or carried * weight + reduced, nothing else in
the loop reads either, `weight` is the same in the lanes, and the carried value begins with what changes nothing
(maxima and minima may begin with anything). FlashAttention-3 keeps its row sums so; the rule here knows no operator.
Not handled: what is done under a guard, values that lie in shared memory, or in several layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.layout import agrees
from threadloom.task.ops import Kind, Loop
from threadloom.tile import ops as tile
from threadloom.tile.uses import operands

COMBINING = {"sum": ("add", 0), "prod": ("mul", 1), "max": ("maximum", None), "min": ("minimum", None)}


@dataclass(frozen=True, slots=True)
class LaneParts:
    """`reduce`: whose result stays apart in the lanes while its loop runs; `result`: what the loop carries out."""

    reduce: tile.Reduce
    result: tile.Value


def lane_parts(plan: KernelPlan, loop: Loop) -> tuple[LaneParts, ...]:
    """The reductions of `loop` that may wait for its end."""
    found = (_of_carried(plan, loop, *carried) for carried in loop.carried)
    return tuple(one for one in found if one is not None)


def _of_carried(
    plan: KernelPlan, loop: Loop, init: tile.Value, arg: tile.Value, new: tile.Value, result: tile.Value
) -> LaneParts | None:
    tasks = [t for t in plan.tasks.values() if t.loop == loop.id and t.kind is Kind.VECTOR and not plan.guards(t)]
    ops = [(o, o.result.name in t.writes) for t in tasks for o in t.ops]
    made = {o.result.name: o for o, leaves in ops if o.result.name in plan.computed or not leaves}
    add = made.get(new.name)
    if not isinstance(add, tile.Map) or len(add.args) != 2:
        return None
    reduce = next((made[v.name] for v in add.args if isinstance(made.get(v.name), tile.Reduce)), None)
    if reduce is None or (add.fn, reduce.result.type) != (COMBINING.get(reduce.fn, ("",))[0], new.type):
        return None
    (before,) = [v for v in add.args if v.name != reduce.result.name] or [reduce.result]
    inner = {reduce.result.name, before.name, arg.name}
    if before.name != arg.name:
        weighed = made.get(before.name)
        if reduce.fn != "sum" or not isinstance(weighed, tile.Map) or weighed.fn != "mul":
            return None
        weights = [v for v in weighed.args if v.name != arg.name]
        if len(weights) != 1 or not set(weights[0].type.axes) <= set(new.type.axes):
            return None
    readers = [v.name for t in plan.tasks.values() for o in t.ops for v in operands(o) if v.name in inner | {new.name}]
    if len(readers) != len(inner) or new.name in readers:
        return None
    first, *others = (plan.layouts.get(v.name) for v in (reduce.result, new, arg, before))
    if first is None or not all(o is not None and agrees(first, o, new.type.axes) for o in others):
        return None  # what goes from one layout to another would be one lane's part
    return LaneParts(reduce, result) if _begins_neutral(plan, init, COMBINING[reduce.fn][1]) else None


def _begins_neutral(plan: KernelPlan, init: tile.Value, neutral: int | None) -> bool:
    if neutral is None:
        return True
    ops = {o.result.name: o for t in plan.tasks.values() for o in t.ops if hasattr(o, "result")}
    full = ops.get(init.name)
    number = ops.get(full.value.name) if isinstance(full, tile.Full) else None
    return isinstance(number, tile.Const) and number.number == neutral
