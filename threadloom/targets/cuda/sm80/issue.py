"""sTasks as code of the one worker: asynchronous copies and products; vector code and stores as on every GPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.sched.ops import Issue
from threadloom.targets.cuda import copy, elements
from threadloom.targets.cuda.dot_apart import emit_apart
from threadloom.targets.cuda.fill_shared import emit_fill_shared
from threadloom.targets.cuda.issue import (
    declare_chosen,
    guard_of,
    indices_matched,
    own_indices,
    read_indices,
    slot_of,
    store_task,
    vector_task,
)
from threadloom.targets.cuda.registers import Registers
from threadloom.targets.cuda.simt import emit_simt_dot
from threadloom.targets.cuda.sm80.load import copied_elems, emit_async_fill
from threadloom.targets.cuda.sm80.mma import emit_mma
from threadloom.task.ops import Kind, Loop, Method, STask

if TYPE_CHECKING:
    from threadloom.targets.cuda.sm80.section import WorkerEmitter


def emit_issue(e: WorkerEmitter, loop: Loop, instr: Issue, exists: str) -> None:
    """`exists`: C condition under which there is such an instance; "" where there always is."""
    task = e.plan.task(instr.task)
    if task.kind is Kind.SCALAR:
        return  # written where its loop body begins
    w = e.scope.writer
    w.note(e.plan.describe(task))
    condition = " && ".join(c for c in (exists, guard_of(e, task)) if c)
    chosen = declare_chosen(e, task) if condition else {}
    outside = dict(e.scope.registers)
    with w.block(f"if ({condition})") if condition else nullcontext():
        match task.kind:
            case Kind.LOAD | Kind.GATHER:
                _load(e, loop, instr, task)
            case Kind.DOT:
                _dot(e, loop, instr, task)
            case Kind.VECTOR:
                vector_task(e, loop, instr, task, chosen)
            case Kind.STORE | Kind.ATOMIC:
                store_task(e, loop, instr, task)
    if condition:  # what the block declared is gone
        e.scope.registers = outside
    if e.plan.is_store_group(instr.completes):
        w.line("copy_commit();")


def _load(e: WorkerEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    op, w = e.plan.load_op(task.name), e.scope.writer
    facts = e.plan.facts[op.tensor]
    shared = e.plan.shared_tile(op.result.name) if e.plan.tiles.of(op.result.name) else None
    if shared is None:
        held = e.homes.of(op.result.name) or elements.declare(e.scope, op.result, e.plan.layouts[op.result.name])
        read_indices(e, loop, instr, task, op)
        with indices_matched(e, op, held.layout):
            copy.emit_load(e.scope, op, facts, held)
        return
    slot = e.slot(loop.id, shared.slots, instr.stage)
    own = own_indices(e, task, op)
    gathers = any(t.value is not None and t.value.type.axes for s in op.subscripts for t in s.terms)
    copies = instr.method is Method.ASYNC_COPY and not gathers
    elems = copied_elems(op, facts, shared, e.plan.rows_begin(op)) if copies else 0
    if elems:
        emit_async_fill(e.scope, op, facts, shared, slot, elems)
        return
    emit_fill_shared(e.scope, op, e.plan.facts, shared, slot, own)
    w.line(f"{e.scope.team.sync}  // all of the tile is there")


def _dot(e: WorkerEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    p, result = e.plan.dots[task.name], e.plan.dot_result(task)
    held = e.homes.of(result.name)
    if held is None:
        raise InternalError(f"{task.name}: the product {result.name} has no registers")
    operands, slots = [], []
    for value in (p.row_operand, p.column_operand):
        shared = e.plan.shared_tile(value.name)
        operands.append(shared if shared is not None else e.homes.of(value.name))
        slots.append(slot_of(e, loop, value.name, shared.slots, instr.stage) if shared is not None else "0")
    adds = e.plan.accumulates(task)

    def emit(to: Registers, adds: bool) -> None:
        if p.simt:
            emit_simt_dot(e.scope, p, operands[0], operands[1], to, (slots[0], slots[1]), adds)
            return
        if not adds:
            e.scope.writer.line("#pragma unroll")
            e.scope.writer.line(f"for (int i = 0; i < {to.layout.registers}; i++) {to.name}[i] = 0;")
        emit_mma(e.scope, p, operands[0], operands[1], to, (slots[0], slots[1]))

    if held.layout == p.result_layout:
        emit(held, adds)
    else:
        emit_apart(e.scope, p, held, adds, (), lambda made: emit(made, False))
