"""sTasks as code of the role that issues them: one function per kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.sched.ops import Instr, Issue
from threadloom.targets.cuda import copy, vector
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.dot import emit_dot
from threadloom.targets.cuda.layout import uniform
from threadloom.targets.cuda.registers import Registers
from threadloom.targets.cuda.shared_access import emit_read_shared
from threadloom.targets.cuda.staging import emit_bulk_store, emit_stage
from threadloom.task.ops import Kind, Loop, Method, STask
from threadloom.tile import ops as tile

if TYPE_CHECKING:
    from threadloom.targets.cuda.section import RoleEmitter


def emit_issue(e: RoleEmitter, loop: Loop, instr: Issue, instrs: tuple[Instr, ...]) -> None:
    task = e.plan.task(instr.task)
    if task.kind is Kind.SCALAR:
        return  # written where its loop body begins
    e.scope.writer.note(e.plan.describe(task))
    guards = [g for g in e.plan.program.graph.guards if g.task == task.name]
    if guards:
        raise InternalError(f"{task.name} runs under a condition: no GPU code yet")
    match task.kind:
        case Kind.LOAD | Kind.GATHER:
            _load(e, loop, instr, task, instrs)
        case Kind.DOT:
            _dot(e, loop, instr, task)
        case Kind.VECTOR:
            _vector(e, loop, instr, task)
        case Kind.STORE | Kind.ATOMIC:
            _store(e, loop, instr, task)


def _load(e: RoleEmitter, loop: Loop, instr: Issue, task: STask, instrs: tuple[Instr, ...]) -> None:
    op = e.plan.load_op(task.name)
    facts = e.plan.facts[op.tensor]
    shared = e.plan.shared_tile(op.result.name)
    if shared is None:
        copy.emit_load(e.scope, op, facts, vector.declare(e.scope, op.result, e.plan.layouts[op.result.name]))
        return
    entry = e.entry(instr.completes, loop.id, instr.stage)
    if (instr.completes, instr.stage) not in e.expected:
        e.expected.add((instr.completes, instr.stage))
        together = [
            i.task for i in instrs if isinstance(i, Issue) and i.completes == instr.completes and i.stage == instr.stage
        ]
        e.scope.writer.line(f"barrier_expect({entry}, {sum(e.plan.issued_bytes(t) for t in together)});")
    slot = e.slot(loop.id, shared.slots, instr.stage)
    copy.emit_bulk_load(e.scope, op, facts, shared, e.plan.map_name(task.name), slot, entry)


def _slot_of(e: RoleEmitter, loop: Loop, value: str, slots: int, stage: int) -> str:
    """The slot of a tile: its counter is that of the loop in which its producer stands."""
    home = e.plan.home_loop(value)
    return e.slot(home, slots, stage if home == loop.id else 0)


def _dot(e: RoleEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    dot = e.plan.dots[task.name]
    result = e.plan.dot_result(task)
    held = accumulator_of(e, task, result)
    operands, slots = [], []
    for value in (dot.row_operand, dot.column_operand):
        shared = e.plan.shared_tile(value.name)
        if shared is not None:
            operands.append(shared)
            slots.append(_slot_of(e, loop, value.name, shared.slots, instr.stage))
        else:
            operands.append(e.scope.registers[e.plan.packed_name(value.name)])
            slots.append("0")
    if isinstance(operands[1], Registers):
        raise InternalError(f"{task.name}: the column operand of a product must be in shared memory")
    accumulate = "1" if e.plan.accumulates(task) else "0"
    e.scope.writer.line_once("mma_fence();")
    emit_dot(e.scope, dot, operands[0], operands[1], held, (slots[0], slots[1]), accumulate, e.plan.used)
    e.commit()


def accumulator_of(e: RoleEmitter, task: STask, result: tile.Value) -> Registers:
    """Registers of a product's result. Where it is added to a value, the result is made in that value's registers."""
    added = e.plan.accumulated(task)
    if added is not None and added.name in e.scope.registers:
        held = e.scope.registers[added.name]
    else:
        held = vector.declare(e.scope, result, e.plan.layouts[result.name])
    for name in {result.name, *e.plan.same_place(result.name)}:
        e.scope.registers[name] = replace(held, dtype=e.plan.value(name).type.dtype)
    if (buffer := e.plan.buffer_of(result.name, e.role.name)) is not None:
        e.scope.registers[f"buffer:{buffer.name}"] = held
    return held


def _vector(e: RoleEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    for name in task.reads:
        shared = e.plan.shared_tile(name) if e.plan.tiles.of(name) else None
        if shared is not None:
            value = e.plan.value(name)
            held = vector.declare(e.scope, value, e.plan.layouts[name])
            emit_read_shared(e.scope, shared, held, _slot_of(e, loop, name, shared.slots, instr.stage))
    known = e.scope.registers
    packed = _packed_casts(e, task)
    ops = tuple(
        o for o in task.ops if (o.result.type.axes or o.result.name not in known) and o.result.name not in packed
    )
    update = _updated_in_place(e, task)
    for name in task.writes:
        if name in update:
            known[name] = replace(known[update[name]], dtype=e.plan.value(name).type.dtype)
        elif e.plan.carried_home(name) is not None and set(e.plan.same_place(name)) & set(task.reads):
            known.pop(name, None)  # the old content is still read: the new one moves in when the task is done
    kept = frozenset(task.writes) | {o.arg.name for o in packed.values()}
    vector.emit_vector(e.scope, ops, e.plan.layouts, kept, e.plan.read_last_by(task))
    for name in task.writes:
        if name in packed:
            _pack(e, e.plan.value(name), known[packed[name].arg.name])
        else:
            _settle(e, name)
        if e.plan.is_staged(name):
            emit_stage(e.scope, e.plan.staging(name, e.role.name), known[e.plan.packed_name(name)])


def _packed_casts(e: RoleEmitter, task: STask) -> dict[str, tile.Cast]:
    """Casts that make a packed operand: rounding and packing are one instruction."""
    return {o.result.name: o for o in task.ops if isinstance(o, tile.Cast) and e.plan.is_packed(o.result.name)}


def _updated_in_place(e: RoleEmitter, task: STask) -> dict[str, str]:
    """Results that may be written over an operand: a product will add to the result, and the operand is the carried
    value that the product's own result replaces."""
    found = {}
    for dot in (t for t in e.plan.tasks.values() if t.kind is Kind.DOT):
        added = e.plan.accumulated(dot)
        if added is None or added.name not in task.writes:
            continue
        home = e.plan.carried_home(e.plan.dot_result(dot).name)
        if home is not None and home in e.scope.registers:
            found[added.name] = home
    return found


