"""A byte per work-item through which all work-items of a block agree: the base of checks and block collectives.

    store i8 %code, ptr (%votes at %item); barrier; %r = or over all of %votes; barrier; [store 0 to own vote]

The combination is a loop over all bytes with the same operands in every work-item, so the split runs it once per
block. Work-items that stand aside (exited) must leave a 0: where some may, bytes are cleared before and after use.
"""

from __future__ import annotations

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.thread_number import item_count_at_top, item_number
from threadloom.par.ops import I8, I32, Const, Op, Operand, Parallel, Space, Value


class Votes:
    """The vote bytes of one `Parallel`; `front` goes before it, `start` to the beginning of its body."""

    def __init__(self, editor: Editor, parallel: Parallel):
        self._editor, self._parallel = editor, parallel
        self.front: list[Op] = []
        self.start: list[Op] = []
        self._bytes: Value | None = None
        self._item: Operand | None = None
        self._count: Operand | None = None
        self._cleared = False

    def _ready(self, clear: bool) -> None:
        editor = self._editor
        if self._bytes is None:
            self._count = item_count_at_top(editor, self._parallel)
            with editor.collect() as self.front:
                self._bytes = editor.alloca(I8, self._count, Space.SHARED, 64, "votes")
            with editor.collect() as self.start:
                self._item = item_number(editor, self._parallel, self._parallel.ivs)
        if clear and not self._cleared:
            self._cleared = True
            with editor.collect() as ops:
                editor.store(Const(I8, "0"), self._own())
            self.start.extend(ops)

    def _own(self) -> Operand:
        return self._editor.gep(I8, self._bytes, self._item, name="vote.own")

    def combine(self, code: Operand, how: str, aside: bool) -> Operand:
        """Builds the vote at the editor's place: `how` is "or" (an i8) or "add" (an i32 count of non-zero codes, which
        must be 0 or 1). `aside`: some work-items may not be here."""
        self._ready(aside)
        editor = self._editor
        type_ = I8 if how == "or" else I32
        editor.store(code, self._own())
        editor.barrier(self._parallel.level)
        with editor.loop(0, self._count, 1, [Const(type_, "0")], ["votes.all"]) as loop:
            vote = editor.cast("zext", editor.load(I8, editor.gep(I8, self._bytes, loop.iv, name="vote.at")), type_)
            loop.yield_(editor.binary(how, loop.args[0], vote))
        editor.barrier(self._parallel.level)
        if aside:
            editor.store(Const(I8, "0"), self._own())
        return loop.results[0]
