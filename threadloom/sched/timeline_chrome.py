"""A timeline as a Chrome trace (JSON), which opens in Perfetto and chrome://tracing.

Roles are one process and units another; tasks and waits are complete events, memory is a counter. A unit that several
roles use at once has a thread for each lane, since events of one thread may not overlap.
"""

from __future__ import annotations

import json

from threadloom.sched.timeline import Row, Timeline, lanes

ROLES, UNITS, MEMORY = 1, 2, 3
Event = dict[str, object]


def render_chrome(timeline: Timeline) -> str:
    events: list[Event] = [
        _name("process_name", ROLES, 0, "roles"),
        _name("process_name", UNITS, 0, "units"),
        _name("process_name", MEMORY, 0, "memory"),
    ]
    thread = 0
    for row in timeline.rows:
        thread = _row(timeline, row, thread, events)
    for curve in timeline.memory:
        for at, size_bytes in curve.points:
            event = {"ph": "C", "pid": MEMORY, "name": curve.space, "ts": _us(timeline, at)}
            events.append({**event, "args": {"bytes": size_bytes}})
    about = {
        "title": timeline.title,
        "device": timeline.device,
        "source": timeline.source,
        "tiles": dict(timeline.tiles),
        "ii_cycles": timeline.ii_cycles,
        "bounds_cycles": dict(timeline.bounds_cycles),
        "predicted_ns": timeline.predicted_ns,
        "rejected": [{"what": r.what, "reason": r.reason, "count": r.count} for r in timeline.rejected],
        "note": timeline.note,
    }
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def _us(timeline: Timeline, cycles: float) -> float:
    """Chrome's unit; three more digits than a nanosecond."""
    return round(cycles / timeline.clock_ghz / 1000, 6)


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _row(timeline: Timeline, row: Row, thread: int, events: list[Event]) -> int:
    """Events of one row on threads after `thread`; the last thread used."""
    process = ROLES if row.kind == "role" else UNITS
    placed = lanes([bar for bar in timeline.bars if bar.row == row.name])
    count = 1 + max((lane for _, lane in placed), default=0)
    for lane in range(count):
        events.append(_name("thread_name", process, thread + 1 + lane, row.name if lane == 0 else f"{row.name} {lane}"))
    for bar, lane in placed:
        args = {"instance": bar.instance, "role": bar.role, "loop": bar.loop, "stage": bar.stage}
        name = f"{bar.task} {bar.instance}"
        events.append(_complete(timeline, process, thread + 1 + lane, name, bar.start_cycles, bar.end_cycles, args))
    for stall in (s for s in timeline.stalls if s.row == row.name):
        args = {"reason": stall.reason, "signal": stall.signal, "instance": stall.instance}
        name = f"wait {stall.buffer}"
        event = _complete(timeline, process, thread + 1, name, stall.start_cycles, stall.end_cycles, args)
        events.append({**event, "cname": "grey"})
    return thread + count


def _complete(timeline: Timeline, process: int, thread: int, name: str, start: float, end: float, args: Event) -> Event:
    start_us = _us(timeline, start)
    event = {"ph": "X", "pid": process, "tid": thread, "name": name, "cat": timeline.source, "ts": start_us}
    return {**event, "dur": round(_us(timeline, end) - start_us, 6), "args": args}
