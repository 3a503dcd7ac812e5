"""The terminal: rich where someone looks, plain text where output goes to a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from threadloom.sched.timeline import Timeline

PLAIN_WIDTH = 160


def stdout(quiet: bool = False) -> Console:
    """A console on standard output; not a terminal: no colours, and lines as long as they are."""
    import sys

    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, soft_wrap=True, quiet=quiet)
    return Console(highlight=False, soft_wrap=True, no_color=True, width=PLAIN_WIDTH, quiet=quiet)


def table(out: Console, columns: tuple[str, ...], right: tuple[int, ...] = ()) -> Table:
    """An empty table; `right` numbers the columns that are aligned to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, header_style="bold")
    for number, title in enumerate(columns):
        made.add_column(title, justify="right" if number in right else "left", no_wrap=True)
    return made


def print_timeline(timeline: Timeline, brief: bool = False) -> None:
    """A timeline as wide as the terminal, in colours where there is one; `brief`: without memory, stalls and reasons
    for rejections."""
    import dataclasses
    import shutil
    import sys

    from threadloom.sched.timeline_text import beginning, render_text

    is_terminal = sys.stdout.isatty()
    width = min(PLAIN_WIDTH, shutil.get_terminal_size((110, 40)).columns) if is_terminal else 110
    if brief:
        tightest = sorted(timeline.bounds_cycles, key=lambda bound: -bound[1])[:1]
        timeline = dataclasses.replace(
            beginning(timeline, 4), memory=(), stalls=(), rejected=(), bounds_cycles=tuple(tightest)
        )
    print(render_text(timeline, width=width, color=is_terminal))


def rate(per_second: float, unit: str) -> str:
    """2.8e11, "FLOP/s" -> "280 GFLOP/s"."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if per_second >= size:
            return f"{per_second / size:.3g} {prefix}{unit}"
    return f"{per_second:.3g} {unit}"
