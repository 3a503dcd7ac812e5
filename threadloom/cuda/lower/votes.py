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
    """The vote bytes of one `Parallel`; `front` goes before it, `start` to the beginning of its body.

    Votes in which work-items may stand aside have bytes of their own, which are 0 whenever nobody votes.
    """

    def __init__(self, editor: Editor, parallel: Parallel):
        self._editor, self._parallel = editor, parallel
        self.front: list[Op] = []
        self.start: list[Op] = []
        self._bytes: dict[bool, Value] = {}
        self._item: Operand | None = None
        self._count: Operand | None = None

    def _ready(self, aside: bool) -> Value:
        editor = self._editor
        if self._count is None:
            self._count = item_count_at_top(editor, self._parallel)
            with editor.collect() as self.start:
                self._item = item_number(editor, self._parallel, self._parallel.ivs)
        if aside not in self._bytes:
            with editor.collect() as front:
                self._bytes[aside] = editor.alloca(I8, self._count, Space.SHARED, 64, "votes")
            self.front.extend(front)
            if aside:
                with editor.collect() as start:
                    editor.store(Const(I8, "0"), self._own(self._bytes[aside]))
                self.start.extend(start)
        return self._bytes[aside]

    def _own(self, votes: Value) -> Operand:
        return self._editor.gep(I8, votes, self._item, name="vote.own")

    def combine(self, code: Operand, how: str, aside: bool) -> Operand:
        """Builds the vote at the editor's place: `how` is "or" (an i8) or "add" (an i32 count of non-zero codes, which
        must be 0 or 1). `aside`: some work-items may not be here."""
        editor, votes = self._editor, self._ready(aside)
        type_ = I8 if how == "or" else I32
        editor.store(code, self._own(votes))
        editor.barrier(self._parallel.level)
        with editor.loop(0, self._count, 1, [Const(type_, "0")], ["votes.all"]) as loop:
            vote = editor.cast("zext", editor.load(I8, editor.gep(I8, votes, loop.iv, name="vote.at")), type_)
            loop.yield_(editor.binary(how, loop.args[0], vote))
        editor.barrier(self._parallel.level)
        if aside:
            editor.store(Const(I8, "0"), self._own(votes))
        return loop.results[0]
