"""One format for timelines: planned (from a modulo schedule), simulated and measured (in-kernel clocks) look alike.

Rows are roles and sEUs; bars are sTask instances on a row; waits are bars on a role's row with their reason; memory
is a step curve per space. Times are cycles of the device's clock; `clock_ghz` makes them nanoseconds. Writers:
`timeline_text.py`, `timeline_svg.py`, `timeline_html.py`, `timeline_chrome.py`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TypeVar

SCHEMA = "threadloom.timeline/1"


@dataclass(frozen=True, slots=True)
class Row:
    """`kind`: "role" or "seu"."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Instance `instance` of `task`, issued by `role`, on row `row`; `loop` it stands in; `stage` of the pipeline."""

    row: str
    task: str
    instance: int
    start_cycles: float
    end_cycles: float
    role: str = ""
    loop: int = 0
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Stall:
    """Role `row` waited at `signal`; `why` (dependence, slot-free, order) and the edge src -> dst over buffer."""

    row: str
    signal: str
    why: str
    src: str
    dst: str
    buffer: str
    instance: int
    start_cycles: float
    end_cycles: float

    @property
    def reason(self) -> str:
        return f"{self.why}: {self.src} -> {self.dst} over {self.buffer}"


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes in use of a memory (`space`, or "reg of worker0"): a value holds until the next point."""

    space: str
    capacity_bytes: int
    points: tuple[tuple[float, int], ...]  # (cycles, bytes)

    @property
    def peak_bytes(self) -> int:
        return max((size_bytes for _, size_bytes in self.points), default=0)


@dataclass(frozen=True, slots=True)
class Rejected:
    """`count` configurations (of the kind `what`) that the search refused, and why."""

    what: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """`source`: planned, simulated or measured. `note`: anything to print below, such as why it stopped."""

    title: str
    device: str
    source: str
    clock_ghz: float
    rows: tuple[Row, ...]
    bars: tuple[Bar, ...]
    stalls: tuple[Stall, ...] = ()
    memory: tuple[MemoryCurve, ...] = ()
    ii_cycles: float = 0.0
    bounds_cycles: tuple[tuple[str, float], ...] = ()
    predicted_ns: float = 0.0
    tiles: tuple[tuple[str, int], ...] = ()
    rejected: tuple[Rejected, ...] = ()
    note: str = ""

    @property
    def end_cycles(self) -> float:
        return max((bar.end_cycles for bar in self.bars), default=0.0)

    def busy(self, row: str) -> float:
        """The share of the time in which something runs on `row`."""
        spans = sorted((b.start_cycles, b.end_cycles) for b in self.bars if b.row == row)
        total, upto = 0.0, 0.0
        for start, end in spans:
            total += max(0.0, end - max(start, upto))
            upto = max(upto, end)
        return total / self.end_cycles if self.end_cycles else 0.0

    def window(self, start_cycles: float, end_cycles: float) -> Timeline:
        """The part of the timeline between two moments, moved to begin at 0."""

        def cut(item: _Span) -> _Span:
            return dataclasses.replace(
                item,
                start_cycles=max(item.start_cycles, start_cycles) - start_cycles,
                end_cycles=min(item.end_cycles, end_cycles) - start_cycles,
            )

        def inside(item: Bar | Stall) -> bool:
            return item.end_cycles > start_cycles and item.start_cycles < end_cycles

        memory = tuple(
            dataclasses.replace(curve, points=_cut_points(curve.points, start_cycles, end_cycles))
            for curve in self.memory
        )
        return dataclasses.replace(
            self,
            bars=tuple(cut(b) for b in self.bars if inside(b)),
            stalls=tuple(cut(s) for s in self.stalls if inside(s)),
            memory=memory,
        )


_Span = TypeVar("_Span", Bar, Stall)


def _cut_points(points: tuple[tuple[float, int], ...], start: float, end: float) -> tuple[tuple[float, int], ...]:
    before = [size for at, size in points if at <= start]
    inside = [(at - start, size) for at, size in points if start < at < end]
    return ((0.0, before[-1] if before else 0), *inside)


def lanes(bars: list[Bar]) -> list[tuple[Bar, int]]:
    """Each bar with the first sub-row in which it overlaps no earlier bar (several roles share a vector unit)."""
    ends: list[float] = []
    placed: list[tuple[Bar, int]] = []
    for bar in sorted(bars, key=lambda b: (b.start_cycles, b.end_cycles)):
        lane = next((i for i, end in enumerate(ends) if end <= bar.start_cycles + 1e-6), len(ends))
        ends[lane:] = [bar.end_cycles, *ends[lane + 1 :]]
        placed.append((bar, lane))
    return placed


# ---------------------------------------------------------------- JSON


def to_json(timeline: Timeline) -> str:
    return json.dumps({"schema": SCHEMA, **dataclasses.asdict(timeline)}, indent=1)


def from_json(text: str) -> Timeline:
    """The timeline that `to_json` wrote; ValueError where the text is something else."""
    record = json.loads(text)
    if not isinstance(record, dict) or record.pop("schema", None) != SCHEMA:
        raise ValueError(f"not a timeline: the schema is not {SCHEMA}")
    try:
        return Timeline(
            rows=tuple(Row(**row) for row in record.pop("rows")),
            bars=tuple(Bar(**bar) for bar in record.pop("bars")),
            stalls=tuple(Stall(**stall) for stall in record.pop("stalls")),
            memory=tuple(
                MemoryCurve(m["space"], m["capacity_bytes"], tuple((p[0], p[1]) for p in m["points"]))
                for m in record.pop("memory")
            ),
            rejected=tuple(Rejected(**item) for item in record.pop("rejected")),
            bounds_cycles=tuple((name, cycles) for name, cycles in record.pop("bounds_cycles")),
            tiles=tuple((axis, extent) for axis, extent in record.pop("tiles")),
            **record,
        )
    except (KeyError, TypeError, IndexError) as broken:
        raise ValueError(f"not a timeline: {broken}") from broken
