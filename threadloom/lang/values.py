"""What a name may stand for while a kernel is parsed, beside plain Python objects (compile-time constants)."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.tile.ops import AxisKind, Dim, Tensor, Term, Value


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of loop indices and integer scalars: a subscript in the making. A loop variable is one with one term; it
    becomes a tile of index values only where it is used as a number."""

    terms: tuple[Term, ...]
    offset: int = 0

    def axis(self) -> str | None:
        """The axis this is, if it is a plain loop variable."""
        match self.terms:
            case (Term(1, str(axis), None),) if self.offset == 0:
                return axis
        return None

    def plus(self, other: Affine, sign: int = 1) -> Affine:
        return Affine(_merge((*self.terms, *other.times(sign).terms)), self.offset + sign * other.offset)

    def times(self, factor: int) -> Affine:
        scaled = tuple(Term(t.coefficient * factor, t.axis, t.value) for t in self.terms)
        return Affine(tuple(t for t in scaled if t.coefficient), self.offset * factor)


def _merge(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """One term per axis or value, in order of first appearance, without zeros."""
    sums: dict[str, Term] = {}
    for term in terms:
        key = f"axis {term.axis}" if term.value is None else f"value {term.value.name}"
        before = sums[key].coefficient if key in sums else 0
        sums[key] = Term(before + term.coefficient, term.axis, term.value)
    return tuple(t for t in sums.values() if t.coefficient)


@dataclass(frozen=True, slots=True)
class TensorRef:
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class AxisSpec:
    """What tl.each, tl.span and tl.axis give: an axis still without its variable's name."""

    dim: Dim
    kind: AxisKind
    start: Value | None = None
    stop: Value | None = None


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """What tl.grid and tl.stream give to a `for`."""

    kind: str  # "grid" or "stream"
    axes: tuple[AxisSpec, ...]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A name that was assigned where it cannot be read from here; `why` goes into the error."""

    why: str


Number = int | float | bool
