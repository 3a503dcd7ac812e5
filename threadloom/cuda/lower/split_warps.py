"""Loops over threads that contain warp operations become loops over warps and, inside, over lanes.

    parallel threads (%z, %y, %x) = ... to (%bz, %by, %bx) { body }
 -> parallel warps (%w) = (i32 0) to (i32 %warps) {
      %first = mul i32 %w, 32
      %x0 = urem i32 %first, %bx; %rest = udiv i32 %first, %bx; %y = urem i32 %rest, %by; %z = udiv i32 %rest, %by
      %lanes = umin(%total - %first, 32)
      parallel lanes (%lane) = (i32 0) to (i32 %lanes) { %x = add i32 %x0, %lane; body }
    }

That is right where a warp lies in one row of threads: block.x a multiple of 32, or a block of one row. For other
shapes a second version, chosen at run time, divides per lane; where a file has very much in such loops, the rest has
that version only. Keeps: the linear order of threads; the last warp may have fewer lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadloom.cuda.kernel import GENERAL, WARP_LANES
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, rename, walk
from threadloom.par.constants import const
from threadloom.par.ops import I1, I32, Barrier, Block, Const, Function, If, Level, Module, Op, Operand, Parallel, Yield
from threadloom.par.passes import decline


@dataclass(frozen=True, slots=True)
class SplitWarps:
    name: str = "split-warps"
    most_ops_of_module: int = 6000  # of the loops that get two versions; for odd launches last

    def apply(self, module: Module) -> Module:
        left = self.most_ops_of_module
        for function in sorted(module.functions, key=lambda one: GENERAL in one.name):
            if function.body is not None and any(_is_warp_operation(op) for op in walk(function.body.ops)):
                module, spent = self._function(function, module, left)
                left -= spent
        return module

    def _function(self, function: Function, module: Module, most_ops: int) -> tuple[Module, int]:
        """The module with the loops of `function` split, and how many operations two versions were made of."""
        editor = Editor(function, module)
        spent = 0

        def change(op: Op) -> list[Op] | None:
            nonlocal spent
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            if not any(_is_warp_operation(inner) for inner in walk(op.body.ops)):
                return None
            size = sum(1 for _ in walk(op.body.ops))
            made = _Warps(editor, op).emit(both=spent + size <= most_ops)
            if isinstance(made[0], If):
                spent += size
            return made

        return editor.finish(replace(function, body=expand(function.body, change))), spent


def _is_warp_operation(op: Op) -> bool:
    return collective_scope(op) == "warp" or (isinstance(op, Barrier) and op.scope is Level.LANES)


class _Warps:
    def __init__(self, editor: Editor, parallel: Parallel):
        self.editor, self.parallel = editor, parallel
        self.extents: Sequence[Operand] = parallel.uppers

    def emit(self, both: bool) -> list[Op]:
        """`both`: a version for warps in one row of threads, and one for all shapes."""
        editor = self.editor
        with editor.collect() as top:
            total: Operand = Const(I32, "1")
            for extent in self.extents:
                total = editor.mul(total, extent, name="threads")
            warps = editor.udiv(editor.add(total, WARP_LANES - 1), WARP_LANES, "warps")
            one_row = self._in_rows()
        editor.top.extend(top)
        if one_row == Const(I1, "true"):
            return [self._warps(total, warps, self._row_of_warp, copy=False)]
        if not both:
            decline("only one version of a loop over warps", "the file has very much in such loops", self.parallel.loc)
            return [self._warps(total, warps, self._own_index, copy=False)]
        rows = Block((self._warps(total, warps, self._row_of_warp, copy=False), Yield()))
        others = Block((self._warps(total, warps, self._own_index, copy=True), Yield()))
        return [If(one_row, rows, others, (), self.parallel.loc)]

    def _in_rows(self) -> Operand:
        """Each warp lies in one row of threads."""
        editor, *outer = self.editor, *self.extents[:-1]
        if not outer:
            return Const(I1, "true")
        rows: Operand = Const(I32, "1")
        for extent in outer:
            rows = editor.mul(rows, extent, name="rows")
        one_row = editor.icmp("eq", rows, 1, "one.row")
        whole = editor.icmp("eq", editor.urem(self.extents[-1], WARP_LANES), 0, "whole.warps")
        always = Const(I1, "true")
        return always if always in (one_row, whole) else editor.or_(whole, one_row, "warps.in.rows")

    def _warps(self, total: Operand, warps: Operand, index, copy: bool) -> Parallel:
        editor = self.editor
        warp, lane = editor.fresh("warp", I32), editor.fresh("lane", I32)
        with editor.collect() as outer:
            first = editor.mul(warp, WARP_LANES, ("nuw",), "warp.first")
            lanes = editor.min(editor.sub(total, first), const(I32, WARP_LANES), False, "lanes")
            with editor.collect() as inner:
                ivs = index(first, lane, outer)
                renaming = {iv.name: value for iv, value in zip(self.parallel.ivs, ivs, strict=True)}
                inner.extend(self._body(renaming, copy))
            outer.append(Parallel(Level.LANES, (lane,), (const(I32, 0),), (lanes,), Block(tuple(inner)), "static",
                                  self.parallel.loc))  # fmt: skip
        return Parallel(Level.WARPS, (warp,), (const(I32, 0),), (warps,), Block(tuple(outer)), "static",
                        self.parallel.loc)  # fmt: skip

    def _body(self, renaming: dict[str, Operand], copy: bool) -> Sequence[Op]:
        if copy:
            return self.editor.copy(self.parallel.body.ops, renaming)
        return [rename(op, renaming) for op in self.parallel.body.ops]

    def _split(self, linear: Operand) -> list[Operand]:
        """The index in each dimension of a linear number, last dimension fastest."""
        indices: list[Operand] = []
        for iv, extent in zip(reversed(self.parallel.ivs[1:]), reversed(self.extents[1:]), strict=True):
            indices.append(self.editor.urem(linear, extent, iv.name))
            linear = self.editor.udiv(linear, extent, f"{iv.name}.rest")
        return [linear, *reversed(indices)]

    def _row_of_warp(self, first: Operand, lane: Operand, outer: list[Op]) -> list[Operand]:
        """Divide once per warp; lanes only add."""
        with self.editor.collect() as ops:
            indices = self._split(first)
        outer.extend(ops)
        return [*indices[:-1], self.editor.add(indices[-1], lane, ("nuw",), self.parallel.ivs[-1].name)]

    def _own_index(self, first: Operand, lane: Operand, outer: list[Op]) -> list[Operand]:
        return self._split(self.editor.add(first, lane, ("nuw",), "thread"))
