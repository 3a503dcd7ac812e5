"""The terminal: rich where someone looks, plain text where output goes to a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def stdout() -> Console:
    """A console on standard output; not a terminal: no colours, and lines as long as they are."""
    import sys

    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, soft_wrap=True)
    return Console(highlight=False, soft_wrap=True, no_color=True, width=160)
