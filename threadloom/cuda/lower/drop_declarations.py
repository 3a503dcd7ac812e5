"""Collectives have no definition anywhere: once lowered, their declarations go.

declare i32 @loom.vote.sync.any(i32, i32)        ->        (nothing)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import COLLECTIVES
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import walk
from threadloom.errors import InternalError
from threadloom.par.ops import Barrier, Module


@dataclass(frozen=True, slots=True)
class DropDeclarations:
    name: str = "drop-declarations"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            for op in walk(function.body.ops if function.body else ()):
                if isinstance(op, Barrier) or collective_scope(op):
                    raise InternalError(f"{function.name}: {op!r} was not lowered")
        kept = tuple(function for function in module.functions if function.name not in COLLECTIVES)
        return replace(module, functions=kept)
