"""Puts a call before every access of a kernel, so that the compiled program can be watched (runtime/check.cpp).

    %v = load float, ptr %p            %q = call ptr @__loom_check_access(%block, %thread, %epoch, ptr %p, ptr @site.7)
                                  ->   %v = load float, ptr %q
    barrier threads                    barrier threads; %epoch += 1

A site is a record: file, line, text, bytes, kind, and the object the address must stay in. The call gives back
the address, or one that does no harm where the access is out of bounds. The epoch has three counters: barriers of the
block (bits 0 to 15), of the warp (16 to 31), of the grid (32 to 47). Runs on raised kernels, before any optimisation.
Accesses to private memory are checked for bounds only; memory that nobody writes is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import BLOCK_INDEX, GEOMETRY
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Access, Kind, Memory, Root, RootKind
from threadloom.cuda.lower.runtime_calls import (
    CHECK_ACCESS,
    CHECK_BLOCK,
    CHECK_FRESH,
    CHECK_LAUNCH,
    CHECK_OBJECT,
    CHECK_PRIVATE,
)
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.thread_number import item_number
from threadloom.cuda.lower.traverse import expand
from threadloom.par.constants import int_value
from threadloom.par.ops import (
    I32,
    I64,
    PTR,
    Alloca,
    Barrier,
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
    Value,
)
from threadloom.par.result_types import size_bytes
from threadloom.par.text import print_op
from threadloom.source import Loc, excerpt

SITE = Struct((PTR, PTR, I32, I32, I32, I32, I32))  # file, text, line, bytes, kind, object, the runtime's number
_KINDS = {Kind.READ: 0, Kind.WRITE: 1, Kind.ATOMIC: 2}
_VOLATILE = {Kind.READ: 3, Kind.WRITE: 4, Kind.ATOMIC: 2}  # they may meet each other, as atomics may
_BARRIER, _WARP, _GRID = 1, 1 << 16, 1 << 32


@dataclass(frozen=True, slots=True)
class Instrument:
    name: str = "instrument"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None and tuple(p.value for p in function.params[-len(GEOMETRY) :]) == GEOMETRY:
                module = _Kernel(function, module).module()
        return module


class _Kernel:
    def __init__(self, kernel: Function, module: Module):
        self.kernel, self.editor = kernel, Editor(kernel, module)
        self.memory = Memory(kernel, module)
        self.objects: dict[Root, int] = {}
        self.sites = sum(variable.name.startswith("loom.check.site.") for variable in module.globals)
        self.texts: dict[str, Const] = {}
        self.block: Operand = Const(PTR, "null")
        self.thread: Operand = Const(I32, "0")
        self.epoch: Value | None = None

    def module(self) -> Module:
        with self.editor.collect() as ops:
            self.editor.call(CHECK_LAUNCH, [self._text(self.kernel.name)])
        self.editor.start.extend(ops)
        body = expand(self.kernel.body, self._blocks) if self.kernel.body else None
        return self.editor.finish(replace(self.kernel, body=body))

    # ------------------------------------------------------------ blocks and threads

    def _blocks(self, op: Op) -> list[Op] | None:
        if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
            return None
        threads = next((inner for inner in op.body.ops if isinstance(inner, Parallel)), None)
        if threads is None:
            return None
        shared = [inner for inner in op.body.ops if isinstance(inner, Alloca)]
        others = [inner for inner in op.body.ops if inner is not threads and not isinstance(inner, Alloca)]
        with self.editor.collect() as begin:
            ivs = {iv.name: iv for iv in op.ivs}
            indices = [ivs.get(index.name, Const(I32, "0")) for index in BLOCK_INDEX]
            self.block = self.editor.call(CHECK_BLOCK, indices, PTR, name="check.block")
            self._register(shared)
        return [replace(op, body=Block((*shared, *begin, *others, self._threads(threads))))]

    def _register(self, shared: list[Alloca]) -> None:
        """Tell the runtime where each object lies; a parameter's size is that of the allocation it points into."""
        for alloca in shared:
            count = self.editor.cast("zext", alloca.count, I64)
            self._object(next(iter(self.memory.roots(alloca.result))), alloca.result,
                         self.editor.mul(count, size_bytes(alloca.element)))  # fmt: skip
        for param in self.kernel.params:
            if param.value.type == PTR and "readonly" not in param.attrs:
                self._object(next(iter(self.memory.roots(param.value))), param.value, Const(I64, "-1"))

    def _object(self, root: Root, base: Value, bytes_: Operand) -> None:
        number = self.objects.setdefault(root, len(self.objects))
        name = self._text(base.name.split(".shared")[0])  # the user's name of the variable
        self.editor.call(CHECK_OBJECT, [self.block, Const(I32, str(number)), base, bytes_, name])

    def _threads(self, op: Parallel) -> Parallel:
        with self.editor.collect() as start:
            self.thread = self.editor.cast("trunc", item_number(self.editor, op, op.ivs), I32, name="check.thread")
            self.epoch = self.editor.alloca(I64, 1, name="check.epoch")
            self.editor.store(Const(I64, "0"), self.epoch)
        body = expand(op.body, self._op)
        return replace(op, body=Block((*start, *body.ops)))

    # ------------------------------------------------------------ operations

    def _op(self, op: Op) -> list[Op] | None:
        if (step := _step(op)) != 0:
            with self.editor.collect() as ops:
                now = self.editor.load(I64, self.epoch, name="epoch")
                self.editor.store(self.editor.add(now, step), self.epoch)
            return [op, *ops]
        if not isinstance(op, Leaf):
            return None
        if op.opcode == "call" and op.attrs.callee == "malloc" and op.result is not None:
            with self.editor.collect() as ops:
                self.editor.call(CHECK_FRESH, [op.result, op.operands[0]])
            return [op, *ops]
        accesses = [access for access in self.memory.accesses((op,)) if access.pointer is not None]
        if len(accesses) != 1 or op.opcode == "call":
            return None
        return self._watched(op, accesses[0])

    def _watched(self, op: Leaf, access: Access) -> list[Op] | None:
        position = 1 if op.opcode == "store" else 0
        with self.editor.collect() as ops, self.editor.at(op.loc):
            address = self._address(op, access, op.operands[position])
        if address is None:
            return None
        operands = tuple(address if index == position else old for index, old in enumerate(op.operands))
        return [*ops, replace(op, operands=operands)]

    def _address(self, op: Leaf, access: Access, pointer: Operand) -> Operand | None:
        roots = access.roots
        if not roots or all(root.kind is RootKind.CONSTANT or self._is_argument(root) for root in roots):
            return None
        single = next(iter(roots)) if len(roots) == 1 else None
        if all(root.kind is RootKind.ALLOCA and self._is_private(root) for root in roots):
            return None if single is None else self._private(op, access, pointer, single)
        number = self.objects.get(single, -1) if single is not None else -1
        site = self._site(op, access, number)
        now = self.editor.load(I64, self.epoch, name="epoch")
        return self.editor.call(CHECK_ACCESS, [self.block, self.thread, now, pointer, site], PTR, name="checked")

    def _private(self, op: Leaf, access: Access, pointer: Operand, root: Root) -> Operand | None:
        alloca = self.memory.allocas[root.name]
        count = int_value(alloca.count)
        if count is None or pointer == alloca.result:
            return None
        bytes_ = Const(I64, str(count * size_bytes(alloca.element)))
        site = self._site(op, access, -1)
        operands = [alloca.result, bytes_, pointer, site, self._text(alloca.result.name)]
        return self.editor.call(CHECK_PRIVATE, operands, PTR, name="checked")

    def _is_private(self, root: Root) -> bool:
        return self.memory.allocas[root.name].space is Space.PRIVATE

    def _is_argument(self, root: Root) -> bool:
        """A struct that was passed by value."""
        params = {param.value.name: param for param in self.kernel.params}
        return root.name in params and "readonly" in params[root.name].attrs

    # ------------------------------------------------------------ records

    def _site(self, op: Leaf, access: Access, number: int) -> Const:
        loc = op.loc or Loc("", 0)
        name = f"loom.check.site.{self.sites}"
        self.sites += 1
        kind = (_VOLATILE if op.attrs.volatile else _KINDS)[access.kind]
        fields = [f"ptr {self._text(loc.file).text}", f"ptr {self._text(_shown(op)).text}", f"i32 {loc.line}",
                  f"i32 {size_bytes(access.type)}", f"i32 {kind}", f"i32 {number}", "i32 0"]  # fmt: skip
        self.editor.additions.global_(name, SITE, "{ " + ", ".join(fields) + " }")
        return Const(PTR, f"@{name}")

    def _text(self, string: str) -> Const:
        if string not in self.texts:
            self.texts[string] = self.editor.text(string, f"loom.check.text.{self.kernel.name}.{len(self.texts)}")
        return self.texts[string]


def _shown(op: Leaf) -> str:
    """The user's source line, or the operation where there is none."""
    lines = excerpt(op.loc).splitlines() if op.loc else []
    return lines[0].split("|", 1)[-1].strip() if lines else print_op(op)


def _step(op: Op) -> int:
    """What `op` adds to the epoch of a thread that has passed it."""
    if isinstance(op, Barrier):
        return _BARRIER if op.scope is Level.THREADS else 0
    match collective_scope(op):
        case "block":
            return _BARRIER
        case "grid":
            return _GRID + _BARRIER
        case "warp" if isinstance(op, Leaf) and op.attrs.callee == "loom.syncwarp":
            return _WARP
    return 0
