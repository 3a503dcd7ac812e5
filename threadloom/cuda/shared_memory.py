"""Which globals are block-shared memory, and constant expressions over them as instructions.

    before:  %v = load float, ptr getelementptr inbounds ([3 x float], ptr @tile, i64 0, i64 1)
    after:   %tile.1 = getelementptr inbounds [3 x float], ptr %tile, i64 0, i64 1
             %v = load float, ptr %tile.1

In the IR a `__shared__` variable is a global marked by an annotation; in par it is an allocation of the block, so
its address is a value and must not hide in a constant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from threadloom.cuda.cfg.debug_info import DebugInfo
from threadloom.cuda.cfg.ops import BasicBlock, Branch, Function, Module, Phi, Ret
from threadloom.cuda.cfg.parsing import LlvmParser
from threadloom.cuda.kernel import SHARED_ALIGN_BYTES, SHARED_BYTES, SHARED_DYNAMIC
from threadloom.par.lexing import Cursor, unquoted
from threadloom.par.ops import I8, I64, PTR, Alloca, Const, Global, Leaf, Operand, Space, Value

_GLOBAL_NAME = re.compile(r'@("[^"]*"|[-\w$.]+)')


@dataclass(frozen=True, slots=True)
class SharedVariables:
    """The module's block-shared globals; `value` is what stands for the address of one inside a kernel.

    Kernels may have variables of one name each, so the short names are made unique in the module.
    """

    variables: dict[str, Global]
    short_names: dict[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def is_dynamic(self, name: str) -> bool:
        return self.variables[name].linkage == "external" and self.variables[name].init is None

    def value(self, name: str) -> Value:
        return Value(self.short_names[name], PTR)

    def alloca(self, name: str) -> Alloca:
        variable = self.variables[name]
        if self.is_dynamic(name):
            return Alloca(self.value(name), I8, SHARED_BYTES, Space.SHARED, SHARED_ALIGN_BYTES)
        return Alloca(self.value(name), variable.type, Const(I64, "1"), Space.SHARED, variable.align_bytes)


def find_shared(module: Module) -> SharedVariables:
    marked = {name for name, note in module.annotations if note == "loom.shared"}
    variables = {variable.name: variable for variable in module.globals if variable.name in marked}
    short_names: dict[str, str] = {}
    for name, variable in variables.items():
        if variable.linkage == "external" and variable.init is None:
            short_names[name] = SHARED_DYNAMIC  # all declarations name one memory
            continue
        wanted, number = readable_name(name), 1
        while (short := wanted if number == 1 else f"{wanted}.{number}") in short_names.values():
            number += 1
        short_names[name] = short
    return SharedVariables(variables, short_names)


def readable_name(mangled: str) -> str:
    """`_ZZ6kernelPfE4tile` -> `tile.shared`; the whole name where its end is not recognised."""
    if match := re.search(r"E(\d+)([A-Za-z_]\w*?)(_\d+)?$", mangled):
        return f"{match[2][: int(match[1])]}.shared"
    return f"{mangled}.shared"


def names_in(text: str) -> set[str]:
    return {unquoted(match) for match in _GLOBAL_NAME.findall(text)}


def expand_constants(function: Function, shared: SharedVariables) -> Function:
    """`function` with every constant that names a shared variable turned into values (see above)."""
    return _Expander(shared, function).function()


class _Expander:
    def __init__(self, shared: SharedVariables, function: Function):
        self.shared, self.source = shared, function
        self.count = 0
        self.pending: dict[str, list[Leaf]] = {}  # block -> leaves to add at its end, for phis of its successors

    def function(self) -> Function:
        blocks = [self._block(block) for block in self.source.blocks]
        added = [replace(b, body=(*b.body, *self.pending.get(b.name, ()))) for b in blocks]
        return replace(self.source, blocks=tuple(added))

    def _block(self, block: BasicBlock) -> BasicBlock:
        phis = tuple(self._phi(phi) for phi in block.phis)
        body: list[Leaf | Alloca] = []
        for op in block.body:
            if isinstance(op, Leaf):
                operands = tuple(self._operand(operand, op, body) for operand in op.operands)
                op = op if operands == op.operands else replace(op, operands=operands)
            body.append(op)
        end = block.end
        if isinstance(end, Branch):
            end = replace(end, cond=self._operand(end.cond, None, body))
        elif isinstance(end, Ret) and end.value is not None:
            end = replace(end, value=self._operand(end.value, None, body))
        return BasicBlock(block.name, phis, tuple(body), end)

    def _phi(self, phi: Phi) -> Phi:
        incoming = tuple(
            (pred, self._operand(value, None, self.pending.setdefault(pred, []))) for pred, value in phi.incoming
        )
        return replace(phi, incoming=incoming)

    def _operand(self, operand: Operand, user: Leaf | None, out: list) -> Operand:
        if not isinstance(operand, Const) or "@" not in operand.text:
            return operand
        used = names_in(operand.text) & self.shared.variables.keys()
        if not used:
            return operand
        if operand.text.startswith("@"):
            return self.shared.value(unquoted(operand.text))
        leaf = self._leaf_of(operand, next(iter(used)), user)
        operands = tuple(self._operand(inner, user, out) for inner in leaf.operands)
        leaf = replace(leaf, operands=operands)
        out.append(leaf)
        return leaf.result

    def _leaf_of(self, constant: Const, near: str, user: Leaf | None) -> Leaf:
        """`getelementptr (T, ptr @s, i64 1)` read as the instruction `getelementptr T, ptr @s, i64 1`."""
        self.count += 1
        name = f"{self.shared.short_names[near]}.address.{self.count}"
        head, _, rest = constant.text.partition("(")
        parser = LlvmParser(Cursor(f'%"{name}" = {head}{rest.removesuffix(")")}', "<constant>"), DebugInfo(""))
        parser.result_names = [parser.cursor.advance()]
        parser.cursor.expect("=")
        return replace(parser.leaf(), loc=user.loc if user else None)
