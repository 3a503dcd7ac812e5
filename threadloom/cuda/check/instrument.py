"""Puts a check before every access of a kernel, so that the compiled program can be watched (runtime/check.cpp).

    %v = load float, ptr %p    ->    %q = call ptr @__loom_check_read_4(%block, %thread, %position, ..., %p, @site.7)
                                     %v = load float, ptr %q
    barrier threads                  barrier threads; %position is the next interval

A site is a record: file, line, text, bytes, kind, and the object the address must stay in. The check gives back
the address, or one that does no harm where the access is out of bounds. Most checks end in the few instructions that
inline_calls.py puts into the kernel. An object that the kernel only reads, and that lies apart from all it may write in
this launch, is checked for bounds only. Runs on raised kernels, before any optimisation. Accesses to private memory are
checked for bounds only; memory that nobody writes is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.check import inline_calls
from threadloom.cuda.check.moment import Clock, steps_inside
from threadloom.cuda.check.objects import Objects
from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Access, Kind, Memory, Root, RootKind
from threadloom.cuda.lower.runtime_calls import (
    CHECK_ACCESS,
    CHECK_COPY,
    CHECK_COPY_PRIVATE,
    CHECK_FRESH,
    CHECK_LAUNCH,
    CHECK_PRIVATE,
)
from threadloom.cuda.lower.traverse import walk
from threadloom.par.constants import int_value
from threadloom.par.ops import (
    I32,
    I64,
    PTR,
    Alloca,
    Block,
    Const,
    Function,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Space,
    Struct,
)
from threadloom.par.result_types import size_bytes, stored_bytes
from threadloom.par.text import print_op
from threadloom.par.walk import regions, with_regions
from threadloom.source import Loc, excerpt

SITE = Struct((PTR, PTR, I32, I32, I32, I32, I32))  # file, text, line, bytes, kind, object, the runtime's number
_KINDS = {Kind.READ: 0, Kind.WRITE: 1, Kind.ATOMIC: 2}
_MEETING = {"load": 3, "store": 4}  # volatile or atomic: they may meet each other, as atomic updates may
_COPIES = ("llvm.memcpy", "llvm.memmove", "llvm.memset")
_SIZE_OPERAND = 2  # of the copies


@dataclass(frozen=True, slots=True)
class Instrument:
    name: str = "instrument"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None and is_kernel(function):
                module = _Kernel(function, module).module()
        return _with_definitions(module)


def _with_definitions(module: Module) -> Module:
    functions = {function.name: function for function in module.functions}
    for one in inline_calls.definitions(set(functions)):
        if one.body is not None or one.name not in functions:
            functions[one.name] = one
    return replace(module, functions=tuple(functions.values()))


class _Kernel:
    def __init__(self, kernel: Function, module: Module):
        self.kernel, self.editor = kernel, Editor(kernel, module)
        self.memory = Memory(kernel, module)
        self.objects = Objects(kernel, module, self.memory, self.editor, self._text)
        self.clock = Clock(kernel, self.editor)
        self.sites = sum(variable.name.startswith("loom.check.site.") for variable in module.globals)
        self.texts: dict[str, Const] = {}

    def module(self) -> Module:
        with self.editor.collect() as ops:
            self.editor.call(CHECK_LAUNCH, [self._text(self.kernel.name)])
        self.editor.start.extend(ops)
        ops = tuple(self._blocks(op) for op in self.kernel.body.ops) if self.kernel.body else ()
        return self.editor.finish(replace(self.kernel, body=Block(ops)))

    # ------------------------------------------------------------ blocks and threads

    def _blocks(self, op: Op) -> Op:
        if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
            return op
        threads = next((inner for inner in op.body.ops if isinstance(inner, Parallel)), None)
        if threads is None:
            return op
        shared = [inner for inner in op.body.ops if isinstance(inner, Alloca)]
        others = [inner for inner in op.body.ops if inner is not threads and not isinstance(inner, Alloca)]
        with self.editor.collect() as begin:
            self.clock.begin_block()
            self.objects.register(self.clock.block, self.clock.start, shared, threads)
        watched = self._threads(threads)
        return replace(op, body=Block((*shared, *begin, *self.objects.bounds, *others, watched)))

    def _threads(self, op: Parallel) -> Parallel:
        with self.editor.collect() as start:
            self.clock.begin_thread(op)
        return replace(op, body=Block((*start, *self._region(op.body).ops)))

    # ------------------------------------------------------------ operations

    def _region(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if self._has_accesses(op):
                with self.editor.collect() as now:
                    self.clock.read()  # outside of loops where nothing inside changes it
                ops.extend(now)
            ops.extend(self._op(op))
        return Block(tuple(ops))

    def _has_accesses(self, op: Op) -> bool:
        inside = (inner for inner in walk((op,)) if isinstance(inner, Leaf))
        return not steps_inside(op) and any(inner.opcode in ("load", "store") for inner in inside)

    def _op(self, op: Op) -> list[Op]:
        if regions(op):
            changes = steps_inside(op)
            op = with_regions(op, lambda region: self.clock.inside(changes, lambda: self._region(region)))
            if changes:
                self.clock.forget()
            return [op]
        with self.editor.collect() as before, self.editor.at(getattr(op, "loc", None)):
            if self.clock.orders_first(op):
                self.clock.step(op)
            self.clock.comes(op)
            new = self._watched(op) if isinstance(op, Leaf) else op
        with self.editor.collect() as after:
            if isinstance(op, Leaf) and op.attrs.callee == "malloc" and op.result is not None:
                self.editor.call(CHECK_FRESH, [op.result, op.operands[0]])
            if not self.clock.orders_first(op):
                self.clock.step(op)
        return [*before, new, *after]

    def _watched(self, op: Leaf) -> Leaf:
        operands = list(op.operands)
        if op.opcode == "call":
            size = op.operands[_SIZE_OPERAND] if op.attrs.callee.startswith(_COPIES) else None
            if size is not None and int_value(size) != 0:
                for position, access in enumerate(self.memory.accesses((op,))):  # the target, then the source
                    operands[position] = self._address(op, access, operands[position], int_value(size) or 0)
        else:
            position = 1 if op.opcode == "store" else 0
            for access in self.memory.accesses((op,)):
                operands[position] = self._address(op, access, operands[position], stored_bytes(access.type))
        return op if tuple(operands) == op.operands else replace(op, operands=tuple(operands))

    def _address(self, op: Leaf, access: Access, pointer: Operand, bytes_: int) -> Operand:
        """The checked `pointer`; `bytes_` is 0 for copies of a size that only the run knows."""
        roots = access.roots
        if not roots or all(root.kind is RootKind.CONSTANT or self._is_argument(root) for root in roots):
            return pointer
        single = next(iter(roots)) if len(roots) == 1 else None
        if all(root.kind is RootKind.ALLOCA and self._is_private(root) for root in roots):
            return pointer if single is None else self._private(op, access, pointer, single, bytes_)
        kind = self._kind(op, access)
        site = self._site(op, bytes_, kind, self.objects.number(single))
        position, own = self.clock.read()
        common = [self.clock.block, self.clock.thread, position]
        if not bytes_:
            return self.editor.call(CHECK_COPY, [*common, pointer, self._copied(op), site], PTR, name="checked")
        if kind > 1 or bytes_ not in inline_calls.SIZES or op.opcode == "call" or _is_loose(op, bytes_):
            return self.editor.call(CHECK_ACCESS, [*common, pointer, site], PTR, name="checked")
        callee, more = self.objects.check(single, "write" if kind else "read", bytes_)
        return self.editor.call(callee, [*common, own, pointer, site, *more], PTR, name="checked")

    def _kind(self, op: Leaf, access: Access) -> int:
        return _MEETING.get(op.opcode, 2) if op.attrs.volatile or op.attrs.ordering else _KINDS[access.kind]

    def _private(self, op: Leaf, access: Access, pointer: Operand, root: Root, bytes_: int) -> Operand:
        alloca = self.memory.allocas[root.name]
        count = int_value(alloca.count)
        if count is None or (bytes_ and pointer == alloca.result):
            return pointer
        size = count * size_bytes(alloca.element)
        if not bytes_:
            site = self._site(op, 0, self._kind(op, access), -1)
            given = [self.clock.block, alloca.result, Const(I64, str(size)), pointer, self._copied(op), site]
            named = [*given, self._text(alloca.result.name)]
            return self.editor.call(CHECK_COPY_PRIVATE, named, PTR, name="checked")
        site = self._site(op, bytes_, self._kind(op, access), -1)
        operands = [self.clock.block, alloca.result, Const(I64, str(size)), Const(I64, str(max(size - bytes_, 0))),
                    pointer, site, self._text(alloca.result.name)]  # fmt: skip
        return self.editor.call(CHECK_PRIVATE, operands, PTR, name="checked")

    def _copied(self, op: Leaf) -> Operand:
        size = op.operands[_SIZE_OPERAND]
        return size if size.type == I64 else self.editor.leaf("zext", (size,), I64)

    def _is_private(self, root: Root) -> bool:
        return self.memory.allocas[root.name].space is Space.PRIVATE

    def _is_argument(self, root: Root) -> bool:
        """A struct that was passed by value."""
        return root.kind is RootKind.PARAM and self.objects.by_value(root)

    # ------------------------------------------------------------ records

    def _site(self, op: Leaf, bytes_: int, kind: int, number: int) -> Const:
        loc = op.loc or Loc("", 0)
        name = f"loom.check.site.{self.sites}"
        self.sites += 1
        fields = [f"ptr {self._text(loc.file).text}", f"ptr {self._text(_shown(op)).text}", f"i32 {loc.line}",
                  f"i32 {bytes_}", f"i32 {kind}", f"i32 {number}", "i32 0"]  # fmt: skip
        self.editor.additions.global_(name, SITE, "{ " + ", ".join(fields) + " }")
        return Const(PTR, f"@{name}")

    def _text(self, string: str) -> Const:
        if string not in self.texts:
            self.texts[string] = self.editor.text(string, f"loom.check.text.{self.kernel.name}.{len(self.texts)}")
        return self.texts[string]


def _is_loose(op: Leaf, bytes_: int) -> bool:
    """The access may begin within a word."""
    return bytes_ >= 4 and 0 < op.attrs.align_bytes < 4


def _shown(op: Leaf) -> str:
    """The user's source line, or the operation where there is none."""
    lines = excerpt(op.loc).splitlines() if op.loc else []
    return lines[0].split("|", 1)[-1].strip() if lines else print_op(op)