def _settle(e: RoleEmitter, name: str) -> None:
    """Move a result to where its tile lives: carried values have one place, packed operands are packed."""
    made = e.scope.registers[name]
    if e.plan.is_packed(name):
        _pack(e, e.plan.value(name), made)
        return
    home = e.plan.carried_home(name)
    if home is None or not made.layout.axes:
        return
    target = e.scope.registers.get(home)
    if target is None:
        e.scope.registers[home] = target = made
    elif target.name != made.name:
        e.scope.writer.line("#pragma unroll")
        n = target.layout.registers
        e.scope.writer.line(f"for (int i = 0; i < {n}; i++) {target.name}[i] = {made.name}[i];")
    for other in e.plan.same_place(home):
        e.scope.registers[other] = target


def _pack(e: RoleEmitter, value: tile.Value, made: Registers) -> None:
    name, count = e.plan.packed_name(value.name), made.layout.registers // 2
    held = e.scope.registers.get(name) or _declare_packed(e, value)
    e.scope.writer.line("#pragma unroll")
    pair = f"{made.name}[2 * i], {made.name}[2 * i + 1]"
    e.scope.writer.line(f"for (int i = 0; i < {count}; i++) {held.name}[i] = pack_{value.type.dtype.name}({pair});")


def _declare_packed(e: RoleEmitter, value: tile.Value) -> Registers:
    layout = e.plan.layouts[value.name]
    held = Registers(e.scope.fresh(value.name + "_packed"), value.type.dtype, layout)
    e.scope.writer.line(f"u32 {held.name}[{layout.registers // 2}];")
    e.scope.registers[e.plan.packed_name(value.name)] = held
    return held


