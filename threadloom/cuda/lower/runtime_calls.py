"""Runtime functions that lowered code calls; their bodies are in threadloom/cuda/runtime."""

from __future__ import annotations

from threadloom.cuda.lower.traverse import walk
from threadloom.par.ops import If, Leaf, Op, Yield

# (ptr file, i32 line): reports a barrier that only a part of the block reached, and does not return
DIVERGENT_BARRIER = "__loom_divergent_barrier"

# What instrumented kernels call (threadloom/cuda/check/instrument.py, runtime/check.cpp)
CHECK_LAUNCH, CHECK_BLOCK, CHECK_OBJECT = "__loom_check_launch", "__loom_check_block", "__loom_check_object"
CHECK_ACCESS, CHECK_PRIVATE, CHECK_FRESH = "__loom_check_access", "__loom_check_private", "__loom_check_fresh"
CHECK_CALLS = (CHECK_LAUNCH, CHECK_BLOCK, CHECK_OBJECT, CHECK_ACCESS, CHECK_PRIVATE, CHECK_FRESH)


def is_report(op: Op) -> bool:
    """An `if` that does nothing but report: once is as good as once per work-item."""
    if not isinstance(op, If) or op.results:
        return False
    inside = [inner for inner in walk((op,)) if inner is not op and not isinstance(inner, Yield)]
    return bool(inside) and all(isinstance(i, Leaf) and i.attrs.callee == DIVERGENT_BARRIER for i in inside)
