"""Parallel(BLOCKS) -> three functions and a fork.

    f.blocks.body(begin, end, arena, captured...)   iterations [begin, end) of the flattened index space
    f.blocks.run(context, worker, workers, home)    loads the captured values, takes an arena (the search begins with
                                                    number `home`), gets its iterations:
                                                    static: one contiguous, even share; dynamic: the next free
                                                    ones, a few at a time where there are very many
    f.blocks.entry(context)                         what GOMP_parallel calls: worker number and count from OpenMP, or
                                                    from a runtime that cuts shares into pieces: `home` is the worker's
                                                    own number then
    in f itself                                     context on the stack; with one iteration or one worker, run() is
                                                    called directly and nothing is forked

Captured values become parameters of the body and keep the attributes (noalias, align) that they had as parameters of
f, so alias facts survive outlining. Iterations start in index order, last variable fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.constants import int_value
from threadloom.par.ops import I64, Alloca, Leaf, Operand, Parallel, Space, Value
from threadloom.par.printing import quoted, type_text
from threadloom.par.result_types import align_bytes, size_bytes
from threadloom.par.walk import defined, free_values, walk
from threadloom.targets.cpu import arena
from threadloom.targets.cpu.emit_module import ModuleText

if TYPE_CHECKING:
    from threadloom.targets.cpu.emit_function import FunctionEmitter

ARENA_ACQUIRE, ARENA_RELEASE = arena.ACQUIRE, arena.RELEASE
THREAD_LIMIT = "loom_thread_limit"
TURNS, TAKE_TURNS = "__loom_turns", "__loom_take_turns"  # of blocks; of threads, warps or lanes
HOME = "__loom_home"  # the number of the thread among the workers
_ALIGN_BYTES = 64  # of every arena slice and of the shared counter
COUNT_AT = 64  # in a context: a line with the counter (dynamic) and its size, the number of iterations, captured values
SHARES_EACH = 64  # times that a worker takes iterations where there are very many


@dataclass(frozen=True, slots=True)
class HeldArena:
    slot: str
    memory: str


@dataclass(frozen=True, slots=True)
class Outlined:
    """Names of the functions and the layout of the context of one region."""

    body: str
    run: str
    entry: str
    captured: tuple[Value, ...]
    places: tuple[int, ...]  # of the captured values in the context, in bytes: after COUNT_AT
    context_bytes: int


def emit_blocks(emitter: FunctionEmitter, op: Parallel) -> None:
    text = emitter.text
    captured = captured_values(op)
    name = text.unique_function_name(f"{emitter.name}.blocks")
    plan = Outlined(f"{name}.body", f"{name}.run", f"{name}.entry", captured, *_placed(captured))
    _emit_body(emitter, op, plan)
    _emit_run(emitter, op, plan)
    _emit_launch(emitter, op, plan)


def _placed(captured: tuple[Value, ...]) -> tuple[tuple[int, ...], int]:
    """Where captured values stand in the context, behind the number of iterations; bytes of the whole."""
    places, end = [], COUNT_AT + 8
    for value in captured:
        align = align_bytes(value.type)
        places.append(-(-end // align) * align)
        end = places[-1] + size_bytes(value.type)
    return tuple(places), -(-end // _ALIGN_BYTES) * _ALIGN_BYTES


def captured_values(op: Parallel) -> tuple[Value, ...]:
    """Free values of the body, and the bounds, which the body needs to unflatten its index."""
    found = {value.name: value for value in free_values(op.body) if value not in op.ivs}
    for bound in op.lowers + op.uppers:
        if isinstance(bound, Value):
            found.setdefault(bound.name, bound)
    return tuple(found.values())


def inner_emitter(emitter: FunctionEmitter, name: str, users: bool = True) -> FunctionEmitter:
    """`users`: the function has the code of threads, not what hands it out."""
    inner = type(emitter)(emitter.text, name, emitter.own_loc, users)
    inner.in_blocks = True
    inner.kept_attrs = emitter.kept_attrs
    return inner


# ---------------------------------------------------------------- the body


def _emit_body(emitter: FunctionEmitter, op: Parallel, plan: Outlined) -> None:
    body = inner_emitter(emitter, plan.body)
    body.attrs_of = emitter.attrs_of
    for value in (*plan.captured, *op.ivs):
        body.reserve(value.name)
    body.reserve_all(op.body)
    begin, end, memory = (quoted("%", body.fresh(hint)) for hint in ("begin", "end.index", "arena"))
    _plan_slices(body, op, memory)
    index = Value(body.fresh("index"), I64)
    extents = ["", *extents_of(body, op, first=1)]
    mark = body.stack_mark(op.body)
    loop = body.open_loop(index, begin, end, "1", [])
    unflatten(body, op, quoted("%", index.name), extents)
    fine_grained = len(op.ivs) == 1 and op.schedule == "static"
    if fine_grained:
        body.enter_group(op.body)
    body.body(op.body)
    body.restore_stack(mark)
    body.close_loop(loop, [], body.leave_group() if fine_grained else "")
    body.line("ret void")
    params = [f"i64 {begin}", f"i64 {end}", f"ptr noalias {memory}"]
    params += [
        " ".join((type_text(v.type), *_kept(body.attrs_of.get(v.name, ())), quoted("%", v.name))) for v in plan.captured
    ]
    body.finish(f"define internal void {quoted('@', plan.body)}({', '.join(params)}) {body.outlined_attrs()}")


def _kept(attrs: tuple[str, ...]) -> tuple[str, ...]:
    """Attributes that say how an argument is passed belong to the outer function only."""
    return tuple(attr for attr in attrs if not attr.startswith(("byval", "sret", "inreg", "returned", "nest")))


def extents_of(emitter: FunctionEmitter, op: Parallel, first: int = 0) -> list[str]:
    """Iterations of each dimension from `first` on, as i64, never negative."""
    extents = []
    for iv, lower, upper in list(zip(op.ivs, op.lowers, op.uppers, strict=True))[first:]:
        known_lower, known_upper = int_value(lower), int_value(upper)
        if known_lower is not None and known_upper is not None:
            extents.append(str(max(0, known_upper - known_lower)))
            continue
        wide = [_widened(emitter, bound, iv.name) for bound in (lower, upper)]
        extent = wide[1] if known_lower == 0 else emitter.assign(f"{iv.name}.extent", f"sub i64 {wide[1]}, {wide[0]}")
        extents.append(emitter.assign(f"{iv.name}.count", f"call i64 @llvm.smax.i64(i64 {extent}, i64 0)"))
    return extents


def _widened(emitter: FunctionEmitter, bound: Operand, hint: str) -> str:
    if (known := int_value(bound)) is not None:
        return str(known)
    if type_text(bound.type) == "i64":
        return emitter.of(bound)
    return emitter.assign(f"{hint}.wide", f"sext {emitter.typed(bound)} to i64")


def unflatten(emitter: FunctionEmitter, op: Parallel, index: str, extents: list[str]) -> None:
    """The induction variables of flattened iteration `index`, last one fastest."""
    remaining = index
    for dimension in reversed(range(len(op.ivs))):
        iv, lower = op.ivs[dimension], op.lowers[dimension]
        part = remaining
        if dimension > 0:
            part = emitter.assign(f"{iv.name}.part", f"urem i64 {remaining}, {extents[dimension]}")
            remaining = emitter.assign(f"{iv.name}.rest", f"udiv i64 {remaining}, {extents[dimension]}")
        narrow = type_text(iv.type)
        if narrow != "i64":
            part = emitter.assign(f"{iv.name}.narrow", f"trunc i64 {part} to {narrow}")
        if int_value(lower) == 0:
            emitter.registers[iv.name] = part
        else:
            emitter.line(f"{quoted('%', iv.name)} = add {narrow} {part}, {emitter.of(lower)}")


# ---------------------------------------------------------------- arenas


def _shared_allocas(op: Parallel) -> list[Alloca]:
    return [inner for inner in walk(op.body) if isinstance(inner, Alloca) and inner.space is not Space.PRIVATE]


def bytes_of(emitter: FunctionEmitter, op: Alloca) -> str:
    """Bytes of an allocation, rounded up to whole cache lines, as a number or a register."""
    element = size_bytes(op.element)
    if (count := int_value(op.count)) is not None:
        return str(-(-count * element // _ALIGN_BYTES) * _ALIGN_BYTES)
    count = _widened(emitter, op.count, op.result.name)
    padded = emitter.assign(f"{op.result.name}.bytes", f"mul i64 {count}, {element}")
    padded = emitter.assign(f"{op.result.name}.padded", f"add i64 {padded}, {_ALIGN_BYTES - 1}")
    return emitter.assign(f"{op.result.name}.size", f"and i64 {padded}, {-_ALIGN_BYTES}")


def _plan_slices(emitter: FunctionEmitter, op: Parallel, memory: str) -> str:
    """Give each shared allocation of the region its offset; returns the bytes of all."""
    from threadloom.targets.cpu.emit_function import ArenaSlice

    allocas = _shared_allocas(op)
    sized = {alloca.count.name for alloca in allocas if isinstance(alloca.count, Value)}
    inside = defined(op.body) | {iv.name for iv in op.ivs} if sized else set()
    offset = "0"
    for alloca in allocas:
        if isinstance(alloca.count, Value) and alloca.count.name in inside:
            raise InternalError(f"{emitter.name}: the size of %{alloca.result.name} must be known outside its parallel")
        offset = _aligned(emitter, offset, alloca)
        emitter.arena_slices[alloca.result.name] = ArenaSlice(memory, offset)
        offset = _sum(emitter, offset, bytes_of(emitter, alloca), alloca.result.name)
    return offset


def _aligned(emitter: FunctionEmitter, offset: str, alloca: Alloca) -> str:
    wanted = alloca.align_bytes or align_bytes(alloca.element)
    if wanted <= _ALIGN_BYTES:
        return offset
    if wanted > 4096:
        raise InternalError(f"%{alloca.result.name}: alignment of {wanted} bytes is more than an arena has")
    padded = _sum(emitter, offset, str(wanted - 1), alloca.result.name)
    if padded.isdigit():
        return str(int(padded) // wanted * wanted)
    return emitter.assign(f"{alloca.result.name}.aligned", f"and i64 {padded}, {-wanted}")


def _sum(emitter: FunctionEmitter, left: str, right: str, hint: str) -> str:
    if left == "0":
        return right
    if left.isdigit() and right.isdigit():
        return str(int(left) + int(right))
    return emitter.assign(f"{hint}.end", f"add i64 {left}, {right}")


def acquire_arena(emitter: FunctionEmitter, bytes_: str, worker: str) -> HeldArena:
    emitter.text.uses_arena = True
    slot = emitter.assign("arena.slot", f"call ptr @{ARENA_ACQUIRE}(i64 {bytes_}, i64 {worker})")
    at = emitter.assign("arena.at", f"getelementptr inbounds i8, ptr {slot}, i64 {arena.BASE_OFFSET_BYTES}")
    return HeldArena(slot, emitter.assign("arena", f"load ptr, ptr {at}, align 8"))


# ---------------------------------------------------------------- run: one worker's share


def _emit_run(emitter: FunctionEmitter, op: Parallel, plan: Outlined) -> None:
    run = inner_emitter(emitter, plan.run, users=False)
    for value in plan.captured:
        run.reserve(value.name)
    names = ("context", "worker", "workers", "home")
    context, worker, workers, home = (quoted("%", run.fresh(hint)) for hint in names)
    count = run.assign("count", f"load i64, ptr {_field(run, context, COUNT_AT)}, align 8")
    for value, place in zip(plan.captured, plan.places, strict=True):
        at = _field(run, context, place)
        run.line(f"{quoted('%', value.name)} = load {type_text(value.type)}, ptr {at}, align {align_bytes(value.type)}")
    bytes_ = _plan_slices(run, op, "null")
    held = acquire_arena(run, bytes_, home) if _shared_allocas(op) else HeldArena("", "null")
    if op.schedule in ("dynamic", "turns"):
        _dynamic_shares(run, plan, context, count, workers, held.memory, one_each=op.schedule == "turns")
    else:
        _static_share(run, plan, count, worker, workers, held.memory, op.grain)
    if _stores_past_caches(op):
        run.line("fence seq_cst")  # such stores are not ordered with what other cores do next
    if held.slot:
        run.line(f"call void @{ARENA_RELEASE}(ptr {held.slot})")
    run.line("ret void")
    params = f"ptr {context}, i64 {worker}, i64 {workers}, i64 {home}"
    effort = " noinline optnone" if emitter.quick else ""
    run.finish(f"define internal void {quoted('@', plan.run)}({params}) {run.outlined_attrs()}{effort}")


def _stores_past_caches(op: Parallel) -> bool:
    return any(isinstance(inner, Leaf) and "nontemporal" in inner.attrs.flags for inner in walk(op.body))


def _field(emitter: FunctionEmitter, context: str, place: int) -> str:
    return emitter.assign("field", f"getelementptr inbounds i8, ptr {context}, i64 {place}")


def _call_body(run: FunctionEmitter, plan: Outlined, begin: str, end: str, memory: str) -> None:
    args = [f"i64 {begin}", f"i64 {end}", f"ptr {memory}", *(run.typed(value) for value in plan.captured)]
    run.line(f"call void {quoted('@', plan.body)}({', '.join(args)})")


def _static_share(run: FunctionEmitter, plan: Outlined, count: str, worker: str, workers: str, memory: str,
                  grain: int) -> None:  # fmt: skip
    """Worker w of W gets count/W iterations; the first count%W workers one more. Very many begin at the grain."""
    each = run.assign("each", f"udiv i64 {count}, {workers}")
    extra = run.assign("extra", f"urem i64 {count}, {workers}")
    shift = run.assign("shift", f"call i64 @llvm.umin.i64(i64 {worker}, i64 {extra})")
    start = run.assign("start", f"mul i64 {each}, {worker}")
    begin = run.assign("begin", f"add i64 {start}, {shift}")
    one_more = run.assign("one.more", f"icmp ult i64 {worker}, {extra}")
    wide = run.assign("bonus", f"zext i1 {one_more} to i64")
    size = run.assign("size", f"add i64 {each}, {wide}")
    end = run.assign("end", f"add i64 {begin}, {size}")
    if grain > 1:
        begin, end = _at_grain(run, begin, end, count, each, grain)
    _call_body(run, plan, begin, end, memory)


def _at_grain(run: FunctionEmitter, begin: str, end: str, count: str, each: str, grain: int) -> tuple[str, str]:
    """Both rounded down, but for the last end, where that moves less than an eighth of a share."""
    many = run.assign("many", f"icmp uge i64 {each}, {8 * grain}")
    mask = run.assign("mask", f"select i1 {many}, i64 {-grain}, i64 -1")
    last = run.assign("is.last", f"icmp eq i64 {end}, {count}")
    rounded = run.assign("rounded", f"and i64 {end}, {mask}")
    return (
        run.assign("begin.rounded", f"and i64 {begin}, {mask}"),
        run.assign("end.rounded", f"select i1 {last}, i64 {count}, i64 {rounded}"),
    )


def _dynamic_shares(run: FunctionEmitter, plan: Outlined, context: str, count: str, workers: str, memory: str,
                    one_each: bool) -> None:  # fmt: skip
    """The counter is the context's first word, alone on its cache line. What is taken at once is neighbours, so that
    rows fetched ahead are a worker's own and stores past the caches are waited for less often."""
    again, work, done = (run.fresh(label) for label in ("again", "work", "done"))
    each = "1"
    if not one_each:
        shares = run.assign("shares", f"mul i64 {workers}, {SHARES_EACH}")
        share = run.assign("share", f"sdiv i64 {count}, {shares}")
        each = run.assign("each", f"call i64 @llvm.smax.i64(i64 {share}, i64 1)")
    run.branch(again)
    run.label(again)
    taken = run.assign("taken", f"atomicrmw add ptr {context}, i64 {each} monotonic, align 8")
    more = run.assign("more", f"icmp slt i64 {taken}, {count}")
    run.branch_if(more, work, done)
    run.label(work)
    after = run.assign("taken.end", f"add nsw i64 {taken}, {each}")
    end = run.assign("end", f"call i64 @llvm.smin.i64(i64 {after}, i64 {count})")
    _call_body(run, plan, taken, end, memory)
    run.branch(again)
    run.label(done)


