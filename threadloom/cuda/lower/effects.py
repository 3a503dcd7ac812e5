"""Memory effects: which objects a region reads, writes or updates atomically, and which objects may overlap.

    %p = getelementptr float, ptr %tile, i64 %i      # %tile = alloca shared
    store float %v, ptr %p                           ->  Access(WRITE, {alloca %tile}, %p, float)

A pointer's *roots* are the objects it may point into: an alloca, a parameter, a global, or the unknown root (a
pointer loaded from memory or made from an integer). Pointers that come together in selects, ifs and loops
have the roots of all their sources (a fixpoint over the function).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from threadloom.cuda.lower.calls import call_effect, touches_no_user_memory
from threadloom.cuda.lower.traverse import last_values, walk
from threadloom.par.opcodes import OPCODES, Effect
from threadloom.par.ops import (
    PTR,
    Alloca,
    Block,
    For,
    Function,
    If,
    Leaf,
    Module,
    Op,
    Operand,
    Ptr,
    Space,
    Type,
    Value,
    While,
)
from threadloom.par.walk import regions


class Kind(StrEnum):
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    ANY = "any"  # reads and writes of unknown extent: a call


class RootKind(StrEnum):
    ALLOCA = "alloca"
    PARAM = "param"
    NOALIAS = "noalias param"
    GLOBAL = "global"
    CONSTANT = "constant"  # never written
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Root:
    """An object in memory; `name` is the alloca's or parameter's value name or the global's."""

    kind: RootKind
    name: str = ""
    escaped: bool = False  # an alloca whose address was stored or passed on

    def __hash__(self) -> int:
        return hash(self.name)  # sets of roots are made at every pointer; the others hardly tell more


