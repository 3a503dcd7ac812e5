"""A measured timeline, from clocks read inside a kernel (or around a core's tasks), in the format of the planned one.

A generator that instruments a program stores, for each executed instruction that it times, one record: which
instruction of which section, its running instance, and the clock before and after. Issues become bars (of a
synchronous unit also on the unit's row; of an asynchronous one the role's row shows the time that issuing took), waits
become stalls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadloom.machine.model import Device
from threadloom.sched.ops import Issue, SProgram, Wait
from threadloom.sched.timeline import Bar, Row, Stall, Timeline

SHORTEST_STALL_CYCLES = 8.0  # a wait that passes at once is no stall


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """Instruction number `position` of `role`'s section of `loop`, at running instance `instance`."""

    role: str
    loop: int
    position: int
    instance: int
    start_cycles: float
    end_cycles: float


def measured_timeline(
    program: SProgram, device: Device, records: Iterable[ClockRecord], clock_ghz: float | None = None
) -> Timeline:
    """`clock_ghz`: the clock the records were counted in, where it is not the model's. Times begin at the first record;
    records that name no instruction of the program are an error of the generator and raise KeyError."""
    sections = {(s.loop, s.role): s.instrs for s in program.sections}
    synchronous = {unit.name for unit in device.seus if not unit.is_async}
    every = sorted(records, key=lambda r: r.start_cycles)
    first = every[0].start_cycles if every else 0.0
    bars: list[Bar] = []
    stalls: list[Stall] = []
    for record in every:
        instr = dict(enumerate(sections[record.loop, record.role]))[record.position]
        start, end = record.start_cycles - first, record.end_cycles - first
        if isinstance(instr, Issue):
            rows = [record.role] + ([instr.seu] if instr.seu in synchronous else [])
            for row in rows:
                bars.append(
                    Bar(row, instr.task, record.instance, start, end, record.role, record.loop, instr.stage)
                )  # fmt: skip
        elif isinstance(instr, Wait) and end - start >= SHORTEST_STALL_CYCLES:
            r = instr.reason
            stalls.append(
                Stall(record.role, instr.signal, str(r.why), r.src, r.dst, r.buffer, record.instance, start, end)
            )
    used = {bar.row for bar in bars}
    rows = [Row(role.name, "role") for role in program.roles]
    rows += [Row(unit.name, "seu") for unit in device.seus if unit.name in used]
    inner = max(program.loops, key=lambda plan: plan.loop, default=None)
    return Timeline(
        title=program.graph.kernel.name,
        device=device.name,
        source="measured",
        clock_ghz=clock_ghz or device.clock_ghz.value,
        rows=tuple(rows),
        bars=tuple(bars),
        stalls=tuple(stalls),
        ii_cycles=inner.ii_cycles if inner else 0.0,
        bounds_cycles=inner.bounds_cycles if inner else (),
        predicted_ns=program.predicted_ns,
        tiles=tuple((t.axis, t.extent) for t in program.partition.tiles),
    )