# ---------------------------------------------------------------- the launch


def _emit_launch(emitter: FunctionEmitter, op: Parallel, plan: Outlined) -> None:
    extents = extents_of(emitter, op)
    count = extents[0] if extents else "1"
    for extent in extents[1:]:
        both_known = count.isdigit() and extent.isdigit()
        count = str(int(count) * int(extent)) if both_known else emitter.assign("blocks", f"mul i64 {count}, {extent}")
    context = quoted("%", emitter.fresh("context"))
    emitter.entry_allocas.append(f"  {context} = alloca [{plan.context_bytes} x i8], align {_ALIGN_BYTES}")
    emitter.line(f"store i64 0, ptr {context}, align 8")
    if emitter.text.threads:
        at = emitter.assign("context.size", f"getelementptr inbounds i8, ptr {context}, i64 8")
        emitter.line(f"store i64 {plan.context_bytes}, ptr {at}, align 8")
    emitter.line(f"store i64 {count}, ptr {_field(emitter, context, COUNT_AT)}, align 8")
    for value, place in zip(plan.captured, plan.places, strict=True):
        at = _field(emitter, context, place)
        emitter.line(f"store {emitter.typed(value)}, ptr {at}, align {align_bytes(value.type)}")
    if emitter.text.threads:
        _emit_entry(emitter, plan)
        if op.schedule == "turns":
            _take_turns(emitter, plan, context, count)
        else:
            _fork(emitter, plan, context, count)
    else:
        _run_alone(emitter, plan, context)


