"""How a product gets its operands: read in place from a tensor, from the home of a value, or packed first.

    lanes operand   vectors along the result's vector axis: panels of that axis, the summed axis inside a panel
    rows operand    one element at a time, broadcast: any layout in which rows and the summed axis have fixed strides

A value that is computed in place (a load, a dequantised load) is packed where it is defined, so one that a stream does
not change is packed once before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from threadloom.dtypes import f32, f64
from threadloom.errors import InternalError
from threadloom.targets.cpu.amx import MATRIX_ROWS, Operands, matrix_layout
from threadloom.targets.cpu.choose import unit_axis
from threadloom.targets.cpu.plan import Branches, Home, InPlace, Loop, Multiply, Pack, Planned, PlannedBody
from threadloom.targets.cpu.schedule import Target
from threadloom.targets.cpu.steps import Product
from threadloom.tile.ops import Axis, Load, Tensor, Value
from threadloom.tile.uses import results

if TYPE_CHECKING:
    from threadloom.targets.cpu.planning import Planner

FEW_STRIPS = 2  # packing lanes pays where more strips of rows than this read them
FEW_PANELS = 3  # and packing rows where more panels of lanes do
SHORT_ROW_ELEMS = 256  # rows that lie so close together are as good as packed


def register_vectors(target: Target, row_elems: int, lane_elems: int) -> int:
    """Vectors across the register block: as the model says, more where there are too few rows to keep the FMA ports
    busy, fewer where there are not enough lanes."""
    needed = -(-lane_elems // target.lanes)
    vectors = target.vectors
    while vectors < 8 and row_elems * vectors < target.accumulators:
        vectors *= 2
    while vectors > 1 and vectors // 2 >= needed:
        vectors //= 2
    return vectors


def register_rows(target: Target, row_elems: int, vectors: int) -> int:
    """Rows of the register block: few enough for the registers, enough chains to hide latencies twice over, and of
    those the number that pads the tile least (measured: blocks between 8x2 and 14x2 are equally fast)."""
    most = max(1, (target.vector_registers - vectors - 1) // vectors)
    most = min(most, max(1, target.rows * target.vectors // vectors))
    if row_elems <= most:
        return max(1, row_elems)  # also where an extent is 0: the code is made, and does nothing
    fewest = min(most, max(1, -(-2 * target.accumulators // vectors)))
    return min(range(fewest, most + 1), key=lambda rows: -(-row_elems // rows) * rows)


@dataclass(slots=True)
class OperandPlanner:
    planner: Planner
    packed: dict[str, Home] = field(default_factory=dict)  # by value and role

    def plan(self, body: PlannedBody, defined: frozenset[str]) -> tuple[PlannedBody, list[Pack]]:
        """The body with products planned, and the packs that belong to an enclosing block. `defined`: the names that
        this block makes."""
        steps: list[Planned] = []
        outward: list[Pack] = []
        for step in body.steps:
            step, packs = self._step(step)
            for pack in packs:
                here = pack.value.name in defined or not self.planner.uses.is_inline(pack.value)
                (steps if here else outward).append(pack)
            steps.append(step)
        return PlannedBody(tuple(steps), body.yields), outward

    def _step(self, step: Planned) -> tuple[Planned, list[Pack]]:
        match step:
            case Product():
                return self._multiply(step)
            case Loop(op, inner):
                made = frozenset(v.name for o in op.body.ops for v in results(o)) | {
                    v.name for v in getattr(op, "args", ())
                }
                planned, packs = self.plan(inner, made)
                return replace(step, body=planned), packs
            case Branches(op, then, otherwise):
                sides = []
                packs = []
                for side, block in ((then, op.then), (otherwise, op.otherwise)):
                    planned, more = self.plan(side, frozenset(v.name for o in block.ops for v in results(o)))
                    sides.append(planned)
                    packs += more
                return Branches(op, *sides), packs
        return step, []

    def _multiply(self, product: Product) -> tuple[Multiply, list[Pack]]:
        planner, dot = self.planner, product.dot
        axis = planner.choice.of_product[product.result.name]
        lanes, rows = (dot.a, dot.b) if axis in dot.a.type.axes else (dot.b, dot.a)
        row_axis = planner.row_axis(product)
        if (unit := planner.by_matrix_unit(product)) is not None:
            return self._by_matrix_unit(product, unit, axis, row_axis, lanes, rows)
        sum_axis = max(dot.over, key=lambda x: planner.sizes[x])
        vectors = planner.vectors[axis]
        block = register_rows(planner.target, planner.sizes[row_axis], vectors)
        packs: list[Pack] = []
        strips = planner.sizes[row_axis] // block
        lanes_from = self._lanes(lanes, axis, sum_axis, strips, packs)
        panels = -(-planner.sizes[axis] // (vectors * planner.target.lanes))
        rows_from = self._rows(rows, row_axis, sum_axis, block, panels, packs)
        planned = Multiply(
            product, axis, row_axis, sum_axis, lanes_from, rows_from, lanes, rows,
            product.addend is not None, block, vectors,
        )  # fmt: skip
        return planned, packs

    def _by_matrix_unit(
        self, product: Product, kind: Operands, axis: str, row_axis: str, lanes: Value, rows: Value
    ) -> tuple[Multiply, list[Pack]]:
        """Both operands are packed in the unit's own dtype."""
        planner = self.planner
        (sum_axis,) = product.dot.over
        packs: list[Pack] = []
        homes = []
        for value, role, outer in ((lanes, "groups", axis), (rows, "rows", row_axis)):
            key = f"{value.name}.{role}.{outer}.{sum_axis}"
            if key not in self.packed or not planner.uses.is_inline(value):
                depth, width = planner.sizes[sum_axis], planner.room.get(outer, planner.sizes[outer])
                layout = matrix_layout(kind, role, outer, width, sum_axis, depth, planner.panel(axis))
                self.packed[key] = Home(key, layout)
                unit = self._unit_of(value, sum_axis)
                packs.append(Pack(value, self.packed[key], unit, unit == sum_axis, role, sum_axis, kind))
            homes.append(self.packed[key])
        planned = Multiply(
            product, axis, row_axis, sum_axis, homes[0], homes[1], lanes, rows, product.addend is not None,
            MATRIX_ROWS, planner.vectors[axis], matrix=kind,
        )  # fmt: skip
        return planned, packs

    def _unit_of(self, value: Value, otherwise: str) -> str:
        """The axis along which the value is read in consecutive elements."""
        planner = self.planner
        if not planner.uses.is_inline(value):
            return planner.places.layouts[value.name].last or otherwise
        units = {unit_axis(planner.form, load.tensor, load.subscripts) for load in planner.uses.loads(value)}
        return next((unit for unit in units if unit in value.type.axes), otherwise)

    # ------------------------------------------------------------ the operand in vector lanes

    def _lanes(self, value: Value, axis: str, sum_axis: str, strips: int, packs: list[Pack]) -> Home | InPlace:
        planner = self.planner
        if not planner.uses.is_inline(value):
            layout = planner.places.layouts[value.name]
            if layout.last == axis and layout.panel in (0, planner.panel(axis)):
                return planner.places.home(value.name)
            if layout.last is None:
                raise InternalError(f"operand {value.name} has no axes")
            return self._pack(value, "lanes", axis, layout.last, packs)
        units = {unit_axis(planner.form, load.tensor, load.subscripts) for load in planner.uses.loads(value)}
        if units <= {axis} and self._in_place(value) and self._lanes_in_place(value, axis, strips):
            return InPlace(planner.uses.definitions[value.name])
        unit = units.pop() if len(units) == 1 else axis
        source = unit if unit in value.type.axes else axis
        return self._pack(value, "lanes", axis, source, packs)

    def _lanes_in_place(self, value: Value, axis: str, strips: int) -> bool:
        """Whole vectors only, and packing would not pay: too few strips use it, or the rows lie close together."""
        planner = self.planner
        whole = axis in planner.full and planner.sizes[axis] % planner.target.lanes == 0
        if not whole or value.name in planner.schedule.packed:
            return False
        load = planner.uses.definitions[value.name]
        return strips <= FEW_STRIPS or self._has_short_rows(load) or value.name in planner.schedule.unpacked

    def _has_short_rows(self, load: Load) -> bool:
        strides = self.planner.form.tensor(load.tensor).strides
        return any(stride is not None and 1 < stride <= SHORT_ROW_ELEMS for stride in strides)

    def _rows_in_place(self, value: Value, panels: int) -> bool:
        """Distant rows compete for the same cache sets and pages; reading them many times costs more than a copy."""
        planner = self.planner
        if value.name in planner.schedule.packed:
            return False
        load = planner.uses.definitions[value.name]
        return panels <= FEW_PANELS or self._has_short_rows(load) or value.name in planner.schedule.unpacked

    def _in_place(self, value: Value) -> bool:
        """Whether a micro-kernel may read the tensor itself: plain f32 or f64 loads of which every tile lies inside
        it, or outside as a whole (a subscript without tile axes, which is tested once a tile)."""
        planner = self.planner
        load = planner.uses.definitions[value.name]
        if not isinstance(load, Load) or value.type.dtype not in (f32, f64):
            return False
        tensor = next(t for t in planner.kernel.tensors if t.name == load.tensor)
        return all(
            in_bounds(planner.kernel.axes, tensor, load, at) or not tile_axes(planner.axes_of.each, load, at)
            for at in range(len(tensor.dims))
        )

    # ------------------------------------------------------------ the operand that is broadcast

    def _rows(
        self, value: Value, row_axis: str, sum_axis: str, block: int, panels: int, packs: list[Pack]
    ) -> Home | InPlace:
        planner = self.planner
        if not planner.uses.is_inline(value):
            layout = planner.places.layouts[value.name]
            walks_panel = layout.panel and (
                layout.last == sum_axis or (layout.last == row_axis and layout.panel % block != 0)
            )
            if not walks_panel:
                return planner.places.home(value.name)
            return self._pack(value, "rows", layout.last or row_axis, layout.last or row_axis, packs)
        units = [unit_axis(planner.form, load.tensor, load.subscripts) for load in planner.uses.loads(value)]
        if self._in_place(value) and self._rows_in_place(value, panels):
            return InPlace(planner.uses.definitions[value.name])
        unit = next((unit for unit in units if unit in value.type.axes), sum_axis)
        if unit == sum_axis and len(value.type.axes) == 2 and block <= planner.target.lanes:
            return self._pack(value, "rows", row_axis, unit, packs, block)
        return self._pack(value, "rows", unit, unit, packs)

    def _pack(
        self, value: Value, role: str, last: str, source: str, packs: list[Pack], rows_panel: int = 0
    ) -> Home:
        """A home for `value` with `last` contiguous, filled with `source` in vector lanes."""
        planner = self.planner
        key = f"{value.name}.{role}.{last}"
        if key not in self.packed or not planner.uses.is_inline(value):
            layout = planner.layout(value, last, planner.panel(last) if role == "lanes" else rows_panel)
            self.packed[key] = Home(key, layout)
            packs.append(Pack(value, self.packed[key], source, transposed=source != last))
        return self.packed[key]


def tile_axes(each: frozenset[str], load: Load, at: int) -> set[str]:
    """Axes along which subscript `at` varies within a tile."""
    terms = load.subscripts[at].terms
    axes = {term.axis for term in terms if term.axis is not None and term.axis not in each}
    return axes | {axis for term in terms if term.value is not None for axis in term.value.type.axes}


def in_bounds(axes: tuple[Axis, ...], tensor: Tensor, load: Load, at: int) -> bool:
    """Whether subscript `at` of `load` always lies in the tensor: it is a plain axis over the tensor's own dimension
    (loops never leave their dimension), or a constant inside a fixed extent."""
    subscript, dim = load.subscripts[at], tensor.dims[at]
    match subscript.terms:
        case ():
            return isinstance(dim, int) and 0 <= subscript.offset < dim
        case (term,) if term.axis is not None and term.coefficient == 1 and subscript.offset == 0:
            return next(axis.dim for axis in axes if axis.name == term.axis) == dim
    return False
