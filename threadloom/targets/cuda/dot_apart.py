"""A product whose place holds another layout than it makes: made in registers of its own, then brought there.

    before:  place += c * d, by wgmma;  place += a * b, by lanes
    after:   place += c * d, by wgmma;  made = a * b, by lanes;  place += made, converted

Two products of one place may run on different units, or have their rows along different axes. One of them says what
lies where; the others are complete here, whatever waits for their groups say later.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.convert import emit_conversion
from threadloom.targets.cuda.dot import DotPlan
from threadloom.targets.cuda.registers import Registers, Scope, unroll


def emit_apart(
    scope: Scope, plan: DotPlan, place: Registers, adds: bool, finish: tuple[str, ...],
    emit: Callable[[Registers], None],
) -> None:  # fmt: skip
    """`emit` writes the product into the registers that it is given; `finish`: what completes it; `place`: where it
    goes, `adds`: on top of what is there."""
    w, value, layout = scope.writer, plan.op.result, plan.result_layout
    kind = c.register_type(place.dtype)
    with w.block(""):
        made = Registers(scope.fresh(value.name), place.dtype, layout)
        w.line(f"{kind} {made.name}[{layout.registers}];  // in another layout than {place.name}")
        emit(made)
        for line in finish:
            w.line(line)
        if finish:
            w.line(f"pin({made.name});")
        held = emit_conversion(scope, value, f"{made.name}[i]", made, kind, place.layout)
        w.line(unroll(place.layout.registers, place.dtype))
        sign = "+=" if adds else "="
        w.line(f"for (int i = 0; i < {place.layout.registers}; i++) {place.name}[i] {sign} {held.name}[i];")
