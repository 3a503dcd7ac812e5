"""Loops over threads run in the worker of their block; without this pass all workers share every one of them.

    parallel blocks (%b) = 0 to %g { alloca shared %tile; parallel threads (%t) = 0 to %n { A }; ... { B } }
 -> as it is: each worker has blocks of its own, and goes through A and B alone             (serialize-inner)
    %tile; for %b = 0 to %g { parallel blocks (%t) = 0 to %n { A }; parallel blocks ... { B } }     (fork-inner)

What is left of a kernel are two nested parallel loops, of which one can fork. Outer loops fork once a launch and keep a
block's tile in one core's cache; inner ones fork as often as blocks meet. So the inner ones are serialised always, and
the emitter makes plain loops of them; where there are too few blocks, collapse.py gives threads to other workers.
`fork-inner` stands in the pipeline's place of this pass where that is left out, for comparison only.
Source: PPoPP'23, section 4 (inner serialisation), and MCUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.traverse import expand
from threadloom.par.constants import const
from threadloom.par.ops import Alloca, Block, For, Function, Level, Module, Op, Parallel, Value, Yield
from threadloom.par.passes import decline, map_functions
from threadloom.par.walk import arguments, regions, results, with_regions


@dataclass(frozen=True, slots=True)
class SerializeInner:
    name: str = "serialize-inner"

    def apply(self, module: Module) -> Module:
        return module


@dataclass(frozen=True, slots=True)
class ForkInner:
    name: str = "fork-inner"

    def apply(self, module: Module) -> Module:
        return map_functions(module, self._function)

    def _function(self, function: Function) -> Function:
        if not is_kernel(function):
            return function

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
                return None
            if not _can_fork(op.body):
                decline(
                    "loops over threads do not fork", "one runs warp by warp, or memory depends on the block", op.loc
                )
                return None
            return _forked(op)

        return replace(function, body=expand(function.body, change))


def _can_fork(block: Block) -> bool:
    """No loop over warps, and memory whose size is known outside."""
    around = list(_around_threads(block))
    made = {value.name for op in around for value in (*results(op), *arguments(op)) if not isinstance(op, Parallel)}
    sized = [op.count.name for op in around if isinstance(op, Alloca) and isinstance(op.count, Value)]
    nested = any(isinstance(op, Alloca) and op not in block.ops for op in around)
    levels = {op.level for op in around if isinstance(op, Parallel)}
    return levels <= {Level.THREADS} and not nested and not made & set(sized)


def _around_threads(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        if not isinstance(op, Parallel):
            for region in regions(op):
                yield from _around_threads(region)


def _forked(blocks: Parallel) -> list[Op]:
    memory = [op for op in blocks.body.ops if isinstance(op, Alloca)]
    body = Block(tuple(op for op in _forks(blocks.body).ops if not isinstance(op, Alloca)))
    for iv, low, high in reversed(list(zip(blocks.ivs, blocks.lowers, blocks.uppers, strict=True))):
        loop = For(iv, low, high, const(iv.type, 1), (), (), Block((*body.ops, Yield())), (), blocks.loc)
        body = Block((loop,))
    return [*memory, *body.ops]


def _forks(block: Block) -> Block:
    return Block(tuple(replace(op, level=Level.BLOCKS) if isinstance(op, Parallel) else with_regions(op, _forks)
                       for op in block.ops))  # fmt: skip
