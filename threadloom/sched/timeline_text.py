"""A timeline as text for the terminal.

    gemm on h200: m=128 n=256 k=64, predicted 190.2 us, ii 1024 cycles (bounds: resource 1024)
                 0         500       1000      1500 cycles
    producer   |                                        |
    tma        |AAAABBBBBBBBAAAABBBBBBBB                 |   A load_a, B load_b
               |000000000000111111111111                 |
    worker0    |..............................DDDD       |

Each sEU and role has a line of letters (which sTask) and one of digits (which iteration, modulo 10); dots are waits.
With `color` the letters are coloured by iteration and the digits left out.
"""

from __future__ import annotations

from collections import defaultdict

from threadloom.sched.timeline import Bar, Row, Timeline, lanes

SPARKS = " ▁▂▃▄▅▆▇█"
COLORS = (33, 208, 35, 161, 135, 37, 178, 69, 167, 108)  # of 256, one per iteration modulo 10
MOST_STALLS = 6
MOST_ITERATIONS = 8
THINNEST = 0.03  # of a column; scalar code is not drawn


def render_text(timeline: Timeline, width: int = 100, color: bool = False, whole: bool = False) -> str:
    """Text at most `width` columns wide; the first iterations unless `whole`."""
    shown = timeline if whole else beginning(timeline)
    margin = max([8, *(len(row.name) for row in shown.rows)]) + 1
    columns = max(20, width - margin - 2)
    letters = task_letters(shown)
    lines = [_headline(timeline), " " * (margin + 1) + _scale(shown.end_cycles, columns)]
    used = {bar.row for bar in shown.bars}
    for row in (r for r in shown.rows if r.kind == "role" or r.name in used):
        lines += _row(shown, row, letters, margin, columns, color)
    lines.append("  " + ", ".join(f"{letter} {task}" for task, letter in letters.items()) + ", . waits")
    lines += _memory(shown, margin, columns)
    lines += _stalls(shown)
    lines += _rejected(timeline)
    if timeline.note:
        lines.append(f"  note: {timeline.note}")
    return "\n".join(line.rstrip() for line in lines)


def beginning(timeline: Timeline, iterations: int = MOST_ITERATIONS) -> Timeline:
    """The timeline up to the end of the first `iterations` of its innermost loop."""
    inner = max((bar.loop for bar in timeline.bars), default=0)
    first = [bar.end_cycles for bar in timeline.bars if bar.loop == inner and bar.instance < iterations]
    upto = max(first, default=timeline.end_cycles)
    return timeline if upto >= timeline.end_cycles else timeline.window(0.0, upto)


def task_letters(timeline: Timeline) -> dict[str, str]:
    """A letter for each task: one of its own where it has one left."""
    letters: dict[str, str] = {}
    spare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    for task in dict.fromkeys(bar.task for bar in timeline.bars):
        words = task.replace(".", "_").split("_")
        wanted = "".join([words[-1][:1], words[0][:1], *task]).upper()
        taken = set(letters.values())
        letters[task] = next((c for c in wanted + spare if c.isalpha() and c not in taken), "?")
    return letters


def _headline(timeline: Timeline) -> str:
    parts = [" ".join(f"{axis}={extent}" for axis, extent in timeline.tiles)] if timeline.tiles else []
    if timeline.predicted_ns:
        parts.append(f"predicted {duration(timeline.predicted_ns)}")
    if timeline.ii_cycles:
        bounds = ", ".join(f"{name} {cycles_text(cycles)}" for name, cycles in timeline.bounds_cycles)
        parts.append(f"ii {cycles_text(timeline.ii_cycles)} cycles" + (f" (bounds: {bounds})" if bounds else ""))
    return f"{timeline.title} on {timeline.device}, {timeline.source}: " + ", ".join(parts)


