"""The meaning of tile kernels, in NumPy: the oracle that everything else is tested against.

Runs a kernel with any tile sizes (ragged last tiles included). `exact=False` computes in the declared dtypes as a
machine does: elementwise code rounds after each operation, dots and sums accumulate in f32. `exact=True` keeps
every float in float64: the reference that errors are measured from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from threadloom.dtypes import Dtype, bool_, f8e4m3, f8e5m2, numpy_dtype, tf32, u4
from threadloom.errors import InternalError
from threadloom.tile.functions import TABLE
from threadloom.tile.ops import (
    AtomicAdd,
    Axis,
    AxisKind,
    Block,
    Bound,
    Cast,
    Const,
    Dim,
    DimSize,
    Dot,
    Full,
    Grid,
    If,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Map,
    Op,
    Reduce,
    Scan,
    Store,
    Stream,
    Subscript,
    TileType,
    Value,
    Yield,
)
from threadloom.tile.uses import subscript_axes


@dataclass(slots=True)
class Run:
    """One execution: where values, tensors and the current tile of each axis are kept.

    `tensors` are indexed logically (u4 one element each); in exact mode float tensors are float64.
    """

    kernel: Kernel
    tensors: Mapping[str, np.ndarray]
    dims: Mapping[str, int]
    tiles: Mapping[str, int]
    exact: bool = False
    values: dict[str, np.ndarray] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.axes = {a.name: a for a in self.kernel.axes}
        for axis in self.kernel.axes:
            if axis.kind is AxisKind.WHOLE:
                self.ranges[axis.name] = (0, self.extent(axis.dim))

    def extent(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else self.dims[dim]

    def numpy_dtype(self, dtype: Dtype) -> np.dtype:
        return np.dtype(np.float64) if self.exact and dtype.is_float else numpy_dtype(dtype)

    def get(self, value: Value) -> np.ndarray:
        return self.values[value.name]

    def scalar(self, value: Value) -> int:
        return int(self.get(value))


def interpret(
    kernel: Kernel,
    tensors: Mapping[str, np.ndarray],
    scalars: Mapping[str, float | int | bool],
    dims: Mapping[str, int],
    tiles: Mapping[str, int] | None = None,
    exact: bool = False,
) -> None:
    """Run `kernel` on logical arrays, writing its outputs in place. Axes without an entry in `tiles` are one tile."""
    run = Run(kernel, tensors, dims, tiles or {}, exact)
    for scalar in kernel.scalars:
        run.values[scalar.name] = convert(run, np.asarray(scalars[scalar.name]), scalar.dtype)
    run_block(run, kernel.body)


# ---------------------------------------------------------------- regions


def run_block(run: Run, block: Block) -> tuple[np.ndarray, ...]:
    """Execute the block's operations; the values it yields."""
    for op in block.ops:
        match op:
            case Yield(values):
                return tuple(run.get(v) for v in values)
            case Grid():
                for _ in tile_positions(run, op.axes):
                    run_block(run, op.body)
            case Stream():
                carried = tuple(run.get(v) for v in op.inits)
                for _ in tile_positions(run, op.axes):
                    run.values.update((a.name, v) for a, v in zip(op.args, carried, strict=True))
                    carried = run_block(run, op.body)
                run.values.update((r.name, v) for r, v in zip(op.results, carried, strict=True))
            case If():
                made = run_block(run, op.then if bool(run.get(op.cond)) else op.otherwise)
                run.values.update((r.name, v) for r, v in zip(op.results, made, strict=True))
            case _:
                run_op(run, op)
    return ()


def tile_positions(run: Run, axes: tuple[LoopAxis, ...]) -> Iterator[None]:
    """Set `run.ranges` to each tile of the loop in turn, the last axis fastest."""
    if not axes:
        yield
        return
    first, rest = axes[0], axes[1:]
    start, stop = loop_range(run, first)
    step = 1 if first.axis.kind is AxisKind.EACH else run.tiles.get(first.axis.name, max(1, stop - start))
    for at in range(start, stop, step):
        run.ranges[first.axis.name] = (at, min(at + step, stop))
        yield from tile_positions(run, rest)


def loop_range(run: Run, axis: LoopAxis) -> tuple[int, int]:
    """The loop's indices: its bounds cut to [0, extent)."""
    extent = run.extent(axis.axis.dim)
    start = 0 if axis.start is None else max(0, run.scalar(axis.start))
    stop = extent if axis.stop is None else min(extent, run.scalar(axis.stop))
    return start, stop


# ---------------------------------------------------------------- operations


