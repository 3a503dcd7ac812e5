"""The measured timeline of one block: in-kernel clocks read back as records of the planned timeline's form."""

from __future__ import annotations

import ctypes
from collections import Counter

from threadloom.errors import InternalError
from threadloom.sched.timeline_measured import ClockRecord
from threadloom.targets.cuda.compile import CudaKernel
from threadloom.targets.cuda.section import EVENTS_PER_LOOP

WRAP = 1 << 32  # the clock register has 32 bits


def read_clocks(kernel: CudaKernel, records: int, ordinal: int = 0) -> list[ClockRecord]:
    """What block 0 recorded in the last launch of `kernel` (compiled with `timeline=records`). Synchronises."""
    roles = [r.name for r in kernel.program.roles]
    words = kernel.read_global("loom_clocks", 4 * len(roles) * (3 * records + 1), ordinal)
    values = (ctypes.c_uint32 * (len(words) // 4)).from_buffer_copy(words)
    found: list[ClockRecord] = []
    for number, role in enumerate(roles):
        base = number * (3 * records + 1)
        seen: Counter[int] = Counter()
        for k in range(min(values[base], records)):
            event, before, after = values[base + 1 + 3 * k : base + 4 + 3 * k]
            loop, position = divmod(event, EVENTS_PER_LOOP)
            found.append(ClockRecord(role, loop, position, seen[event], float(before), float(after)))
            seen[event] += 1
    return _unwrapped(found)


def _unwrapped(records: list[ClockRecord]) -> list[ClockRecord]:
    """Times as if the clock had more bits: a block runs for less than half of its range."""
    if not records:
        raise InternalError("the kernel recorded no clocks")
    origin = records[0].start_cycles

    def since(t: float) -> float:
        away = (t - origin) % WRAP
        return away - WRAP if away >= WRAP / 2 else away

    return [
        ClockRecord(r.role, r.loop, r.position, r.instance, since(r.start_cycles), since(r.end_cycles)) for r in records
    ]
