"""Decisions that follow from the chosen candidate and the machine's facts (keys: `decisions.py`)."""

from __future__ import annotations

import math

from threadloom.sched.candidate import Candidate, Context
from threadloom.sched.inter import grid_axes
from threadloom.sched.parts_in_turn import loop_of_turns
from threadloom.sched.placement import LOADS, STORES
from threadloom.sched.sizes import dim_extent
from threadloom.task.ops import Method
from threadloom.tile.ops import Load, Store

MOST_SHARED_BYTES = 256 << 20  # of a tensor whose packed copy tiles of the grid share


def decide(made: Candidate) -> tuple[tuple[str, str], ...]:
    """The decisions of a scheduled candidate."""
    decisions: list[tuple[str, str]] = []
    context = made.context
    device, graph = context.device, context.graph
    if context.granularity:
        decisions.append(("granularity", context.granularity))
    if device.arch != "cpu" and (loop := loop_of_turns(graph, made.partition)) is not None:
        decisions.append(("parts_in_turn", str(loop)))
    if rows := device.fact("register_rows"):
        decisions.append(("register_rows", str(rows)))
        decisions.append(("register_vectors", str(device.fact("register_vectors"))))
    if device.arch == "cpu":
        decisions += [("nontemporal", name) for name in _streamed_outputs(context)]
        decisions += [("share_packing", name) for name in _packed_for_many(made)]
    return tuple(decisions)


def _tensor_bytes(context: Context, name: str) -> int:
    tensor = next(t for t in context.graph.kernel.tensors if t.name == name)
    return tensor.dtype.bytes_for(math.prod(dim_extent(d, context.dims) for d in tensor.dims))


def _streamed_outputs(context: Context) -> list[str]:
    """Outputs that the last-level cache cannot hold anyway, stored once from a kernel that has no products."""
    limit = context.device.memory("l3").capacity_bytes.value
    stored = [op.tensor for t in context.graph.tasks if t.kind in STORES for op in t.ops if isinstance(op, Store)]
    return [name for name in dict.fromkeys(stored) if _tensor_bytes(context, name) > limit]


def _packed_for_many(made: Candidate) -> list[str]:
    """Tensors that are packed for products, of which several tiles of the grid read the same part, where that saves
    more than a launch of its own. Copies of large ones would cost more memory than they are worth."""
    context, device = made.context, made.context.device
    worth_cycles = float(device.fact("launch_ns", 0) or 0) * device.clock_ghz.value * device.eu_count
    found = []
    for task in context.graph.tasks:
        if task.kind not in LOADS or made.placement.units[task.name].method is not Method.PACK:
            continue
        for op in task.ops:
            if isinstance(op, Load) and (size := _tensor_bytes(context, op.tensor)) <= MOST_SHARED_BYTES:
                used = {term.axis for subscript in op.subscripts for term in subscript.terms}
                others = [axis for axis in grid_axes(context.graph) if axis not in used]
                again = math.prod(made.sizes.tiles_of(axis) for axis in others) - 1
                rate = made.placement.units[task.name].seu.rate("bytes.pack") or 1.0
                if again * size / rate > worth_cycles:
                    found.append(op.tensor)
    return list(dict.fromkeys(found))
