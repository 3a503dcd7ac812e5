"""Legacy warp-synchronous code: lanes of a warp meet around volatile stores to shared memory, and at fences.

    store volatile float %v, ptr %s          ->   call void @loom.syncwarp(i32 -1)
                                                  store volatile float %v, ptr %s
                                                  call void @loom.syncwarp(i32 -1)
    fence seq_cst                            ->   fence seq_cst
                                                  call void @loom.syncwarp(i32 -1)

Policy: code written for GPUs whose warps ran in lock-step (before Volta) marks the shared array volatile and leaves out
`__syncwarp`. Every lane that runs the store has then read its operands before any lane stores, and sees the stores of
all afterwards. Volatile loads and accesses to other memory are left alone.

In kernels whose lanes work together (they have warp collectives), lanes that run a `__threadfence()` meet behind it:
"all write a node, fence, one lane releases its lock" relies on no lane's write coming after the release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.ops import I32, Const, Function, Leaf, Module, Op, Space


@dataclass(frozen=True, slots=True)
class VolatileSync:
    name: str = "volatile-sync"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None:
                ops = list(walk(function.body.ops))
                fences = any(map(_is_fence, ops)) and any(map(_is_warp_collective, ops))
                if fences or any(map(_is_volatile_store, ops)):
                    module = self._function(function, module, fences)
        return module

    def _function(self, function: Function, module: Module, fences: bool) -> Module:
        memory, editor = Memory(function, module), Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            at_fence = fences and _is_fence(op)
            if not at_fence and not (_is_volatile_store(op) and _is_shared(op, memory)):
                return None
            with editor.collect() as ops, editor.at(op.loc):
                editor.call("loom.syncwarp", [Const(I32, "-1")])
            return [op, *ops] if at_fence else [*ops, op, *ops]

        body = expand(function.body, change)
        return module if body == function.body else editor.finish(replace(function, body=body))


def _is_volatile_store(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "store" and op.attrs.volatile


def _is_fence(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "fence" and op.attrs.ordering == "seq_cst"


def _is_warp_collective(op: Op) -> bool:
    return collective_scope(op) == "warp"


def _is_shared(op: Leaf, memory: Memory) -> bool:
    roots = memory.roots(op.operands[1])
    return bool(roots) and all(
        root.kind is RootKind.ALLOCA and memory.allocas[root.name].space is Space.SHARED for root in roots
    )