UNKNOWN = Root(RootKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Access:
    kind: Kind
    roots: frozenset[Root]
    pointer: Operand | None  # None: an unknown extent of the roots
    type: Type | None  # what is read or written at `pointer`
    op: Op

    @property
    def writes(self) -> bool:
        return self.kind is not Kind.READ


def roots_may_alias(a: Root, b: Root) -> bool:
    if a == b:
        return a.kind is not RootKind.CONSTANT
    kinds = {a.kind, b.kind}
    if RootKind.CONSTANT in kinds:
        return False  # nobody writes it, so overlap does not matter
    if RootKind.UNKNOWN in kinds:
        other = b if a.kind is RootKind.UNKNOWN else a
        return other.kind is not RootKind.ALLOCA or other.escaped
    if RootKind.ALLOCA in kinds or RootKind.NOALIAS in kinds:
        return False
    return kinds != {RootKind.GLOBAL}


def may_alias(a: frozenset[Root], b: frozenset[Root]) -> bool:
    return any(roots_may_alias(x, y) for x in a for y in b)


def conflict(a: Access, b: Access) -> bool:
    """One of them writes and they may touch the same object."""
    return (a.writes or b.writes) and may_alias(a.roots, b.roots)


class Memory:
    """Roots of all pointers of a function, and the accesses of its operations."""

    def __init__(self, function: Function, module: Module | None = None):
        self._module = module
        self._globals = {g.name: g for g in module.globals} if module else {}
        self._callees = {f.name: f for f in module.functions} if module else {}
        self.allocas: dict[str, Alloca] = {}
        self._roots: dict[str, frozenset[Root]] = {}
        ops = function.body.ops if function.body else ()
        self._escaping = _escaping_names(ops)
        for param in function.params:
            kind = RootKind.NOALIAS if "noalias" in param.attrs else RootKind.PARAM
            self._roots[param.value.name] = frozenset({Root(kind, param.value.name)})
        while self._flow(ops):
            pass
        self._mark_escapes()

    def learn(self, ops: Iterable[Op]) -> None:
        """Also the roots of pointers that `ops` define, which were made since."""
        ops = tuple(ops)
        while self._flow(ops):
            pass

    # ------------------------------------------------------------ roots

    def roots(self, pointer: Operand) -> frozenset[Root]:
        if isinstance(pointer, Value):
            return self._roots.get(pointer.name, frozenset({UNKNOWN}))
        names = [name for name in self._globals if f"@{name}" in pointer.text or f'@"{name}"' in pointer.text]
        if not names:
            return frozenset() if pointer.text in ("null", "undef", "poison") else frozenset({UNKNOWN})
        return frozenset(self._global_root(name) for name in names)

    def _global_root(self, name: str) -> Root:
        return Root(RootKind.CONSTANT if self._globals[name].constant else RootKind.GLOBAL, name)

    def is_private(self, root: Root) -> bool:
        """Memory of one work-item, which no other one can reach."""
        if root.kind is not RootKind.ALLOCA or root.escaped:
            return False
        return self.allocas[root.name].space is Space.PRIVATE

    def is_private_access(self, access: Access) -> bool:
        return bool(access.roots) and all(self.is_private(root) for root in access.roots)

    def is_local(self, access: Access) -> bool:
        """Memory that only this block can reach."""
        return bool(access.roots) and all(
            (root.kind is RootKind.ALLOCA and not root.escaped) or root.kind is RootKind.CONSTANT
            for root in access.roots
        )

    def _flow(self, ops: Iterable[Op]) -> bool:
        changed = False
        for op in ops:
            if type(op) is Leaf:  # most are
                if op.result is not None and type(op.result.type) is Ptr:
                    changed |= self._add(op.result, self._leaf_roots(op))
                continue
            match op:
                case Alloca(result=result):
                    self.allocas[result.name] = op
                    changed |= self._add(result, frozenset({Root(RootKind.ALLOCA, result.name)}))
                case For(inits=inits, args=args, body=body, results=results):
                    changed |= self._join(args, inits) | self._join(args, last_values(body)) | self._join(results, args)
                case While(before=Block(before_ops), after=after):
                    forwarded = before_ops[-1].values  # type: ignore[union-attr]
                    changed |= self._join(op.args, op.inits) | self._join(op.args, last_values(after))
                    changed |= self._join(op.after_args, forwarded) | self._join(op.results, forwarded)
                case If(then=then, otherwise=otherwise, results=results):
                    changed |= self._join(results, last_values(then)) | self._join(results, last_values(otherwise))
            for region in regions(op):
                changed |= self._flow(region.ops)
        return changed

    def _leaf_roots(self, op: Leaf) -> frozenset[Root]:
        if op.opcode in ("getelementptr", "bitcast", "freeze"):
            return self._known(op.operands[0])
        if op.opcode == "select":
            return self._known(op.operands[1]) | self._known(op.operands[2])
        return frozenset({UNKNOWN})

    def _known(self, pointer: Operand) -> frozenset[Root]:
        return self._roots.get(pointer.name, frozenset()) if isinstance(pointer, Value) else self.roots(pointer)

    def _join(self, targets: tuple[Value, ...], sources: tuple[Operand, ...]) -> bool:
        pairs = zip(targets, sources, strict=True)
        return any([self._add(target, self._known(source)) for target, source in pairs if _holds_pointer(target.type)])

    def _add(self, value: Value, roots: frozenset[Root]) -> bool:
        before = self._roots.get(value.name, frozenset())
        self._roots[value.name] = before | roots
        return not roots <= before

    def _mark_escapes(self) -> None:
        """An alloca has escaped where a pointer into it was stored, passed or turned into an integer."""
        escaped = {root for name in self._escaping for root in self._roots.get(name, ()) if root.name in self.allocas}
        marked = {root: Root(root.kind, root.name, True) for root in escaped}
        for name, roots in self._roots.items():
            self._roots[name] = frozenset(marked.get(root, root) for root in roots)

    # ------------------------------------------------------------ accesses

    def callee(self, op: Leaf) -> Function | None:
        return self._callees.get(op.attrs.callee) if op.opcode == "call" else None

    def accesses(self, ops: Iterable[Op]) -> Iterator[Access]:
        """Every access in `ops` and their regions."""
        for op in walk(ops):
            if type(op) is Leaf and op.opcode in _ACCESSING:
                yield from self._leaf_accesses(op)

    def _leaf_accesses(self, op: Leaf) -> Iterator[Access]:
        match op.opcode:
            case "load":
                yield self._at(Kind.ATOMIC if op.attrs.ordering else Kind.READ, op.operands[0], op.result.type, op)
            case "store":
                yield self._at(
                    Kind.ATOMIC if op.attrs.ordering else Kind.WRITE, op.operands[1], op.operands[0].type, op
                )
            case "atomicrmw" | "cmpxchg":
                yield self._at(Kind.ATOMIC, op.operands[0], op.operands[1].type, op)
            case "fence":
                return  # orders accesses; touches none
            case "call":
                yield from self._call_accesses(op)

    def _at(self, kind: Kind, pointer: Operand, type_: Type, op: Leaf) -> Access:
        return Access(kind, self.roots(pointer), pointer, type_, op)

    def _call_accesses(self, op: Leaf) -> Iterator[Access]:
        effect = call_effect(op, self.callee(op))
        if touches_no_user_memory(op.attrs.callee):
            return
        pointers = [operand for operand in op.operands if operand.type == PTR]
        if op.attrs.callee.startswith(("llvm.memcpy", "llvm.memmove")):
            yield Access(Kind.WRITE, self.roots(op.operands[0]), None, None, op)
            yield Access(Kind.READ, self.roots(op.operands[1]), None, None, op)
        elif op.attrs.callee.startswith("llvm.memset"):
            yield Access(Kind.WRITE, self.roots(op.operands[0]), None, None, op)
        elif effect is not Effect.NONE:
            kind = Kind.READ if effect is Effect.READ else Kind.ANY
            reached = frozenset({UNKNOWN}).union(*(self.roots(pointer) for pointer in pointers))
            everything = frozenset(self._global_root(name) for name in self._globals)
            yield Access(kind, reached | everything, None, None, op)


_ACCESSING = {"load", "store", "atomicrmw", "cmpxchg", "call"}  # what _leaf_accesses knows


def orders_memory(op: Op) -> bool:
    """An atomic or a fence: what other threads did before it may be seen behind it."""
    return isinstance(op, Leaf) and (op.opcode in ("fence", "atomicrmw", "cmpxchg") or bool(op.attrs.ordering))


def is_pure(op: Leaf, callee: Function | None = None) -> bool:
    """Neither reads nor writes memory nor does anything else that can be seen."""
    if op.opcode == "call":
        return call_effect(op, callee) is Effect.NONE
    return OPCODES[op.opcode].effect is Effect.NONE


def _holds_pointer(type_: Type) -> bool:
    return isinstance(type_, Ptr)


_KEEP_POINTERS = {"store", "atomicrmw", "cmpxchg", "call", "ptrtoint", "insertvalue", "insertelement"}


def _escaping_names(ops: Iterable[Op]) -> set[str]:
    """Names of pointers that are stored, passed to a call or made an integer (by value, not as an address)."""
    names: set[str] = set()
    for op in walk(ops):
        if type(op) is not Leaf or op.opcode not in _KEEP_POINTERS:
            continue
        match op.opcode:
            case "store":
                kept: tuple[Operand, ...] = op.operands[:1]
            case "atomicrmw" | "cmpxchg":
                kept = op.operands[1:]
            case "call":
                kept = () if op.attrs.callee.startswith("llvm.") else op.operands
            case _:
                kept = op.operands
        names.update(operand.name for operand in kept if isinstance(operand, Value) and operand.type == PTR)
    return names