def declare_tile_values(e: RoleEmitter) -> None:
    """Arrays that live over loop iterations: carried values and packed operands, declared once per tile."""
    _declare_arrays(e)
    for buffer in e.plan.program.buffers:
        if buffer.role == e.role.name:
            held = [e.scope.registers[v] for v in e.plan.tiles.tile(buffer.tile).values if v in e.scope.registers]
            if held:
                e.scope.registers[f"buffer:{buffer.name}"] = held[0]


def _declare_arrays(e: RoleEmitter) -> None:
    for loop in e.plan.program.graph.loops:
        for quadruple in loop.carried:
            home = e.plan.carried_home(quadruple[0].name)
            if home not in e.scope.registers and e.plan.value(home).type.axes:
                held = vector.declare(e.scope, e.plan.value(home), e.plan.layouts[home])
                for other in e.plan.same_place(home):
                    e.scope.registers[other] = held
    for name in e.plan.computed:
        if e.plan.is_packed(name) and not e.plan.is_staged(name) and e.plan.packed_name(name) not in e.scope.registers:
            _declare_packed(e, e.plan.value(name))
    for task in e.plan.tasks.values():
        if task.kind is Kind.DOT and e.plan.carried_home(e.plan.dot_result(task).name) is None:
            accumulator_of(e, task, e.plan.dot_result(task))
    for value in e.plan.values_across_passes(e.role.name):
        if value.name not in e.scope.registers and value.name in e.plan.layouts and value.type.axes:
            vector.declare(e.scope, value, e.plan.layouts[value.name])


def _store(e: RoleEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    for op in task.ops:
        if instr.method is Method.BULK_COPY:
            staging = e.plan.staging(op.value.name, e.role.name)
            emit_bulk_store(e.scope, op, e.plan.facts[op.tensor], staging, e.plan.map_name(task.name))
        elif isinstance(op, tile.Store | tile.AtomicAdd):
            copy.emit_store(e.scope, op, e.plan.facts[op.tensor], e.plan.layouts.get(op.value.name, uniform()))


# ---------------------------------------------------------------- scalars


def emit_scalars(e: RoleEmitter, loop: int, stage: int) -> None:
    """Rank-0 code of `loop`'s body, for the instance that `stage` stands at."""
    for task in e.plan.tasks.values():
        if task.loop == loop and task.kind is Kind.SCALAR:
            for op in task.ops:
                _scalar(e, op)
    del stage


def _scalar(e: RoleEmitter, op: tile.Op) -> None:
    match op:
        case tile.Load():
            facts = e.plan.facts[op.tensor]
            indices = copy.element_indices(e.scope, op.subscripts, uniform(), "0")
            kind = c.register_type(op.result.type.dtype)
            name = e.scope.fresh(op.result.name)
            text = copy.guarded_element(facts.tensor, indices)
            e.scope.writer.line(f"const {kind} {name} = {text};")
            e.scope.registers[op.result.name] = Registers(name, op.result.type.dtype, uniform(), scalar=True)
        case tile.DimSize():
            name = copy.dim_name(op.dim)
            e.scope.registers[op.result.name] = Registers(name, op.result.type.dtype, uniform(), scalar=True)
        case _:
            vector.emit_vector(e.scope, (op,), {op.result.name: uniform()}, frozenset())
