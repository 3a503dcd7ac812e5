"""The linear number of a work-item among those of a `Parallel`: last induction variable fastest."""

from __future__ import annotations

from threadloom.cuda.lower.editor import Editor
from threadloom.par.constants import int_value
from threadloom.par.ops import I64, Const, Operand, Parallel


def item_number(editor: Editor, parallel: Parallel, ivs: tuple[Operand, ...]) -> Operand:
    """The number (i64) of the work-item at `ivs`, which stand for `parallel.ivs`."""
    number: Operand | None = None
    for iv, lower, upper in zip(ivs, parallel.lowers, parallel.uppers, strict=True):
        own = editor.sub(iv, lower)
        if number is None:
            number = own
        elif (int_value(lower), int_value(upper)) != (0, 1):  # an axis of extent 1 adds nothing
            number = editor.add(editor.mul(number, editor.sub(upper, lower), ("nuw",)), own, ("nuw",))
    return editor.cast("zext", number, I64, name="item")


def item_count(editor: Editor, parallel: Parallel) -> Operand:
    """How many work-items there are (i64), computed at the editor's place."""
    total: Operand = Const(I64, "1")
    for lower, upper in zip(parallel.lowers, parallel.uppers, strict=True):
        total = editor.mul(total, editor.cast("zext", editor.sub(upper, lower), I64, name="items"), name="items")
    return total


def item_count_at_top(editor: Editor, parallel: Parallel) -> Operand:
    """The same, computed at the start of the function: allocations must know their size outside parallel blocks."""
    with editor.collect() as ops:
        count = item_count(editor, parallel)
    editor.top.extend(ops)
    return count
