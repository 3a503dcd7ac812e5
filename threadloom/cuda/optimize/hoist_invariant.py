"""Parallel loop-invariant motion: what every iteration of a parallel loop computes alike, runs once in front of it.

    parallel threads (%t) {                        %sum = for %k = ... { ... load ptr %in ... }
      %sum = for %k = ... { ... load ptr %in ... }   parallel threads (%t) {
      %q = ... %sum                            ->      %q = ... %sum
      store %q, ptr %out                               store %q, ptr %out
    }                                              }

Legal if the operands come from outside and no *earlier* operation of the body (of the same interval between barriers)
may write what it reads: all iterations may run in lock-step, so later ones do not matter. It climbs from threads to
blocks to the start of the kernel, where it runs once per launch. Operations under an if stay (they might not have run).
Source: PPoPP'23, section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import contains_meeting
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.ops import Block, For, Function, Leaf, Level, Module, Op, Parallel, While
from threadloom.par.passes import decline, map_functions


@dataclass(frozen=True, slots=True)
class HoistInvariant:
    """One level per use; inner levels go first."""

    level: Level

    @property
    def name(self) -> str:
        return f"hoist-invariant-{self.level}"

    def apply(self, module: Module) -> Module:
        return map_functions(module, lambda function: self._function(function, module))

    def _function(self, function: Function, module: Module) -> Function:
        memory = Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not self.level:
                return None
            scalars = Scalars(op, memory, Uniformity(op, memory))
            first = _before_first_meeting(op)
            hoisted = [inner for inner in first if scalars.is_scalar_op(inner) and _worth_it(inner)]
            if not hoisted:
                if any(isinstance(inner, For | While) for inner in first):
                    decline("nothing invariant", f"loops over {self.level}", op.loc)
                return None
            kept = tuple(inner for inner in op.body.ops if not any(inner is moved for moved in hoisted))
            return [*hoisted, replace(op, body=Block(kept))]

        return replace(function, body=expand(function.body, change))


def _before_first_meeting(parallel: Parallel) -> list[Op]:
    """Behind a barrier, memory may have changed since the start of the loop."""
    ops: list[Op] = []
    for op in parallel.body.ops:
        if contains_meeting(op, parallel.level):
            break
        ops.append(op)
    return ops


def _worth_it(op: Op) -> bool:
    """Anything scalar: LLVM would find the arithmetic by itself, but loads and loops climb on it."""
    return isinstance(op, Leaf) or bool(list(walk((op,))))