def run_op(run: Run, op: Op) -> None:
    """Execute one operation without regions."""
    match op:
        case Store() | AtomicAdd():
            _store(run, op)
            return
        case Const():
            made = np.asarray(op.number, run.numpy_dtype(op.result.type.dtype))
        case Index():
            made = _indices(run, op.axis)
        case Bound():
            made = np.asarray(run.ranges[op.axis][0 if op.which == "start" else 1], np.int64)
        case DimSize():
            made = np.asarray(run.extent(op.dim), np.int64)
        case Load():
            made = _load(run, op)
        case Map():
            made = _map(run, op)
        case Cast():
            made = convert(run, _aligned(run, op.arg, op.result.type), op.result.type.dtype)
        case Full():
            shape = tuple(stop - start for start, stop in (run.ranges[a] for a in op.result.type.axes))
            made = np.broadcast_to(convert(run, run.get(op.value), op.result.type.dtype), shape)
        case Reduce():
            made = _reduce(run, op)
        case Scan():
            made = _scan(run, op)
        case Dot():
            made = _dot(run, op)
        case _:
            raise InternalError(f"{type(op).__name__} is not a leaf operation")
    run.values[op.result.name] = made


def _indices(run: Run, axis: str) -> np.ndarray:
    start, stop = run.ranges[axis]
    if run.axes[axis].kind is AxisKind.EACH:
        return np.asarray(start, np.int64)
    return np.arange(start, stop, dtype=np.int64)


def _aligned(run: Run, value: Value, to: TileType) -> np.ndarray:
    """`value` with its axes in the order of `to`, length 1 where it lacks one."""
    array = run.get(value)
    own = value.type.axes
    if own == to.axes or not own:
        return array
    array = array.transpose([own.index(a) for a in to.axes if a in own])
    return array.reshape(
        [array.shape[sum(x in own for x in to.axes[:at])] if a in own else 1 for at, a in enumerate(to.axes)]
    )


def _map(run: Run, op: Map) -> np.ndarray:
    fn = TABLE[op.fn]
    dtype = op.result.type.dtype
    args = [_aligned(run, a, op.result.type) for a in op.args]
    if not run.exact:  # narrow floats: compute in f32, round once
        args = [
            a.astype(np.float32) if v.type.dtype.is_float and v.type.dtype.bits < 32 else a
            for a, v in zip(args, op.args, strict=True)
        ]
    with np.errstate(all="ignore"):
        made = np.asarray(fn.numpy(*args))
        made = made.astype(run.numpy_dtype(dtype))
    return np.bitwise_and(made, 15) if dtype is u4 else made


def convert(run: Run, array: np.ndarray, dtype: Dtype) -> np.ndarray:
    """Cast: float to integer truncates and saturates (NaN gives 0), integers wrap, f8 saturates, floats round."""
    array = np.asarray(array)
    target = run.numpy_dtype(dtype)
    is_float = array.dtype.kind not in "biu"
    if dtype is bool_:
        return array != 0
    if dtype.is_float:
        if not run.exact and dtype in (f8e4m3, f8e5m2):
            limit = np.float32(448.0 if dtype is f8e4m3 else 57344.0)
            array = np.clip(array.astype(np.float32), -limit, limit)
        with np.errstate(over="ignore"):
            return array.astype(target)
    if is_float:
        array = _saturate(array.astype(np.float64), dtype)
    array = array.astype(target)
    return np.bitwise_and(array, 15) if dtype is u4 else array


def _saturate(array: np.ndarray, dtype: Dtype) -> np.ndarray:
    low = -(2.0 ** (dtype.bits - 1)) if dtype.kind == "int" else 0.0
    high = 2.0 ** (dtype.bits - (dtype.kind == "int"))
    inside = np.trunc(np.nan_to_num(array, nan=0.0, posinf=np.inf, neginf=-np.inf))
    largest = np.iinfo(np.int64).max if dtype.bits == 64 else int(high) - 1
    clipped = np.clip(inside, low, np.nextafter(high, 0)).astype(np.int64)
    return np.where(inside >= high, largest, clipped)


# ---------------------------------------------------------------- reductions, scans, dots

