"""The objects of a kernel that the checker knows by name: shared arrays, allocations of parameters, device variables.

Each has a number. At the start of a block the runtime is told where they lie; what inlined checks need of an object
(base, extent, the quick numbers of its shadow) is read once per block, and only for the objects that have such checks.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.check import inline_calls
from threadloom.cuda.check.disjoint import Disjoint, find_disjoint
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import UNKNOWN, Memory, Root, RootKind
from threadloom.cuda.lower.runtime_calls import (
    CHECK_BASE,
    CHECK_EXTENT,
    CHECK_OBJECT,
    CHECK_PROVED,
    CHECK_QUICK,
    CHECK_QUICK_BYTES,
    CHECK_SHADOWS,
    CHECK_WATCH,
)
from threadloom.par.ops import I1, I32, I64, PTR, Alloca, Const, Function, Module, Op, Operand, Parallel, Space, Type
from threadloom.par.result_types import size_bytes

_WRITTEN, _SHARED = 1, 2  # flags of __loom_check_object


class Objects:
    def __init__(self, kernel: Function, module: Module, memory: Memory, editor: Editor, text: Callable[[str], Const]):
        self.kernel, self.module, self.memory, self.editor, self.text = kernel, module, memory, editor, text
        self.bounds: list[Op] = []  # goes behind the registration: what inlined checks need
        self._numbers: dict[Root, int] = {}
        self._facts: dict[tuple[str, int], Operand] = {}
        self._disjoint = Disjoint()
        self._proved: Operand = Const(I1, "true")
        self._start: Operand = Const(I64, "0")
        self._block: Operand = Const(PTR, "null")
        self._values = {p.value.name for p in kernel.params if p.value.type == PTR and "readonly" in p.attrs}
        ops = kernel.body.ops if kernel.body else ()
        self._written = frozenset().union(*(access.roots for access in memory.accesses(ops) if access.writes))

    def by_value(self, root: Root) -> bool:
        """A struct that is passed by value arrives as a pointer that is only read."""
        return root.name in self._values

    def number(self, root: Root | None) -> int:
        return -1 if root is None else self._numbers.get(root, -1)

    # ------------------------------------------------------------ registration

    def register(self, block: Operand, start: Operand, shared: list[Alloca], threads: Parallel) -> None:
        self._block, self._start = block, start
        self._disjoint = find_disjoint(threads, self.memory)
        for extent in self._disjoint.single:
            self._proved = self.editor.and_(self._proved, self.editor.icmp("eq", extent, 1), name="check.proved")
        for alloca in shared:
            count = self.editor.cast("zext", alloca.count, I64)
            bytes_ = self.editor.mul(count, size_bytes(alloca.element))
            self._register(next(iter(self.memory.roots(alloca.result))), alloca.result, bytes_, _SHARED)
        for param in self.kernel.params:
            if param.value.type == PTR and not self.by_value(Root(RootKind.PARAM, param.value.name)):
                self._register(next(iter(self.memory.roots(param.value))), param.value, Const(I64, "-1"), 0)
        self._register_variables()

    def _register_variables(self) -> None:
        used = {root.name for access in self.memory.accesses(self.kernel.body.ops if self.kernel.body else ())
                for root in access.roots if root.kind is RootKind.GLOBAL and access.pointer is not None}  # fmt: skip
        for variable in self.module.globals:
            if variable.name in used and (bytes_ := size_bytes(variable.type)):
                base = Const(PTR, f"@{variable.name}")
                root = Root(RootKind.GLOBAL, variable.name)
                self._register(root, base, Const(I64, str(bytes_)), 0)

    def _register(self, root: Root, base: Operand, bytes_: Operand, flags: int) -> None:
        number = self._numbers.setdefault(root, len(self._numbers))
        name = base.name if not isinstance(base, Const) else base.text.removeprefix("@")
        shown = self.text(name.split(".shared")[0])  # the user's name of the variable
        flags |= _WRITTEN * (root in self._written)
        operands = [self._block, Const(I32, str(number)), base, bytes_, Const(I32, str(flags)), shown]
        self.editor.call(CHECK_OBJECT, operands)

    # ------------------------------------------------------------ what a check is called with

    def check(self, root: Root | None, kind: str, bytes_: int) -> tuple[str, list[Operand]]:
        """The inlined function for an access, and the arguments that it takes of the object."""
        number = self.number(root)
        if number < 0:
            return inline_calls.name(f"find-{kind}", bytes_), [self._fact(CHECK_SHADOWS, -1, PTR)]
        quick = CHECK_QUICK if bytes_ >= 4 else CHECK_QUICK_BYTES
        wanted = ((CHECK_BASE, PTR), (CHECK_EXTENT, I64), (quick, PTR))
        facts = [self._fact(callee, number, type_) for callee, type_ in wanted]
        if kind == "read" and root is not None and self._only_read(root):
            return inline_calls.name("bounds", bytes_), [*facts, self._fact(CHECK_WATCH, number, I1)]
        if root in self._disjoint.roots:
            return inline_calls.name(f"disjoint-{kind}", bytes_), [*facts, self._proved_extent(number), self._start]
        return inline_calls.name(kind, bytes_), facts

    def _proved_extent(self, number: int) -> Operand:
        """The runtime's word for it, so that LLVM does not make two tests of it in each loop."""
        if (CHECK_PROVED, number) not in self._facts:
            with self.editor.collect() as ops:
                operands = [self._block, Const(I32, str(number)), self.editor.cast("zext", self._proved, I32)]
                self._facts[CHECK_PROVED, number] = self.editor.call(CHECK_PROVED, operands, I64, name="check.proved")
            self.bounds.extend(ops)
        return self._facts[CHECK_PROVED, number]

    def _only_read(self, root: Root) -> bool:
        """Nothing in this kernel writes to it under this name, or to memory of unknown place."""
        if root in self._written or UNKNOWN in self._written:
            return False
        return root.kind is not RootKind.ALLOCA or self.memory.allocas[root.name].space is not Space.SHARED

    def _fact(self, callee: str, number: int, type_: Type) -> Operand:
        if (callee, number) not in self._facts:
            with self.editor.collect() as ops:
                operands = [] if number < 0 else [self._block, Const(I32, str(number))]
                if type_ == I1:
                    fact = self.editor.icmp("ne", self.editor.call(callee, operands, I32), 0, name="check.watch")
                else:
                    fact = self.editor.call(callee, operands, type_, name="check.fact")
            self.bounds.extend(ops)
            self._facts[callee, number] = fact
        return self._facts[callee, number]
