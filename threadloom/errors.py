"""The two kinds of error.

`CompileError`: the user can mend it. It says what is wrong, where (source line and caret), why in half a
line, and what to try. `InternalError`: our bug; it names the folder of dumps and the command that replays
them. Every user error has a slug (its stable name, used by tests and docs); the slugs are listed in
`SLUGS`, so that one place shows all that can go wrong.
"""

from __future__ import annotations

from threadloom.source import Loc, excerpt

# slug -> one line for docs/errors.md. A CompileError with a slug that is not here is itself an InternalError.
SLUGS: dict[str, str] = {}


def slug(name: str, meaning: str) -> str:
    """Register the slug `name`; modules call this at import so that the slug stands beside the check."""
    SLUGS[name] = meaning
    return name


class ThreadloomError(Exception):
    """Base of everything this package raises on purpose."""


class CompileError(ThreadloomError):
    """The user's input is at fault and the user can mend it.

    what: one sentence; why: half a line; try_: what to change; loc: where.
    """

    def __init__(self, slug: str, what: str, *, why: str = "", try_: str = "", loc: Loc | None = None):
        if slug not in SLUGS:
            raise InternalError(f"error slug {slug!r} is not registered")
        self.slug, self.what, self.why, self.try_, self.loc = slug, what, why, try_, loc
        super().__init__(self.render())

    def render(self) -> str:
        head = f"{self.loc}: " if self.loc else ""
        parts = [f"{head}error[{self.slug}]: {self.what}"]
        if self.loc and (shown := excerpt(self.loc)):
            parts.append(shown)
        if self.why:
            parts.append(f"  why: {self.why}")
        if self.try_:
            parts.append(f"  try: {self.try_}")
        return "\n".join(parts)


class InternalError(ThreadloomError):
    """A bug of ours; `replay` is a command that reproduces it where one is known."""

    def __init__(self, message: str, replay: str = ""):
        super().__init__(message + (f"\n  replay: {replay}" if replay else ""))
