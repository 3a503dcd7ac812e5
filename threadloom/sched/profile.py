"""The profiler: cycles of every sTask at one choice of tile sizes.

A time measured for the same task at the same sizes on the same unit (from the store) replaces the model's; the model's
numbers come from `costs.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from threadloom.machine.model import Device
from threadloom.sched.costs import Cycles, Measured, Traits, dot_shape, model_cycles, work_of
from threadloom.sched.placement import LOADS, Placement, Unit, operand_of
from threadloom.sched.sizes import Sizes
from threadloom.sched.tile_map import TileMap
from threadloom.sched.whole_rows import whole_row_axes
from threadloom.store import Store
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.ops import Dot, Load, Reduce, Scan
from threadloom.tile.uses import operands, results


@dataclass(slots=True)
class Costs:
    """Cycles of every task at one choice of tile sizes (the profiler's interface to the policies)."""

    graph: TaskGraph
    placement: Placement
    sizes: Sizes
    device: Device
    tile_map: TileMap
    measured: Measured | None = None
    parallel_axes: frozenset[str] = frozenset()
    _memo: dict[str, Cycles] = field(default_factory=dict)
    _lane_axes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.device.fact("register_rows"):
            self._lane_axes = whole_row_axes(self.graph)

    def of(self, task: STask) -> Cycles:
        if task.name not in self._memo:
            self._memo[task.name] = self._compute(task)
        return self._memo[task.name]

    def _compute(self, task: STask) -> Cycles:
        unit = self.placement.units[task.name]
        work = work_of(task, self.sizes, unit.split, bool(self.device.fact("exponential_factors", 0)))
        modelled = model_cycles(task, self.device, unit.seu, unit.method, work, self._traits(task, unit))
        if self.measured is None:
            return modelled
        ghz = self.device.clock_ghz.value
        ns = self.measured(task, self.sizes, unit.seu.name, modelled.occupancy / ghz)
        if ns is None:
            return modelled
        cycles = ns * ghz
        return Cycles(cycles, modelled.demand, cycles + max(0.0, modelled.latency - modelled.occupancy))

    def _traits(self, task: STask, unit: Unit) -> Traits:
        places = self.placement.places
        moved: dict[str, float] = {}
        for name in (*task.reads, *task.writes):
            tile = self.tile_map.of(name)
            if tile in places:
                size = self.sizes.bytes(self.tile_map.type(tile), share=unit.split)
                moved[places[tile].space] = moved.get(places[tile].space, 0.0) + size
        if task.kind is Kind.DOT:
            moved = self._dot_bytes(task, moved)
        load = next((op for op in task.ops if isinstance(op, Load)), None)
        written = [places[t.name].layout for t in self.graph.tiles if task.name in t.producers and t.name in places]
        return Traits(
            shared_load=load is not None and self._is_shared(load),
            transposed=load is not None and self._is_transposed(task, load),
            in_place=task.kind in LOADS and bool(written) and all(x == "direct" for x in written),
            memory_bytes=tuple(moved.items()),
            rows_per_reduction=self._rows_per_reduction(task, unit),
            rows_in_lanes=task.kind is Kind.DOT and self._rows_in_lanes(task),
            multicast=max((places[t].multicast for t in map(self.tile_map.of, task.writes) if t in places), default=1),
        )

    def _dot_bytes(self, task: STask, moved: dict[str, float]) -> dict[str, float]:
        """On a core, each column block streams the row operand again, and each row block the column operand. A matrix
        unit that reads shared memory does so for each instruction: fewer columns than rows, and the rows take longer
        than the product (m64n48k16: 28 cycles of reading for 24 of products)."""
        rows = int(self.device.fact("register_rows", 0))
        if self.placement.units[task.name].seu.is_async:
            return self._operand_bytes(task)
        if not rows:
            return {}
        columns = int(self.device.fact("register_vectors", 1)) * int(self.device.fact("vector_bytes", 4)) // 4
        for op in task.ops:
            if isinstance(op, Dot):
                m, n, k = dot_shape(op, self.sizes, share=False)
                a = self.placement.places.get(op.a.name)
                passes = max(1, -(-n // columns))
                size = m * k * op.a.type.dtype.bits // 8 * passes
                if a is not None and a.space != "l1":
                    moved = {**moved, a.space: moved.get(a.space, 0.0) + size}
        return moved

    def _operand_bytes(self, task: STask) -> dict[str, float]:
        most = int(self.device.fact("max_dot_columns", 256))
        moved: dict[str, float] = {}
        for op in (o for o in task.ops if isinstance(o, Dot)):
            m, n, k = dot_shape(op, self.sizes, self.placement.units[task.name].split)
            for value in (op.a, op.b):
                place = self.placement.places.get(self.tile_map.of(value.name))
                if place is None or place.space != "smem":
                    continue
                row = operand_of(value.name, task, self.sizes.split) == "row"
                times = -(-n // most) if row else -(-m // int(self.device.fact("dot_rows", 64)))
                size = (m if row else n) * k * value.type.dtype.bits // 8 * times
                moved["smem"] = moved.get("smem", 0.0) + size
        return moved

    def _rows_per_reduction(self, task: STask, unit: Unit) -> int:
        """A core reduces one row at a time; a warp's rows are reduced together."""
        if not self.device.fact("register_rows"):
            return 1
        rows = 1
        for op in task.ops:
            if isinstance(op, Reduce | Scan):
                rows = max(rows, self.sizes.elems(tuple(x for x in op.arg.type.axes if x != op.axis), unit.split))
        return rows

    def _rows_in_lanes(self, task: STask) -> bool:
        """Reducing across lanes has a price, so rows whose columns are reduced lie in them (targets/cpu/choose.py)."""
        dots = (op for op in task.ops if isinstance(op, Dot))
        return any(a in self._lane_axes for d in dots for a in d.a.type.axes if a not in d.b.type.axes)

    def _is_shared(self, load: Load) -> bool:
        used = {t.axis for s in load.subscripts for t in s.terms if t.axis}
        return any(a not in used and self.sizes.tiles_of(a) > 1 for a in self.parallel_axes)

    def _is_transposed(self, task: STask, load: Load) -> bool:
        """The tensor's innermost axis is the one summed over, so panels turn it around."""
        inner = {t.axis for t in load.subscripts[-1].terms if t.axis} if load.subscripts else set()
        for user in self.graph.tasks:
            for op in user.ops:
                if isinstance(op, Dot) and set(task.writes) & {op.a.name, op.b.name}:
                    return bool(inner & set(op.over))
        return False


# ---------------------------------------------------------------- measured times


def expression_key(task: STask) -> str:
    """A digest of what the sTask computes; its name and its place in a kernel do not matter."""
    from threadloom.tile.text import print_op

    text = "\n".join(print_op(op) for op in task.ops)
    return f"{task.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def sizes_key(task: STask, sizes: Sizes) -> str:
    """The extents that the sTask's values have, as text; of an axis that workers share, also by how many."""
    axes = dict.fromkeys(a for op in task.ops for v in (*operands(op), *results(op)) for a in v.type.axes)
    shared = {sizes.split: f"/{sizes.workers}"} if sizes.split else {}
    return ",".join(f"{a}={sizes.extents[a]}{shared.get(a, '')}" for a in sorted(axes))


def stored_times(store: Store, device: Device) -> Measured:
    """Times of sTasks from the store, for `plan(..., measured=...)`; None for what was not measured at those sizes."""
    from threadloom.sched.reuse import device_key

    key = device_key(device)

    def lookup(task: STask, sizes: Sizes, unit: str, _modelled_ns: float = 0.0) -> float | None:
        return store.task_time(key, expression_key(task), sizes_key(task, sizes), unit)

    return lookup


def measure_tasks(
    graph: TaskGraph, placement: Placement, sizes: Sizes, device: Device, store: Store
) -> dict[str, float]:
    """Time every sTask that can be isolated, alone on this machine's cores, and store the times (task -> ns). What is
    stored already is not measured again."""
    from threadloom.sched.isolate import isolated
    from threadloom.sched.measure_worker import make_arrays
    from threadloom.sched.reuse import device_key
    from threadloom.sched.search import plan
    from threadloom.targets.cpu.time_plan import time_plan

    found: dict[str, float] = {}
    repetitions = 4 * device.eu_count
    for task in graph.tasks:
        unit = placement.units[task.name].seu.name
        key = device_key(device), expression_key(task), sizes_key(task, sizes), unit
        if (known := store.task_time(*key)) is not None:
            found[task.name] = known
            continue
        kernel = isolated(task, sizes, repetitions)
        if kernel is None:
            continue
        arrays = make_arrays(kernel, {}, "")
        ns = time_plan(plan(kernel, {}, device).best, arrays, {}, {}, device) * device.eu_count / repetitions
        found[task.name] = ns
        store.add_task_time(*key, ns)
    return found
