"""Indices of shared memory that are negative in 32 unsigned bits go backwards, as they do on a device.

    %not = xor i32 %x, -1                                    %not = xor i32 %x, -1
    %wide = zext i32 %not to i64                       ->    %wide = sext i32 %not to i64
    %p = getelementptr i32, ptr %tile, i64 %wide             %p = getelementptr i32, ptr %tile, i64 %wide

A device's addresses of shared memory have 32 bits, so `tile[~x]` with an unsigned x wraps round to `tile[-1 - x]`; in
64 bits it would lie 16 GB behind the array. Only complements and negations, which are known to be such; other indices
are as good without, and passes know more about them. Needs: all that the pointer may lead to is shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.constants import int_value
from threadloom.par.ops import I32, I64, Function, Leaf, Module, Op, Operand, Space, Value
from threadloom.par.passes import through_functions


@dataclass(frozen=True, slots=True)
class WrapShared:
    name: str = "wrap-shared"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        assert function.body is not None
        leaves = [op for op in walk(function.body.ops) if isinstance(op, Leaf) and op.result is not None]
        made = {leaf.result.name: leaf for leaf in leaves if leaf.result is not None}
        negative = {name: leaf.operands[0] for name, leaf in made.items() if _is_negative(leaf, made)}
        if not negative:
            return module
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not (isinstance(op, Leaf) and op.opcode == "getelementptr" and _is_shared(op.operands[0], memory)):
                return None
            if not any(isinstance(index, Value) and index.name in negative for index in op.operands[1:]):
                return None
            with editor.collect() as ops, editor.at(op.loc):
                indices = tuple(backwards(index) for index in op.operands[1:])
            flags = tuple(flag for flag in op.attrs.flags if flag not in ("inbounds", "nuw", "nusw"))
            pointer = replace(op, operands=(op.operands[0], *indices), attrs=replace(op.attrs, flags=flags))
            return [*ops, pointer]

        def backwards(index: Operand) -> Operand:
            if not isinstance(index, Value) or index.name not in negative:
                return index
            return editor.cast("sext", negative[index.name], I64)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))


def _is_negative(leaf: Leaf, made: dict[str, Leaf]) -> bool:
    """A complement or a negation in 32 bits, made 64 bits wide without a sign."""
    operand = leaf.operands[0] if leaf.opcode == "zext" else None
    if not isinstance(operand, Value) or operand.type != I32 or leaf.result is None or leaf.result.type != I64:
        return False
    source = made.get(operand.name)
    if source is None or len(source.operands) != 2:
        return False
    first, second = map(int_value, source.operands)
    return (source.opcode == "xor" and -1 in (first, second)) or (source.opcode == "sub" and first == 0)


def _is_shared(pointer: Operand, memory: Memory) -> bool:
    roots = memory.roots(pointer)
    return bool(roots) and all(
        root.kind is RootKind.ALLOCA and memory.allocas[root.name].space is Space.SHARED for root in roots
    )
