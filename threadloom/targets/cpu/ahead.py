"""What a core fetches ahead: the decisions `prefetch` of a plan, and what there is to fetch.

    decide prefetch = k 1 l1        the tensor (or product's result), how far ahead, into which cache

How far is counted in what code walks through: tiles of a stream where an operand is packed in it, strips (the register
block's rows) where rows are read in place, panels of a copy that all cores share, positions of the loop around where a
row is read by several loops, and blocks of a product's accumulators (0: while the block's own sum is multiplied).
Nothing is fetched without a decision, and no decision changes a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from threadloom.targets.cpu.choose import unit_axis
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.plan import Branches, Home, InPlace, KernelPlan, Loop, Loops, Multiply, PlannedBody
from threadloom.targets.cpu.schedule import Ahead, Form
from threadloom.tile.ops import Load, Value
from threadloom.tile.uses import operands


@dataclass(frozen=True, slots=True)
class Walks:
    """How a product's operands are walked, as far as they can be fetched ahead; each a load, or None. `tile_rows`,
    `tile_lanes`: packed in the innermost stream, along the axis in which they lie contiguously; `strip`: rows in place;
    `panel`: lanes from a copy that all cores share."""

    tile_rows: Load | None
    tile_lanes: Load | None
    strip: Load | None
    panel: Load | None


def walks_of(step: Multiply, plan: KernelPlan, form: Form, stream: str | None) -> Walks:
    """`stream`: the axis of the innermost stream around `step`."""
    shared = frozenset(s.pack.home.buffer for s in plan.shared)
    rows = _packed_in_stream(step.rows_value, step.rows_operand, plan, shared, stream)
    lanes = _packed_in_stream(step.lanes_value, step.lanes_operand, plan, shared, stream)
    if rows is not None and unit_axis(form, rows.tensor, rows.subscripts) != step.sum_axis:
        rows = None
    if lanes is not None and unit_axis(form, lanes.tensor, lanes.subscripts) != step.axis:
        lanes = None
    strip = _strip(step, step.rows_operand.load, plan, form) if isinstance(step.rows_operand, InPlace) else None
    panel = None
    if isinstance(step.lanes_operand, Home) and step.lanes_operand.buffer in shared:
        panel = next(loads(step.lanes_value.name, plan), None)
    return Walks(rows, lanes, strip, panel)


def _packed_in_stream(
    value: Value, source: Home | InPlace, plan: KernelPlan, shared: frozenset[str], stream: str | None
) -> Load | None:
    """The load behind an operand that every trip of the stream packs anew."""
    if not isinstance(source, Home) or source.buffer in shared or stream is None or value.name not in plan.inline:
        return None
    made = plan.definitions[value.name]
    return made if isinstance(made, Load) and stream in made.result.type.axes else None


def _strip(step: Multiply, load: Load, plan: KernelPlan, form: Form) -> Load | None:
    """The load whose next block of rows is fetched: its rows, or elements along the sum, follow one another."""
    stride, along = (_stride(load, axis, form) for axis in (step.row_axis, step.sum_axis))
    positions = plan.sizes[step.sum_axis]
    one_block = along == 1 and stride == positions and positions * load.result.type.dtype.bits >= 8 * LINE_BYTES
    return load if stride == 1 or one_block else None


def _stride(load: Load, axis: str, form: Form) -> int | None:
    """Elements from one index of `axis` to the next, where that is compiled in."""
    strides = form.tensor(load.tensor).strides
    at = [n for n, subscript in enumerate(load.subscripts) if any(term.axis == axis for term in subscript.terms)]
    return strides[at[0]] if len(at) == 1 else None


def loads(name: str, plan: KernelPlan) -> Iterator[Load]:
    """Loads that value `name` is computed of where it is read."""
    made = plan.definitions.get(name)
    if isinstance(made, Load):
        yield made
    elif made is not None and name in plan.inline:
        for operand in operands(made):
            yield from loads(operand.name, plan)


def usual(plan: KernelPlan, form: Form) -> tuple[tuple[str, Ahead], ...]:
    """What pays: packed operands, copies for all tiles and rows, one ahead into L2. Strips in place and accumulators
    are near enough: fetching them cost attention 5 % and products of 1024 cubed as much (docs/tried.md)."""
    found: dict[str, Ahead] = {}
    for step, stream in _steps(plan.body, None):
        if isinstance(step, Loops):
            for _, loads in step.fetched:
                found.update((load.tensor, Ahead(1, 2)) for load, _ in loads)
            continue
        walks = walks_of(step, plan, form, stream)
        for load in (walks.tile_rows, walks.tile_lanes, walks.panel):
            if load is not None:
                found[load.tensor] = Ahead(1, 2)
    return tuple(found.items())


def multiplications(plan: KernelPlan) -> Iterator[Multiply]:
    return (step for step, _ in _steps(plan.body, None) if isinstance(step, Multiply))


def _steps(body: PlannedBody, stream: str | None) -> Iterator[tuple[Multiply | Loops, str | None]]:
    """Every product without a matrix unit and every nest, with the axis of the innermost stream around it."""
    for step in body.steps:
        match step:
            case Multiply(matrix=None) | Loops():
                yield step, stream
            case Loop(op, inner):
                yield from _steps(inner, op.axes[-1].axis.name)
            case Branches(_, then, otherwise):
                yield from _steps(then, stream)
                yield from _steps(otherwise, stream)
