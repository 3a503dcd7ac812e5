"""Level `cfg`: functions of basic blocks in SSA form. Types, values and leaves are those of `par`.

A block has phis, then leaves and private allocas, then one terminator. Block names are unique in a function; the
first block is the entry and has no predecessors. `switch` does not occur (LLVM lowers it before we parse).
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.ops import Alloca, Global, Leaf, Operand, Param, Type, Value
from threadloom.source import Loc


@dataclass(frozen=True, slots=True)
class Phi:
    result: Value
    incoming: tuple[tuple[str, Operand], ...]  # (predecessor, value), each predecessor once
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Jump:
    target: str
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    cond: Operand
    then: str
    otherwise: str
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Ret:
    value: Operand | None = None
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Control never gets here, or the call before it ends the thread (assert, trap)."""

    loc: Loc | None = None


Terminator = Jump | Branch | Ret | Stop


@dataclass(frozen=True, slots=True)
class BasicBlock:
    name: str
    phis: tuple[Phi, ...]
    body: tuple[Leaf | Alloca, ...]
    end: Terminator

    @property
    def successors(self) -> tuple[str, ...]:
        match self.end:
            case Jump(target):
                return (target,)
            case Branch(_, then, otherwise):
                return (then, otherwise) if then != otherwise else (then,)
        return ()


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    params: tuple[Param, ...]
    result: Type
    blocks: tuple[BasicBlock, ...]  # empty: a declaration
    attrs: tuple[str, ...] = ()
    variadic: bool = False
    internal: bool = False
    loc: Loc | None = None

    def block(self, name: str) -> BasicBlock:
        return next(block for block in self.blocks if block.name == name)


@dataclass(frozen=True, slots=True)
class Module:
    functions: tuple[Function, ...]
    globals: tuple[Global, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()  # (global, "loom.shared"), from __attribute__((annotate))
