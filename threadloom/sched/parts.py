"""Split reductions as a choice of the search: how many parts, and what combining them costs.

A grid with fewer tiles than EUs leaves some idle; splitting the first loop's longest axis gives them work, at the price
of a second program that combines the parts (`split_stream.py`). Numbers of parts are tried only where the largest tiles
leave half of the EUs idle; the model decides among them, with the time of both programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from threadloom.machine.model import Device
from threadloom.sched.combinable import NotCombinable
from threadloom.sched.ops import Partition, SProgram
from threadloom.sched.partition import axis_roles, largest_extents
from threadloom.sched.sizes import dim_extent
from threadloom.sched.split_stream import SplitKernels, Splittable, split_kernels, splittable
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Axis, AxisKind, Kernel

GRANULE = 128  # indices of a tiled axis: parts begin at multiples of so many; tiles on a GPU divide it
CPU_GRANULE = 16
MOST_COUNTS = 4
MOST_COMBINED = 2  # plans of a combination that are scheduled


@dataclass(slots=True)
class Parts:
    """One number of parts. `axis`: what is split, in granules of `granule` indices; `combine`: the second program, once
    `settle` has planned it; `after_ns`: its time, until then less than any plan of it takes."""

    count: int
    axis: str
    granule: int
    kernels: SplitKernels
    dims: dict[str, int]
    device: Device
    strides_ok: dict[str, bool]
    after_ns: float
    chosen: list[Partition]  # the tiles of the first combination of this kernel that was planned: others take them
    combine: SProgram | None = None

    def settle(self) -> SProgram:
        """The second program."""
        from threadloom.sched.search import plan

        if self.combine is None:
            known = {t.name for t in self.kernels.combine.tensors}
            options = {"strides_ok": {name: ok for name, ok in self.strides_ok.items() if name in known}}
            what = self.kernels.combine, self.dims, self.device
            made = plan(*what, only=self.chosen[0], **options) if self.chosen else None
            made = made or plan(*what, most=MOST_COMBINED, splits=False, **options)
            self.chosen.append(made.best.partition)
            self.combine, self.after_ns = made.best, made.best.predicted_ns
        return self.combine


def parts_of(
    kernel: Kernel, graph: TaskGraph, dims: dict[str, int], device: Device, only: Partition | None,
    strides_ok: dict[str, bool],
) -> tuple[list[Parts], str]:
    """The numbers of parts worth a look (that of `only`, where it says one), and why there is none where one would be
    worth it."""
    whole = {a.name: dim_extent(a.dim, dims) for a in graph.kernel.axes}
    if only is not None and only.splits < 2:
        return [], ""
    room = device.eu_count // max(1, least_tiles(graph, whole, device))
    if only is None and room < 2:
        return [], ""
    try:
        of = splittable(kernel, whole)
    except NotCombinable as reason:
        return [], str(reason)
    granule = granule_of(of.axis, device)
    counts = [only.splits] if only is not None else _counts(room, -(-whole[of.axis.name] // granule))
    chosen: list[Partition] = []
    return [_parts(of, n, granule, dims, device, strides_ok, chosen) for n in counts], ""


def least_tiles(graph: TaskGraph, whole: dict[str, int], device: Device) -> int:
    """Tiles of the grid where they are as large as the search makes them."""
    largest = largest_extents(axis_roles(graph, whole), device)
    return math.prod(-(-whole[a.axis.name] // largest.get(a.axis.name, 1)) for a in graph.loops[0].axes)


def granule_of(axis: Axis, device: Device) -> int:
    if axis.kind is AxisKind.EACH:
        return 1
    return CPU_GRANULE if device.arch == "cpu" else GRANULE


def _counts(room: int, granules: int) -> list[int]:
    """From what fills all EUs with the largest tiles downwards: smaller tiles leave less room."""
    most = min(room, granules)
    halves = [most >> n for n in range(MOST_COUNTS - 1)]
    return sorted({n for n in (*halves, 2) if 2 <= n <= most})


def _parts(
    of: Splittable, count: int, granule: int, dims: dict[str, int], device: Device, strides_ok: dict[str, bool],
    chosen: list[Partition],
) -> Parts:
    kernels = split_kernels(of, count, granule)
    tensors = [t for t in kernels.parts.tensors if t.name in kernels.between]
    size = sum(t.dtype.bytes_for(math.prod(dim_extent(d, dims) for d in t.dims)) for t in tensors)
    least_ns = float(device.fact("launch_ns", 0) or 0) + size / device.dram_bytes_per_s.value * 1e9
    return Parts(count, of.axis.name, granule, kernels, dims, device, strides_ok, least_ns, chosen)


def with_combination(program: SProgram, parts: Parts | None) -> SProgram:
    """The program with what comes after it."""
    if parts is None:
        return program
    partition = replace(program.partition, splits=parts.count)
    return replace(program, partition=partition, combine=parts.settle())
