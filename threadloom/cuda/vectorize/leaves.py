"""Leaves over lanes: arithmetic, addresses, memory, calls.

%v = load float, ptr %p, stride 4              load <16 x float>, or llvm.masked.load under a mask
%v = load float, ptr %p, varying               llvm.masked.gather, or one load where lanes turn out to be close
store, the same                                store, llvm.masked.store, llvm.masked.scatter
%d = sdiv i32 %a, %b under a mask              lanes that are off divide by 1
%e = call float @expf(float %x), atomics ...   one lane after the other
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.lower.effects import Memory, is_pure
from threadloom.cuda.optimize import wrapping
from threadloom.cuda.vectorize.lanes import Fields, Form, LaneBuilder, Lanes, Steps, Uniform
from threadloom.cuda.vectorize.math import FUNCTIONS, LaneMath
from threadloom.cuda.vectorize.shapes import Shapes
from threadloom.errors import InternalError
from threadloom.par.constants import const, int_value
from threadloom.par.intrinsics import is_ignored, mangled
from threadloom.par.ops import (
    F64,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Array,
    Attrs,
    Const,
    Leaf,
    Operand,
    Struct,
    Type,
    Value,
    Vector,
)
from threadloom.par.result_types import align_bytes, size_bytes, struct_layout

# Intrinsics that LLVM has on vectors, overloaded on their one type, without calls of libm behind them.
_LANEWISE = frozenset(
    "fma fmuladd sqrt fabs floor ceil trunc rint nearbyint round roundeven copysign minnum maxnum minimum maximum smin "
    "smax umin umax ctpop bswap bitreverse fshl fshr sadd.sat uadd.sat ssub.sat usub.sat".split()
)
_LANEWISE_WITH_FLAG = frozenset({"ctlz", "cttz", "abs"})
_DIVISIONS = frozenset({"sdiv", "udiv", "srem", "urem"})


class LeafVectorizer(LaneBuilder):
    """Leaves; control flow is in emit.py. `forms` maps names of the scalar code to what stands for them. `never_all`:
    every mask has a lane that is off."""

    def __init__(self, editor, width: int, shapes: Shapes, callee: Callable, never_all: bool = False):
        super().__init__(editor, width)
        self.shapes, self._callee, self._never_all = shapes, callee, never_all
        self.forms: dict[str, Form] = {}
        self._unwrapped: dict[str, frozenset[str]] = {}  # nsw, nuw where a stepping value counts on like that
        self.fast_math = has_fma()

    def form(self, operand: Operand) -> Form:
        if not isinstance(operand, Value):
            return Uniform(operand)
        return self.forms.get(operand.name) or Uniform(operand)

    def scalar(self, operand: Operand) -> Operand:
        """What is uniform, as a scalar."""
        match self.form(operand):
            case Uniform(value):
                return value
            case Steps(first, 0):
                return first
        raise InternalError(f"{operand!r} varies over lanes")

    def lanes_of(self, operand: Operand) -> Operand:
        return self.vector(self.form(operand))

    # ------------------------------------------------------------ one leaf

    def leaf(self, op: Leaf, mask: Operand | None) -> None:
        with self.editor.at(op.loc):
            form = self._leaf(op, mask)
        if op.result is not None:
            if form is None:
                raise InternalError(f"no value for %{op.result.name}")
            self.forms[op.result.name] = form

    def _leaf(self, op: Leaf, mask: Operand | None) -> Form | None:
        if op.opcode == "call" and op.result is None and is_ignored(op.attrs.callee):
            return None
        match op.opcode:
            case "load":
                return self._load(op, mask)
            case "store":
                self._store(op, mask)
                return None
            case "getelementptr":
                return self._address(op, mask)
            case "extractvalue" if isinstance(self.form(op.operands[0]), Fields):
                return self.form(op.operands[0]).parts[op.attrs.indices[0]]
        stride = self.shapes.stride(op.result) if op.result else None
        if stride == 0 and self.shapes.uniform(*op.operands) and self._computes(op):
            return Uniform(self._again(op, [self.scalar(operand) for operand in op.operands]))
        if stride is not None and op.result is not None and self._computes(op):
            return self._step(op, stride, mask)
        if self._computes(op):
            return self._lanewise(op, mask)
        return self._one_by_one(op, mask)

    def _computes(self, op: Leaf) -> bool:
        return is_pure(op, self._callee(op))

    def _again(self, op: Leaf, operands: list[Operand]) -> Operand:
        """The same instruction on other operands (scalars)."""
        self.editor.ops.append(Leaf(op.opcode, tuple(operands), self.editor.again(op.result), op.attrs, op.loc))
        return self.editor.ops[-1].result

    # ------------------------------------------------------------ steps

    def _step(self, op: Leaf, stride: int, mask: Operand | None) -> Form:
        """Only lane 0 is computed; where it may be off, nothing is promised about its value."""
        firsts = [self._first(operand) for operand in op.operands]
        exact = self._lanewise(op, mask).value if self._may_jump(op) else None
        if op.opcode == "zext":
            # Indices that pass below zero within one vector (t - 1 in lane 0) must count on in the wide type.
            narrow, wide = firsts[0], op.result.type
            shifted = self.editor.add(narrow, self.width, name="shifted")
            first = self.editor.sub(self.editor.cast("zext", shifted, wide), self.width, name=op.result.name)
            return Steps(first, stride, exact)
        flags = tuple(flag for flag in op.attrs.flags if flag not in wrapping.OF_NUMBERS)  # lane 0 may be off
        first = self.editor.leaf(op.opcode, firsts, op.result.type, Attrs(flags, op.attrs.predicate), op.result.name)
        return Steps(first, stride, exact)

    def _may_jump(self, op: Leaf) -> bool:
        """Whether neighbouring lanes of `op` may differ by more than its stride: it extends what may have wrapped."""
        counts = wrapping.BOTH.intersection(*(self._counts(operand) for operand in op.operands))
        match op.opcode:
            case "zext":
                self._unwrapped[op.result.name] = counts if "nuw" in counts else frozenset()
                if "nuw" not in counts and "nneg" not in op.attrs.flags:
                    return True
            case "sext":
                self._unwrapped[op.result.name] = counts & {"nsw"}
                if "nsw" not in counts:
                    return True
            case "trunc":
                return False  # what wrapped is cut off again
            case _:
                self._unwrapped[op.result.name] = counts & frozenset(op.attrs.flags)
        forms = [self.form(operand) for operand in op.operands]
        return any(isinstance(form, Steps) and form.exact is not None for form in forms)

    def _counts(self, operand: Operand) -> frozenset[str]:
        if self.shapes.stride(operand) == 0 or operand == self.shapes.index:
            return wrapping.BOTH
        return self._unwrapped.get(operand.name, frozenset()) if isinstance(operand, Value) else frozenset()

    def _first(self, operand: Operand) -> Operand:
        match self.form(operand):
            case Uniform(value):
                return value
            case Steps(first, _):
                return first
        raise InternalError(f"{operand!r} has no steps")

    def _address(self, op: Leaf, mask: Operand | None) -> Form:
        stride = self.shapes.stride(op.result)
        private = self.shapes.is_private(op.operands[0])
        attrs = _unflagged(op.attrs, mask)
        if stride is not None and not private:
            firsts = [self._first(operand) for operand in op.operands]
            first = self.editor.leaf("getelementptr", firsts, None, attrs, op.result.name)
            return Uniform(first) if stride == 0 else Steps(first, stride)
        if stride is not None:  # element k of lane l lies at k * width + l
            offset = self.editor.mul(self._offset(op, self._first, I64), self.width)
            return Steps(self.editor.gep(I8, self._first(op.operands[0]), offset, name=op.result.name), stride)
        if not private and self.shapes.uniform(op.operands[0]):
            indices = self._struct_indices(op, [self.lanes_of(index) for index in op.operands[1:]])
            operands = [self.scalar(op.operands[0]), *indices]
            return Lanes(self.editor.leaf("getelementptr", operands, None, attrs, op.result.name))
        offset = self._offset(op, self._wide, self.vector_type(I64))
        if private:
            offset = self.editor.mul(offset, const(offset.type, self.width))
        return Lanes(self.editor.gep(I8, self.lanes_of(op.operands[0]), offset, flags=(), name=op.result.name))

    def _struct_indices(self, op: Leaf, vectors: list[Operand]) -> list[Operand]:
        """A field's number must be a constant of the instruction."""
        return [old if int_value(old) is not None else new for old, new in zip(op.operands[1:], vectors, strict=True)]

    def _wide(self, operand: Operand) -> Operand:
        return self.editor.cast("sext", self.lanes_of(operand), self.vector_type(I64))

    def _offset(self, op: Leaf, value: Callable[[Operand], Operand], type_: Type) -> Operand:
        """The indices of a getelementptr as a number of bytes."""
        total: Operand = const(type_, 0)
        current = op.attrs.source_type
        for position, operand in enumerate(op.operands[1:]):
            if position > 0 and isinstance(current, Struct):
                field = int_value(operand) or 0
                total = self.editor.add(total, struct_layout(current)[0][field])
                current = current.fields[field]
                continue
            if position > 0 and isinstance(current, Array):
                current = current.element
            index = self.editor.cast("sext", value(operand), type_)
            total = self.editor.add(total, self.editor.mul(index, const(type_, size_bytes(current))))
        return total

    # ------------------------------------------------------------ vectors

    def _lanewise(self, op: Leaf, mask: Operand | None) -> Form:
        if op.opcode == "call":
            return self._call(op, mask)
        operands = [self.lanes_of(operand) for operand in op.operands]
        if op.opcode in _DIVISIONS and int_value(op.operands[1]) is None and op.result.type == I32:
            return Lanes(self._divide(op.opcode, *operands, op.result.name))
        if op.opcode == "select" and self.shapes.uniform(op.operands[0]):
            operands[0] = self.scalar(op.operands[0])
        if op.opcode in _DIVISIONS and mask is not None:
            operands[1] = self.editor.select(mask, operands[1], const(operands[1].type, 1), name="divisor")
        type_ = self.vector_type(op.result.type)
        attrs = op.attrs if mask is None or op.opcode not in _DIVISIONS else Attrs(predicate=op.attrs.predicate)
        return Lanes(self.editor.leaf(op.opcode, operands, type_, attrs, op.result.name))

    def _divide(self, opcode: str, left: Operand, right: Operand, name: str) -> Operand:
        """32-bit division by way of f64, whose quotient is exact when cut to an integer: vectors have no other. Where
        the divisor is 0 the result has no meaning, and nothing traps."""
        signed = opcode.startswith("s")
        wide = self.vector_type(F64)
        to_float, to_int = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        quotient = self.editor.fdiv(self.editor.cast(to_float, left, wide), self.editor.cast(to_float, right, wide))
        whole = self.editor.leaf("freeze", (self.editor.cast(to_int, quotient, left.type),), name="quotient")
        if opcode.endswith("div"):
            return whole
        return self.editor.sub(left, self.editor.mul(whole, right), name=name)

    def _math(self, op: Leaf, mask: Operand | None) -> Form:
        """In vectors; where an argument lies outside the function's domain, one lane after the other."""
        functions, x = LaneMath(self), self.lanes_of(op.operands[0])
        outside = functions.outside(op.attrs.callee, x)
        if outside is None:
            return Lanes(functions.call(op.attrs.callee, x))
        with self.editor.if_(self.any(self.both(mask, outside))) as branch:
            slow = self._one_by_one(op, mask)
            branch.yield_(self.vector(slow))
            branch.otherwise()
            branch.yield_(functions.call(op.attrs.callee, x))
        return Lanes(branch.results[0])

    def _call(self, op: Leaf, mask: Operand | None) -> Form:
        if op.attrs.callee in FUNCTIONS and self.fast_math:
            return self._math(op, mask)
        base = op.attrs.callee.removeprefix("llvm.").rsplit(".", 1)[0]
        type_ = self.vector_type(op.result.type)
        same = all(operand.type == op.result.type for operand in op.operands)
        if op.attrs.callee.startswith("llvm.") and base in _LANEWISE and same:
            operands = [self.lanes_of(operand) for operand in op.operands]
        elif op.attrs.callee.startswith("llvm.") and base in _LANEWISE_WITH_FLAG:
            operands = [self.lanes_of(op.operands[0]), op.operands[1]]
        elif op.attrs.callee.startswith(("llvm.fptosi.sat.", "llvm.fptoui.sat.")):
            operands, base = [self.lanes_of(op.operands[0])], op.attrs.callee.split(".")[1] + ".sat"
            callee = mangled(f"llvm.{base}", (type_, operands[0].type))
            return Lanes(self.editor.leaf("call", operands, type_, Attrs(callee=callee), op.result.name))
        else:
            return self._one_by_one(op, mask)
        callee = mangled(f"llvm.{base}", (type_,))
        attrs = Attrs(flags=op.attrs.flags, callee=callee)
        return Lanes(self.editor.leaf("call", operands, type_, attrs, op.result.name))

    # ------------------------------------------------------------ memory

    def _load(self, op: Leaf, mask: Operand | None) -> Form:
        type_, pointer = op.result.type, self.form(op.operands[0])
        name = op.result.name
        if self.shapes.stride(op.result) == 0:
            return Uniform(self._again(op, [self.scalar(op.operands[0])]))
        if op.attrs.ordering:
            return self._one_by_one(op, mask)
        vector = self.vector_type(type_)
        align = op.attrs.align_bytes or align_bytes(type_)
        if self.contiguous(pointer, type_):
            if mask is None:
                return Lanes(self.editor.load(vector, pointer.first, align, metadata=op.attrs.metadata, name=name))
            return Lanes(self._masked_load(vector, pointer.first, mask, align, name))
        if self.shapes.likely(op.operands[0]) == size_bytes(type_):
            return Lanes(self._load_if_neighbours(op, self.vector(pointer), vector, mask, align))
        if self.shapes.likely(op.operands[0]) == 0 and mask is None:
            return Lanes(self._load_if_same(op, self.vector(pointer), vector, align))
        return Lanes(self._gather(op, self.vector(pointer), vector, mask, align))

    def _load_if_neighbours(self, op: Leaf, pointers: Operand, vector: Vector, mask: Operand | None, align: int
                            ) -> Operand:  # fmt: skip
        """One load where the lanes that are on turn out to read neighbouring elements; else a gather."""
        pointers = self.editor.leaf("freeze", (pointers,), name="lanes.at")  # lanes that are off may hold poison
        first = self.editor.extract(pointers, const(I64, 0), "first")
        expected = self.editor.gep(I8, first, self.counting(I64, size_bytes(vector.element)), flags=(),
                                   name="expected")  # fmt: skip
        apart = self.both(mask, self.editor.icmp("ne", pointers, expected, "apart"))
        with self.editor.if_(self.any(apart)) as branch:
            branch.yield_(self._gather(op, pointers, vector, mask, align))
            branch.otherwise()
            if mask is None:
                near = self.editor.load(vector, first, align, metadata=op.attrs.metadata, name=op.result.name)
            else:
                near = self._masked_load(vector, first, mask, align, op.result.name)
            branch.yield_(near)
        return branch.results[0]

    def _load_if_same(self, op: Leaf, pointers: Operand, vector: Vector, align: int) -> Operand:
        """One element for all lanes where they turn out to read the same; else a gather."""
        pointers = self.editor.leaf("freeze", (pointers,), name="lanes.at")
        first = self.editor.extract(pointers, const(I64, 0), "first")
        apart = self.editor.icmp("ne", pointers, self.splat(first), "apart")
        with self.editor.if_(self.any(apart)) as branch:
            branch.yield_(self._gather(op, pointers, vector, None, align))
            branch.otherwise()
            one = self.editor.load(vector.element, first, align, metadata=op.attrs.metadata, name=op.result.name)
            branch.yield_(self.splat(one))
        return branch.results[0]

    def _gather(self, op: Leaf, pointers: Operand, vector: Vector, mask: Operand | None, align: int) -> Operand:
        operands = (pointers, self._mask(mask), self.unknown(vector.element))
        attrs = Attrs(callee=mangled("llvm.masked.gather", (vector, self.vector_type(PTR))), metadata=op.attrs.metadata,
                      arg_attrs=(f"align {align}", "", ""))  # fmt: skip
        return self.editor.leaf("call", operands, vector, attrs, op.result.name)

    def _masked_load(self, vector: Vector, pointer: Operand, mask: Operand, align: int, name: str) -> Operand:
        attrs = Attrs(callee=mangled("llvm.masked.load", (vector, PTR)), arg_attrs=(f"align {align}", "", ""))
        return self.editor.leaf("call", (pointer, mask, Const(vector, "zeroinitializer")), vector, attrs, name)

    def _store(self, op: Leaf, mask: Operand | None) -> None:
        value, target = op.operands
        if op.attrs.ordering:
            self._one_by_one(op, mask)
            return
        pointer, type_ = self.form(target), value.type
        align = op.attrs.align_bytes or align_bytes(type_)
        if self.shapes.uniform(value, target):
            operands = (self.scalar(value), self.scalar(target))
            self.editor.ops.append(Leaf("store", operands, None, op.attrs, op.loc))
            return
        vector = self.lanes_of(value)
        if self.contiguous(pointer, type_):
            if mask is None:
                self.editor.store(vector, pointer.first, align, metadata=op.attrs.metadata)
            else:
                self._masked_store(op, vector, pointer.first, mask, align)
            return
        callee = mangled("llvm.masked.scatter", (vector.type, self.vector_type(PTR)))
        attrs = Attrs(callee=callee, metadata=op.attrs.metadata, arg_attrs=("", f"align {align}", ""))
        self.editor.leaf("call", (vector, self.vector(pointer), self._mask(mask)), VOID, attrs)

    def _masked_store(self, op: Leaf, vector: Operand, pointer: Operand, mask: Operand, align: int) -> None:
        """Without AVX-512, a plain store where all lanes are on: masked ones take tens of cycles on AMD, and loads then
        wait until they are in the cache."""
        if has_mask_registers() or self._never_all:
            self.editor.masked_store(vector, pointer, mask, align)
            return
        with self.editor.if_(self.any(self.inverted(mask))) as branch:
            self.editor.masked_store(vector, pointer, mask, align)
            branch.otherwise()
            self.editor.store(vector, pointer, align, metadata=op.attrs.metadata)

    def _mask(self, mask: Operand | None) -> Operand:
        return self.all_on() if mask is None else mask

    # ------------------------------------------------------------ one lane after the other

    def _one_by_one(self, op: Leaf, mask: Operand | None) -> Form | None:
        """For what vectors cannot do: atomics, calls."""
        types = _result_types(op)
        inputs = [(operand, self.form(operand)) for operand in op.operands]
        vectors = [None if isinstance(form, Uniform) else self.vector(form) for _, form in inputs]
        starts = [self.unknown(type_) for type_ in types]
        with self.editor.loop(0, self.width, 1, starts, ["by.lane"] * len(types), "lane") as loop:
            if mask is None:
                parts = self._one(op, inputs, vectors, loop.iv)
                loop.yield_(*self._inserted(loop.args, parts, loop.iv))
            else:
                active = self.editor.extract(mask, loop.iv, "active")
                with self.editor.if_(active) as branch:
                    parts = self._one(op, inputs, vectors, loop.iv)
                    branch.yield_(*self._inserted(loop.args, parts, loop.iv))
                    branch.otherwise()
                    branch.yield_(*loop.args)
                loop.yield_(*branch.results)
        if op.result is None:
            return None
        if isinstance(op.result.type, Struct):
            return Fields(tuple(Lanes(result) for result in loop.results))
        return Lanes(loop.results[0])

    def _one(self, op: Leaf, inputs, vectors, lane: Operand) -> list[Operand]:
        operands = [
            form.value if isinstance(form, Uniform) else self.editor.extract(vector, lane, "own")
            for (_, form), vector in zip(inputs, vectors, strict=True)
        ]
        result = None if op.result is None else self.editor.again(op.result)
        self.editor.ops.append(Leaf(op.opcode, tuple(operands), result, op.attrs, op.loc))
        if result is None:
            return []
        if isinstance(result.type, Struct):
            return [self.editor.extractvalue(result, index) for index in range(len(result.type.fields))]
        return [result]

    def _inserted(self, vectors: tuple[Value, ...], parts: list[Operand], lane: Operand) -> list[Operand]:
        return [self.editor.insert(vector, part, lane, "by.lane") for vector, part in zip(vectors, parts, strict=True)]


