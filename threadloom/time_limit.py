"""The time limit of compiling for a call, so that no call waits without end for a compiler.

LLVM and NVRTC cannot be interrupted, so they run in a thread of their own: at the limit the caller gets its error, and
the thread is left to end by itself. What it compiles is kept by the caches as always.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from threadloom import env
from threadloom.errors import CompileError, slug
from threadloom.tile.ops import Kernel

COMPILE_LIMIT = slug("compile-limit", "compiling a kernel for a call takes longer than the limit")


T = TypeVar("T")


def compile_within_limit(kernel: Kernel, work: Callable[[], T]) -> T:
    """What `work` returns or raises; CompileError (`compile-limit`) where that takes longer than
    LOOM_COMPILE_SECONDS."""
    seconds = env.compile_seconds()
    if not seconds:
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # the caller's, who raises it
            errors.append(error)

    thread = threading.Thread(target=run, name=f"compile {kernel.name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise CompileError(
            COMPILE_LIMIT,
            f"compiling {kernel.name} takes longer than {seconds:g} s",
            why="the code for these sizes is large, or the machine is busy; it is compiled further meanwhile",
            try_="the call again later, LOOM_COMPILE_SECONDS=600 (0: no limit), or a kernel in several parts",
            loc=kernel.loc,
        )
    return results[0]
