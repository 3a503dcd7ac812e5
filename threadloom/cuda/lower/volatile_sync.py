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

from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.ops import I32, Attrs, Const, Function, Leaf, Module, Op, Space

_SYNCWARP = Attrs(callee="loom.syncwarp")


@dataclass(frozen=True, slots=True)
class VolatileSync:
    name: str = "volatile-sync"

    def apply(self, module: Module) -> Module:
        functions = tuple(self._function(function, module) for function in module.functions)
        return replace(module, functions=functions)

    def _function(self, function: Function, module: Module) -> Function:
        if function.body is None or not any(_is_volatile_store(op) for op in walk(function.body.ops)):
            return function
        memory = Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not _is_volatile_store(op) or not _is_shared(op, memory):
                return None
            meet = Leaf("call", (Const(I32, "-1"),), None, _SYNCWARP, op.loc)
            return [meet, op, meet]

        return replace(function, body=expand(function.body, change))


def _is_volatile_store(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "store" and op.attrs.volatile


def _is_shared(op: Leaf, memory: Memory) -> bool:
    roots = memory.roots(op.operands[1])
    return bool(roots) and all(
        root.kind is RootKind.ALLOCA and memory.allocas[root.name].space is Space.SHARED for root in roots
    )
