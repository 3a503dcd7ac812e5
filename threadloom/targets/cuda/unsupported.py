"""What the CUDA generator has no code for: one error, which says where in the user's kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadloom.errors import CompileError, slug
from threadloom.source import Loc

NO_CODE = slug("gpu-no-code", "the generator of GPU code has no code for an operation, in the form this plan needs")


class SharedMemoryShort(CompileError):
    """The code of a plan takes more shared memory than there is; that of one with smaller tiles may not."""


def no_code(what: str, why: str, loc: Loc | None, try_: str = "write it another way, or on the CPU") -> CompileError:
    """The error to raise. `what`: one clause about the operation; `why`: what form there is no code for."""
    return CompileError(NO_CODE, f"there is no GPU code for {what}", why=why, try_=try_, loc=loc)


@contextmanager
def located(loc: Loc | None) -> Iterator[None]:
    """Errors of the code inside that say no place happened at `loc`."""
    try:
        yield
    except CompileError as e:
        if e.slug != NO_CODE or e.loc is not None or loc is None:
            raise
        raise type(e)(e.slug, e.what, why=e.why, try_=e.try_, loc=loc) from e
