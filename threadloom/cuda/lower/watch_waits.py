"""A loop that may wait for another thread says so when it lasts: other blocks go on, and nothing hangs without a word.

    %r = while (%a = T %x) {                     %r, .. = while (%a = T %x, %turns = i64 0) {
      %v = load volatile i32, ptr %flag            %v = load volatile i32, ptr %flag
      condition i1 %go, T %b                       condition i1 %go, T %b, i64 %turns
    } do (%c) {                             ->   } do (%c, %turns.1) {
      ...                                          ...; %next = add i64 %turns.1, 1
                                                   if ((%next & 4095) == 0) { call @__loom_waiting(file, line, %next) }
      yield T %d                                   yield T %d, i64 %next

Threads of a block run one after another, and blocks on as many workers as there are cores, so a thread that spins until
a later one has written would spin for ever. Which loops do so cannot be told: those that read memory of all blocks by
volatile or atomic accesses are watched, and those that only read, where it is volatile memory of the block. The loop
over blocks around them is made `schedule(turns)`: when a block waits, a thread more goes on with those behind it
(runtime/turns.cpp). A loop that ends by what it does itself (compare and swap of a value it has read) is only watched.
Threads of one block have no turns; so the runtime (device_functions.cpp) warns after ten seconds in one loop and ends
the program after five minutes. Tried: a thread of the system for each CUDA thread that waits; a chain of 100 blocks of
64 then made two thousand of them and took minutes.
Needs: all other passes done, which an operation more in these loops would disturb. `loom check` has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.runtime_calls import WAITING, is_check_call
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.ops import (
    I32,
    I64,
    Block,
    Condition,
    Const,
    Function,
    Leaf,
    Level,
    Module,
    Op,
    Parallel,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import through_functions
from threadloom.par.walk import arguments, results, with_regions

_EVERY = 4096  # turns between two looks at the clock


@dataclass(frozen=True, slots=True)
class WatchWaits:
    name: str = "watch-waits"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        ops = function.body.ops if function.body else ()
        if not any(_may_see_others(op) for op in walk(ops)) or any(_is_checked(op) for op in walk(ops)):
            return module
        editor, memory = Editor(function, module), Memory(function, module)
        waiting: list[While] = []

        def change(op: Op) -> list[Op] | None:
            if not (isinstance(op, While) and op.loc and may_wait(op, memory)):
                return None
            watched = _watched(op, editor)
            if not _ends_alone(op):
                waiting.append(watched)
            return [watched]

        assert function.body is not None
        body = expand(function.body, change)
        if body is function.body:
            return module
        return editor.finish(replace(function, body=_by_turns(body, waiting) if waiting else body))


def _by_turns(block: Block, waiting: list[While]) -> Block:
    """Loops over blocks around the loops that wait."""

    def change(op: Op) -> Op:
        if isinstance(op, Parallel):
            around = op.level is Level.BLOCKS and any(inner is one for inner in walk(op.body.ops) for one in waiting)
            return replace(op, schedule="turns", grain=1) if around else op
        return with_regions(op, lambda region: _by_turns(region, waiting))

    return Block(tuple(change(op) for op in block.ops))


def _ends_alone(op: While) -> bool:
    """A compare and swap that fails only if somebody else's has succeeded, and then has the new value."""
    inside = list(walk((op,)))
    made = {value.name for one in inside for value in (*results(one), *arguments(one))}
    seen = [one for one in inside if isinstance(one, Leaf) and _may_see_others(one)]
    return all(
        one.opcode == "cmpxchg" and isinstance(one.operands[1], Value) and one.operands[1].name in made for one in seen
    )


def may_wait(op: While, memory: Memory) -> bool:
    """Whether another thread could end the loop: it reads what others write while it runs."""
    inside = list(walk((op,)))
    seen = [one for one in inside if isinstance(one, Leaf) and _may_see_others(one)]
    only_reads = not any(isinstance(one, Leaf) and one.opcode in ("store", "call") for one in inside)
    return any(only_reads or not _is_of_block(one, memory) for one in seen)


def _may_see_others(op: Op) -> bool:
    if not isinstance(op, Leaf):
        return False
    reads = op.opcode == "load" and (op.attrs.volatile or op.attrs.ordering)
    return bool(reads) or op.opcode in ("atomicrmw", "cmpxchg")


def _is_of_block(op: Leaf, memory: Memory) -> bool:
    return all(root.kind is RootKind.ALLOCA for root in memory.roots(op.operands[0]))


def _is_checked(op: Op) -> bool:
    return isinstance(op, Leaf) and is_check_call(op.attrs.callee)


def _watched(op: While, editor: Editor) -> While:
    turns, again, left = (editor.fresh("turns", I64) for _ in range(3))  # 2^32 turns are a few seconds
    condition, last = op.before.ops[-1], op.after.ops[-1]
    assert isinstance(condition, Condition) and isinstance(last, Yield) and op.loc is not None
    with editor.collect() as ops:
        following = editor.add(again, 1, name="turns")
        with editor.if_(editor.icmp("eq", editor.and_(following, _EVERY - 1), 0, "long")):
            editor.call(WAITING, [editor.text(op.loc.file, "file"), Const(I32, str(op.loc.line)), following])
        ops.append(Yield((*last.values, following)))
    before = Block((*op.before.ops[:-1], replace(condition, values=(*condition.values, turns))))
    return replace(
        op,
        inits=(*op.inits, Const(I64, "0")),
        args=(*op.args, turns),
        before=before,
        after_args=(*op.after_args, again),
        after=Block((*op.after.ops[:-1], *ops)),
        results=(*op.results, left),
    )
