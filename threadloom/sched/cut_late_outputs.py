"""Cuts from VECTOR sTasks the conversion that makes a product's operand.

    before:  vector(s[i]) -> p[i]            p is read by the product of the iteration before until that is done
    after:   vector(s[i]) -> e[i];  vector_out(e[i]) -> p[i]

The operand's registers are free only when the product of the last iteration is complete. Whole, the sTask waits for
that before it starts; cut, everything but the conversion runs meanwhile (FlashAttention-3 overlaps softmax and the
product that way). e can take the place of s (coalesce_in_place), so nothing is lost where there is nothing to overlap.
Needs: a task graph. Keeps: meaning, loops, guards. Not handled: operands that are no conversion of a wider value.
Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.sched.pieces import in_pieces
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.ops import Cast
from threadloom.tile.uses import operands, results


def cut_late_outputs(graph: TaskGraph) -> TaskGraph:
    """The graph with such sTasks cut; the same object where there are none."""
    parts = {t.name: _parts(t, graph) for t in graph.tasks if t.kind is Kind.VECTOR}
    parts = {name: made for name, made in parts.items() if len(made) > 1}
    return in_pieces(graph, parts)


def _parts(task: STask, graph: TaskGraph) -> tuple[STask, ...]:
    """The task without its last conversions, then those."""
    read_inside = {v.name for op in task.ops for v in operands(op)}
    ends = [
        op
        for op in task.ops
        if isinstance(op, Cast)
        and op.result.name not in read_inside
        and op.arg.type.dtype.bits > op.result.type.dtype.bits
        and _only_a_product_reads(op.result.name, task, graph)
    ]
    rest = tuple(op for op in task.ops if op not in ends)
    if not ends or not any(results(op) and results(op)[0].type.axes for op in rest):
        return (task,)
    made, arguments = [op.result.name for op in ends], [op.arg.name for op in ends]
    inside = {v.name for op in rest for v in results(op)}
    if not set(arguments) <= inside:
        return (task,)
    kept = [w for w in task.writes if w not in made]
    first = replace(task, ops=rest, writes=(*kept, *(a for a in arguments if a not in task.writes)))
    axes = tuple(dict.fromkeys(a for op in ends for a in op.result.type.axes))
    reads = tuple(sorted(set(arguments)))
    last = replace(task, name=f"{task.name}_out", ops=tuple(ends), axes=axes, reads=reads, writes=tuple(made))
    return first, last


def _only_a_product_reads(value: str, task: STask, graph: TaskGraph) -> bool:
    readers = [t for t in graph.tasks if value in t.reads]
    return bool(readers) and all(t.kind is Kind.DOT and t.loop == task.loop for t in readers)
