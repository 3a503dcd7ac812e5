"""sTasks as code of the role that issues them: one function per kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.sched.ops import Instr, Issue
from threadloom.targets.cuda import copy, elements, elementwise, reduce, vector
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.dot import emit_dot
from threadloom.targets.cuda.dot_apart import emit_apart
from threadloom.targets.cuda.fill_shared import emit_fill_shared
from threadloom.targets.cuda.layout import Layout, uniform
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.operands import operands, subscript_values
from threadloom.targets.cuda.packed_nibbles import can_take, emit_nibbles, find_nibbles
from threadloom.targets.cuda.read_ahead import take_ahead
from threadloom.targets.cuda.registers import InShared, Registers, unroll
from threadloom.targets.cuda.shared_access import emit_read_shared, emit_write_shared, first_digit, piece_elems
from threadloom.targets.cuda.simt import emit_simt_dot
from threadloom.targets.cuda.staging import emit_bulk_store, emit_stage
from threadloom.targets.cuda.unsupported import located, no_code
from threadloom.targets.cuda.zero_tail import emit_zero_tail, emit_zeros
from threadloom.task.ops import Kind, Loop, Method, STask
from threadloom.tile import ops as tile

if TYPE_CHECKING:
    from threadloom.targets.cuda.kernel_plan import KernelPlan
    from threadloom.targets.cuda.section import RoleEmitter

STORES = tile.Store | tile.AtomicAdd


def emit_issue(e: RoleEmitter, loop: Loop, instr: Issue, instrs: tuple[Instr, ...]) -> None:
    task = e.plan.task(instr.task)
    with located(task.loc):
        _emit_issue(e, loop, instr, instrs, task)


def _emit_issue(e: RoleEmitter, loop: Loop, instr: Issue, instrs: tuple[Instr, ...], task: STask) -> None:
    if task.kind is Kind.SCALAR:
        return  # written where its loop body begins
    e.scope.writer.note(e.plan.describe(task))
    condition = guard_of(e, task)
    if task.kind in (Kind.LOAD, Kind.GATHER):
        _load(e, loop, instr, task, instrs, condition)
        return
    chosen = declare_chosen(e, task) if condition else {}
    outside = dict(e.scope.registers)
    with e.scope.writer.block(f"if ({condition})") if condition else nullcontext():
        match task.kind:
            case Kind.DOT:
                _dot(e, loop, instr, task)
            case Kind.VECTOR:
                vector_task(e, loop, instr, task, chosen)
            case Kind.STORE | Kind.ATOMIC:
                store_task(e, loop, instr, task)
    if condition:  # what the block declared is gone
        e.scope.registers = outside
    if e.plan.is_group(instr.completes):
        e.commit()


def guard_of(e: RoleEmitter, task: STask) -> str:
    """C condition under which the sTask runs, "" where it always does."""
    tests = []
    for guard in e.plan.guards(task):
        name = e.scope.scalar(guard.cond)
        tests.append(name if guard.wanted else f"!{name}")
    return " && ".join(tests)


def _load(e: RoleEmitter, loop: Loop, instr: Issue, task: STask, instrs: tuple[Instr, ...], condition: str) -> None:
    op, w = e.plan.load_op(task.name), e.scope.writer
    facts = e.plan.facts[op.tensor]
    shared = e.plan.shared_tile(op.result.name)
    if shared is None:
        held = e.homes.of(op.result.name) or elements.declare(e.scope, op.result, e.plan.layouts[op.result.name])
        if task.name in e.ahead:
            take_ahead(e, loop, task, instr.stage, held)
            return
        outside = dict(e.scope.registers)
        with w.block(f"if ({condition})") if condition else nullcontext():
            read_indices(e, loop, instr, task, op)
            with indices_matched(e, op, held.layout):
                copy.emit_load(e.scope, op, facts, held)
        if condition:  # what the block declared is gone
            e.scope.registers = outside
        return
    if instr.method is not Method.BULK_COPY:
        slot = e.slot(loop.id, shared.slots, instr.stage)
        with w.block(f"if ({condition})") if condition else nullcontext():
            emit_fill_shared(e.scope, op, e.plan.facts, shared, slot, own_indices(e, task, op))
        return
    entry = e.entry(instr.completes, loop.id, instr.stage)
    slot = e.slot(loop.id, shared.slots, instr.stage)
    issues = [i for i in instrs if isinstance(i, Issue)]
    together = [i.task for i in issues if (i.completes, i.stage) == (instr.completes, instr.stage)]
    others = [t for t in together if t != task.name]
    if not condition:
        if (instr.completes, instr.stage) not in e.expected:
            e.expected.add((instr.completes, instr.stage))
            w.line(f"{e.one_thread}barrier_expect({entry}, {sum(e.plan.issued_bytes(t) for t in together)});")
        name, spread = e.plan.map_name(task.name), e.plan.multicast(op.result.name)
        copy.emit_bulk_load(e.scope, op, facts, shared, name, slot, entry, e.one_thread, spread)
        return
    if e.one_thread:
        condition += " && elected"
    with w.block(f"if ({condition})"):
        w.line(f"barrier_expect({entry}, {e.plan.issued_bytes(task.name)});")
        copy.emit_bulk_load(e.scope, op, facts, shared, e.plan.map_name(task.name), slot, entry)
    if not others:
        w.line(f"else {e.one_thread}barrier_arrive({entry});  // nothing to load: the phase completes all the same")


def own_indices(e: RoleEmitter, task: STask, op: tile.Load) -> tuple[tile.Op, ...]:
    """What a gather into shared memory does for its indices, element by element (sched/own_indices.py)."""
    own = tuple(o for o in task.ops if o is not op)
    made = {o.result.name for o in own}
    for value in (v for o in (*own, op) for v in operands(o) if v.type.axes and v.name not in made):
        raise no_code(f"the gather from {op.tensor}", f"its index {value.name} is in other threads", op.loc)
    return tuple(o for o in own if o.result.type.axes or o.result.name not in e.scope.registers)


def read_indices(e: RoleEmitter, loop: Loop, instr: Issue, task: STask, op: tile.Load) -> None:
    """Bring the indices of a gather from shared memory; compute those that are among its own operations."""
    _read_shared_operands(e, loop, instr, task)
    _compute_own(e, task, tuple(v.name for v in subscript_values(op.subscripts)))


def indices_matched(e: RoleEmitter, op: tile.Load | STORES, layout: Layout) -> AbstractContextManager[None]:
    """While the access is written, indices in other registers lie in those of `layout`. Threads of a worker can
    exchange them, those of a producer have no memory to do so."""
    if e.role.kind != "worker":
        return nullcontext()
    return elementwise.matched(e.scope, [(v, layout) for v in subscript_values(op.subscripts)])


def _compute_own(e: RoleEmitter, task: STask, wanted: tuple[str, ...]) -> None:
    """Compute what a load or a store makes for itself: indices, and values of positions alone."""
    known, access = e.scope.registers, tile.Load | STORES
    own = tuple(o for o in task.ops if not isinstance(o, access) and (o.result.type.axes or o.result.name not in known))
    if own:
        vector.emit_vector(e.scope, own, _layouts(e, own), frozenset(wanted))


def _layouts(e: RoleEmitter, ops: tuple[tile.Op, ...]) -> dict[str, Layout]:
    """Layouts of all values, those of rank 0 that `ops` make included."""
    return {o.result.name: uniform(e.scope.team.warps) for o in ops if not o.result.type.axes} | e.plan.layouts


def slot_of(e: RoleEmitter, loop: Loop, value: str, slots: int, stage: int) -> str:
    """The slot of a tile: its counter is that of the loop in which its producer stands."""
    home = e.plan.home_loop(value)
    if slots > 1 and loop.like is not None and home == loop.like:
        return f"{e.kept[loop.id, slots, stage]}.slot"
    return e.slot(home, slots, stage if home == loop.id else 0)


def _dot(e: RoleEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    dot = e.plan.dots[task.name]
    result = e.plan.dot_result(task)
    held = e.homes.of(result.name)
    if held is None:
        raise InternalError(f"{task.name}: the product {result.name} has no registers")
    operands, slots = [], []
    for value in (dot.row_operand, dot.column_operand):
        shared = e.plan.shared_tile(value.name)
        if shared is not None:
            operands.append(shared)
            slots.append(slot_of(e, loop, value.name, shared.slots, instr.stage))
        else:
            operands.append(e.homes.of(value.name))
            slots.append("0")
    for value, shared, slot in zip((dot.row_operand, dot.column_operand), operands, slots, strict=True):
        for axis in dot.summed if not isinstance(shared, Registers) else ():
            if e.plan.brings_more(value.name, axis):
                emit_zero_tail(e.scope, shared, axis, slot)
    adds = e.plan.accumulates(task)
    in_flight = e.plan.is_group(instr.completes) and any(not d.simt for d in e.plan.dots.values())
    if in_flight and adds and (dot.simt or held.layout != dot.result_layout):
        e.scope.writer.line("mma_wait<0>();  // products that add there are complete")
        e.scope.writer.line(f"pin({held.name});")

    def emit(to: Registers, adds: bool) -> None:
        if dot.simt:
            emit_simt_dot(e.scope, dot, operands[0], operands[1], to, (slots[0], slots[1]), adds)
            return
        e.scope.writer.line_once("mma_fence();")
        accumulate = "1" if adds else "0"
        emit_dot(e.scope, dot, operands[0], operands[1], to, (slots[0], slots[1]), accumulate, e.plan.used)

    if held.layout == dot.result_layout:
        emit(held, adds)
        return
    finish = () if dot.simt else ("mma_commit();", "mma_wait<0>();")
    emit_apart(e.scope, dot, held, adds, finish, lambda made: emit(made, False))


def declare_chosen(e: RoleEmitter, task: STask) -> dict[str, Registers]:
    """Declare, before the block of an `if`, what a vector task in it writes of rank 0: that has no home, and the task
    of the other branch writes it, too."""
    if task.kind is not Kind.VECTOR:
        return {}
    values = [e.plan.value(name) for name in task.writes]
    rank_0 = [v for v in values if not v.type.axes and e.homes.of(v.name) is None]
    return {v.name: elements.declare(e.scope, v, uniform(e.scope.team.warps)) for v in rank_0}


def vector_task(
    e: RoleEmitter, loop: Loop, instr: Issue, task: STask, chosen: Mapping[str, Registers] = MappingProxyType({})
) -> None:
    """`chosen`: what `declare_chosen` declared."""
    packed = _packed_casts(e, task)
    cast_only = {o.arg.name for o in packed.values() if o.arg.type.dtype.bits >= 8}  # others may be taken in words
    _read_shared_operands(e, loop, instr, task, {*task.reads} - cast_only)
    known = e.scope.registers
    for name in chosen:
        known.pop(name)
    e.homes.begin(task)
    ops = tuple(
        o for o in task.ops if (o.result.type.axes or o.result.name not in known) and o.result.name not in packed
    )
    made_packed = {name for name in task.writes if e.plan.is_packed(name)}
    if _made_of_nibbles(e, task):
        e.homes.finish(task)
        return
    for name in made_packed - set(packed):  # made as ordinary registers, then packed
        known.pop(name, None)
    kept = frozenset(task.writes) | {o.arg.name for o in packed.values()}
    dying = e.plan.read_last_by(task) | e.homes.overwritten(task)
    if any(isinstance(o, tile.Load) for o in ops):  # scalar code on what was computed of tiles
        for op in ops:
            _define_scalar(e, op)
    else:
        vector.emit_vector(e.scope, ops, _layouts(e, ops), kept, dying)
    for name in made_packed:
        source = packed[name].arg if name in packed else e.plan.value(name)
        elements.bring(e.scope, source)
        with elementwise.matched(e.scope, [(source, e.plan.layouts[name])]):
            held = _pack(e, e.plan.value(name), known[source.name])
        if e.plan.is_staged(name):
            emit_stage(e.scope, e.plan.staging(name), held)
    for name in task.writes:
        _to_products(e, loop, instr, name)
    e.homes.finish(task)
    for name, held in chosen.items():
        made = known[name]
        e.scope.writer.line(f"{held.name}[0] = {made.name if made.scalar else f'{made.name}[0]'};")


def _to_products(e: RoleEmitter, loop: Loop, instr: Issue, name: str) -> None:
    """Make what a vector task wrote fit for the products that read it: nothing beyond the end of a summed axis, and in
    shared memory where they want it there."""
    shared = e.plan.shared_tile(name)
    readers = [d for d in e.plan.dots.values() if name in (d.row_operand.name, d.column_operand.name)]
    for dot in readers if not e.plan.is_packed(name) else ():
        for axis in dot.summed:
            reduce.overwrite_invalid(e.scope, e.scope.registers[name], axis, "0")
    if shared is None:
        return
    consumers = e.plan.tiles.tile(e.plan.tiles.of(name)).consumers
    if any(e.plan.read_by_threads(t) for t in consumers):
        e.scope.writer.line(f"{e.scope.team.sync}  // all have read what was there")
    slot, held = slot_of(e, loop, name, shared.slots, instr.stage), e.scope.registers[name]
    for axis, depth in dict.fromkeys((axis, dot.padded_depth(axis)) for dot in readers for axis in dot.summed):
        if (covered := held.layout.extent(axis)) < depth:
            emit_zeros(e.scope, shared, axis, slot, covered)  # no thread has what is read there
    emit_write_shared(e.scope, shared, held, slot)


def _read_shared_operands(e: RoleEmitter, loop: Loop, instr: Issue, task: STask, fetched: Collection[str] = ()) -> None:
    """Bring what the task reads of tiles in shared memory into registers of its own; large ones of `fetched` stay there
    where the task can fetch them piece by piece."""
    for name in task.reads:
        shared = e.plan.shared_tile(name) if e.plan.tiles.of(name) else None
        if shared is None:
            continue
        slot, layout = slot_of(e, loop, name, shared.slots, instr.stage), e.plan.layouts[name]
        whole = layout.registers >= elementwise.WORTH_PIECES and piece_elems(shared, layout) == first_digit(layout) > 1
        if name in fetched and whole:
            e.scope.registers.pop(name, None)
            e.scope.in_shared[name] = InShared(shared, slot, layout)
            continue
        emit_read_shared(e.scope, shared, elements.declare(e.scope, e.plan.value(name), layout), slot)


def _packed_casts(e: RoleEmitter, task: STask) -> dict[str, tile.Cast]:
    """Casts that make a packed operand: rounding and packing are one instruction."""
    return {o.result.name: o for o in task.ops if isinstance(o, tile.Cast) and e.plan.is_packed(o.result.name)}


def _made_of_nibbles(e: RoleEmitter, task: STask) -> bool:
    """Write a task that makes a product's rows of 4-bit integers in shared memory, two elements at a time; False, and
    nothing written, where it has another form."""
    name = task.writes[0]
    dots = [d for d in e.plan.dots.values() if d.row_operand.name == name]
    ops = tuple(o for o in task.ops if o.result.type.axes or isinstance(o, tile.Const))
    if len(task.writes) > 1 or len(dots) != 1 or not e.plan.is_packed(name) or e.plan.is_staged(name):
        return False
    found, layout = find_nibbles(ops, e.plan.value(name)), e.plan.layouts[name]
    lies = e.scope.in_shared.get(found.source.name) if found else None
    home = e.homes.of(name)
    if found is None or home is None or not can_take(e.scope, found, layout, lies, dots[0].summed):
        return False
    values = [(found.scale, layout)] if found.scale is not None else []
    with e.scope.writer.block(""), elementwise.matched(e.scope, values):
        emit_nibbles(e.scope, found, layout, lies, home)
    e.scope.registers[name] = home
    return True


def _pack(e: RoleEmitter, value: tile.Value, made: Registers) -> Registers:
    """Two elements a register, in the value's home or (where it is only staged) in registers of its own."""
    w, layout = e.scope.writer, e.plan.layouts[value.name]
    count, held = layout.registers // 2, e.homes.of(value.name)
    for dot in e.plan.dots.values():
        if dot.row_operand.name == value.name:  # what lies beyond the end of the summed axis must not count
            for axis in dot.summed:
                reduce.overwrite_invalid(e.scope, made, axis, "0")
    if held is None:
        held = Registers(e.scope.fresh(value.name + "_packed"), value.type.dtype, layout, packed=True)
        w.line(f"u32 {held.name}[{count}];")
    w.line(unroll(count))
    pair = f"{made.name}[2 * i], {made.name}[2 * i + 1]"
    w.line(f"for (int i = 0; i < {count}; i++) {held.name}[i] = pack_{value.type.dtype.name}({pair});")
    e.scope.registers[value.name] = held
    return held


