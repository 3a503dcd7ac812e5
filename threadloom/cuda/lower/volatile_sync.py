"""Warp-synchronous code: lanes of a warp meet around volatile stores to shared memory, at fences, and where elements of
a shared array change places.

    store volatile float %v, ptr %s          ->   call void @loom.syncwarp(i32 -1)
                                                  store volatile float %v, ptr %s
                                                  call void @loom.syncwarp(i32 -1)
    fence seq_cst                            ->   fence seq_cst
                                                  call void @loom.syncwarp(i32 -1)
    %v = load float, ptr (a at %i)           ->   %v = load float, ptr (a at %i)
    store float %v, ptr (a at (load to %i))       call void @loom.syncwarp(i32 -1)
                                                  store float %v, ptr (a at (load to %i))

Policy: code written for GPUs whose warps ran in lock-step (before Volta) marks the shared array volatile and leaves out
`__syncwarp`. Every lane that runs the store has then read its operands before any lane stores, and sees the stores of
all afterwards. Volatile loads and accesses to other memory are left alone.

In kernels whose lanes work together (they have warp collectives), lanes that run a `__threadfence()` meet behind it:
"all write a node, fence, one lane releases its lock" relies on no lane's write coming after the release.

A kernel that calls `__threadfence_block()` has its lanes talk through shared memory without saying volatile (a prefix
sum with a fence after each step): its stores to shared memory count as volatile.

A permutation in place relies on all lanes having read before one writes. It is known by a store to a shared array, at
an index that was loaded, of what was loaded from another element of the same array.

A kernel in which a thread waits for what another one of its block writes to shared memory would hang in lock-step, so
it relies on none: there lanes do not meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.waits import waits_on_block
from threadloom.par.ops import I32, Const, Function, Int, Leaf, Module, Op, Operand, Space, Value


@dataclass(frozen=True, slots=True)
class VolatileSync:
    name: str = "volatile-sync"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None:
                ops = list(walk(function.body.ops))
                fences = any(map(_is_fence, ops)) and any(map(_is_warp_collective, ops))
                block_fences = any(map(_is_block_fence, ops))
                moves = _moves(ops)
                if not (fences or block_fences or moves or any(map(_is_volatile_store, ops))):
                    continue
                if not waits_on_block(ops, Memory(function, module)):
                    module = self._function(function, module, fences, block_fences, moves)
        return module

    def _function(
        self, function: Function, module: Module, fences: bool, block_fences: bool, moves: set[int]
    ) -> Module:
        memory, editor = Memory(function, module), Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            at_fence = fences and _is_fence(op)
            stores = _is_volatile_store(op) or (block_fences and _is_store(op))
            moved = id(op) in moves and _is_shared(_target(op), memory)
            if not at_fence and not moved and not (stores and _is_shared(op.operands[1], memory)):
                return None
            with editor.collect() as meet, editor.at(op.loc):
                editor.call("loom.syncwarp", [Const(I32, "-1")])
            if moved and op.opcode == "call":
                return _copy_in_two_steps(op, editor, meet)
            if moved and not stores:
                return [*meet, op]
            return [op, *meet] if at_fence else [*meet, op, *meet]

        body = expand(function.body, change)
        return module if body == function.body else editor.finish(replace(function, body=body))


_MOST_COPIED = 64  # bytes of an element


def _moves(ops: list[Op]) -> set[int]:
    """id() of stores (and copies of small structures), at an index that was loaded, of what was loaded through another
    pointer with the same base."""
    made = {op.result.name: op for op in ops if isinstance(op, Leaf) and op.result is not None}

    def depends_on_load(operand: Operand) -> bool:
        leaf = made.get(operand.name) if isinstance(operand, Value) else None
        return leaf is not None and (leaf.opcode == "load" or any(map(depends_on_load, leaf.operands)))

    def base(pointer: Operand) -> Operand:
        leaf = made.get(pointer.name) if isinstance(pointer, Value) else None
        return base(leaf.operands[0]) if leaf is not None and leaf.opcode == "getelementptr" else pointer

    def same(a: Operand, b: Operand) -> bool:
        """Whether `a` and `b` are computed alike."""
        one, other = (made.get(x.name) if isinstance(x, Value) else None for x in (a, b))
        if a == b or one is None or other is None:
            return a == b
        alike = (one.opcode, one.attrs, len(one.operands)) == (other.opcode, other.attrs, len(other.operands))
        return alike and one.opcode != "call" and all(map(same, one.operands, other.operands))

    def loaded_from(value: Operand) -> Operand | None:
        leaf = made.get(value.name) if isinstance(value, Value) else None
        return leaf.operands[0] if leaf is not None and leaf.opcode == "load" else None

    def looked_up(pointer: Operand) -> bool:
        leaf = made.get(pointer.name) if isinstance(pointer, Value) else None
        return leaf is not None and leaf.opcode == "getelementptr" and any(map(depends_on_load, leaf.operands[1:]))

    found = set()
    for op in ops:
        if not isinstance(op, Leaf) or (target := _target(op)) is None or not looked_up(target):
            continue
        source = op.operands[1] if op.opcode == "call" else loaded_from(op.operands[0])
        if source is not None and base(source) == base(target) and not same(source, target):
            found.add(id(op))
    return found


def _target(op: Leaf) -> Operand | None:
    """Where a store or a copy of known size writes."""
    if op.opcode == "store":
        return op.operands[1]
    if op.opcode == "call" and op.attrs.callee.startswith("llvm.memcpy") and isinstance(op.operands[2], Const):
        return op.operands[0] if int(op.operands[2].text) <= _MOST_COPIED else None
    return None


def _copy_in_two_steps(op: Leaf, editor: Editor, meet: list[Op]) -> list[Op]:
    """A copy as loads, a meeting, and stores."""
    target, source, size = op.operands[:3]
    count = int(size.text)
    width = 4 if count % 4 == 0 else 1
    piece = Int(8 * width)
    with editor.collect() as loads, editor.at(op.loc):
        values = [editor.load(piece, editor.gep(Int(8), source, at), 1) for at in range(0, count, width)]
    with editor.collect() as stores, editor.at(op.loc):
        for number, value in enumerate(values):
            editor.store(value, editor.gep(Int(8), target, number * width), 1)
    return [*loads, *meet, *stores]


def _is_store(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "store" and not op.attrs.ordering


def _is_block_fence(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "fence" and op.attrs.ordering == "acq_rel"


def _is_volatile_store(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "store" and op.attrs.volatile


def _is_fence(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "fence" and op.attrs.ordering == "seq_cst"


def _is_warp_collective(op: Op) -> bool:
    return collective_scope(op) == "warp"


def _is_shared(pointer: Operand, memory: Memory) -> bool:
    roots = memory.roots(pointer)
    return bool(roots) and all(
        root.kind is RootKind.ALLOCA and memory.allocas[root.name].space is Space.SHARED for root in roots
    )
