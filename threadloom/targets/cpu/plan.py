"""The plan of a kernel on a core: what is emitted, in order, and where tiles live. Data only; planning.py makes it."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.targets.cpu.amx import Operands
from threadloom.targets.cpu.fuse import Item, Path
from threadloom.targets.cpu.layout import Layout
from threadloom.targets.cpu.steps import Product
from threadloom.tile.ops import Grid, If, Kernel, Load, LoopAxis, Op, Stream, Value


@dataclass(frozen=True, slots=True)
class Home:
    """A place of a tile: values with the same `buffer` share memory and layout."""

    buffer: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Loops:
    """Loop nests with `axis` in vector lanes (None: scalar code only). `rooms` are places of values that live from one
    loop of the nest to another. `masks`: one `where` in its operand's place, left out where its condition holds."""

    items: tuple[Item, ...]
    axis: str | None
    rooms: tuple[tuple[str, Home], ...] = ()
    fetched: tuple[tuple[Path, tuple[tuple[Load, str], ...]], ...] = ()  # see fuse.fetched_ahead
    masks: bool = False


@dataclass(frozen=True, slots=True)
class Pack:
    """Compute `value` into `home`, with `axis` in vector lanes; `transposed`: lanes are transposed to the home's
    contiguous axis on the way; `matrix`: "rows" or "groups", how the matrix unit's operands lie (amx.py), in
    which `summed` is the axis of the sum and `unit` their kind."""

    value: Value
    home: Home
    axis: str
    transposed: bool = False
    matrix: str = ""
    summed: str = ""
    unit: Operands | None = None


@dataclass(frozen=True, slots=True)
class SharedPack:
    """A pack that is done once for all tiles of the grid, before them; `axes`: the loops that it depends on."""

    pack: Pack
    axes: tuple[LoopAxis, ...]


@dataclass(frozen=True, slots=True)
class Attach:
    """Where a shared pack was: `home` is the current tile's copy from here on."""

    home: Home


@dataclass(frozen=True, slots=True)
class Copy:
    """home of `target` <- value of `source`."""

    source: Value
    target: Value


@dataclass(frozen=True, slots=True)
class InPlace:
    """A product's operand read where it lies in a tensor."""

    load: Load


@dataclass(frozen=True, slots=True)
class Multiply:
    """result (+)= rows operand x lanes operand. `row_axis`: the axis of the register block's rows; `sum_axis`: the
    reduced axis that runs inside the micro-kernel; `row_block`, `vectors`: the register block; `matrix`: by the matrix
    unit, on operands of this kind."""

    product: Product
    axis: str
    row_axis: str
    sum_axis: str
    lanes_operand: Home | InPlace
    rows_operand: Home | InPlace
    lanes_value: Value
    rows_value: Value
    accumulate: bool
    row_block: int
    vectors: int
    matrix: Operands | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A stream (or an inner grid): `before` fills carried places, `after` moves next values to them. `starts`: the
    product whose first trip stores instead of adding; `epilogue`: see epilogue.py."""

    op: Stream | Grid
    body: PlannedBody
    before: tuple[Copy, ...] = ()
    after: tuple[Copy, ...] = ()
    starts: str = ""
    epilogue: Loops | None = None


@dataclass(frozen=True, slots=True)
class Branches:
    op: If
    then: PlannedBody
    otherwise: PlannedBody


Planned = Loops | Pack | Attach | Copy | Multiply | Loop | Branches


@dataclass(frozen=True, slots=True)
class PlannedBody:
    steps: tuple[Planned, ...]
    yields: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """`before` is the scalar code outside the grid."""

    kernel: Kernel
    grid: Grid
    before: PlannedBody
    body: PlannedBody
    homes: dict[str, Home]
    inline: frozenset[str]
    definitions: dict[str, Op]
    sizes: dict[str, int]  # most positions of every axis's tile
    full: frozenset[str]  # axes whose tiles always have that many
    shared: tuple[SharedPack, ...] = ()
