"""A loop that may wait for another thread asks when it lasts: threads, warps and blocks around it then take turns.

    parallel threads (%t) = ... {             parallel threads (%t) = ... schedule(turns) {
      %r = while (%a = T %x) {                  %r, .. = while (%a = T %x, %turns = i64 0, %ask = i64 32) {
        %v = load volatile i32, ptr %flag         %v = load volatile i32, ptr %flag
        condition i1 %go, T %b                    condition i1 %go, T %b, i64 %turns, i64 %ask
      } do (%c) {                        ->     } do (%c, %turns.1, %ask.1) {
        ...                                       ...; %n = add i64 %turns.1, 1
                                                  %asks = if (%n >= %ask.1) { call @__loom_waiting(file, line, %n) }
        yield T %d                                yield T %d, i64 %n, i64 %asks

Threads of a block run one after another, and blocks on as many workers as there are cores, so a thread that spins
until a later one has written would spin for ever. The loops over threads, warps, lanes and blocks around a loop that
may do so (waits.py) take their iterations from a counter, so that the runtime can go on with those behind on another
stack (runtime/turns.cpp); a loop that does not last is not disturbed. A loop that ends by what it does itself (compare
and swap of a value it has read) is only watched. Where nothing goes on, the runtime warns after ten seconds and ends
the program after five minutes.
Interchange, a trip of each thread in turn, was not taken: a thread that has left its loop must go on to what others
wait for, through any loops around, which the split's masks do not do; and it would cost every program.
Tried: a thread of the system for each CUDA thread that waits; a chain of 100 blocks of 64 then made two thousand of
them and took minutes. `--no-fibers` refuses such loops instead (refuse_waits).
Needs: all other passes done, which an operation more in these loops would disturb. `loom check` has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.runtime_calls import WAITING, is_check_call
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.waits import ends_alone, may_see_others, may_wait
from threadloom.errors import CompileError, slug
from threadloom.par.ops import (
    I32,
    I64,
    Alloca,
    Block,
    Condition,
    Const,
    Function,
    If,
    Leaf,
    Level,
    Module,
    Op,
    Parallel,
    Space,
    While,
    Yield,
)
from threadloom.par.passes import map_functions, through_functions
from threadloom.par.walk import regions, with_regions
from threadloom.source import Loc

WAITS = slug("cuda-waits", "with --no-fibers, a loop may wait for another thread of its launch")

FIRST_ASKED = 32  # turns until a loop asks first (runtime/device_functions.cpp has the same)


@dataclass(frozen=True, slots=True)
class WatchWaits:
    name: str = "watch-waits"

    def apply(self, module: Module) -> Module:
        if any(_is_checked(op) for function in module.functions if function.body for op in walk(function.body.ops)):
            return module
        waiting: set[int] = set()  # id() of loops that wait
        module = through_functions(module, lambda function, module: _watch(function, module, waiting))
        if not waiting:
            return module
        callers = _functions_that_wait(module, waiting)
        return map_functions(module, lambda function: _with_turns(function, waiting, callers))


def waiting_loops(block: Block) -> list[Loc]:
    """Where, behind this pass, loops stand that threads around them take turns for; calls of functions that wait have
    the place of the loop over threads around them."""
    found: dict[Loc, None] = {}
    for op in walk(block.ops):
        if isinstance(op, Parallel) and op.schedule == "turns":
            asking = [inner.loc for inner in walk(op.body.ops) if isinstance(inner, While) and _asks(inner)]
            found |= dict.fromkeys(loc for loc in asking or [op.loc] if loc)
    return list(found)


def refuse_waits(module: Module) -> None:
    """CompileError `cuda-waits` at the first loop that would need a stack of its own."""
    for function in module.functions:
        for loc in waiting_loops(function.body) if function.body else ():
            raise CompileError(
                WAITS,
                "this loop may last until another thread has written",
                loc=loc,
                why="threads that wait run on stacks of their own, and --no-fibers forbids these",
                try_="leave the option out, or meet at a barrier in place of the loop",
            )


def _asks(loop: While) -> bool:
    inside = (one for op in loop.after.ops if isinstance(op, If) for region in regions(op) for one in region.ops)
    return any(_calls(one, frozenset({WAITING})) for one in inside)


def _watch(function: Function, module: Module, waiting: set[int]) -> Module:
    ops = function.body.ops if function.body else ()
    if not any(may_see_others(op) for op in walk(ops)):
        return module
    editor, memory = Editor(function, module), Memory(function, module)

    def change(op: Op) -> list[Op] | None:
        if not (isinstance(op, While) and op.loc and may_wait(op, memory)):
            return None
        watched = _watched(op, editor)
        if not ends_alone(op):
            waiting.add(id(watched))
        return [watched]

    assert function.body is not None
    body = expand(function.body, change)
    return module if body is function.body else editor.finish(replace(function, body=body))


# ---------------------------------------------------------------- the loops around


def _functions_that_wait(module: Module, waiting: set[int]) -> frozenset[str]:
    """Those in which a thread may wait, other functions than kernels; "" stands for one that a pointer leads to."""
    bodies = {f.name: list(walk(f.body.ops)) for f in module.functions if f.body is not None and not is_kernel(f)}
    found = {name for name, ops in bodies.items() if any(id(op) in waiting for op in ops)}
    while True:
        known = frozenset({*found, ""}) if found else frozenset()
        more = {name for name, ops in bodies.items() if any(_calls(op, known) for op in ops)} - found
        if not more:
            return known
        found |= more


def _calls(op: Op, names: frozenset[str]) -> bool:
    return isinstance(op, Leaf) and op.opcode == "call" and op.attrs.callee in names


def _with_turns(function: Function, waiting: set[int], callers: frozenset[str]) -> Function:
    def waits(op: Op) -> bool:
        return id(op) in waiting or _calls(op, callers)

    def change(op: Op) -> Op:
        if isinstance(op, Parallel) and any(waits(inner) for inner in walk(op.body.ops)) and _is_its_own(op):
            return replace(op, schedule="turns", grain=1, body=in_block(op.body))
        return with_regions(op, in_block)

    def in_block(block: Block) -> Block:
        return Block(tuple(op if isinstance(op, Leaf) else change(op) for op in block.ops))

    assert function.body is not None
    return replace(function, body=in_block(function.body)) if any(map(waits, walk(function.body.ops))) else function


def _is_its_own(op: Parallel) -> bool:
    """No iteration uses memory that the next one takes over."""
    inside = (inner for inner in walk(op.body.ops) if isinstance(inner, Alloca))
    return op.level is Level.BLOCKS or all(inner.space is Space.PRIVATE for inner in inside)


def _is_checked(op: Op) -> bool:
    return isinstance(op, Leaf) and is_check_call(op.attrs.callee)


def _watched(op: While, editor: Editor) -> While:
    turns, again, left = (editor.fresh("turns", I64) for _ in range(3))  # 2^32 turns are a few seconds
    ask, asks, asked = (editor.fresh("ask", I64) for _ in range(3))
    condition, last = op.before.ops[-1], op.after.ops[-1]
    assert isinstance(condition, Condition) and isinstance(last, Yield) and op.loc is not None
    with editor.collect() as ops:
        following = editor.add(again, 1, name="turns")
        with editor.if_(editor.icmp("uge", following, asks, "long"), ["ask"]) as branch:
            file, line = editor.text(op.loc.file, "file"), Const(I32, str(op.loc.line))
            branch.yield_(editor.call(WAITING, [file, line, following], I64))
            branch.otherwise()
            branch.yield_(asks)
        ops.append(Yield((*last.values, following, *branch.results)))
    before = Block((*op.before.ops[:-1], replace(condition, values=(*condition.values, turns, ask))))
    return replace(
        op,
        inits=(*op.inits, Const(I64, "0"), Const(I64, str(FIRST_ASKED))),
        args=(*op.args, turns, ask),
        before=before,
        after_args=(*op.after_args, again, asks),
        after=Block((*op.after.ops[:-1], *ops)),
        results=(*op.results, left, asked),
    )
