"""The loops of a very large kernel become functions, which LLVM compiles one by one; equal ones become one function.

    parallel blocks (%b) = ... {                        parallel blocks (%b) = ... {
      parallel threads (%x) = (0) to (%nx) { body }  ->   call @k.loop.0(%nx, %tile, %in, %b)
      ...                                                 ...
    define internal @k.loop.0(%nx, noalias %tile, %in, %b) noinline { parallel threads (%x) = (0) to (%nx) { body } }

LLVM's register allocation, loop rotation and induction variables take time that grows faster than a function. A device
function with barriers that is inlined several times, or in several instances of a template, leaves loops that differ
in nothing but their values' names: those are compiled once, and so are those that differ in numbers (merge_loops.py).
Declines for kernels of a size that LLVM handles well, which keeps all that is known about a loop's surroundings.

A pointer is `noalias` in the function where no other one that it gets may lead to the same object.
Needs: no barriers (after the splits). Source: none; the paper's kernels are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.effects import Memory, Root, RootKind, is_pure, may_alias
from threadloom.cuda.lower.merge_loops import Merged, calling, merge_loops
from threadloom.cuda.lower.traverse import expand, free_values, rename, walk
from threadloom.par.ops import (
    PTR,
    VOID,
    Alloca,
    Attrs,
    Block,
    Condition,
    Function,
    Leaf,
    Level,
    Module,
    Op,
    Parallel,
    Param,
    Return,
    Space,
    Value,
    Yield,
)
from threadloom.par.passes import decline
from threadloom.par.walk import arguments, results, with_regions


@dataclass(frozen=True, slots=True)
class OutlineLoops:
    name: str = "outline-loops"
    fewest_ops: int = 1500  # of a kernel: smaller ones stay whole
    worth_a_call: int = 24  # operations; less becomes a function only together with its neighbours
    most_ops_of_loop: int = 1500  # of a larger one, the loops inside (over the lanes of a warp) become functions
    most_ops_of_group: int = 300  # of an if, of a loop around loops, of neighbours: large ones are less often equal

    def apply(self, module: Module) -> Module:
        made = _Made({function.name for function in module.functions})
        functions = []
        for function in module.functions:
            size = sum(1 for _ in walk(function.body.ops)) if function.body and is_kernel(function) else 0
            if size < self.fewest_ops:
                functions.append(function)
                continue
            decline("kernel not compiled as a whole", f"of {size} operations: loops become functions", function.loc)
            kernel = _Kernel(function, module, made)
            body = expand(function.body, lambda op, kernel=kernel: self._blocks(op, kernel))
            functions.append(replace(function, body=body))
        left, merged = merge_loops(made.functions)
        if merged:
            functions = [_calling(function, merged) for function in functions]
        return replace(module, functions=(*functions, *left)) if left else module

    def _blocks(self, op: Op, kernel: _Kernel) -> list[Op] | None:
        if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
            return None
        return [replace(op, body=self._in_block(op.body, kernel))]

    def _in_block(self, block: Block, kernel: _Kernel) -> Block:
        """What runs once for each thread block, its loops replaced by calls."""
        ops: list[Op] = []
        group: list[Op] = []  # neighbours too small for a function each

        def close_group() -> None:
            ops.extend((kernel.call(tuple(group)),) if _size(group) >= self.worth_a_call else group)
            group.clear()

        for op in block.ops:
            size = _size((op,))
            if _is_free_to_move(op):  # goes ahead of the group, which it does not need
                ops.append(op)
            elif not _can_stand_alone(op):
                close_group()
                ops.append(with_regions(op, lambda region: self._in_block(region, kernel)))
            elif size < self.worth_a_call:
                if _size(group) + size > self.most_ops_of_group:
                    close_group()
                group.append(op)
            else:
                close_group()
                whole = size <= (self.most_ops_of_group if _holds_loops(op) else self.most_ops_of_loop)
                ops.append(kernel.call((op,)) if whole else
                           with_regions(op, lambda region: self._in_block(region, kernel)))  # fmt: skip
        close_group()
        return Block(tuple(ops))


def _calling(function: Function, merged: Mapping[str, Merged]) -> Function:
    if function.body is None:
        return function
    return replace(function, body=expand(function.body, lambda op: calling(op, merged)))


class _Kernel:
    """The function whose loops are taken out, and what its pointers lead to."""

    def __init__(self, function: Function, module: Module, made: _Made):
        self.function, self.memory, self.made = function, Memory(function, module), made

    def call(self, ops: tuple[Op, ...]) -> Leaf:
        """A call of the function that `ops` become."""
        free = tuple(free_values(ops).values())
        params = tuple(Param(value, attrs) for value, attrs in zip(free, _attrs(free, ops, self.memory), strict=True))
        return Leaf("call", free, None, Attrs(callee=self.made.name_of(params, ops, self.function)), ops[0].loc)


class _Made:
    """The functions made so far, by what they do."""

    def __init__(self, names: set[str]):
        self.functions: list[Function] = []
        self._names = names
        self._known: dict[tuple[tuple[Param, ...], tuple[Op, ...]], str] = {}

    def name_of(self, params: tuple[Param, ...], ops: tuple[Op, ...], kernel: Function) -> str:
        canonical = {value.name: Value(f"v{n}", value.type) for n, value in enumerate(_values(params, ops))}
        alike = tuple(Param(canonical[param.value.name], param.attrs) for param in params)
        key = (alike, tuple(rename(op, canonical) for op in ops))
        if key not in self._known:
            number = len(self.functions)
            while (name := f"{kernel.name}.loop.{number}") in self._names:
                number += 1
            self._names.add(name)
            self._known[key] = name
            attrs = (*(attr for attr in kernel.attrs if attr != "noinline"), "noinline")
            self.functions.append(
                Function(name, params, VOID, Block((*ops, Return())), attrs=attrs, loc=ops[0].loc or kernel.loc)
            )
        return self._known[key]


def _size(ops: Iterable[Op]) -> int:
    return sum(1 for _ in walk(ops))


def _is_free_to_move(op: Op) -> bool:
    return isinstance(op, Leaf) and op.result is not None and op.opcode != "call" and is_pure(op)


def _can_stand_alone(op: Op) -> bool:
    """Nothing behind needs what it defines. Memory that the block shares lies in the arena slice of its kernel."""
    if isinstance(op, Return | Yield | Condition | Alloca) or results(op):
        return False
    inside = list(walk((op,)))
    own = {inner.result.name for inner in inside if isinstance(inner, Alloca)}
    return not any(
        (isinstance(inner, Alloca) and inner.space is not Space.PRIVATE)
        or (isinstance(inner, Leaf) and inner.attrs.callee.startswith(_OF_ALLOCAS) and not _uses_only(inner, own))
        for inner in inside
    )


_OF_ALLOCAS = ("llvm.lifetime.", "llvm.stackrestore", "llvm.stacksave")  # they belong where the alloca is


def _uses_only(op: Leaf, names: set[str]) -> bool:
    return all(operand.name in names for operand in op.operands if isinstance(operand, Value))


def _holds_loops(op: Op) -> bool:
    """It is no loop over threads or lanes itself, or it has such loops inside."""
    return not isinstance(op, Parallel) or any(isinstance(one, Parallel) for one in walk(op.body.ops))


def _values(params: tuple[Param, ...], ops: tuple[Op, ...]) -> list[Value]:
    """All values of the function that `ops` become, in order of definition."""
    inside = (value for op in walk(ops) for value in (*results(op), *arguments(op)))
    return [*(param.value for param in params), *inside]


def _attrs(free: tuple[Value, ...], ops: tuple[Op, ...], memory: Memory) -> list[tuple[str, ...]]:
    """noalias for pointers that are the only way in this function to their object."""
    roots = {value.name: memory.roots(value) for value in free if value.type == PTR}
    from_memory = any(_makes_pointer(op) for op in walk(ops))

    def alone(name: str) -> bool:
        mine = roots[name]
        others = (other for key, other in roots.items() if key != name)
        known = len(mine) == 1 and all(_is_known(root, from_memory) for root in mine)
        return known and not any(may_alias(mine, other) for other in others)

    return [("noalias",) if value.type == PTR and alone(value.name) else () for value in free]


def _is_known(root: Root, from_memory: bool) -> bool:
    """Nothing but pointers with this root leads to the object."""
    if root.kind is RootKind.ALLOCA:
        return not root.escaped
    return root.kind is RootKind.NOALIAS and not from_memory


def _makes_pointer(op: Op) -> bool:
    """A pointer that comes from memory, an integer or a call."""
    if not isinstance(op, Leaf):
        return False
    holds = op.result is not None and op.result.type == PTR
    return holds and op.opcode not in ("getelementptr", "select", "freeze", "bitcast")
