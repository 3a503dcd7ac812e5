"""What counts the barrier in front of a loop over threads, as a loop of its own.

   parallel threads (%x) { %p = load (%position + %x); %q = add %p, 1; store %q, (%position + %x); passed(%q); A }
-> parallel threads (%x) { %p = load (%position + %x); %q = add %p, 1; store %q, (%position + %x); passed(%q) }
   parallel threads (%x) { A }
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import is_pure
from threadloom.cuda.lower.runtime_calls import CHECK_PASSED, CHECK_TOGETHER, is_check_call
from threadloom.cuda.lower.traverse import free_values, walk
from threadloom.cuda.vectorize.narrow_threads import swept
from threadloom.par.ops import Block, Leaf, Op, Parallel
from threadloom.par.walk import arguments, results


def passed_apart(op: Parallel, editor: Editor) -> tuple[list[Op], Parallel]:
    """What counts the barrier in front of the loop, as a loop of its own, and the rest."""
    leaves = [inner for inner in op.body.ops if isinstance(inner, Leaf)]
    calls = [inner for inner in leaves if inner.attrs.callee in (CHECK_PASSED, CHECK_TOGETHER)]
    if not calls:
        return [], op
    counts = {call.operands[1] for call in calls}
    stores = [inner for inner in leaves if inner.opcode == "store" and inner.operands[0] in counts]
    head = op.body.ops[: op.body.ops.index(calls[-1]) + 1]
    books = [inner for inner in head if isinstance(inner, Leaf) and _counts(inner, calls, stores)]
    others = [inner for inner in walk(head) if inner not in books]
    if any(isinstance(inner, Leaf) and is_check_call(inner.attrs.callee) for inner in others):
        return [], op
    elsewhere = {value.name for inner in others for value in (*results(inner), *arguments(inner))}
    rest = swept(replace(op, body=Block(tuple(inner for inner in op.body.ops if inner not in (*calls, *stores)))))
    slots = {store.operands[1] for store in stores}
    stale = any(isinstance(inner, Leaf) and inner.opcode == "load" and inner.operands[0] in slots for inner in head
                if inner in rest.body.ops)  # fmt: skip
    if stale or elsewhere & free_values(books).keys():
        return [], op
    return [swept(editor.copy((replace(op, body=Block(tuple(books))),), {})[0])], rest


def _counts(op: Leaf, calls: list[Leaf], stores: list[Leaf]) -> bool:
    return op in calls or op in stores or is_pure(op) or op.opcode == "load"
