"""A value over the lanes of one vector, as the emitter holds it, and the conversions between its forms."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.cuda.lower.editor import Editor
from threadloom.errors import InternalError
from threadloom.par.constants import vector_const
from threadloom.par.ops import I1, I8, I64, PTR, Const, Int, Operand, Struct, Type, Vector
from threadloom.par.result_types import size_bytes


@dataclass(frozen=True, slots=True)
class Uniform:
    """The same in all lanes."""

    value: Operand


@dataclass(frozen=True, slots=True)
class Steps:
    """Lane l has `first` + l * `stride` (bytes for pointers).

    `exact`: its lanes as a vector, where that is so of addresses only. A sum of 32 bits may wrap from one lane to the
    next, which its extension does not, and then no lane may use it as an index; but any may compare or keep it.
    """

    first: Operand
    stride: int
    exact: Operand | None = None


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector with one element per lane."""

    value: Operand


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct, field by field (results of cmpxchg)."""

    parts: tuple[Lanes, ...]


Form = Uniform | Steps | Lanes | Fields


class LaneBuilder:
    """Conversions and masks for vectors of `width` lanes."""

    def __init__(self, editor: Editor, width: int):
        self.editor, self.width = editor, width

    def vector_type(self, type_: Type) -> Vector:
        if isinstance(type_, Struct | Vector):
            raise InternalError(f"no vector of {type_!r}")
        return Vector(self.width, type_)

    def vector(self, form: Form) -> Operand:
        """`form` as a vector."""
        match form:
            case Lanes(value):
                return value
            case Uniform(value):
                return self.splat(value)
            case Steps(first, stride, exact):
                return self._stepped(first, stride) if exact is None else exact
        raise InternalError("a struct is no vector")

    def splat(self, value: Operand) -> Operand:
        return self.editor.splat(value, self.width)

    def _stepped(self, first: Operand, stride: int) -> Operand:
        if first.type == PTR:
            return self.editor.gep(I8, first, self.counting(I64, stride), name="lanes.at")
        return self.editor.add(self.splat(first), self.counting(first.type, stride), name="lanes")

    def counting(self, type_: Type, stride: int = 1) -> Const:
        """0, stride, 2 * stride ..."""
        if not isinstance(type_, Int):
            raise InternalError(f"no counting vector of {type_!r}")
        return vector_const(type_, [lane * stride for lane in range(self.width)])

    # ------------------------------------------------------------ masks

    def any(self, mask: Operand) -> Operand:
        """Whether some lane is on."""
        bits = self.editor.cast("bitcast", mask, Int(self.width), name="mask.bits")
        return self.editor.icmp("ne", bits, 0, "some.lane")

    def both(self, mask: Operand | None, other: Operand) -> Operand:
        """A select: `and` would let what an absent lane has computed (poison) into the mask."""
        if mask is None:
            return other
        return self.editor.select(mask, other, Const(self.vector_type(I1), "zeroinitializer"), name="mask")

    def inverted(self, mask: Operand) -> Operand:
        return self.editor.xor(mask, self.splat(Const(I1, "true")), "mask.not")

    def all_on(self) -> Const:
        return Const(self.vector_type(I1), "splat (i1 true)")

    def blend(self, mask: Operand, on: Form, off: Form) -> Form:
        """`on` where the mask is set, else `off`."""
        if on == off:
            return on
        return Lanes(self.editor.select(mask, self.vector(on), self.vector(off), name="blend"))

    def unknown(self, type_: Type) -> Const:
        return Const(self.vector_type(type_), "poison")

    def contiguous(self, form: Form, type_: Type) -> bool:
        """Neighbouring lanes point at neighbouring elements."""
        return isinstance(form, Steps) and form.stride == size_bytes(type_)
