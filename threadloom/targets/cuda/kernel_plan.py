"""Everything an sProgram and its launch facts say about one kernel, looked up by name: the emitter's one view of both.

Decisions come from the sProgram; here they are only joined with layouts, shared-memory addresses and C names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from threadloom.sched.boxes import is_multiple
from threadloom.sched.ops import Buffer, Issue, SProgram
from threadloom.sched.placement import ends_with
from threadloom.targets.cuda import copy
from threadloom.targets.cuda.dot import DotPlan, fastest_rows, plan_dot, wanted_rows
from threadloom.targets.cuda.driver import MapSpec
from threadloom.targets.cuda.infer import Extents, infer_layouts
from threadloom.targets.cuda.layout import Layout, Source
from threadloom.targets.cuda.program_view import ProgramView
from threadloom.targets.cuda.scalars import find_late_scalars, find_shared_scalars, is_shared_scalar, outlives_its_pass
from threadloom.targets.cuda.shared import SHORT_BYTES, SharedTile
from threadloom.targets.cuda.staging import BOX_ROWS, Staging, staging_of, store_map
from threadloom.targets.cuda.team import WARPGROUP, Team
from threadloom.targets.cuda.unsupported import no_code
from threadloom.targets.cuda.wgmma import Instruction
from threadloom.task.ops import Kind, Method, STask, Tile
from threadloom.tile import ops as tile
from threadloom.tile.uses import operands, results

LARGEST_BOX = 256  # rows
WIDEST = 16  # elements of one access, at most


@dataclass
class KernelPlan(ProgramView):
    """`facts`: tensor name -> what is known of it; `dims`: dimension -> extent the plan was made for (WHOLE axes are
    compiled in, others are parameters)."""

    program: SProgram
    facts: dict[str, copy.TensorFacts]
    dims: dict[str, int]
    used: set[Instruction] = field(default_factory=set)
    timeline: int = 0  # records of in-kernel clocks per role (0: none)
    pads_all: bool = True  # tiles in shared memory to what products need along their axes, also those that none reads

    team: ClassVar[Team] = WARPGROUP

    def __post_init__(self) -> None:
        graph = self.program.graph
        bounded = [a for loop in graph.loops for a in loop.axes if a.start is not None]
        granules = {t.axis: math.gcd(t.worker_extent, WIDEST) for t in self.program.partition.tiles}
        granules |= {a.axis.name: 1 for a in bounded if not is_multiple(a.start, WIDEST, graph)}
        short = tuple((axis, granule) for axis, granule in granules.items() if granule < WIDEST)
        self.facts = {name: replace(f, granules=short) for name, f in self.facts.items()}

    # ------------------------------------------------------------ rounding

    @cached_property
    def rounds(self) -> bool:
        """Whether every result is rounded to 16 bits or less."""
        written = [t for t in self.program.graph.kernel.tensors if t.access is not tile.Access.IN]
        return all(t.dtype.bits <= 16 for t in written)

    @cached_property
    def stored_only(self) -> frozenset[str]:
        """Values that only stores read, of the tensor's own dtype: they are rounded there, and need not be before."""
        ops = [o for t in self.tasks.values() for o in t.ops]
        stores = [o for o in ops if isinstance(o, tile.Store)]
        same = {o.value.name for o in stores if self.facts[o.tensor].tensor.dtype == o.value.type.dtype}
        others = {v.name for o in ops if not isinstance(o, tile.Store) for v in operands(o)}
        carried = {v.name for loop in self.program.graph.loops for c in loop.carried for v in c}
        return frozenset(same - others - carried)

    def multicast(self, value: str) -> int:
        """How many blocks load `value` together, each its part."""
        b = self._shared_buffer(value) if self.tiles.of(value) else None
        return b.multicast if b is not None else 1

    # ------------------------------------------------------------ products and layouts

    @cached_property
    def computed(self) -> frozenset[str]:
        """Values made by vector code that stay in registers."""
        vector_tasks = [t for t in self.tasks.values() if t.kind is Kind.VECTOR]
        made = (v.name for t in vector_tasks for op in t.ops for v in results(op))
        return frozenset(name for name in made if not self.tiles.of(name) or self._shared_buffer(name) is None)

    def _shared_buffer(self, value: str) -> Buffer | None:
        tile_name = self.tiles.of(value)
        return next((b for b in self.program.buffers if b.tile == tile_name and _is_shared(b)), None)

    @cached_property
    def dots(self) -> dict[str, DotPlan]:
        made: dict[str, DotPlan] = {}
        rows = wanted_rows([o for t in self.tasks.values() for o in t.ops], self.computed)
        for t in self.tasks.values():
            if t.kind is Kind.DOT:
                (op,) = [o for o in t.ops if isinstance(o, tile.Dot)]
                columns = {v.name: self.shared_column(v) for v in (op.a, op.b) if v.name not in self.computed}
                fastest = fastest_rows(made.values(), columns)
                along = rows.get(op.result.name, "")
                made[t.name] = plan_dot(op, self.extents, self.worker_extents, self.computed, columns, fastest, along)
        return made

    def shared_column(self, value: tile.Value) -> str:
        """The contiguous axis of a value in shared memory: as in the tensor it is loaded from; what threads make lies
        along the depth of the product that reads it."""
        loads = [o for t in self.tasks.values() for o in t.ops if isinstance(o, tile.Load)]
        op = next((o for o in loads if o.result.name == value.name), None)
        column = self.contiguous_axis(op) if op is not None else None
        if column is not None:
            return column
        dots = [o for t in self.tasks.values() for o in t.ops if isinstance(o, tile.Dot)]
        depth = [o.over[0] for o in dots if value.name in (o.a.name, o.b.name) and o.over]
        return (depth or [value.type.axes[-1]])[0]

    def accumulates(self, task: STask) -> bool:
        """Whether the DOT adds to what its place holds; an error where what it adds to lies in another place."""
        added = self.accumulated(task)
        if added is not None and self.tiles.of(added.name) != self.tiles.of(self.dot_result(task).name):
            why = f"it adds to {added.name}, which is kept apart since other code reads what was there before"
            raise no_code("a product", why, task.loc, "add the product to a value that nothing else reads")
        return added is not None

    def accumulated(self, task: STask) -> tile.Value | None:
        """The value a DOT adds its product to."""
        for op in task.ops:
            if isinstance(op, tile.Map):
                dot = self.dots[task.name].op.result.name
                return next(a for a in op.args if a.name != dot)
        return None

    def dot_result(self, task: STask) -> tile.Value:
        return results(task.ops[-1])[0]

    @cached_property
    def layouts(self) -> dict[str, Layout]:
        contiguous: dict[str, str] = {}
        for t in self.tasks.values():
            for op in t.ops:
                if isinstance(op, tile.Load | tile.Store):
                    value = op.result if isinstance(op, tile.Load) else op.value
                    axis = self.contiguous_axis(op)
                    if axis and axis in value.type.axes:
                        contiguous[value.name] = axis
        extents = Extents(self.worker_extents, self.team.warps)
        return infer_layouts(self.program.graph, self.dots, extents, contiguous, self.computed)

    def contiguous_axis(self, op: tile.Load | tile.Store) -> str | None:
        dim = self.facts[op.tensor].contiguous_dim
        axes = copy.bulk_axes(op)
        return axes[dim] if axes is not None and dim >= 0 else None

    # ------------------------------------------------------------ places of values

    def lives_in_registers(self, tile_: Tile, role: str) -> bool:
        """Whether the role keeps the tile in registers over its sTasks. A scalar needs a place if it is carried, or if
        it outlives the pass that makes it."""
        alone = not tile_.type.axes and tile_.carried is None and not outlives_its_pass(tile_, self.program)
        if alone or self._staging_buffer(tile_.name) is not None:
            return False
        if is_shared_scalar(tile_, self.program.graph):
            return False
        if any(b.tile == tile_.name and b.space != "reg" and b.layout != "staging" for b in self.program.buffers):
            return False
        return bool(self.tasks_of(role) & {*tile_.producers, *tile_.consumers})

    def is_packed(self, value: str) -> bool:
        """Whether `value` is kept packed, two to a register: a computed 16-bit row operand, or a staged result."""
        return self.is_staged(value) or any(
            d.row_operand.name == value and value in self.computed and not d.simt for d in self.dots.values()
        )

    def is_staged(self, value: str) -> bool:
        return self._staging_buffer(self.tiles.of(value)) is not None

    def _staging_buffer(self, tile_name: str) -> Buffer | None:
        """A buffer of the tile from which it goes to global memory."""
        found = next((b for b in self.program.buffers if b.tile == tile_name and b.layout == "staging"), None)
        return found if found is not None and self._has_boxes(found) else None

    def _has_boxes(self, b: Buffer) -> bool:
        """Whether the tile leaves in boxes of warps: an accumulator's form with whole 16 columns, along the tensor's
        rows or across them."""
        value = next((v for v in self.tiles.tile(b.tile).values if v in self.layouts), None)
        stored = [o.value.name for t in self.tasks.values() for o in t.ops if isinstance(o, tile.Store)]
        if value not in stored:
            return False
        op = self.store_of(value)
        named = {t.axis for s in op.subscripts for t in s.terms}
        if any(self.extents.get(a, 1) > 1 for a in named - set(op.value.type.axes)):
            return False  # every position along that axis gets the tile
        inner = self.contiguous_axis(op)
        others = self._outer_axes(op, inner) if inner is not None else ()
        if len(others) not in (1, 2):
            return False
        layout = self.layouts[value]
        if any(layout.extent(a) > self.worker_extents[a] for a in (*others, inner)):
            return False  # what the product pads would leave too, and has no room
        found = staging_of("", layout, others, inner, b.bytes_per_slot)
        return found is not None and found.columns % BOX_ROWS == 0

    def staging(self, value: str) -> Staging:
        """Where a worker stages `value` for its bulk store (the address has one name in all roles)."""
        b = self._staging_buffer(self.tiles.of(value))
        op = self.store_of(value)
        inner = self.contiguous_axis(op)
        outer = self._outer_axes(op, inner)
        return staging_of(staging_name(b.tile), self.layouts[value], outer, inner, b.bytes_per_slot)

    def _outer_axes(self, op: tile.Store, inner: str | None) -> tuple[str, ...]:
        """The axes of a stored value but `inner`, in the order of the tensor's dimensions."""
        axes, dims = copy.bulk_axes(op), reversed(copy.order_of_dims(self.facts[op.tensor]))
        return tuple(axes[d] for d in dims if axes[d] not in (None, inner))

    def store_of(self, value: str) -> tile.Store:
        stores = (o for t in self.tasks.values() for o in t.ops if isinstance(o, tile.Store))
        return next(o for o in stores if o.value.name == value)

    @cached_property
    def shared_scalars(self) -> dict[int, list[tuple[tile.Value, ...]]]:
        """Loop -> (init, argument, next, result) of the scalars it carries that every role computes."""
        return find_shared_scalars(self.program.graph, self.tiles)

    @cached_property
    def late_scalars(self) -> dict[str, int]:
        """Values of scalar code -> the loop beside it whose end it must wait for."""
        return find_late_scalars(self.program.graph, self.shared_scalars)

    # ------------------------------------------------------------ buffers, shared memory

    @cached_property
    def shared_tiles(self) -> dict[str, SharedTile]:
        """Buffer name -> its tile in shared memory. Address names are the buffer's; of workers that have one each, the
        tile's, which is another address in each role (as for what is staged): they run the same code."""
        made: dict[str, SharedTile] = {}
        slots: dict[str, int] = {}
        for b in self.program.buffers:
            if _is_shared(b):
                made[b.name] = self._shared(b)
                if slots.setdefault(b.tile, b.slots) != b.slots:
                    raise no_code(f"buffers of {b.tile}", "workers have different numbers of slots for it", None)
        return made

    def _shared(self, b: Buffer) -> SharedTile:
        value = self.value(self.tiles.tile(b.tile).values[0])
        column = self.shared_column(value)
        last = fastest_rows(self.dots.values(), {value.name: column}).get(value.name)
        in_order = sorted((a for a in value.type.axes if a != column), key=lambda a: a == last)
        rows = tuple((a, self.padded(a, value.name)) for a in in_order)
        dtype = value.type.dtype
        swizzled = b.layout == "swizzle-128" or self._wants_swizzle(value.name, rows, column)
        granule = 1 if swizzled else max(1, copy.BOX_GRANULE_BYTES * 8 // dtype.bits)  # rows of a box: whole 16 bytes
        columns = -(-self.padded(column, value.name) // granule) * granule
        base = own_name(b.tile) if b.role else "smem_" + c_name(b.name)
        short = not swizzled and columns * dtype.bits == SHORT_BYTES * 8 and self.filled_by_copies(b.name)
        short = short and math.prod(n for _, n in rows) <= LARGEST_BOX and self._reads_down(value.name, rows)
        return SharedTile(base, dtype, rows, column, columns, b.slots, swizzled, short)

    def _wants_swizzle(self, value: str, rows: tuple[tuple[str, int], ...], column: str) -> bool:
        """Whether threads read a tile of whole 128-byte lines with their lanes down the rows: in plain rows their
        banks would meet. A few panels at most: each is a copy of its own."""
        line_bits = self.extents[column] * self.value(value).type.dtype.bits
        return line_bits % 1024 == 0 and line_bits <= 4 * 1024 and self._reads_down(value, rows)

    def _reads_down(self, value: str, rows: tuple[tuple[str, int], ...]) -> bool:
        """Whether threads read a tile, of rows in eights, with their lanes down the rows."""
        layout = self.layouts.get(value)
        if layout is None or not rows or math.prod(extent for _, extent in rows) % 8:
            return False
        down = math.prod(d.size for d in layout.of(Source.LANE) if d.axis in dict(rows))
        return down >= 4 or layout.of(Source.REGISTER)[0].axis in dict(rows)

    def padded(self, axis: str, value: str) -> int:
        """Extent of `axis` in shared memory: what products need that read it, or (where `pads_all`) make or read other
        tiles with it; threads that read a tile without padding test for its end."""
        extent = self.extents[axis]
        for d in self.dots.values():
            if not self.pads_all and value not in (d.row_operand.name, d.column_operand.name):
                continue
            workers = -(-self.extents[axis] // self.worker_extents[axis])  # that share it
            if axis == d.m_axis:
                extent = max(extent, d.m_extent * workers)
            if axis == d.n_axis:
                extent = max(extent, d.n * workers)
            if axis == d.k_axis:
                extent = max(extent, d.k)
        return extent

    def shared_tile(self, value: str) -> SharedTile | None:
        b = self._shared_buffer(value) if self.tiles.of(value) else None
        return self.shared_tiles[b.name] if b else None

    def issued_bytes(self, task: str) -> int:
        """Bytes that the bulk copies of `task` bring (the whole boxes, also where they reach outside the tensor)."""
        op = self.load_op(task)
        return self.shared_tile(op.result.name).box_bytes

    def shared_tile_of_load(self, op: tile.Load) -> SharedTile | None:
        return self.shared_tile(op.result.name) if self.tiles.of(op.result.name) else None

    def is_guarded(self, loop: int, role: str) -> bool:
        """Whether the role's passes of `loop` test which instances exist: a run may be shorter than its stages."""
        found = [{i.stage for i in s.instrs} for s in self.program.sections if s.role == role and s.loop == loop]
        return any(stages and max(stages) - min(stages) > 1 for stages in found)

    def read_last_by(self, task: STask) -> frozenset[str]:
        """Values that only `task` reads and that no later iteration needs."""
        readers: dict[str, set[str]] = {}
        for t in self.tasks.values():
            for name in t.reads:
                readers.setdefault(name, set()).add(t.name)
        carried = {v.name for loop in self.program.graph.loops for c in loop.carried for v in c}
        return frozenset(n for n in task.reads if readers[n] == {task.name} and n not in carried)

    def brings_more(self, value: str, axis: str) -> bool:
        """Whether the bulk copy that brings `value` may bring elements from beyond the end of `axis` (else what lies
        there is outside of the tensor, and 0)."""
        graph = self.program.graph
        for name in self.tiles.tile(self.tiles.of(value)).producers:
            if self.issued[name].method is not Method.BULK_COPY:
                continue  # threads fill with zeros themselves
            op = self.load_op(name)
            dims = next(t.dims for t in graph.kernel.tensors if t.name == op.tensor)
            mine = [(s, d) for s, d in zip(op.subscripts, dims, strict=True) if any(t.axis == axis for t in s.terms)]
            if not all(ends_with(s, d, axis, self.extents[axis], graph) for s, d in mine):
                return True
        return False

    def load_op(self, task: str) -> tile.Load:
        loads = [o for o in self.tasks[task].ops if isinstance(o, tile.Load)]
        return next((o for o in loads if o.result.name in self.tasks[task].writes), loads[0])

    @cached_property
    def wide_producer(self) -> bool:
        """Whether the producer's threads load (else one lane of it feeds the copy engine)."""
        producers = {r.name for r in self.program.roles if r.kind == "producer"}
        mine = [i for s in self.program.sections if s.role in producers for i in s.instrs if isinstance(i, Issue)]
        return any(i.method is not Method.BULK_COPY and self.tasks[i.task].kind is not Kind.SCALAR for i in mine)

    # ------------------------------------------------------------ barriers, maps

    def barrier_name(self, signal: str) -> str:
        return c_name(signal)

    @cached_property
    def maps(self) -> dict[str, MapSpec]:
        """C name -> tensor map, one for each bulk access of different shape."""
        made: dict[str, MapSpec] = {}
        for name, issue in self.issued.items():
            if issue.method is Method.BULK_COPY and self.tasks[name].kind is Kind.LOAD:
                op = self.load_op(name)
                shared = self.shared_tile(op.result.name)
                boxes = copy.box_extents(shared, self.multicast(op.result.name))
                axes = copy.bulk_axes(op)
                spec = copy.map_spec(self.facts[op.tensor], axes, boxes, shared.swizzle_bytes, shared)
                made[self.map_name(name)] = spec
            if issue.method is Method.BULK_COPY and self.tasks[name].kind is Kind.STORE:
                op = self.tasks[name].ops[-1]
                if not self.is_staged(op.value.name):
                    continue
                staging = self.staging(op.value.name)
                made[self.map_name(name)] = store_map(self.facts[op.tensor], op, staging)
        return made

    def map_name(self, task: str) -> str:
        return "map_" + c_name(task.removeprefix("load_"))

    def read_by_threads(self, task: str) -> bool:
        """Whether `task` reads shared memory by ordinary loads of all lanes."""
        if task in self.dots:
            return self.dots[task].simt
        by_threads = (Kind.VECTOR, Kind.GATHER, Kind.STORE, Kind.ATOMIC)
        return self.tasks[task].kind in by_threads if task in self.tasks else False


def _is_shared(b: Buffer) -> bool:
    return b.space == "smem" and b.layout != "staging"


def c_name(name: str) -> str:
    return "".join(ch if ch.isalnum() else "_" for ch in name)


def staging_name(tile_name: str) -> str:
    return "staged_" + c_name(tile_name)


def own_name(tile_name: str) -> str:
    return "own_" + c_name(tile_name)
