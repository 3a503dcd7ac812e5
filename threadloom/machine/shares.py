"""Devices whose EUs are shared: two blocks on one SM, each with half of its memories, registers and rates.

While one block waits, for a copy or for its own last instruction, the other works: what one worker role cannot
overlap with itself, two of different tiles do. To the scheduler it is a device like any other, with twice the EUs.

"h200/8-direct" has no copy engine either: the threads of eight blocks load straight into their registers. A block
does one tile and ends, and the hardware starts the next where there is room, so nothing is left over at the end of
the grid. Only many blocks hide the latency of such loads; each finds the units idle most of the time, so rates are not
divided: what all blocks ask of a unit is a bound of its own (`sched/inter.py`).
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.machine.a100 import A100
from threadloom.machine.model import SEU, Completion, Device, Figure, Memory, Rate


def share(device: Device, parts: int) -> Device:
    """`device` with `parts` blocks on each EU; each has one worker role. Named "h200/2"."""
    groups = 2  # a producer and one worker
    entry = int(device.fact("registers_per_thread_row", 512)) // (parts * groups) // 8 * 8  # what a block begins with
    rows = entry * groups
    producer = int(device.fact("producer_regs", 0))
    worker = (rows - producer) // 8 * 8
    facts = dict(device.facts) | {
        "worker_regs_1": worker,
        "registers_per_thread_row": rows,
        "blocks_per_eu": parts,
        "most_blocks_per_eu": 1,
        "direct_blocks": "",
    }
    return replace(
        device,
        name=f"{device.name}/{parts}",
        eu_count=device.eu_count * parts,
        seus=tuple(_slower(u, parts) for u in device.seus),
        memories=tuple(_smaller(m, parts, worker, device) for m in device.memories),
        max_worker_roles=1,
        facts=tuple(facts.items()),
    )


DIRECT = "-direct"
BLOCK_CYCLES = 3000  # measured: a block that does little beside loading a row is followed by the next after 3.3 us


def share_direct(device: Device, parts: int) -> Device:
    """`device` with `parts` blocks on each EU, of one worker role that loads its tile itself. Named "h200/8-direct"."""
    registers = int(device.fact("registers_per_thread_row", 512)) // parts // 8 * 8
    facts = dict(device.facts) | {
        "worker_regs_1": registers,
        "registers_per_thread_row": registers,
        "blocks_per_eu": parts,
        "most_blocks_per_eu": 1,
        "direct_blocks": "",
        "one_tile_blocks": True,
        "tile_cycles": BLOCK_CYCLES,
    }
    return replace(
        device,
        name=f"{device.name}/{parts}{DIRECT}",
        eu_count=device.eu_count * parts,
        seus=tuple(_together(u) for u in device.seus if not u.is_async),
        memories=tuple(_smaller(m, parts, registers, device) for m in device.memories),
        max_worker_roles=1,
        facts=tuple(facts.items()),
    )


def shares(device: Device, products: bool, loops: bool = True) -> list[Device]:
    """`device` itself, and with as many blocks on an EU as its model says is worth a look, for kernels with `products`
    or without, with `loops` inside a tile or without."""
    most = int(device.fact("most_blocks_per_eu", 1))
    most = min(most, 2) if products else most
    direct = () if products or loops else map(int, str(device.fact("direct_blocks", "")).split())
    fed = (share(device, parts) for parts in range(2, most + 1))
    return [device, *fed, *(share_direct(device, parts) for parts in direct)]


SPILLED = "spilled-"
MORE_REGISTERS = (2, 4, 16)  # tried in turn: the fewest bytes in memory


def spilled(device: Device, times: int) -> Device:
    """`device` as if its threads had `times` as many registers: what does not fit lies in memory, which is slow but
    right. For kernels that fit no other way. Named "h200/spilled-4"."""
    registers = int(device.fact("worker_regs_1", 0))
    facts = dict(device.facts) | {
        "register_fixed_regs": int(device.fact("register_fixed_regs", 0)) - (times - 1) * registers,
        "spills": True,
        "most_blocks_per_eu": 1,
        "direct_blocks": "",
    }
    memories = tuple(_larger(m, times) if m.per == "role" else m for m in device.memories)
    return replace(device, name=f"{device.name}/{SPILLED}{times}", memories=memories, facts=tuple(facts.items()))


def _larger(memory: Memory, times: int) -> Memory:
    held = memory.capacity_bytes
    return replace(memory, capacity_bytes=Figure(held.value * times, f"{times} times {held.source}: in memory"))


WARPS = "warps"


def by_warps(device: Device) -> Device | None:
    """`device` with the matrix units and copies of an A100, which later GPUs have as well: one worker of all warps,
    without a role that feeds a copy engine and knows nothing of what workers compute. For kernels that cannot be
    planned otherwise, and those whose products the assembler does not run side by side. Named "h200/warps"; None where
    the device has no matrix unit of its own that is better."""
    if "/" in device.name or all(u.completion is not Completion.MMA_GROUP for u in device.seus):
        return None
    vector = (u for u in device.seus if u.name == "vec")
    shared = replace(A100.memory("smem"), capacity_bytes=device.memory("smem").capacity_bytes)
    return replace(
        A100,
        name=f"{device.name}/{WARPS}",
        arch=device.arch,
        eu_count=device.eu_count,
        clock_ghz=device.clock_ghz,
        dram_bytes_per_s=device.dram_bytes_per_s,
        seus=(*(u for u in A100.seus if u.name != "vec"), *vector),
        memories=(shared, A100.memory("reg")),
        facts=tuple((dict(A100.facts) | {"l2_bytes": device.fact("l2_bytes", 0)}).items()),
    )


def share_named(device: Device, parts: str) -> Device | None:
    """The share of `device` that is called `parts` ("2", "8-direct"), it with spills ("spilled-4") or with products by
    warps ("warps"), if there is one."""
    if parts == WARPS:
        return by_warps(device)
    if parts.startswith(SPILLED):
        times = parts.removeprefix(SPILLED)
        return spilled(device, int(times)) if times in map(str, MORE_REGISTERS) else None
    number = parts.removesuffix(DIRECT)
    if not number.isdigit() or not 2 <= int(number) <= 32:
        return None
    return share_direct(device, int(number)) if parts.endswith(DIRECT) else share(device, int(number))


def _slower(unit: SEU, parts: int) -> SEU:
    per_part = f"a share of 1/{parts} of what is "
    rates = (Rate(r.what, Figure(r.per_cycle.value / parts, per_part + r.per_cycle.source)) for r in unit.rates)
    return replace(unit, rates=tuple(rates))


def _together(unit: SEU) -> SEU:
    """A tile's loads into registers are all on their way before the first is waited for."""
    each = Figure(unit.latency_cycles.value / 2, f"half of what is {unit.latency_cycles.source}: several at once")
    return replace(unit, latency_cycles=each)


def _smaller(memory: Memory, parts: int, worker_registers: int, device: Device) -> Memory:
    held, source = memory.capacity_bytes.value, memory.capacity_bytes.source
    if memory.per == "role":
        threads = int(device.fact("threads_per_worker", 128))
        return replace(memory, capacity_bytes=Figure(worker_registers * 4 * threads, source))
    own = int(device.fact("block_overhead_bytes", 0))  # of the memory, for each block
    return replace(memory, capacity_bytes=Figure((held + own) // parts - own, f"a share of 1/{parts} of {source}"))
