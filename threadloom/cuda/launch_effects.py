"""What a kernel does to the memory that its arguments lead to, for launches that wait in batches (runtime/batch.cpp).

    __global__ void scale(float* y, const float* x, float a) { y[i] = a * x[i]; }
                                            ->  argument 0: written; argument 1: read

Known only where every access goes through a pointer among the parameters, or stays inside the block; where the kernel
calls nothing that can be seen from outside (printf, malloc, a grid-wide barrier); and where its lowered form is one
parallel loop over blocks with nothing behind it and no memory of its own around it, so that workers may leave it one by
one. For any other kernel the answer is a reason. Source: PPoPP'23, section 4 (fusion of parallel regions, hoisting them
out of serial loops), done at run time instead of in the host's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from threadloom.cuda.host_stubs import Stub
from threadloom.cuda.kernel import APART, COLLECTIVES, GENERAL, GEOMETRY, INSTANCES, LAUNCHED
from threadloom.cuda.lower.calls import READERS, call_effect
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.own_elements import ANYWHERE, Own, even_blocks, own_elements
from threadloom.par.opcodes import Effect
from threadloom.par.ops import PTR, Alloca, Barrier, Block, For, Function, If, Leaf, Level, Module, Op, Parallel, While
from threadloom.par.walk import walk

NAME = "batch-launches"  # the switch (lower/pipeline.py: OPTIONAL)
_SILENT = (RootKind.ALLOCA, RootKind.CONSTANT)


@dataclass(frozen=True, slots=True)
class PointerEffect:
    """Where a pointer lies among the C++ arguments of a launch, and what is done through it."""

    argument: int
    offset_bytes: int
    reads: bool
    writes: bool
    own: Own = ANYWHERE  # where each thread stays with its own elements


def launch_effects(kernel: Function, raised: Module, lowered: Module, stub: Stub) -> tuple[PointerEffect, ...] | str:
    """The effects of `kernel` (as raised), or why its launches never wait in a batch."""
    if reason := _seen_from_outside(kernel, raised) or _has_aftermath(kernel.name, lowered):
        return reason
    touched: dict[str, tuple[bool, bool]] = {}
    memory = Memory(kernel, raised)
    own = own_elements(kernel, memory) if even_blocks(_versions(kernel.name, lowered)) else {}
    for access in memory.accesses(kernel.body.ops if kernel.body else ()):
        for root in access.roots:
            if root.kind in (RootKind.PARAM, RootKind.NOALIAS):
                reads, writes = touched.get(root.name, (False, False))
                touched[root.name] = (reads or access.kind != "write", writes or access.writes)
            elif root.kind not in _SILENT:
                return "an access through a pointer that is no argument, or to a global variable"
    sources = zip(kernel.params[: len(kernel.params) - len(GEOMETRY)], stub.params, strict=True)
    return tuple(
        PointerEffect(source.argument, source.offset_bytes, *touched[param.value.name],
                      own.get(param.value.name, ANYWHERE))
        for param, source in sources
        if param.value.name in touched and param.value.type == PTR and not source.by_pointer
    )  # fmt: skip


def without_own(effects: tuple[PointerEffect, ...]) -> tuple[PointerEffect, ...]:
    """Launches then wait for one another by whole arrays."""
    return tuple(replace(effect, own=ANYWHERE) for effect in effects)


def _seen_from_outside(kernel: Function, module: Module) -> str:
    callees = {function.name: function for function in module.functions}
    for op in walk(kernel.body) if kernel.body else ():
        if isinstance(op, Barrier) and op.scope is Level.BLOCKS:
            return "a grid-wide barrier"
        if not isinstance(op, Leaf) or op.opcode != "call":
            continue
        name = op.attrs.callee
        if name in COLLECTIVES:
            if COLLECTIVES[name].scope == "grid":
                return "a grid-wide barrier"
        elif name in READERS or (
            not name.startswith("llvm.") and call_effect(op, callees.get(name)) not in (Effect.NONE, Effect.READ)
        ):
            return f"a call of {name or 'a function pointer'}"
    return ""


def _has_aftermath(name: str, lowered: Module) -> str:
    """Whether some version of the kernel does more than one loop over blocks, or owns memory outside of it."""
    for function in _versions(name, lowered):
        if function.body is None:
            continue
        regions = [op for op in _outside_blocks(function.body.ops) if isinstance(op, Parallel)]
        loops = [op for op in _outside_blocks(function.body.ops) if isinstance(op, For | While)]
        if len(regions) > 1 or any(isinstance(op, Parallel) for op in walk(Block(tuple(loops)))):
            return "more than one loop over blocks"
        if regions and not isinstance(function.body.ops[-2 if len(function.body.ops) > 1 else -1], Parallel):
            return "code behind the loop over blocks"
        if any(op.schedule == "turns" for op in regions):
            return "a loop that may wait for other threads"
        if regions and any(isinstance(op, Alloca) for op in _outside_blocks(function.body.ops)):
            return "memory of all blocks"
    return ""


def _versions(name: str, lowered: Module) -> list[Function]:
    names = {name, name + LAUNCHED, name + APART, name + LAUNCHED + APART, name + GENERAL}
    names |= {op.attrs.callee for function in lowered.functions if function.name == name and function.body
              for op in function.body.ops if isinstance(op, Leaf) and op.attrs.callee.endswith(INSTANCES)}  # fmt: skip
    return [function for function in lowered.functions if function.name in names]


def _outside_blocks(ops: tuple[Op, ...]) -> Iterator[Op]:
    for op in ops:
        yield op
        if isinstance(op, If):
            yield from _outside_blocks(op.then.ops)
            yield from _outside_blocks(op.otherwise.ops)
