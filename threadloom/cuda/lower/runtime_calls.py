"""Runtime functions that lowered code calls; their bodies are in threadloom/cuda/runtime."""

from __future__ import annotations

from threadloom.cuda.lower.traverse import walk
from threadloom.par.ops import If, Leaf, Op, Yield

# (ptr file, i32 line): reports a barrier that only a part of the block reached, and does not return
DIVERGENT_BARRIER = "__loom_divergent_barrier"
# (ptr file, i32 line, i64 turns) -> i64: a loop that another thread may have to end has gone on for that many turns; it
# calls again after as many as that returns
WAITING = "__loom_waiting"

# What instrumented kernels call (threadloom/cuda/check/instrument.py, runtime/check.cpp)
CHECK_LAUNCH, CHECK_BLOCK, CHECK_START = "__loom_check_launch", "__loom_check_block", "__loom_check_start"
CHECK_OBJECT, CHECK_WATCH, CHECK_PROVED = "__loom_check_object", "__loom_check_watch", "__loom_check_proved"
CHECK_BASE, CHECK_EXTENT, CHECK_SHADOWS = "__loom_check_base", "__loom_check_extent", "__loom_check_shadows"
CHECK_QUICK, CHECK_QUICK_BYTES = "__loom_check_quick", "__loom_check_quick_bytes"
CHECK_ACCESS, CHECK_OUTSIDE, CHECK_FRESH = "__loom_check_access", "__loom_check_outside", "__loom_check_fresh"
CHECK_COPY, CHECK_COPY_PRIVATE = "__loom_check_copy", "__loom_check_copy_private"
CHECK_THREADS = "__loom_check_threads"
CHECK_FENCE, CHECK_GRID, CHECK_WRITTEN = "__loom_check_fence", "__loom_check_grid", "__loom_check_written"
CHECK_ARRIVE, CHECK_DEPART = "__loom_check_arrive", "__loom_check_depart"
CHECK_ASIDE, CHECK_COMES, CHECK_NAMED = "__loom_check_aside", "__loom_check_comes", "__loom_check_named"
CHECK_CALLS = (
    CHECK_LAUNCH, CHECK_BLOCK, CHECK_START, CHECK_OBJECT, CHECK_WATCH, CHECK_BASE, CHECK_EXTENT, CHECK_SHADOWS,
    CHECK_QUICK, CHECK_QUICK_BYTES, CHECK_ACCESS, CHECK_OUTSIDE, CHECK_FRESH, CHECK_FENCE, CHECK_GRID,
    CHECK_COPY, CHECK_COPY_PRIVATE, CHECK_PROVED, CHECK_WRITTEN, CHECK_THREADS, CHECK_ARRIVE, CHECK_DEPART,
    CHECK_ASIDE, CHECK_COMES, CHECK_NAMED,
)  # fmt: skip
CHECK_PASSED, CHECK_PRIVATE = "__loom_check_passed", "__loom_check_private"  # defined in check/inline_calls.py
CHECK_TOGETHER = "__loom_check_together"  # as passed, in kernels whose threads all count the same


def is_check_call(callee: str) -> bool:
    """The checker keeps books beside the program's memory, and touches none of it."""
    return callee.startswith("__loom_check_")


def is_report(op: Op) -> bool:
    """An `if` that does nothing but report: once is as good as once per work-item."""
    if not isinstance(op, If) or op.results:
        return False
    inside = [inner for inner in walk((op,)) if inner is not op and not isinstance(inner, Yield)]
    return bool(inside) and all(isinstance(i, Leaf) and i.attrs.callee == DIVERGENT_BARRIER for i in inside)
