"""A launch of fewer blocks than workers spreads the threads of its blocks over workers, too.

    parallel blocks (%bz, %by, %bx) = ... to (%gz, %gy, %gx) { parallel threads (%y, %x) = (0, 0) to (%ny, %nx) { B } }
 -> %parts = workers / (%gz %gy %gx), at least 1, at most %nx / 16
    %each = %nx / %parts, rounded up to whole vectors
    parallel blocks (%bz, %by, %bx, %part) = ... to (%gz, %gy, %gx, %parts) {
      parallel threads (%y, %x) = (0, %part %each) to (%ny, min(%nx, (%part + 1) %each)) { B }
    }

The loops over blocks and over threads become one range of work-items, of which each worker takes a part. With as many
blocks as workers nothing changes but the test. Needs: one loop over threads, without barriers, in a block that shares
no memory and does nothing else but arithmetic. Declines where threads have so little to do that they are not worth
another worker's time: no loop inside, and few operations.
Source: PPoPP'23, section 4 (collapse of nested parallel loops); ours collapses at launch, as far as there are workers
without blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, is_pure
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    I32,
    I64,
    Alloca,
    Block,
    For,
    Function,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    While,
)
from threadloom.par.passes import decline, through_functions

WORKERS = "omp_get_max_threads"
_GRAIN = 16  # threads along x: whole vectors, and whole cache lines of what neighbours write


@dataclass(frozen=True, slots=True)
class Collapse:
    fewest_ops: int = 300  # of a thread without loops
    name: str = "collapse"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        if not is_kernel(function):
            return module
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
                return None
            if reason := self._why_not(op, memory):
                decline("threads stay with their block's worker", reason, op.loc)
                return None
            return _collapsed(op, editor)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def _why_not(self, blocks: Parallel, memory: Memory) -> str:
        loops = [op for op in blocks.body.ops if isinstance(op, Parallel)]
        others = [op for op in blocks.body.ops if not isinstance(op, Parallel)]
        if any(isinstance(op, Alloca) for op in others):
            return "they share memory"
        if len(loops) != 1 or loops[0].level is not Level.THREADS:
            return "they meet, or run warp by warp"
        if not all(isinstance(op, Leaf) and is_pure(op, memory.callee(op)) for op in others):
            return "the block does more than its loop over threads"
        inside = list(walk(loops[0].body.ops))
        if len(inside) < self.fewest_ops and not any(isinstance(op, For | While) for op in inside):
            return "they have little to do"
        return ""


def _collapsed(blocks: Parallel, editor: Editor) -> list[Op]:
    loop = next(op for op in blocks.body.ops if isinstance(op, Parallel))
    axis = _axis(loop)
    grain = _GRAIN if axis == len(loop.ivs) - 1 else 1
    with editor.collect() as front:
        extent = editor.cast("zext", loop.uppers[axis], I64)
        count: Operand = const(I64, 1)
        for upper in blocks.uppers:
            count = editor.mul(count, editor.cast("zext", upper, I64), name="blocks")
        workers = editor.cast("zext", editor.call(WORKERS, (), I32, name="workers"), I64)
        spare = editor.udiv(workers, editor.max(count, 1, signed=False), "spare")
        most = editor.udiv(editor.add(extent, grain - 1), grain, "most")
        parts = editor.max(editor.min(spare, most, signed=False), 1, signed=False, name="parts")
        each = editor.udiv(editor.add(extent, editor.sub(parts, 1)), parts, "each")
        each = editor.mul(editor.udiv(editor.add(each, grain - 1), grain), grain, name="each")
        parts, each = editor.cast("trunc", parts, I32), editor.cast("trunc", each, I32)
    part = editor.fresh("part", I32)
    with editor.collect() as bounds:
        first = editor.min(editor.mul(part, each), loop.uppers[axis], name="first")
        last = editor.min(editor.add(first, each), loop.uppers[axis], name="last")
    ends = {"lowers": _with(loop.lowers, axis, first), "uppers": _with(loop.uppers, axis, last)}
    body = Block(tuple(replace(op, **ends) if op is loop else op for op in (*bounds, *blocks.body.ops)))
    zero = const(I32, 0)
    return [*front, replace(blocks, ivs=(*blocks.ivs, part), lowers=(*blocks.lowers, zero),
                            uppers=(*blocks.uppers, parts), body=body)]  # fmt: skip


def _axis(loop: Parallel) -> int:
    """The longest dimension where all are known; else the fastest."""
    extents = [int_value(upper) for upper in loop.uppers]
    known = [extent for extent in extents if extent is not None]
    return extents.index(max(known)) if len(known) == len(extents) else len(extents) - 1


def _with(bounds: tuple[Operand, ...], axis: int, bound: Operand) -> tuple[Operand, ...]:
    return (*bounds[:axis], bound, *bounds[axis + 1 :])
