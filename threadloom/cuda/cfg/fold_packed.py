"""fold_packed: take out of vectors and structures what was just put in.

    %v = insertelement <2 x float> poison, float %a, i32 0
    %w = insertelement <2 x float> %v, float %b, i32 1            (nothing)
    %x = extractelement <2 x float> %w, i32 0              ->     uses of %x say %a
    %y = bitcast <2 x i32> %z to i64;  %t = bitcast i64 %y to <2 x i32>     uses of %t say %z
    %s = zext i1 %c to i8;  %l = trunc i8 %s to i1                          uses of %l say %c

What the host's calling convention packs (split_coerced.py) is unpacked in the inlined function, and a `bool` lies in a
byte until it is asked; seen through, conditions are those that the source has, and passes find the ranges of threads in
them. Keeps: every access and call, all names that remain. Packing that nobody uses any more goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from threadloom.cuda.cfg.ops import BasicBlock, Branch, Function, Module, Phi, Ret
from threadloom.par.constants import int_value
from threadloom.par.ops import Alloca, Leaf, Operand, Value
from threadloom.par.walk import map_operands

_PACKING = frozenset(("insertelement", "extractelement", "insertvalue", "extractvalue", "bitcast", "zext", "trunc"))
_OUTWARD = frozenset(("extractelement", "extractvalue", "bitcast", "trunc"))
_BACK = {"bitcast": "bitcast", "trunc": "zext"}  # opcode -> the one that it undoes


def fold_packed(module: Module) -> Module:
    return replace(module, functions=tuple(_folded(function) for function in module.functions))


def _folded(function: Function) -> Function:
    leaves = [leaf for block in function.blocks for leaf in block.body if isinstance(leaf, Leaf)]
    packing = {leaf.result.name: leaf for leaf in leaves if leaf.opcode in _PACKING and leaf.result}
    if not any(leaf.opcode in _OUTWARD for leaf in packing.values()):
        return function
    folder = _Folder(packing)
    for name, leaf in packing.items():
        if leaf.opcode in _OUTWARD and (known := folder.inner(leaf)) is not None:
            folder.known[name] = known
    blocks = tuple(folder.block(block) for block in function.blocks)
    return replace(function, blocks=_without_unused(blocks))


@dataclass(slots=True)
class _Folder:
    packing: dict[str, Leaf]  # by result
    known: dict[str, Operand] = field(default_factory=dict)  # result -> what it equals

    def value(self, operand: Operand) -> Operand:
        while isinstance(operand, Value) and operand.name in self.known:
            operand = self.known[operand.name]
        return operand

    def maker(self, operand: Operand) -> Leaf | None:
        operand = self.value(operand)
        return self.packing.get(operand.name) if isinstance(operand, Value) else None

    def inner(self, leaf: Leaf) -> Operand | None:
        """What was put in where `leaf` takes out."""
        made = self.maker(leaf.operands[0])
        if leaf.opcode in _BACK:
            undone = made is not None and made.opcode == _BACK[leaf.opcode]
            same = undone and made.operands[0].type == leaf.result.type
            return self.value(made.operands[0]) if same else None
        wanted = int_value(leaf.operands[1]) if leaf.opcode == "extractelement" else leaf.attrs.indices
        while made is not None and wanted is not None:
            if made.opcode == "insertelement" and leaf.opcode == "extractelement":
                put = int_value(made.operands[2])
                if put is None or put == wanted:
                    return None if put is None else self.value(made.operands[1])
            elif made.opcode == "insertvalue" and leaf.opcode == "extractvalue":
                put = made.attrs.indices
                if put == wanted:
                    return self.value(made.operands[1])
                shorter = min(len(put), len(wanted))
                if put[:shorter] == wanted[:shorter]:
                    return None  # a part of it, or it is a part of that
            else:
                return None
            made = self.maker(made.operands[0])
        return None

    def block(self, block: BasicBlock) -> BasicBlock:
        phis = tuple(
            Phi(phi.result, tuple((name, self.value(value)) for name, value in phi.incoming), phi.loc)
            for phi in block.phis
        )
        body = tuple(map_operands(op, self.value) for op in block.body)
        end = block.end
        if isinstance(end, Branch):
            end = replace(end, cond=self.value(end.cond))
        elif isinstance(end, Ret) and end.value is not None:
            end = replace(end, value=self.value(end.value))
        return BasicBlock(block.name, phis, body, end)


def _without_unused(blocks: tuple[BasicBlock, ...]) -> tuple[BasicBlock, ...]:
    """Without packing, and phis of it, that nobody uses."""
    makers: dict[str, list[Operand]] = {}
    needed: list[Operand] = []
    for block in blocks:
        for phi in block.phis:
            makers[phi.result.name] = [value for _, value in phi.incoming]
        for op in block.body:
            operands = [op.count] if isinstance(op, Alloca) else list(op.operands)
            if isinstance(op, Leaf) and op.opcode in _PACKING and op.result:
                makers[op.result.name] = operands
            else:
                needed += operands
        end = block.end
        needed += [end.cond] if isinstance(end, Branch) else [end.value] if isinstance(end, Ret) and end.value else []
    used: set[str] = set()
    while needed:
        operand = needed.pop()
        if isinstance(operand, Value) and operand.name not in used:
            used.add(operand.name)
            needed += makers.get(operand.name, [])
    return tuple(
        replace(
            block,
            phis=tuple(phi for phi in block.phis if phi.result.name in used),
            body=tuple(
                op for op in block.body
                if not (isinstance(op, Leaf) and op.opcode in _PACKING and op.result and op.result.name not in used)
            ),
        )
        for block in blocks
    )  # fmt: skip