def has_fma() -> bool:
    """math.py needs it."""
    from threadloom.targets.cpu.host import target_cpu

    return target_cpu().has("fma") or target_cpu().target.triple.startswith("aarch64")


def has_mask_registers() -> bool:
    from threadloom.targets.cpu.host import target_cpu

    return target_cpu().has("avx512f")


def goes_one_by_one(op: Leaf, shapes: Shapes, memory: Memory) -> bool:
    """Vectors cannot do `op`: each lane runs it alone."""
    if op.opcode in ("atomicrmw", "cmpxchg") or (op.opcode in ("load", "store") and op.attrs.ordering):
        return True
    if op.opcode != "call" or is_ignored(op.attrs.callee):
        return False
    if not is_pure(op, memory.callee(op)):
        return True
    if op.result is not None and shapes.stride(op.result) is not None:
        return False
    if op.attrs.callee in FUNCTIONS:
        return not has_fma()
    base = op.attrs.callee.removeprefix("llvm.").rsplit(".", 1)[0]
    known = base in _LANEWISE or base in _LANEWISE_WITH_FLAG or base.startswith(("fptosi.sat", "fptoui.sat"))
    return not (op.attrs.callee.startswith("llvm.") and known)


def _unflagged(attrs: Attrs, mask: Operand | None) -> Attrs:
    """Without promises (nsw, inbounds) that hold only for lanes that are on."""
    return attrs if mask is None else wrapping.without_promises(attrs)


def _result_types(op: Leaf) -> list[Type]:
    if op.result is None:
        return []
    return list(op.result.type.fields) if isinstance(op.result.type, Struct) else [op.result.type]
