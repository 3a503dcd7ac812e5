"""Legacy warp-synchronous code: lanes of a warp meet around volatile stores to shared memory.

    store volatile float %v, ptr %s          ->   call void @loom.syncwarp(i32 -1)
                                                  store volatile float %v, ptr %s
                                                  call void @loom.syncwarp(i32 -1)

Policy: code written for GPUs whose warps ran in lock-step (before Volta) marks the shared array volatile and leaves out
`__syncwarp`. Every lane that runs the store has then read its operands before any lane stores, and sees the stores of
all afterwards. Volatile loads and accesses to other memory are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.ops import I32, Const, Function, Leaf, Module, Op, Space


@dataclass(frozen=True, slots=True)
class VolatileSync:
    name: str = "volatile-sync"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None and any(_is_volatile_store(op) for op in walk(function.body.ops)):
                module = self._function(function, module)
        return module

    def _function(self, function: Function, module: Module) -> Module:
        memory, editor = Memory(function, module), Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            if not _is_volatile_store(op) or not _is_shared(op, memory):
                return None
            with editor.collect() as ops, editor.at(op.loc):
                editor.call("loom.syncwarp", [Const(I32, "-1")])
            return [*ops, op, *ops]

        body = expand(function.body, change)
        return module if body == function.body else editor.finish(replace(function, body=body))


def _is_volatile_store(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "store" and op.attrs.volatile


def _is_shared(op: Leaf, memory: Memory) -> bool:
    roots = memory.roots(op.operands[1])
    return bool(roots) and all(
        root.kind is RootKind.ALLOCA and memory.allocas[root.name].space is Space.SHARED for root in roots
    )
