"""Exponentials of a difference of two vectors as a product of a factor of each.

    before:  for every element: exp(a[row] - b[column])                           rows * columns exponentials
    after:   f[row] = exp(a[row] - r); g[column] = exp(r - b[column])             rows + columns
             if no factor can overflow: for every element: f[row] * g[column]
             else as before

`r` is one of the thread's own b. Sound by a test at run time: all exponents of a warp's threads (to the base 2) lie
within +-MOST, so factors and their products are normal numbers; NaN and infinities fail the test. The error is that of
two exponentials in place of one, of arguments with the same rounding (both factors see the same `r`).
Not handled: differences that reductions make in their own loops; operands that the same loop makes.
Source: the hand-written ChunkScan of Mamba2 kernels splits its decay so, with a proof of range in place of the test.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.tile import ops as tile

MOST = 60  # of an exponent to the base 2: the product of two is far from 2^127 and 2^-126
WORTH = 0.75  # of the exponentials may be left
LEAST_REGISTERS = 16

Pair = tuple[str, Registers, str, Registers]  # arrays of factors, and where their operands are


@dataclass(frozen=True, slots=True)
class Split:
    """exp or exp2 `op` of `a` - `b`."""

    op: tile.Map
    a: tile.Value
    b: tile.Value


def find_splits(scope: Scope, group: list[tile.Op], registers: int, counts: dict[str, int]) -> list[Split]:
    """Exponentials of `group`, a loop over `registers` registers, that are worth it. `counts`: registers of values that
    the loop reads."""
    if registers < LEAST_REGISTERS:
        return []
    made = {op.result.name: op for op in group}
    found = []
    for op in group:
        if not isinstance(op, tile.Map) or not (op.fn == "exp2" or (op.fn == "exp" and scope.rounds)):
            continue
        difference = made.get(op.args[0].name)
        if not isinstance(difference, tile.Map) or difference.fn != "sub" or op.result.type.dtype.name == "f64":
            continue
        a, b = difference.args
        given = all(v.type.axes and v.name in counts and v.name not in made for v in (a, b))
        if given and counts[a.name] + counts[b.name] <= WORTH * registers:
            found.append(Split(op, a, b))
    return found


def emit_factors(scope: Scope, splits: list[Split]) -> tuple[str, dict[str, Pair]]:
    """Compute the factors. Returns the C name of the test's result (the same in all threads of a warp) and, by the
    exponential's name, its factors."""
    w, test = scope.writer, scope.fresh("in_range")
    w.line(f"bool {test} = true;  // exponentials as products of two factors, where neither can overflow")
    found: dict[str, Pair] = {}
    for one in splits:
        a, b = scope.registers[one.a.name], scope.registers[one.b.name]
        scale = " * LOOM_LOG2E" if one.op.fn == "exp" else ""
        names = []
        middle = scope.fresh("middle")
        w.line(f"const float {middle} = {b.name}[0]{scale};")
        for held, exponent in ((a, f"{a.name}[q]{scale} - {middle}"), (b, f"{middle} - {b.name}[q]{scale}")):
            names.append(scope.fresh(f"{held.name}_factor"))
            w.line(f"float {names[-1]}[{held.layout.registers}];")
            w.line("#pragma unroll")
            with w.block(f"for (int q = 0; q < {held.layout.registers}; q++)"):
                w.line(f"const float power = {exponent};")
                w.line(f"{names[-1]}[q] = exp2_fast(power);")
                w.line(f"{test} = {test} & (fabsf(power) < {MOST}.0f);")
        found[one.op.result.name] = (names[0], a, names[1], b)
    w.line(f"{test} = __all_sync(0xffffffffu, {test});")
    return test, found