_REDUCE = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all}
_SCAN = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _lowest(dtype: np.dtype, sign: int) -> object:
    """The neutral element of max (sign -1) and min (sign 1)."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if sign < 0 else limits.max
    return False if dtype.kind == "b" else sign * np.inf


def _reduce(run: Run, op: Reduce) -> np.ndarray:
    array = run.get(op.arg)
    at = op.arg.type.axes.index(op.axis)
    target = run.numpy_dtype(op.result.type.dtype)
    if op.fn in ("argmax", "argmin"):
        shape = tuple(n for i, n in enumerate(array.shape) if i != at)
        if array.shape[at] == 0:
            return np.zeros(shape, target)
        found = (np.argmax if op.fn == "argmax" else np.argmin)(array, axis=at)
        return np.asarray(found + run.ranges[op.axis][0], target)
    array = array.astype(target) if op.fn in ("sum", "prod") else array
    if op.fn in ("max", "min") and array.shape[at] == 0:
        shape = tuple(n for i, n in enumerate(array.shape) if i != at)
        return np.full(shape, _lowest(target, -1 if op.fn == "max" else 1), target)
    return np.asarray(_REDUCE[op.fn](array, axis=at)).astype(target)


def _scan(run: Run, op: Scan) -> np.ndarray:
    array = run.get(op.arg).astype(run.numpy_dtype(op.result.type.dtype))
    at = op.arg.type.axes.index(op.axis)
    array = np.flip(array, at) if op.reverse else array
    made = _SCAN[op.fn].accumulate(array, axis=at, dtype=array.dtype)  # NumPy would make i64 of narrower integers
    return np.flip(made, at) if op.reverse else made


def _dot(run: Run, op: Dot) -> np.ndarray:
    letters = {axis: chr(97 + i) for i, axis in enumerate(dict.fromkeys((*op.a.type.axes, *op.b.type.axes)))}
    spell = lambda axes: "".join(letters[a] for a in axes)  # noqa: E731
    formula = f"{spell(op.a.type.axes)},{spell(op.b.type.axes)}->{spell(op.result.type.axes)}"
    target = run.numpy_dtype(op.result.type.dtype)
    a, b = (_rounded_operand(run, v).astype(target) for v in (op.a, op.b))
    with np.errstate(all="ignore"):
        large = a.size * b.size > 1 << 14  # planning a product costs more than a small one
        return np.asarray(np.einsum(formula, a, b, optimize=large), target)


def _rounded_operand(run: Run, value: Value) -> np.ndarray:
    """The operand as the products see it: tf32 has 10 bits of mantissa, rounded to nearest even."""
    array = run.get(value)
    if value.type.dtype is not tf32 or run.exact:
        return array
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(array), rounded.view(np.float32), array)


# ---------------------------------------------------------------- memory


def index_arrays(run: Run, subscripts: tuple[Subscript, ...], axes: tuple[str, ...]) -> list[np.ndarray]:
    """One integer array per dimension, all broadcast to the tile over `axes`."""
    found = []
    for subscript in subscripts:
        total = np.asarray(subscript.offset, np.int64)
        for term in subscript.terms:
            if term.value is not None:
                part, own = run.get(term.value).astype(np.int64), term.value.type.axes
            else:
                part = _indices(run, term.axis)
                own = () if run.axes[term.axis].kind is AxisKind.EACH else (term.axis,)
            total = total + term.coefficient * _spread(part, own, axes)
        found.append(total)
    return found


def _spread(array: np.ndarray, own: tuple[str, ...], axes: tuple[str, ...]) -> np.ndarray:
    order = [own.index(a) for a in axes if a in own]
    sizes = iter(array.shape[i] for i in order)
    return array.transpose(order).reshape([next(sizes) if a in own else 1 for a in axes])


def _load(run: Run, op: Load) -> np.ndarray:
    tensor = run.tensors[op.tensor]
    axes = op.result.type.axes
    shape = tuple(run.ranges[a][1] - run.ranges[a][0] for a in axes)
    indices = index_arrays(run, op.subscripts, axes)
    inside = np.asarray(True)
    for index, extent in zip(indices, tensor.shape, strict=True):
        inside = inside & (index >= 0) & (index < extent)
    target = run.numpy_dtype(op.result.type.dtype)
    if 0 in tensor.shape:
        return np.zeros(shape, target)
    safe = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, tensor.shape, strict=True))
    loaded = np.broadcast_to(np.asarray(tensor[safe], target), shape)
    return loaded if inside.all() else np.where(inside, loaded, np.zeros((), target))


def _store(run: Run, op: Store | AtomicAdd) -> None:
    tensor = run.tensors[op.tensor]
    axes = subscript_axes(op.subscripts, run.kernel.axes)
    shape = tuple(run.ranges[a][1] - run.ranges[a][0] for a in axes)
    indices = [np.broadcast_to(i, shape) for i in index_arrays(run, op.subscripts, axes)]
    value = np.broadcast_to(_spread(run.get(op.value), op.value.type.axes, axes), shape)
    inside = np.ones(shape, bool)
    for index, extent in zip(indices, tensor.shape, strict=True):
        inside &= (index >= 0) & (index < extent)
    place = tuple(i[inside] for i in indices) if not inside.all() else tuple(indices)
    value = value[inside] if not inside.all() else value
    if isinstance(op, AtomicAdd):
        _add_at(tensor, place, value)
    else:
        tensor[place] = value


def _add_at(tensor: np.ndarray, place: tuple[np.ndarray, ...], value: np.ndarray) -> None:
    if tensor.dtype.kind in "biuf":
        np.add.at(tensor, place, value)
        return
    for at in np.ndindex(value.shape):  # extended dtypes have no ufunc.at
        where = tuple(i[at] for i in place)
        tensor[where] = tensor[where] + value[at]
