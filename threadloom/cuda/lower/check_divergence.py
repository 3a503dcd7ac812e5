"""Makes conditions around barriers scalar, with a run-time check that all work-items agree.

    if i1 %c { A; barrier; B }
 -> %code = select %c, 1, 2; %all = or of all work-items' codes          # votes.py
    if (%all == 3) { call @__loom_divergent_barrier(file, line) }
    if (%all & 1) { A; barrier; B }                                       # scalar: the split moves it outside

A work-item that has exited (exits.py) may part from the others: its code is 0, and the condition stays per work-item,
so that the split masks it. Where *every* way to part is an exit, nothing is checked. Conditions that are scalar as
they stand (scalars.py) are left alone. Source: PPoPP'23 section 3.3 assumes uniformity; the check is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.exits import Exits, Place, places
from threadloom.cuda.lower.runtime_calls import DIVERGENT_BARRIER
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import contains_meeting, has_meeting, meets
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.cuda.lower.votes import Votes
from threadloom.par.ops import (
    I8,
    I32,
    Barrier,
    Block,
    Condition,
    Const,
    For,
    Function,
    If,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    While,
)
from threadloom.source import Loc

_AGREED_YES, _AGREED_NO, _DIVERGED = Const(I8, "1"), Const(I8, "2"), 3


@dataclass(frozen=True, slots=True)
class CheckDivergence:
    level: Level = Level.THREADS

    @property
    def name(self) -> str:
        return f"check-divergence-{self.level}"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None and has_meeting(walk(function.body.ops), self.level):
                module = self._function(function, module)
        return module

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not meets(op, self.level):
                return None
            return _Checker(op, editor, memory).apply()

        return editor.finish(replace(function, body=expand(function.body, change)))


class _Checker:
    """One loop over work-items, outermost conditions first."""

    def __init__(self, parallel: Parallel, editor: Editor, memory: Memory):
        self.parallel, self.editor = parallel, editor
        self.scalars = Scalars(parallel, memory, Uniformity(parallel, memory))
        self.exits = Exits(memory)
        self.votes = Votes(editor, parallel)
        self.places: dict[int, Place] = {id(op): place for op, place in places(parallel)}

    def apply(self) -> list[Op]:
        body = self._block(self.parallel.body, aside=False)
        with_start = Block((*self.votes.start, *body.ops))
        return [*self.votes.front, replace(self.parallel, body=with_start)]

    def _block(self, block: Block, aside: bool) -> Block:
        """`aside`: some work-items may already stand aside in this region."""
        with self.editor.collect() as ops:
            for op in block.ops:
                if not contains_meeting(op, self.parallel.level):
                    self.editor.ops.append(op)
                    continue
                match op:
                    case If():
                        self._if(op, aside)
                    case While():
                        self._while(op, aside)
                    case For():
                        self.editor.ops.append(replace(op, body=self._block(op.body, aside)))
                    case _:
                        self.editor.ops.append(op)
        return Block(tuple(ops))

    def _if(self, op: If, aside: bool) -> None:
        cond, masked = op.cond, False
        if not self.scalars.is_scalar(cond):
            masked = self._sides_exit(op)
            if not masked:
                cond = self._agree(cond, None, op, aside)
        inside = aside or masked
        new = replace(op, cond=cond, then=self._block(op.then, inside), otherwise=self._block(op.otherwise, inside))
        self.editor.ops.append(new)

    def _sides_exit(self, op: If) -> bool:
        """Each side that has no barriers ends the work-items that take it; then the sides may part."""
        place, level = self.places[id(op)], self.parallel.level
        plain = [side for side in (op.then, op.otherwise) if not has_meeting(side.ops, level)]
        return bool(plain) and all(self.exits.side_exits(op, side, place) for side in plain)

    def _while(self, op: While, aside: bool) -> None:
        condition = op.before.ops[-1]
        assert isinstance(condition, Condition)
        always = not self.scalars.is_scalar(condition.cond) and self.exits.exits(self.places[id(op)])
        if self.scalars.is_scalar(condition.cond) or always:
            aside = aside or always
            new = replace(op, before=self._block(op.before, aside), after=self._block(op.after, aside))
            self.editor.ops.append(new)
            return
        exits = self.exits.leaving_exits(op, self.places[id(op)])
        inside = aside or bool(exits)
        before = self._block(Block(op.before.ops[:-1]), inside)
        with self.editor.collect() as ops:
            exited = self._exited(exits, condition)
            agreed = self._agree(condition.cond, exited, op, inside)
        cond = condition.cond if exits else agreed
        ending = Condition(cond, condition.values)
        before = Block((*before.ops, *ops, ending))
        self.editor.ops.append(replace(op, before=before, after=self._block(op.after, inside)))

    def _exited(self, exits: list[tuple[int, Const]], condition: Condition) -> Operand | None:
        exited: Operand | None = None
        for index, constant in exits:
            here = self.editor.icmp("eq", condition.values[index], constant, "exited")
            exited = here if exited is None else self.editor.or_(exited, here)
        return exited

    def _agree(self, cond: Operand, exited: Operand | None, op: If | While, aside: bool) -> Operand:
        """All work-items vote; returns the condition that holds for all of them."""
        editor = self.editor
        no: Operand = _AGREED_NO
        if exited is not None:
            no = editor.select(exited, Const(I8, "0"), no, name="vote.no")
        code = editor.select(cond, _AGREED_YES, no, name="vote")
        together = self.votes.combine(code, "or", aside)
        diverged = editor.icmp("eq", together, _DIVERGED, "diverged")
        with editor.if_(diverged):
            loc = _first_barrier(op, self.parallel.level) or op.loc or Loc("<unknown>", 0)
            editor.call(DIVERGENT_BARRIER, [editor.text(loc.file, "file"), Const(I32, str(loc.line))])
        return editor.icmp("ne", editor.and_(together, _AGREED_YES), 0, "agreed")


def _first_barrier(op: Op, level: Level) -> Loc | None:
    inside = (inner.loc for inner in walk((op,)) if isinstance(inner, Barrier) and inner.scope is level)
    return next((loc for loc in inside if loc is not None), None)
