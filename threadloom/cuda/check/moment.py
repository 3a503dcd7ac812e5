"""When an access is: the position that instrumented kernels count, per thread.

    interval : 30 | __syncwarp : 5 | fences : 3 | zeros : 26         (runtime/check.h)

A block begins an interval, and so does each barrier that it passes. A kernel where nothing counts has no counter at
all; in others it is read again behind every operation that may have changed it. Where some __syncwarp may be for a part
of a warp, the runtime is told who comes to each and who goes on (runtime/check_warps.cpp).
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.runtime_calls import (
    CHECK_ARRIVE,
    CHECK_BLOCK,
    CHECK_DEPART,
    CHECK_FENCE,
    CHECK_GRID,
    CHECK_PASSED,
    CHECK_START,
    CHECK_TOGETHER,
)
from threadloom.cuda.lower.separators import GRID_SYNC, collective_scope
from threadloom.cuda.lower.thread_number import item_number
from threadloom.cuda.lower.traverse import walk
from threadloom.par.constants import int_value
from threadloom.par.ops import I32, I64, PTR, Barrier, Block, Const, Function, Leaf, Level, Op, Operand, Parallel, Value

INTERVAL_SHIFT, WARP_SHIFT, FENCES_SHIFT = 34, 29, 26
_ONE_INTERVAL, _ONE_WARP, _ONE_FENCE = 1 << INTERVAL_SHIFT, 1 << WARP_SHIFT, 1 << FENCES_SHIFT
_WHOLE_WARP = -1
_WARP_MASK, _FENCES_MASK = 31 << WARP_SHIFT, 7 << FENCES_SHIFT


def step_of(op: Op) -> str:
    """ "block", "grid", "warp", "fence", or "" for what does not count."""
    if isinstance(op, Barrier):
        return "block" if op.scope is Level.THREADS else ""
    if not isinstance(op, Leaf):
        return ""
    if op.opcode == "fence":  # an acq_rel fence is one of a block (headers/loom/execution.h)
        return "fence" if op.attrs.ordering == "seq_cst" else ""
    if op.opcode in ("atomicrmw", "cmpxchg", "store") and op.attrs.ordering in ("release", "acq_rel", "seq_cst"):
        return "fence"
    scope = collective_scope(op)
    if scope == "warp":
        return "warp" if op.attrs.callee == "loom.syncwarp" else ""
    return scope


def steps_inside(op: Op) -> bool:
    return any(step_of(inner) for inner in walk((op,)))


class Clock:
    """Builds the counting; `block`, `start`, `thread` and `read()` are what checks need."""

    def __init__(self, kernel: Function, editor: Editor):
        ops = tuple(walk(kernel.body.ops)) if kernel.body else ()
        self.editor = editor
        self.counts = any(step_of(op) for op in ops)
        self.together = all(step_of(op) in ("", "block") for op in ops)
        self.in_parts = any(step_of(op) == "warp" and int_value(op.operands[0]) != _WHOLE_WARP for op in ops)
        self.meetings = 0
        self.grid = any(isinstance(op, Leaf) and op.attrs.callee == GRID_SYNC for op in ops)
        self.block: Operand = Const(PTR, "null")
        self.thread: Operand = Const(I32, "0")
        self._code: Operand = Const(I64, "0")
        self.start: Operand = Const(I64, "0")
        self._counter: Value | None = None
        self._now: tuple[Operand, Operand] | None = None

    def begin_block(self) -> None:
        self.block = self.editor.call(CHECK_BLOCK, [Const(I32, str(int(self.grid)))], PTR, name="check.block")
        self.start = self.editor.call(CHECK_START, [self.block], I64, name="check.start")

    def begin_thread(self, op: Parallel) -> None:
        self.thread = self.editor.cast("trunc", item_number(self.editor, op, op.ivs), I32, name="check.thread")
        twice = self.editor.shl(self.editor.cast("zext", self.thread, I64), 1)
        self._code = self.editor.add(twice, 3, name="check.code")
        if self.counts:
            self._counter = self.editor.alloca(I64, 1, name="check.position")
            self.editor.store(self.start, self._counter)
        self._now = None

    def read(self) -> tuple[Operand, Operand]:
        """The thread's position, and that with its own number (inline_calls.py)."""
        if self._now is None:
            position = self.start if self._counter is None else self.editor.load(I64, self._counter, name="position")
            self._now = position, self.editor.or_(position, self._code, name="own")
        return self._now

    def forget(self) -> None:
        self._now = None

    def inside(self, changes: bool, build: Callable[[], Block]) -> Block:
        """A region: it sees what was read outside unless something in it counts; what it reads stays in it."""
        outer = self._now
        if changes:
            self._now = None
        block = build()
        self._now = outer
        return block

    def comes(self, op: Op) -> None:
        """Goes in front of `op`."""
        if step_of(op) == "warp" and self.in_parts:
            assert isinstance(op, Leaf)
            self.meetings += 1
            self._tell(CHECK_ARRIVE, op)

    def _tell(self, callee: str, op: Leaf) -> None:
        position, _ = self.read()
        site = Const(I32, str(self.meetings))
        self.editor.call(callee, [self.block, self.thread, position, op.operands[0], site])

    @staticmethod
    def orders_first(op: Op) -> bool:
        """An atomic that releases: its fence comes before it."""
        return isinstance(op, Leaf) and op.opcode in ("atomicrmw", "cmpxchg", "store") and step_of(op) == "fence"

    def step(self, op: Op) -> None:
        kind = step_of(op)
        if not kind or self._counter is None:
            return
        editor = self.editor
        if kind == "warp" and self.in_parts:
            self._tell(CHECK_DEPART, op)
        old = editor.load(I64, self._counter, name="position")
        match kind:
            case "block" | "grid":
                new = editor.add(editor.and_(old, -_ONE_INTERVAL), _ONE_INTERVAL)
            case "warp":
                count = editor.and_(editor.add(old, _ONE_WARP), _WARP_MASK)
                new = editor.or_(editor.and_(old, ~_WARP_MASK), count)
            case _:
                full = editor.icmp("eq", editor.and_(old, _FENCES_MASK), _FENCES_MASK)
                new = editor.select(full, old, editor.add(old, _ONE_FENCE))
        editor.store(new, self._counter)
        if kind in ("block", "grid"):
            editor.call(CHECK_TOGETHER if self.together else CHECK_PASSED, [self.block, new])
        if kind == "grid":
            editor.call(CHECK_GRID, [self.block, new])
        if kind == "fence":
            editor.call(CHECK_FENCE, [self.block, self.thread, new])
        self._now = None
