"""Parallel(THREADS, WARPS or LANES) schedule(turns) -> a function that takes its iterations from a counter, and a call.

    f.turns(context)   again: i = context.next; if i >= context.count return; context.next = i + 1; body(i); goto again
    in f itself        context on the stack; call @__loom_take_turns(f.turns, context, bytes)

The runtime (cuda/runtime/turns.cpp) calls f.turns once, and, where an iteration waits for another, again on another
stack in the same thread of the system; so the counter needs no atomics. Blocks are outlined as all blocks (outline.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.par.constants import int_value
from threadloom.par.ops import Alloca, Parallel, Space
from threadloom.par.printing import quoted, type_text
from threadloom.par.result_types import align_bytes, size_bytes
from threadloom.par.walk import walk
from threadloom.targets.cpu import outline

if TYPE_CHECKING:
    from threadloom.targets.cpu.emit_function import FunctionEmitter


def emit_turns(emitter: FunctionEmitter, op: Parallel) -> None:
    emitter.text.takes_turns = True
    captured = outline.captured_values(op)
    name = emitter.text.unique_function_name(f"{emitter.name}.turns")
    context_type = f"{{ {', '.join(['i64', 'i64', *(type_text(value.type) for value in captured)])} }}"
    _emit_function(emitter, op, name, context_type)
    context = quoted("%", emitter.fresh("turns.context"))
    align = max([16, *(align_bytes(value.type) for value in captured)])  # vectors of 32 lanes may be among them
    emitter.entry_allocas.append(f"  {context} = alloca {context_type}, align {align}")
    count = "1"
    for extent in outline.extents_of(emitter, op):
        count = emitter.assign("items", f"mul i64 {count}, {extent}")
    emitter.line(f"store i64 0, ptr {context}, align 8")
    emitter.line(f"store i64 {count}, ptr {_field(emitter, context, context_type, 1)}, align 8")
    for number, value in enumerate(captured):
        at = _field(emitter, context, context_type, number + 2)
        emitter.line(f"store {emitter.typed(value)}, ptr {at}, align {align_bytes(value.type)}")
    emitter.line(f"call void @{outline.TAKE_TURNS}(ptr {quoted('@', name)}, ptr {context}, i64 {_frame_bytes(op)})")


def _emit_function(emitter: FunctionEmitter, op: Parallel, name: str, context_type: str) -> None:
    captured = outline.captured_values(op)
    work = outline.inner_emitter(emitter, name)
    for value in (*captured, *op.ivs):
        work.reserve(value.name)
    work.reserve_all(op.body)
    context = quoted("%", work.fresh("context"))
    count = work.assign("count", f"load i64, ptr {_field(work, context, context_type, 1)}, align 8")
    for number, value in enumerate(captured):
        at, align = _field(work, context, context_type, number + 2), align_bytes(value.type)
        work.line(f"{quoted('%', value.name)} = load {type_text(value.type)}, ptr {at}, align {align}")
    extents = ["", *outline.extents_of(work, op, first=1)]
    again, body, done = (work.fresh(label) for label in ("again", "body", "done"))
    work.branch(again)
    work.label(again)
    taken = work.assign("taken", f"load i64, ptr {context}, align 8")
    more = work.assign("more", f"icmp slt i64 {taken}, {count}")
    work.branch_if(more, body, done)
    work.label(body)
    following = work.assign("next", f"add nsw i64 {taken}, 1")
    work.line(f"store i64 {following}, ptr {context}, align 8")
    mark = work.stack_mark(op.body)
    outline.unflatten(work, op, taken, extents)
    work.body(op.body)
    work.restore_stack(mark)
    work.branch(again)
    work.label(done)
    work.line("ret void")
    work.finish(f"define internal void {quoted('@', name)}(ptr {context}) {work.outlined_attrs()}")


def _field(emitter: FunctionEmitter, context: str, context_type: str, number: int) -> str:
    return emitter.assign("field", f"getelementptr inbounds {context_type}, ptr {context}, i32 0, i32 {number}")


def _frame_bytes(op: Parallel) -> int:
    """Of the private allocations whose size is known, generously."""
    own = (inner for inner in walk(op.body) if isinstance(inner, Alloca) and inner.space is Space.PRIVATE)
    return sum(64 + (int_value(alloca.count) or 1) * size_bytes(alloca.element) for alloca in own)
