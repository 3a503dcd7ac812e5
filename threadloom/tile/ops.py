"""Level `tile`: dataflow of tiles with named axes. The whole IR stands on this page.

A kernel is one `Grid` (nested grids allowed) whose body is straight tile code with `Stream` loops and scalar `If`s.
There are no tile sizes here: an axis of kind TILE is cut by the compiler, and a program must mean the same for every
cut (up to rounding). The definition of each operation is its interpretation in `interp.py`.

Axes are named and unique in a kernel; a value's type is (axes, dtype), its elementwise operations broadcast by axis
NAME. A rank-0 value is a scalar. Tiles hold only valid positions: the last tile of an axis is shorter, so reductions
see no padding. A load outside the tensor gives 0, a store outside is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from threadloom.dtypes import Dtype
from threadloom.source import Loc

# ---------------------------------------------------------------- axes, types, values


class AxisKind(StrEnum):
    EACH = "each"  # one index at a time: the index is a scalar, the axis appears in no tile
    TILE = "tile"  # cut into tiles by the compiler
    WHOLE = "whole"  # always one tile over the whole extent


Dim = str | int  # a named dynamic dimension, or a fixed extent


@dataclass(frozen=True, slots=True)
class Axis:
    """`name` is the user's variable; `dim` gives the index range [0, dim) unless a loop narrows it."""

    name: str
    dim: Dim
    kind: AxisKind


@dataclass(frozen=True, slots=True)
class TileType:
    axes: tuple[str, ...]  # names of TILE and WHOLE axes, in order
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value; `name` is unique in the kernel and keeps the user's variable (`acc`, `acc.1` ...)."""

    name: str
    type: TileType


# ---------------------------------------------------------------- parameters


class Access(StrEnum):
    IN = "in"
    OUT = "out"
    INOUT = "inout"  # target of AtomicAdd: zeroed when allocated for the caller


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor parameter. Strides are arbitrary and known at launch."""

    name: str
    dims: tuple[Dim, ...]
    dtype: Dtype
    access: Access


@dataclass(frozen=True, slots=True)
class Scalar:
    """A run-time scalar parameter; read in the body by its name as a rank-0 value."""

    name: str
    dtype: Dtype


# ---------------------------------------------------------------- subscripts


@dataclass(frozen=True, slots=True)
class Term:
    """coefficient * (index of `axis`), or coefficient * `value` (an integer scalar or tile): exactly one is set."""

    coefficient: int
    axis: str | None = None
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Subscript:
    """One dimension's index: sum of terms + offset. A result's axes come in order of first appearance."""

    terms: tuple[Term, ...]
    offset: int = 0


# ---------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Const:
    result: Value
    number: int | float | bool
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """i64 index values along `axis` (a scalar for an EACH axis)."""

    result: Value
    axis: str
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """First index (`start`) or one past the last index (`stop`) of the current tile of `axis`: an i64 scalar that
    depends on the cut; meant for loop bounds."""

    result: Value
    axis: str
    which: str
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class DimSize:
    result: Value
    dim: Dim
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Load:
    result: Value
    tensor: str
    subscripts: tuple[Subscript, ...]
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Store:
    tensor: str
    subscripts: tuple[Subscript, ...]
    value: Value
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class AtomicAdd:
    tensor: str
    subscripts: tuple[Subscript, ...]
    value: Value
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """Elementwise `fn` (a key of functions.TABLE) of tiles, broadcast by axis name; operands already share a dtype."""

    result: Value
    fn: str
    args: tuple[Value, ...]
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Cast:
    result: Value
    arg: Value
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Full:
    """A tile over `result`'s axes filled with the scalar `value`."""

    result: Value
    value: Value
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    """fn: sum prod max min any all argmax argmin, over one axis of the current tile."""

    result: Value
    fn: str
    arg: Value
    axis: str
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """fn: sum prod max min; inclusive prefix along `axis` of the current tile, from the end if `reverse`."""

    result: Value
    fn: str
    arg: Value
    axis: str
    reverse: bool = False
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """Sum over the axes `over` of a * b; axes of both that are not in `over` are batch axes. f16, bf16, f8 and tf32
    operands accumulate in f32, f32 in f32 exactly, f64 in f64, integers in i32."""

    result: Value
    a: Value
    b: Value
    over: tuple[str, ...]
    loc: Loc | None = None


# ---------------------------------------------------------------- regions


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """A loop's axis with its index range [start, stop), cut to [0, size of the dim); None means no bound. Tiles are
    counted from the range's start."""

    axis: Axis
    start: Value | None = None
    stop: Value | None = None


@dataclass(frozen=True, slots=True)
class Block:
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Independent iterations over the tiles of `axes`. Ends without Yield."""

    axes: tuple[LoopAxis, ...]
    body: Block
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """In-order iterations over the tiles of `axes` (last fastest); `args` carry values from `inits` through the body's
    Yield to `results`."""

    axes: tuple[LoopAxis, ...]
    inits: tuple[Value, ...]
    args: tuple[Value, ...]
    body: Block
    results: tuple[Value, ...]
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Scalar condition; both blocks end with Yield of `results`' arity."""

    cond: Value
    then: Block
    otherwise: Block
    results: tuple[Value, ...]
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Yield:
    values: tuple[Value, ...] = ()


Op = (
    Const | Index | Bound | DimSize | Load | Store | AtomicAdd | Map | Cast | Full | Reduce | Scan | Dot
    | Grid | Stream | If | Yield
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel:
    """`axes` lists every axis of the kernel (loop axes and WHOLE axes); `tensors` in parameter order, outputs last.
    `body` holds scalar code and exactly one outermost Grid."""

    name: str
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    axes: tuple[Axis, ...]
    body: Block
    loc: Loc | None = None

    def __str__(self) -> str:
        """The level's text, which parses back."""
        from threadloom.tile.text import print_kernel

        return print_kernel(self)
