"""The terminal: rich where someone looks, plain text where output goes to a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from threadloom.sched.timeline import Timeline


def stdout() -> Console:
    """A console on standard output; not a terminal: no colours, and lines as long as they are."""
    import sys

    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, soft_wrap=True)
    return Console(highlight=False, soft_wrap=True, no_color=True, width=160)


def print_timeline(timeline: Timeline) -> None:
    """A timeline as wide as the terminal, in colours where there is one."""
    import shutil
    import sys

    from threadloom.sched.timeline_text import render_text

    is_terminal = sys.stdout.isatty()
    width = min(160, shutil.get_terminal_size((110, 40)).columns) if is_terminal else 110
    print(render_text(timeline, width=width, color=is_terminal))