def _run_alone(emitter: FunctionEmitter, plan: Outlined, context: str) -> None:
    emitter.line(f"call void {quoted('@', plan.run)}(ptr {context}, i64 0, i64 1, i64 0)")


def _fork(emitter: FunctionEmitter, plan: Outlined, context: str, count: str) -> None:
    emitter.text.forks = True
    alone, fork, joined = (emitter.fresh(label) for label in ("alone", "fork", "joined"))
    limit = emitter.assign("limit", "call i64 @loom.workers()")
    workers = emitter.assign("workers", f"call i64 @llvm.smin.i64(i64 {limit}, i64 {count})")
    several = emitter.assign("several", f"icmp sgt i64 {workers}, 1")
    emitter.branch_if(several, fork, alone)
    emitter.label(alone)
    _run_alone(emitter, plan, context)
    emitter.branch(joined)
    emitter.label(fork)
    number = emitter.assign("threads", f"trunc i64 {workers} to i32")
    emitter.line(f"call void @GOMP_parallel(ptr {quoted('@', plan.entry)}, ptr {context}, i32 {number}, i32 0)")
    emitter.branch(joined)
    emitter.label(joined)


def _take_turns(emitter: FunctionEmitter, plan: Outlined, context: str, count: str) -> None:
    emitter.text.forks = emitter.text.takes_turns = True
    limit = emitter.assign("limit", "call i64 @loom.workers()")
    workers = emitter.assign("workers", f"call i64 @llvm.smin.i64(i64 {limit}, i64 {count})")
    number = emitter.assign("threads", f"trunc i64 {workers} to i32")
    fork = "null" if emitter.text.standalone else "@GOMP_parallel"  # null: that of our runtime library
    emitter.line(f"call void @{TURNS}(ptr {quoted('@', plan.entry)}, ptr {context}, i32 {number}, ptr {fork})")


