"""Where no tile fits a device: which one came nearest, and what it lacks."""

from __future__ import annotations

import math

from threadloom.errors import CompileError, slug
from threadloom.machine.model import Device
from threadloom.sched.candidate import Rejected
from threadloom.sched.ops import Partition
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Kernel

FITS_NOWHERE = slug("fits-nowhere", "no choice of tile sizes fits the device")


def _wish(only: Partition) -> str:
    """What a partition wants of the graph."""
    walk = f"go through {', '.join(only.sequential)} inside one tile"
    return walk if only.splits < 2 else f"do its reduction in {only.splits} parts"


def not_walked(kernel: Kernel | TaskGraph, device: Device, only: Partition, unsplit: str) -> CompileError:
    kernel = kernel.kernel if isinstance(kernel, TaskGraph) else kernel
    return CompileError(
        FITS_NOWHERE,
        f"kernel {kernel.name} cannot {_wish(only)} on {device.name}",
        why=unsplit or "every load depends on it for these extents, or bounds do, or it has tiles of its own",
        try_="a partition without that",
        loc=kernel.loc,
    )


def nowhere_error(graph: TaskGraph, device: Device, rejected: list[Rejected]) -> CompileError:
    """Names the memory that the smallest tile overflows."""
    rejected = [r for r in rejected if not r.partition.sequential and r.partition.splits < 2] or rejected
    smallest = min(rejected, key=lambda r: math.prod(t.extent for t in r.partition.tiles), default=None)
    tile = ", ".join(f"{t.axis}={t.extent}" for t in smallest.partition.tiles) if smallest else "none"
    reason = f"{smallest.family}, {smallest.detail}" if smallest else "no tile was made"
    numbers = ", ".join(f"{m.name} {int(m.capacity_bytes.value)} bytes" for m in device.memories)
    return CompileError(
        FITS_NOWHERE,
        f"kernel {graph.kernel.name} fits no tile on {device.name}",
        why=f"the smallest of {len(rejected)} tiles ({tile or 'no axis is cut'}): {reason}; it has {numbers}",
        try_="a stream over the long axis in place of taking it whole, a narrower element type, or another device",
        loc=graph.kernel.loc,
    )
