"""Where the threads of a loop lie whose ends are computed: from `max(0, %skip)` to `min(16, %n)` is in 0 to 16."""

from __future__ import annotations

from collections.abc import Mapping

from threadloom.par.constants import int_value
from threadloom.par.ops import Int, Leaf, Operand, Parallel, Value

_DEEPEST = 12  # definitions looked through


def threads_around(op: Parallel, definitions: Mapping[str, Leaf]) -> tuple[int, int] | None:
    """Constant ends around those of the fastest dimension of `op`; None where nothing bounds them."""
    least, most = span(op.lowers[-1], definitions)[0], span(op.uppers[-1], definitions)[1]
    return None if least is None or most is None else (least, most)


def span(operand: Operand, definitions: Mapping[str, Leaf], depth: int = 0) -> tuple[int | None, int | None]:
    """The least and the largest that the signed integer `operand` can be, as far as minima and maxima tell."""
    if (known := int_value(operand)) is not None:
        return known, known
    leaf = definitions.get(operand.name) if isinstance(operand, Value) else None
    if leaf is None or depth == _DEEPEST:
        return None, None
    spans = [span(one, definitions, depth + 1) for one in leaf.operands]
    if leaf.opcode == "sext":
        return spans[0]
    if leaf.opcode == "trunc":
        return spans[0] if _fits(spans[0], operand.type) else (None, None)
    callee = leaf.attrs.callee if leaf.opcode == "call" else ""
    if callee.startswith("llvm.smin."):
        return _of_minimum(*spans)
    if callee.startswith("llvm.smax."):
        (least, most) = _of_minimum(*(_negated(one) for one in spans))
        return _negated((least, most))
    return None, None


def _of_minimum(one: tuple[int | None, int | None], other: tuple[int | None, int | None]
                ) -> tuple[int | None, int | None]:  # fmt: skip
    least = None if one[0] is None or other[0] is None else min(one[0], other[0])
    tops = [top for top in (one[1], other[1]) if top is not None]
    return least, min(tops, default=None)


def _negated(found: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    least, most = found
    return None if most is None else -most, None if least is None else -least


def _fits(found: tuple[int | None, int | None], type_: Int) -> bool:
    least, most = found
    half = 1 << (type_.bits - 1)
    return least is not None and most is not None and -half <= least and most < half