def _emit_entry(emitter: FunctionEmitter, plan: Outlined) -> None:
    emitter.text.functions.append(f"""\
define internal void {quoted("@", plan.entry)}(ptr %context) nounwind {{
  %number = call i32 @omp_get_thread_num()
  %count = call i32 @omp_get_num_threads()
  %worker = sext i32 %number to i64
  %workers = sext i32 %count to i64
  %own = call i32 @{HOME}()
  %home = sext i32 %own to i64
  call void {quoted("@", plan.run)}(ptr %context, i64 %worker, i64 %workers, i64 %home)
  ret void
}}
""")


_WORKERS = f"""\
define internal i64 @loom.workers() nounwind {{
  %limit = load i32, ptr @{THREAD_LIMIT}, align 4
  %limited = icmp sgt i32 %limit, 0
  br i1 %limited, label %known, label %ask
known:
  %wide = sext i32 %limit to i64
  ret i64 %wide
ask:
  %most = call i32 @omp_get_max_threads()
  %all = sext i32 %most to i64
  ret i64 %all
}}
"""
_OWN_HOME = f"""\
define internal i32 @{HOME}() nounwind {{
  %number = call i32 @omp_get_thread_num()
  ret i32 %number
}}
"""
_OPENMP = {
    "GOMP_parallel": "declare void @GOMP_parallel(ptr, ptr, i32, i32)",
    "omp_get_thread_num": "declare i32 @omp_get_thread_num()",
    "omp_get_num_threads": "declare i32 @omp_get_num_threads()",
    "omp_get_max_threads": "declare i32 @omp_get_max_threads()",
}


def support_text(text: ModuleText, standalone: bool) -> str:
    """Declarations and helpers that the emitted functions call."""
    parts = []
    if text.forks:
        limit = "weak global i32 0" if standalone else "external global i32"
        declared = [line for name, line in _OPENMP.items() if not text.knows(name)]
        parts.append(f"declare i32 @{HOME}()\n" if standalone else _OWN_HOME)
        parts.append("\n".join([f"@{THREAD_LIMIT} = {limit}, align 4", "", _WORKERS, *declared, ""]))
    if text.takes_turns:
        parts.append(f"declare void @{TURNS}(ptr, ptr, i32, ptr)\ndeclare void @{TAKE_TURNS}(ptr, ptr, i64)\n")
    if text.uses_arena and not text.knows(ARENA_ACQUIRE):
        parts.append(f"declare ptr @{ARENA_ACQUIRE}(i64, i64)\ndeclare void @{ARENA_RELEASE}(ptr)\n")
    return "\n".join(parts)
