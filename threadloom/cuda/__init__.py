"""CUDA C++ on this CPU. `compile` makes kernels that Python calls; `loom cc` makes programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadloom.cuda.program import Kernel as Kernel
    from threadloom.cuda.program import Program as Program
    from threadloom.cuda.program import compile as compile


def __getattr__(name: str) -> object:
    if name in ("compile", "Kernel", "Program"):
        from threadloom.cuda import program

        return getattr(program, name)
    raise AttributeError(f"module 'threadloom.cuda' has no attribute {name!r}")