def store_task(e: RoleEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    once = task.kind is Kind.ATOMIC and e.plan.done_by_each_worker(task)
    with e.scope.writer.block("if (worker == 0)") if once else nullcontext():
        _store_task(e, loop, instr, task)


def _store_task(e: RoleEmitter, loop: Loop, instr: Issue, task: STask) -> None:
    _read_shared_operands(e, loop, instr, task)
    _compute_own(e, task, tuple(v.name for o in task.ops if isinstance(o, STORES) for v in operands(o)))
    for op in (o for o in task.ops if isinstance(o, STORES)):
        if instr.method is Method.BULK_COPY and e.plan.is_staged(op.value.name):
            staging = e.plan.staging(op.value.name)
            packed = e.scope.registers[op.value.name]
            emit_bulk_store(e.scope, op, e.plan.facts[op.tensor], staging, e.plan.map_name(task.name), packed)
        else:
            layout = e.plan.layouts.get(op.value.name, uniform(e.scope.team.warps))
            with indices_matched(e, op, layout):
                copy.emit_store(e.scope, op, e.plan.facts[op.tensor], layout)


# ---------------------------------------------------------------- scalars


def launch_scalars(plan: KernelPlan, warps: int) -> dict[str, Registers]:
    """What every thread knows from the launch: the kernel's scalars and the extents that its code reads."""
    known = {
        s.name: Registers(identifier(s.name), s.dtype, uniform(warps), scalar=True)
        for s in plan.program.graph.kernel.scalars
    }
    ops = (op for task in plan.tasks.values() for op in task.ops)
    return known | {op.result.name: _extent(op, warps) for op in ops if isinstance(op, tile.DimSize)}


def _extent(op: tile.DimSize, warps: int) -> Registers:
    return Registers(copy.dim_name(op.dim), op.result.type.dtype, uniform(warps), scalar=True)


def emit_scalars(e: RoleEmitter, loop: int, after: int | None = None) -> dict[str, Registers]:
    """Rank-0 code of `loop`'s body for the instance whose places are current; what it made. `after`: the code that
    waited for the end of that loop."""
    before = dict(e.scope.registers)
    made: set[str] = set()
    for task in e.plan.tasks.values():
        if task.loop == loop and task.kind is Kind.SCALAR:
            for op in task.ops:
                early = loop == 0 and (task.name, op.result.name) in e.ready
                if not early and e.plan.late_scalars.get(op.result.name) == after:
                    _scalar(e, task, op, made if loop else before.keys() | made)
                    made.add(op.result.name)
    return {name: held for name, held in e.scope.registers.items() if before.get(name) is not held}


def emit_ready_scalars(e: RoleEmitter, loop: int) -> None:
    """The rank-0 code of `loop` that needs only axes and values known so far, once each."""
    for task in e.plan.tasks.values():
        if task.loop != loop or task.kind is not Kind.SCALAR:
            continue
        for op in task.ops:
            if (task.name, op.result.name) not in e.ready and _is_ready(e, task, op):
                _scalar(e, task, op, e.scope.registers.keys())
                e.ready.add((task.name, op.result.name))


def _is_ready(e: RoleEmitter, task: STask, op: tile.Op) -> bool:
    axes = [op.axis] if isinstance(op, tile.Index | tile.Bound) else []
    if isinstance(op, tile.Load):
        axes += [t.axis for s in op.subscripts for t in s.terms if t.axis is not None]
    wanted = {v.name for v in operands(op)} | {g.cond for g in e.plan.guards(task)}
    known = all(name in e.scope.registers for name in wanted)
    return known and all(a in e.scope.places for a in axes)


def _scalar(e: RoleEmitter, task: STask, op: tile.Op, made: Collection[str]) -> None:
    """Write `op`. Both branches of an `if` are computed; where one has already made the result (it is in `made`), the
    condition of this one chooses."""
    name, condition = op.result.name, guard_of(e, task)
    other = e.scope.registers.pop(name, None) if condition and name in made else None
    _define_scalar(e, op)
    home = e.homes.of(name) if e.homes is not None else None
    if home is not None:  # the other branch is vector code
        line = f"{home.name} = {e.scope.registers[name].name};"
        e.scope.writer.line(f"if ({condition}) {line}" if condition else line)
        e.scope.registers[name] = home
        return
    if other is None:
        return
    mine, kind = e.scope.registers[name], c.register_type(op.result.type.dtype)
    chosen = e.scope.fresh(name)
    e.scope.writer.line(f"const {kind} {chosen} = {condition} ? {mine.name} : {other.name};")
    e.scope.registers[name] = Registers(chosen, op.result.type.dtype, uniform(), scalar=True)


def _load_scalar(e: RoleEmitter, op: tile.Load) -> None:
    """Load one element. Narrow floats are converted where they are used: a conversion here would wait for memory."""
    tensor, dtype = e.plan.facts[op.tensor].tensor, op.result.type.dtype
    indices = copy.element_indices(e.scope, op.subscripts, uniform(), "0")
    name = e.scope.fresh(op.result.name)
    if dtype.is_float and dtype.bits < 32 and tensor.dtype is dtype:
        e.scope.writer.line(f"const {c.memory_type(dtype)} {name} = {copy.stored_element(tensor, indices)};")
        name = c.from_memory(dtype, name)
    else:
        kind = c.register_type(dtype)
        e.scope.writer.line(f"const {kind} {name} = {copy.guarded_element(tensor, indices)};")
    e.scope.registers[op.result.name] = Registers(name, dtype, uniform(), scalar=True)


def _define_scalar(e: RoleEmitter, op: tile.Op) -> None:
    match op:
        case tile.Load():
            _load_scalar(e, op)
        case tile.DimSize():
            e.scope.registers[op.result.name] = _extent(op, e.scope.team.warps)
        case _:
            vector.emit_vector(e.scope, (op,), {op.result.name: uniform()}, frozenset({op.result.name}))
