"""A timeline as a picture for papers and pages: rows are roles and units, bars sTasks coloured by iteration.

Hatched bars are waits, below the rows memory over time. Light and dark follow the reader's setting. The hover text of a
bar or wait tells everything about it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from html import escape

from threadloom.sched.timeline import Bar, MemoryCurve, Row, Timeline, lanes
from threadloom.sched.timeline_text import (
    beginning,
    bound_text,
    cycles_text,
    duration,
    kib,
    nice_step,
    stall_totals,
    task_letters,
)

# One hue per iteration modulo 8, readable with black text; distinct also to most colour-blind eyes when side by side.
ITERATIONS = ("#8ec1ea", "#f6b26b", "#93d1a5", "#e79cb8", "#c3b1e8", "#f3d86b", "#7fd0cf", "#d9a88a")
OUTER = ("#c9ced6", "#aab2bd")  # tasks of the outermost loop, by tile
LEFT, RIGHT, TOP = 118, 20, 66
LANE, GAP, MEMORY = 22, 7, 40
CHARACTER = 6.3  # width of one at the labels' size, in pixels
MOST_STALLS, MOST_REJECTED = 4, 4
THINNEST = 0.3  # pixels

STYLE = """
svg{font-family:Inter,"DejaVu Sans",Helvetica,Arial,sans-serif;background:#fff}
text{fill:#1d2530}
.title{font-size:15px;font-weight:600} .sub{font-size:11px;fill:#55606e}
.row{font-size:12px} .tick{font-size:10px;fill:#6b7683}
.bar{stroke:#fff;stroke-width:1} .label{font-size:10.5px;fill:#10151c;pointer-events:none}
.peer{fill:#1d2530;fill-opacity:.65;pointer-events:none}
.grid{stroke:#e3e7ec;stroke-width:1} .lane{fill:#f6f7f9}
.wait{fill:url(#hatch);stroke:#b9c1cb;stroke-width:.5} .hatchline{stroke:#c3cad3;stroke-width:1.5}
.waitlabel{font-size:9.5px;fill:#6b7683;pointer-events:none}
.mem{fill:#9db7d5;fill-opacity:.55;stroke:#5d7fa6;stroke-width:1}
.cap{stroke:#c0504d;stroke-width:1;stroke-dasharray:4 3} .ii{stroke:#55606e;stroke-width:1.2;fill:none}
@media (prefers-color-scheme:dark){
svg{background:#14181e} text{fill:#e6eaf0} .bar{stroke:#14181e} .label{fill:#10151c}
.sub,.tick,.waitlabel{fill:#9aa5b3} .grid{stroke:#2a313b} .lane{fill:#1b2129}
.wait,.hatchline{stroke:#3b4552} .mem{fill:#3d5c80;stroke:#7fa3cc} .ii{stroke:#9aa5b3}}
""".strip()
HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><line class="hatchline" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>'
)


def render_svg(timeline: Timeline, width: int = 1100, whole: bool = False, end_cycles: float = 0.0) -> str:
    """The first iterations of the timeline, or the whole of it, `width` pixels wide; `end_cycles`: of an axis that is
    longer than they are."""
    return _Drawing(timeline, timeline if whole else beginning(timeline), width, end_cycles).text()


def render_both(planned: Timeline, measured: Timeline, width: int = 1100) -> str:
    """The predicted timeline above the measured one, in one picture, on the same axis."""
    both = (planned, measured)
    end_cycles = max(beginning(t).end_cycles for t in both)
    pictures, tops, height = [render_svg(t, width, end_cycles=end_cycles) for t in both], [], 0.0
    for picture in pictures:
        tops.append(height)
        height += float(re.search(r'height="([0-9.]+)"', picture)[1])
    inner = [p.replace("<svg ", f'<svg y="{top:.0f}" ', 1) for p, top in zip(pictures, tops, strict=True)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}">'
    return "\n".join([head, *inner, "</svg>", ""])


def color_of(bar: Bar, inner: int) -> str:
    """Tasks of the innermost loop by iteration (of the grid, where there is no other), the rest in grey by tile."""
    return ITERATIONS[bar.instance % len(ITERATIONS)] if bar.loop == inner else OUTER[bar.instance % 2]


class _Drawing:
    def __init__(self, timeline: Timeline, shown: Timeline, width: int, end_cycles: float = 0.0):
        self.full, self.shown, self.width = timeline, shown, width
        self.end_cycles = max(shown.end_cycles, end_cycles)
        self.scale = (width - LEFT - RIGHT) / self.end_cycles if self.end_cycles else 0.0
        self.letters = task_letters(shown)
        self.inner = max((bar.loop for bar in timeline.bars), default=0)
        self.abbreviated: set[str] = set()
        self.named: set[str] = set()
        self.visible = {bar.task for bar in shown.bars if self._is_visible(bar)}
        self.issuers: dict[tuple[str, str], list[str]] = {}
        for bar in (b for b in timeline.bars if self._is_visible(b)):
            peers = self.issuers.setdefault((bar.row, bar.task), [])
            if bar.role not in peers:
                peers.append(bar.role)
                peers.sort()
        self.parts: list[str] = []
        self.y = float(TOP)

    def text(self) -> str:
        top = self.y
        used = {bar.row for bar in self.shown.bars}
        rows = [row for row in self.shown.rows if row.kind == "role" or row.name in used]
        for kind in dict.fromkeys(row.kind for row in rows):
            for row in (r for r in rows if r.kind == kind):
                self._row(row)
            self.y += GAP
        self._interval()
        if self.shown.memory:
            self.y += GAP
            for curve in self.shown.memory:
                self._memory(curve)
        grid = self._axis(top)
        self._legend()
        self._notes()
        height = self.y + 10
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height:.0f}" '
            f'viewBox="0 0 {self.width} {height:.0f}" role="img" aria-label="{escape(self.full.title)}">'
        )
        return "\n".join([head, f"<style>{STYLE}</style>", HATCH, *self._titles(), *grid, *self.parts, "</svg>", ""])

    def _is_visible(self, bar: Bar) -> bool:
        """Scalar code takes a cycle or two: a line too thin to see, which would only take a lane of its own."""
        return (bar.end_cycles - bar.start_cycles) * self.scale >= THINNEST

    def x(self, cycles: float) -> float:
        return LEFT + cycles * self.scale

    # ------------------------------------------------------------ rows

    def _row(self, row: Row) -> None:
        placed = lanes([bar for bar in self.shown.bars if bar.row == row.name and self._is_visible(bar)])
        count = 1 + max((lane for _, lane in placed), default=0)
        height = count * LANE
        wide = self.width - LEFT - RIGHT
        self.parts.append(f'<rect class="lane" x="{LEFT}" y="{self.y:.1f}" width="{wide}" height="{height}" rx="3"/>')
        middle = self.y + height / 2 + 4
        self.parts.append(_text(LEFT - 8, middle, row.name, "row", "end"))
        for stall in (s for s in self.shown.stalls if s.row == row.name):
            self._stall(stall.start_cycles, stall.end_cycles, stall.buffer, f"{stall.row} waits: {stall.reason}")
        for bar, lane in placed:
            self._bar(bar, self.y + lane * LANE)
        self.y += height + GAP

    def _bar(self, bar: Bar, y: float) -> None:
        x, wide = self.x(bar.start_cycles), max(0.8, (bar.end_cycles - bar.start_cycles) * self.scale)
        cycles = bar.end_cycles - bar.start_cycles
        about = f"{bar.task} [{bar.instance}], issued by {bar.role}, {cycles:.0f} cycles from {bar.start_cycles:.0f}"
        self.parts.append(
            f'<rect class="bar" x="{x:.1f}" y="{y + 1:.1f}" width="{wide:.1f}" height="{LANE - 2}" rx="2.5" '
            f'fill="{color_of(bar, self.inner)}"><title>{escape(about)}</title></rect>'
        )
        peers = self.issuers[bar.row, bar.task]
        if len(peers) > 1 and bar.role != bar.row and (number := peers.index(bar.role)):
            inset = min(3.0, wide / 4)
            self.parts.append(
                f'<rect class="peer" x="{x + inset:.1f}" y="{y + LANE - 4.5:.1f}" width="{wide - 2 * inset:.1f}" '
                f'height="{1.5 * number:.1f}"/>'
            )
        if label := self._label(bar, wide):
            self.parts.append(_text(x + wide / 2, y + LANE / 2 + 3.8, label, "label", "middle"))

    def _label(self, bar: Bar, wide: float) -> str:
        """The longest name that fits; a letter is explained in the legend."""
        letter = self.letters[bar.task]
        for label in (f"{bar.task} {bar.instance}", f"{letter}{bar.instance}", letter):
            if len(label) * CHARACTER + 4 <= wide:
                (self.named if label.startswith(bar.task) else self.abbreviated).add(bar.task)
                return label
        return ""

    def _stall(self, start: float, end: float, buffer: str, about: str) -> None:
        x, wide = self.x(start), (end - start) * self.scale
        if wide < 1.0:
            return
        about = f"{about}, {end - start:.0f} cycles from {start:.0f}"
        self.parts.append(
            f'<rect class="wait" x="{x:.1f}" y="{self.y + 4:.1f}" width="{wide:.1f}" height="{LANE - 8}" rx="2">'
            f"<title>{escape(about)}</title></rect>"
        )
        for label in (f"waits for {buffer}", buffer):
            if len(label) * 5.6 + 6 <= wide:
                self.parts.append(_text(x + wide / 2, self.y + LANE / 2 + 3.4, label, "waitlabel", "middle"))
                return

    def _interval(self) -> None:
        """One initiation interval, below the rows, where the busiest unit starts an iteration."""
        ii, end = self.full.ii_cycles, self.shown.end_cycles
        units = [row.name for row in self.shown.rows if row.kind == "seu"]
        busiest = max(units, key=self.shown.busy, default="")
        starts = [b.start_cycles for b in self.shown.bars if b.row == busiest and b.loop == self.inner]
        fitting = sorted(start for start in starts if start + ii <= end)
        if not self.inner or not fitting or not ii or ii * self.scale < 24:
            return
        start = fitting[len(fitting) // 2]
        left, right, y = self.x(start), self.x(start + ii), self.y + 2
        self.parts.append(f'<path class="ii" d="M{left:.1f},{y - 5:.1f}v6H{right:.1f}v-6"/>')
        self.parts.append(_text((left + right) / 2, y + 12, f"ii {cycles_text(ii)}", "tick", "middle"))
        self.y += 16

    # ------------------------------------------------------------ memory, axis, words

    def _memory(self, curve: MemoryCurve) -> None:
        top, base = self.y, self.y + MEMORY
        scale = (MEMORY - 4) / max(curve.capacity_bytes, curve.peak_bytes, 1)
        end = self.shown.end_cycles
        path, level = [f"M{self.x(0):.1f},{base:.1f}"], base
        for at, size_bytes in curve.points:
            x = self.x(min(at, end))
            path.append(f"L{x:.1f},{level:.1f}")
            level = base - size_bytes * scale
            path.append(f"L{x:.1f},{level:.1f}")
        path.append(f"L{self.x(end):.1f},{level:.1f} L{self.x(end):.1f},{base:.1f} Z")
        self.parts.append(f'<path class="mem" d="{" ".join(path)}"/>')
        limit = base - curve.capacity_bytes * scale
        right = self.width - RIGHT
        self.parts.append(f'<line class="cap" x1="{LEFT}" x2="{right}" y1="{limit:.1f}" y2="{limit:.1f}"/>')
        self.parts.append(_text(LEFT - 8, top + 18, curve.space.replace(" of ", ", "), "row", "end"))
        words = f"{kib(curve.peak_bytes)} of {kib(curve.capacity_bytes)}"
        self.parts.append(_text(LEFT - 8, top + 32, words, "tick", "end"))
        self.y += MEMORY + 8

    def _axis(self, top: float) -> list[str]:
        """Vertical lines at round numbers of cycles."""
        end, grid = self.end_cycles, []
        step = nice_step(max(1.0, end / 10))
        at = 0.0
        while at <= end:
            x = self.x(at)
            grid.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4:.1f}" y2="{self.y:.1f}"/>')
            grid.append(_text(x, top - 8, cycles_text(at, end), "tick", "middle"))
            at += step
        grid.append(_text(LEFT - 8, top - 8, "cycles", "tick", "end"))
        return grid

    def _titles(self) -> Iterable[str]:
        full = self.full
        tiles = " ".join(f"{axis}={extent}" for axis, extent in full.tiles)
        about = [f"{full.source} on {full.device} at {full.clock_ghz:g} GHz"]
        about += [f"tiles {tiles}"] if tiles else []
        about += [f"predicted {duration(full.predicted_ns)}"] if full.predicted_ns else []
        if full.ii_cycles:
            tightest = max(full.bounds_cycles, key=lambda bound: bound[1], default=None)
            text = f"ii {cycles_text(full.ii_cycles)} cycles"
            about.append(text + (f" (bound {cycles_text(tightest[1])}: {bound_text(tightest[0])})" if tightest else ""))
        yield _text(14, 24, full.title, "title")
        yield _text(14, 41, ", ".join(about), "sub")

    def _legend(self) -> None:
        """Colours of iterations, the hatch, and the letters in use."""
        self.y += 16
        x = float(LEFT)
        used = sorted({bar.instance % len(ITERATIONS) for bar in self.shown.bars if bar.loop == self.inner})
        if used:
            self.parts.append(_text(x, self.y + 10, "iteration" if self.inner else "tile", "sub"))
            x += 58
            for number in used:
                self.parts.append(f'<rect x="{x:.0f}" y="{self.y:.0f}" width="14" height="12" rx="2" '
                                  f'fill="{ITERATIONS[number]}"/>')  # fmt: skip
                self.parts.append(_text(x + 7, self.y + 9.6, str(number), "label", "middle"))
                x += 17
            x += 14
        if self.shown.stalls:
            self.parts.append(f'<rect class="wait" x="{x:.0f}" y="{self.y:.0f}" width="22" height="12" rx="2"/>')
            self.parts.append(_text(x + 27, self.y + 10, "waits", "sub"))
            x += 74
        if self.shown.memory:
            self.parts.append(f'<line class="cap" x1="{x:.0f}" x2="{x + 22:.0f}" y1="{self.y + 6}" y2="{self.y + 6}"/>')
            self.parts.append(_text(x + 27, self.y + 10, "capacity", "sub"))
            x += 96
        x = self._peers(x)
        short = [f"{self.letters[t]} {t}" for t in self.letters if t in self.abbreviated]
        narrow = [t for t in self.letters if t in self.visible - self.abbreviated - self.named]
        if narrow:
            short.append("too narrow for names: " + " ".join(narrow))
        line, room = "", (self.width - RIGHT - x) / 6.0
        for item in short:
            if len(line) + len(item) + 3 > room and line:
                self.parts.append(_text(x, self.y + 10, line, "sub"))
                self.y += 15
                x, line, room = float(LEFT), "", (self.width - LEFT - RIGHT) / 6.0
            line += (", " if line else "") + item
        if line:
            self.parts.append(_text(x, self.y + 10, line, "sub"))
        self.y += 14

    def _peers(self, x: float) -> float:
        """What the line at the bottom of a bar means."""
        roles = max(self.issuers.values(), key=len, default=[])
        if len(roles) < 2:
            return x
        color = ITERATIONS[0]
        for number, role in enumerate(roles):
            self.parts.append(f'<rect x="{x:.0f}" y="{self.y:.0f}" width="22" height="12" rx="2" fill="{color}"/>')
            if number:
                line = f'y="{self.y + 8:.0f}" width="18" height="{1.5 * number:.1f}"'
                self.parts.append(f'<rect class="peer" x="{x + 2:.0f}" {line}/>')
            self.parts.append(_text(x + 27, self.y + 10, role, "sub"))
            x += 34 + 6.2 * len(role)
        return x + 10

    def _notes(self) -> None:
        totals: dict[tuple[str, str], float] = defaultdict(float)
        for row, reason, cycles in stall_totals(self.full):
            totals[row, reason] += cycles
        notes = [f"{row} waits {cycles_text(cycles)} cycles for {reason}" for (row, reason), cycles in totals.items()][
            :MOST_STALLS
        ]
        notes += [f"{r.count} {r.what} rejected: {r.reason}" for r in self.full.rejected[:MOST_REJECTED]]
        notes += [self.full.note] if self.full.note else []
        for note in notes:
            self.y += 15
            self.parts.append(_text(LEFT, self.y, note, "sub"))


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'
