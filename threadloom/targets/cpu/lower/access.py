"""Reading and writing tensors at a point of a loop nest: addresses, bounds, contiguous, strided and gathered lanes.

The address grows level by level: what the tile's start and scalar subscripts add at the root, what each loop adds where
its axis is bound. Bounds are tested only for subscripts that are not provably inside; outside, loads give 0 and stores
do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.par.constants import int_value
from threadloom.par.ops import I64, PTR, Operand, Vector
from threadloom.targets.cpu.lower.context import Point, TensorArguments
from threadloom.targets.cpu.lower.dtypes import memory_type, narrow, widen
from threadloom.targets.cpu.lower.elementwise import Register, Series, compare_series, materialized
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.targets.cpu.lower.masked_loads import masked_load
from threadloom.targets.cpu.lower.nibbles import load_nibbles, store_nibbles
from threadloom.targets.cpu.lower.vectors import both, gather, lane_numbers, scatter
from threadloom.targets.cpu.operands import in_bounds
from threadloom.tile.ops import AtomicAdd, Load, Store, Subscript, Value


@dataclass(frozen=True, slots=True)
class Lanes:
    """How the lanes of an access lie: `stride` elements apart (a constant 1: contiguous), plus `offsets` a lane."""

    stride: Operand | None
    offsets: Operand | None

    @property
    def contiguous(self) -> bool:
        return self.offsets is None and self.stride is not None and int_value(self.stride) == 1


class TensorAccess:
    """One load or store operation, at any point of the nest it stands in."""

    def __init__(self, evaluator: Evaluator, op: Load | Store | AtomicAdd):
        self.evaluator, self.c, self.op = evaluator, evaluator.c, op
        self.tensor: TensorArguments = self.c.tensors[op.tensor]
        self.element = memory_type(self.tensor.dtype)
        self.key = f"{op.tensor} {op.subscripts!r}"

    # ------------------------------------------------------------ addresses

    def axis_stride(self, axis: str, root: Point) -> Operand:
        """Elements between neighbours along `axis`."""
        key = f"stride {axis} of {self.key}"
        if key not in root.addresses:
            with self.c.at(root) as b:
                total: Operand = b.const(I64, 0)
                for subscript, stride in zip(self.op.subscripts, self.tensor.strides, strict=True):
                    for term in subscript.terms:
                        if term.axis == axis:
                            total = b.add(total, b.mul(stride, term.coefficient))
                root.addresses[key] = total
        return root.addresses[key]

    def address(self, point: Point) -> Operand:
        """The address at `point`; along a vector axis that of lane 0, without the lanes' own offsets."""
        if self.key in point.addresses:
            return point.addresses[self.key]
        if point.parent is None:
            made = self._start(point)
        else:
            made = self.address(point.parent)
            with self.c.at(point) as b:
                if point.axis in self._axes() and point.index is not None:
                    stride = self.axis_stride(point.axis, point.root)
                    made = b.gep(self.element, made, b.mul(point.index, stride))
                    made = b.gep(self.element, made, b.mul(stride, point.offset))
                made = self._add_values(made, point)
        point.addresses[self.key] = made
        return made

    def _axes(self) -> set[str]:
        return {t.axis for s in self.op.subscripts for t in s.terms if t.axis is not None}

    def _start(self, root: Point) -> Operand:
        """The tile's first element."""
        with self.c.at(root) as b:
            total: Operand = b.const(I64, 0)
            for subscript, stride in zip(self.op.subscripts, self.tensor.strides, strict=True):
                total = b.add(total, b.mul(stride, subscript.offset))
            for axis in sorted(self._axes()):
                total = b.add(total, b.mul(self.c.ranges[axis].start, self.axis_stride(axis, root)))
            made = b.gep(self.element, self.tensor.pointer, total)
            return self._add_values(made, root)

    def _add_values(self, pointer: Operand, point: Point) -> Operand:
        """What computed subscripts add that are scalars and become known at `point`."""
        b = self.c.b
        for subscript, stride in zip(self.op.subscripts, self.tensor.strides, strict=True):
            for term in subscript.terms:
                if term.value is None or not point.completes(term.value.type.axes):
                    continue
                index = self.evaluator.index(term.value, point)
                if not isinstance(index, Series) and not isinstance(index.type, Vector):
                    pointer = b.gep(self.element, pointer, b.mul(b.mul(index, term.coefficient), stride))
        return pointer

    def lanes(self, point: Point, vector: Point) -> Lanes:
        """How lanes lie apart; both None where the access does not vary along the vector axis."""
        with self.c.at(point) as b:
            axis = vector.axis or ""
            stride = self.axis_stride(axis, point.root) if axis in self._axes() else None
            offsets: Operand | None = None
            for subscript, step in zip(self.op.subscripts, self.tensor.strides, strict=True):
                for term in subscript.terms:
                    if term.value is None or axis not in term.value.type.axes:
                        continue
                    index = materialized(b, self.evaluator.index(term.value, point))
                    part = b.mul(b.mul(index, b.const(index.type, term.coefficient)), b.splat(step, vector.lanes))
                    offsets = part if offsets is None else b.add(offsets, part)
            return Lanes(stride, offsets)

    # ------------------------------------------------------------ bounds

    def inside(self, point: Point) -> tuple[Operand | None, Operand | None]:
        """(condition, lane mask) under which the access lies in the tensor; None where it always does."""
        condition: Operand | None = None
        mask: Operand | None = None
        tensor = next(t for t in self.c.plan.kernel.tensors if t.name == self.op.tensor)
        for at, subscript in enumerate(self.op.subscripts):
            if in_bounds(tuple(self.c.axes.values()), tensor, self.op, at):
                continue
            test = self._test(subscript, self.tensor.extents[at], point)
            if isinstance(test.type, Vector):
                mask = both(self.c.b, mask, test)
            else:
                with self.c.at(point) as b:
                    condition = both(b, condition, test)
        return condition, mask

    def _test(self, subscript: Subscript, extent: Operand, point: Point) -> Operand:
        """0 <= subscript < extent, computed where all its parts are known."""
        axes = {t.axis for t in subscript.terms if t.axis is not None}
        axes |= {axis for t in subscript.terms if t.value is not None for axis in t.value.type.axes}
        level = point.level(axes)
        key = f"inside {subscript!r} of {self.op.tensor}"
        if key in level.addresses:
            return level.addresses[key]
        with self.c.at(level) as b:
            total = self._index(subscript, level)
            if isinstance(total, Series) and total.step > 0:
                made = compare_series(b, "lt", b.sub(extent, total.base), total.step, total.lanes)
                if _may_be_negative(subscript):
                    low = compare_series(b, "ge", b.sub(b.const(I64, 0), total.base), total.step, total.lanes)
                    made = b.and_(low, made)
            else:
                index = materialized(b, total)
                limit = b.splat(extent, index.type.lanes) if isinstance(index.type, Vector) else extent
                made = b.icmp("ult", index, limit)
        level.addresses[key] = made
        return made

    def _index(self, subscript: Subscript, point: Point) -> Register:
        from threadloom.dtypes import i64
        from threadloom.targets.cpu.lower.elementwise import elementwise

        b = self.c.b
        total: Register = b.const(I64, subscript.offset)
        for term in subscript.terms:
            part = (
                self.evaluator.axis_index(term.axis, point)
                if term.axis is not None
                else self.evaluator.index(term.value, point)
            )
            if term.coefficient != 1:
                part = elementwise(b, "mul", [part, b.const(I64, term.coefficient)], [i64, i64], i64)
            total = elementwise(b, "add", [total, part], [i64, i64], i64)
        return total

    # ------------------------------------------------------------ loads

    def load(self, point: Point) -> Operand:
        """The value at `point` in registers; 0 outside the tensor."""
        if self.tensor.dtype.name == "u4":
            return load_nibbles(self, point)
        with self.c.at(point) as b:
            return widen(b, self.load_memory(point), self.tensor.dtype)

    def load_memory(self, point: Point) -> Operand:
        """The elements at `point` as they lie in memory; 0 outside the tensor."""
        with self.c.at(point) as b:
            vector = point.vector
            condition, mask = self.inside(point)
            pointer = self.address(point)
            lanes = self.lanes(point, vector) if vector is not None else Lanes(None, None)
            if vector is None or (lanes.stride is None and lanes.offsets is None):
                return b.load(self.element, self._or_zeros(pointer, condition))
            if vector.count == 1 and mask is None and lanes.offsets is None:
                return b.splat(b.load(self.element, self._or_zeros(pointer, condition)), vector.lanes)
            mask = both(b, vector.mask, mask)
            if lanes.contiguous:
                pointer = self._or_zeros(pointer, condition)
            elif condition is not None:
                mask = both(b, mask, b.splat(condition, vector.lanes))
            return self._load_lanes(pointer, lanes, mask, vector.lanes)

    def _or_zeros(self, pointer: Operand, condition: Operand | None) -> Operand:
        return pointer if condition is None else self.c.b.select(condition, pointer, self.c.zeros())

    def _load_lanes(self, pointer: Operand, lanes: Lanes, mask: Operand | None, count: int) -> Operand:
        b = self.c.b
        type_ = Vector(count, self.element)
        if lanes.contiguous:
            return b.load(type_, pointer) if mask is None else masked_load(self.c, type_, pointer, mask)
        return gather(b, type_, self.pointers(pointer, lanes, count), mask, b.const(type_, 0))

    def pointers(self, pointer: Operand, lanes: Lanes, count: int) -> Operand:
        b = self.c.b
        total = lanes.offsets
        if lanes.stride is not None:
            apart = b.mul(b.splat(lanes.stride, count), lane_numbers(count))
            total = apart if total is None else b.add(total, apart)
        if total is None:
            raise InternalError("lanes at one address")
        return b.gep(self.element, pointer, total)

    # ------------------------------------------------------------ stores

    def store(self, value: Register, point: Point, nontemporal: bool = False) -> None:
        """Write `value`, at places inside the tensor only."""
        if self.tensor.dtype.name == "u4":
            store_nibbles(self, value, point)
            return
        with self.c.at(point) as b:
            condition, mask = self.inside(point)
            pointer = self.address(point)
            vector = point.vector
            narrowed = narrow(b, materialized(b, value), self.tensor.dtype, self.c.target.native_bf16)
            lanes = self.lanes(point, vector) if vector is not None else Lanes(None, None)
            if vector is None or (lanes.stride is None and lanes.offsets is None):
                self._guarded_store(narrowed, pointer, condition)
                return
            if not isinstance(narrowed.type, Vector):
                narrowed = b.splat(narrowed, vector.lanes)
            if vector.count == 1 and mask is None and lanes.offsets is None:
                # LLVM 22 stores four bytes for a masked store of truncated lanes of which one, known, is on
                self._guarded_store(b.extract(narrowed, 0), pointer, condition)
                return
            if self._stores_apart(lanes, vector, condition, mask):
                self._store_apart(narrowed, pointer, lanes.stride, vector)
                return
            mask = both(b, vector.mask, mask)
            if condition is not None:
                mask = both(b, mask, b.splat(condition, vector.lanes))
            if not lanes.contiguous:
                scatter(b, narrowed, self.pointers(pointer, lanes, vector.lanes), mask)
            elif mask is not None:
                b.masked_store(narrowed, pointer, mask)
            elif nontemporal:
                align = vector.lanes * self.tensor.dtype.bits // 8
                b.store(narrowed, pointer, align, nontemporal=True)
            else:
                b.store(narrowed, pointer)

    def _stores_apart(self, lanes: Lanes, vector: Point, condition: Operand | None, mask: Operand | None) -> bool:
        """Whether lanes are stored one after the other: the first ones, at equal distances, where the machine has no
        instruction that scatters. (LLVM would take the addresses out of vectors, and branch for every lane.)"""
        strided = not lanes.contiguous and lanes.offsets is None and lanes.stride is not None
        first = vector.mask is None or vector.rest is not None
        return strided and first and condition is None and mask is None and not self.c.target.avx512

    def _store_apart(self, value: Operand, pointer: Operand, stride: Operand, vector: Point) -> None:
        b = self.c.b
        if vector.mask is None:
            b.call(self._store_function(value.type), (value, pointer, stride))
            return
        with b.loop(0, b.min(vector.rest, vector.lanes), 1, iv="lane") as loop:
            b.store(b.extract(value, loop.iv), b.gep(self.element, pointer, b.mul(stride, loop.iv)))

    def _store_function(self, type_: Vector) -> str:
        """Stores every lane, `stride` elements apart: one function for all places."""
        name = f"store.{type_.lanes}.{self.tensor.dtype.name}"
        if name not in self.c.micro_kernels:
            self.c.micro_kernels.add(name)
            params = [("value", type_), ("at", PTR), ("stride", I64)]
            with self.c.module.function(name, params, attrs=("noinline", "nounwind")) as b:
                value, at, stride = b.args
                for lane in range(type_.lanes):
                    b.store(b.extract(value, lane), b.gep(self.element, at, b.mul(stride, lane)))
                b.ret()
        return name

    def _guarded_store(self, value: Operand, pointer: Operand, condition: Operand | None) -> None:
        b = self.c.b
        if condition is None:
            b.store(value, pointer)
            return
        with b.if_(condition):
            b.store(value, pointer)


def _may_be_negative(subscript: Subscript) -> bool:
    """Axes never are: loops do not leave their dimension."""
    return subscript.offset < 0 or any(term.axis is None or term.coefficient < 0 for term in subscript.terms)


def value_of(op: Store | AtomicAdd) -> Value:
    return op.value