def duration(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"


def _scale(end_cycles: float, columns: int) -> str:
    step = nice_step(end_cycles / max(1, columns // 12))
    line = [" "] * (columns + 12)
    at = 0.0
    while at <= end_cycles:
        column = int(at / end_cycles * columns) if end_cycles else 0
        for offset, char in enumerate(cycles_text(at)):
            line[column + offset] = char
        at += step
    return "".join(line).rstrip() + " cycles"


def nice_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, at least `rough`."""
    power = 1.0
    while power * 10 <= rough:
        power *= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)


def _row(timeline: Timeline, row: Row, letters: dict[str, str], margin: int, columns: int, color: bool) -> list[str]:
    """One pair of lines for each lane of the row."""
    by_lane: dict[int, list[Bar]] = defaultdict(list)
    scale = columns / timeline.end_cycles if timeline.end_cycles else 0.0
    wide_enough = [
        b for b in timeline.bars if b.row == row.name and (b.end_cycles - b.start_cycles) * scale >= THINNEST
    ]
    for bar, lane in lanes(wide_enough):
        by_lane[lane].append(bar)
    lines = []
    for lane in sorted(by_lane) or [0]:
        cells: list[tuple[str, int | None]] = [(" ", None)] * columns
        if lane == 0:
            for stall in (s for s in timeline.stalls if s.row == row.name):
                _fill(cells, stall.start_cycles * scale, stall.end_cycles * scale, ".", None)
        for bar in by_lane.get(lane, []):
            _fill(cells, bar.start_cycles * scale, bar.end_cycles * scale, letters[bar.task], bar.instance)
        name = row.name if lane == 0 else ""
        if color:
            lines.append(f"{name:<{margin}}|{_colored(cells)}|")
            continue
        lines.append(f"{name:<{margin}}|{''.join(c for c, _ in cells)}|")
        if by_lane.get(lane):
            digits = "".join(" " if i is None else str(i % 10) for _, i in cells)
            lines.append(f"{'':<{margin}}|{digits}|")
    return lines


def _fill(cells: list[tuple[str, int | None]], start: float, end: float, char: str, instance: int | None) -> None:
    first = min(len(cells) - 1, int(start))
    for column in range(first, max(first + 1, min(len(cells), round(end)))):
        cells[column] = (char, instance)


def _colored(cells: list[tuple[str, int | None]]) -> str:
    out, current = [], -1
    for char, instance in cells:
        wanted = -1 if instance is None else COLORS[instance % len(COLORS)]
        if wanted != current:
            out.append("\x1b[0m" if wanted < 0 else f"\x1b[0m\x1b[1;38;5;{wanted}m")
            current = wanted
        out.append(char)
    return "".join(out) + ("\x1b[0m" if current >= 0 else "")


def _memory(timeline: Timeline, margin: int, columns: int) -> list[str]:
    lines = []
    for curve in timeline.memory:
        levels = []
        for column in range(columns):
            moment = (column + 0.5) / columns * timeline.end_cycles
            held = next((size for at, size in reversed(curve.points) if at <= moment), 0)
            level = round(held / curve.capacity_bytes * (len(SPARKS) - 1)) if curve.capacity_bytes else 0
            levels.append(SPARKS[min(len(SPARKS) - 1, max(level, 1 if held else 0))])
        name = curve.space.split(" of ")[-1] if " of " in curve.space else curve.space
        kind = f"{curve.space}: " if " of " in curve.space else ""
        lines.append(f"{name:<{margin}}|{''.join(levels)}|")
        lines.append(f"{'':<{margin}} {kind}peak {kib(curve.peak_bytes)} of {kib(curve.capacity_bytes)}")
    return lines


def kib(size_bytes: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= 10 * size or (size_bytes >= size and size_bytes % size == 0):
            return f"{size_bytes / size:.0f} {unit}"
    return f"{size_bytes} bytes"


def cycles_text(cycles: float, largest: float = 0.0) -> str:
    """1500, 2.5 M: millions where there are many, or where they stand beside a `largest` that has."""
    return f"{cycles / 1e6:.4g} M" if cycles and max(cycles, largest) >= 1e6 else f"{cycles:.0f}"


def bound_text(name: str) -> str:
    """A lower bound of an initiation interval by name: resource:role:core -> core, recurrence -> recurrence."""
    kind, _, which = name.partition(":")
    return which.removeprefix("role:").replace("@", " of ") if kind in ("resource", "memory") and which else kind


def stall_totals(timeline: Timeline) -> list[tuple[str, str, float]]:
    """(role, reason, cycles) of all waits, longest first."""
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for stall in timeline.stalls:
        totals[stall.row, stall.reason] += stall.end_cycles - stall.start_cycles
    return sorted(((row, reason, cycles) for (row, reason), cycles in totals.items()), key=lambda s: -s[2])


def _stalls(timeline: Timeline) -> list[str]:
    totals = stall_totals(timeline)
    lines = [f"  {row} waits {cycles_text(cycles)} cycles for {reason}" for row, reason, cycles in totals[:MOST_STALLS]]
    if len(totals) > MOST_STALLS:
        lines.append(f"  and {len(totals) - MOST_STALLS} shorter waits")
    return lines


def _rejected(timeline: Timeline) -> list[str]:
    return [f"  {r.count} {r.what} rejected: {r.reason}" for r in timeline.rejected]
