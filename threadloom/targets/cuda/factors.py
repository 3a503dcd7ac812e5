"""Exponentials of a difference of two vectors as a product of a factor of each.

    before:  for every element: exp(a[row] - b[column]) * c[column]               rows * columns exponentials
    after:   f[row] = exp(a[row] - r); g[column] = exp(r - b[column]) * c[column]   rows + columns
             if no factor can overflow: for every element: f[row] * g[column]
             else as before

`r` is one of the thread's own b. Vectors that an exponential is multiplied by, at once or by way of other products,
join the factor over their axes. Sound by a test at run time: all exponents of a warp's threads (to the base 2), and
those of the vectors that joined, lie so near zero that factors and their products are normal numbers; NaN and
infinities fail the test. The error is that of two exponentials in place of one, of arguments with the same rounding
(both factors see the same `r`), and of products in another order.
Where a vector is computed here and every element of it is wanted by several lanes, each lane computes its share of
the column's factors and they are exchanged (`Spread`): through shared memory of the warp where the block has some to
spare, four at a time, else by shuffles.
Not handled: differences that reductions make in their own loops; operands that the same loop makes.
Source: the hand-written ChunkScan of Mamba2 kernels splits its decay so, with a proof of range in place of the test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadloom.targets.cuda.layout import Layout, Source
from threadloom.targets.cuda.operands import operands
from threadloom.targets.cuda.registers import Scope, unroll
from threadloom.tile import ops as tile

MOST = 120  # of the exponents to the base 2 of all that is multiplied, together: far from 2^127 and 2^-126
WORTH = 0.75  # of the exponentials may be left
LEAST_REGISTERS = 16
LEAST_REPLICAS = 4  # lanes that want the same element, from which on sharing the work is worth the shuffles

Pair = tuple[str, Layout, str, Layout]  # arrays of factors, and their layouts


@dataclass(frozen=True, slots=True)
class Split:
    """exp or exp2 `op` of `a` - `b`; `with_a`, `with_b`: vectors that join the factors, each with the product that is
    left out for it."""

    op: tile.Map
    a: tile.Value
    b: tile.Value
    with_a: tuple[tuple[tile.Value, tile.Map], ...] = ()
    with_b: tuple[tuple[tile.Value, tile.Map], ...] = ()

    @property
    def limit(self) -> int:
        """How far the exponent of one of the numbers that are multiplied may be from 0."""
        return MOST // (2 + len(self.with_a) + len(self.with_b))

    @property
    def of_b(self) -> tuple[tile.Value, ...]:
        return self.b, *(v for v, _ in self.with_b)

    @property
    def vectors(self) -> tuple[tile.Value, ...]:
        return self.a, *(v for v, _ in self.with_a), *self.of_b


@dataclass(frozen=True, slots=True)
class Spread:
    """How lanes share the computing of a vector: lane `lane / place % replicas` of those that want the same elements
    makes registers `share * own` to `share * own + own - 1`."""

    place: int
    replicas: int
    own: int

    @property
    def share(self) -> str:
        return f"lane / {self.place} % {self.replicas} * {self.own}"

    @property
    def row(self) -> int:
        """Floats between the factors of two lanes in shared memory: read four at a time without bank conflicts."""
        return self.own * self.replicas + 4

    @property
    def warp_bytes(self) -> int:
        """Of shared memory for what a warp exchanges."""
        return 4 * self.row * 32 // self.replicas

    def source(self, register: str) -> str:
        """C expression: the lane that makes `register` for this lane."""
        mine = f"lane % {self.place}"
        above = self.place * self.replicas
        rest = "" if above == 32 else f" + lane / {above} * {above}"
        return f"{mine}{rest} + {register} / {self.own} * {self.place}"


def spread_of(layout: Layout) -> Spread | None:
    """How a vector of `layout` is shared among lanes; None where it is not worth it or not even."""
    place, found = 1, []
    for d in layout.of(Source.LANE):
        if not d.axis and d.size > 1:
            found.append((place, d.size))
        place *= d.size
    if len(found) != 1 or found[0][1] < LEAST_REPLICAS:
        return None
    at, replicas = found[0]
    neighbours = layout.of(Source.REGISTER)[0].size if layout.of(Source.REGISTER) else 1
    if layout.registers % (replicas * neighbours) or layout.registers < LEAST_REGISTERS:
        return None
    return Spread(at, replicas, layout.registers // replicas)


def find_splits(
    scope: Scope, group: list[tile.Op], registers: int, counts: dict[str, int], needed: frozenset[str]
) -> list[Split]:
    """Exponentials of `group`, a loop over `registers` registers, that are worth it. `counts`: registers of values that
    the loop reads; `needed`: results that others read."""
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
            found.append(_joined(Split(op, a, b), group, counts, needed))
    return found


def _joined(split: Split, group: list[tile.Op], counts: dict[str, int], needed: frozenset[str]) -> Split:
    """`split` with the vectors that its result is multiplied by."""
    value, with_a, with_b = split.op.result, [], []
    while value.name not in needed:
        readers = [op for op in group if value.name in {v.name for v in operands(op)}]
        if len(readers) != 1 or not isinstance(readers[0], tile.Map) or readers[0].fn != "mul":
            break
        product = readers[0]
        others = [v for v in product.args if v.name != value.name]
        if len(others) != 1 or product.result.type.dtype.name != "f32":
            break
        other = others[0]
        if other.type.axes and other.name in counts and other.type.dtype.name == "f32":
            for axes, joined in ((split.b.type.axes, with_b), (split.a.type.axes, with_a)):
                if set(other.type.axes) == set(axes):
                    joined.append((other, product))
                    break
        value = product.result
    return Split(split.op, split.a, split.b, tuple(with_a), tuple(with_b))


def left_to_do(group: list[tile.Op], splits: Iterable[Split], needed: frozenset[str]) -> list[tile.Op]:
    """`group` without what nobody reads any more where the factors are used."""
    wanted, left = set(needed), []
    for op in reversed(group):
        if op.result.name in wanted:
            left.insert(0, op)
            wanted |= read_with_factors([op], splits)
    return left


def read_with_factors(ops: Iterable[tile.Op], splits: Iterable[Split]) -> set[str]:
    """What `ops` read where the factors are used: nothing for the exponentials, nor what has joined a factor."""
    found: set[str] = set()
    exponentials = {one.op.result.name for one in splits}
    joined = {product.result.name: v.name for one in splits for v, product in (*one.with_a, *one.with_b)}
    for op in ops:
        if op.result.name not in exponentials:
            found |= {v.name for v in operands(op)} - {joined.get(op.result.name)}
    return found


def emit_factors(
    scope: Scope, splits: list[Split], shares: dict[str, tuple[str, Layout]], small: frozenset[str]
) -> tuple[str, dict[str, Pair]]:
    """Compute the factors. `shares`: arrays with this lane's share of vectors, and their whole layouts; `small`:
    vectors known to be zero or near one (or infinite or NaN, and the product then is so in any order). Returns the C
    name of the test's result (the same in all threads of a warp) and, by the exponential's name, its factors."""
    w, test = scope.writer, scope.fresh("in_range")
    scope.exchanged = False
    w.line(f"bool {test} = true;  // exponentials as products of two factors, where neither can overflow")
    found: dict[str, Pair] = {}
    for one in splits:
        scale = " * LOOM_LOG2E" if one.op.fn == "exp" else ""
        spread = spread_of(shares[one.b.name][1]) if one.b.name in shares else None
        first = f"{_array(scope, one.b, shares)}[0]"
        if spread is not None:
            first = f"__shfl_sync(0xffffffffu, {first}, {spread.source('0')})"
        middle = scope.fresh("middle")
        w.line(f"const float {middle} = {first}{scale};")
        names, layouts = [], []
        for value, joined, sign in ((one.a, one.with_a, 1), (one.b, one.with_b, -1)):
            unknown = frozenset(v.name for v, _ in joined) - small
            name, layout = _factor(scope, value, joined, shares, middle, scale, sign, one.limit, test, unknown)
            names.append(name)
            layouts.append(layout)
        found[one.op.result.name] = (names[0], layouts[0], names[1], layouts[1])
    w.line(f"{test} = __all_sync(0xffffffffu, {test});")
    return test, found


def _array(scope: Scope, value: tile.Value, shares: dict[str, tuple[str, Layout]]) -> str:
    return shares[value.name][0] if value.name in shares else scope.registers[value.name].name


def _factor(
    scope: Scope,
    value: tile.Value,
    joined: tuple[tuple[tile.Value, tile.Map], ...],
    shares: dict[str, tuple[str, Layout]],
    middle: str,
    scale: str,
    sign: int,
    limit: int,
    test: str,
    unknown: frozenset[str],
) -> tuple[str, Layout]:
    """2^(+-(`value` - middle)) times the vectors of `joined`, those of `unknown` tested: array and layout."""
    w = scope.writer
    layout = shares[value.name][1] if value.name in shares else scope.registers[value.name].layout
    spread = spread_of(layout) if value.name in shares else None
    name = scope.fresh(f"{value.name}_factor")
    own = scope.fresh(f"{name}_own") if spread else name
    count = spread.own if spread else layout.registers
    element = f"{_array(scope, value, shares)}[q]{scale}"
    w.line(f"float {own}[{count}];")
    w.line(unroll(count))
    with w.block(f"for (int q = 0; q < {count}; q++)"):
        w.line(f"const float power = {f'{element} - {middle}' if sign > 0 else f'{middle} - {element}'};")
        factors = [f"{_array(scope, v, shares)}[q]" for v, _ in joined]
        w.line(f"{own}[q] = {' * '.join(['exp2_fast(power)', *factors])};")
        w.line(f"{test} = {test} & (fabsf(power) < {limit}.0f);")
        for f in (f for f, (v, _) in zip(factors, joined, strict=True) if v.name in unknown):
            normal = f"fabsf({f}) < 0x1p{limit}f & fabsf({f}) > 0x1p-{limit}f"
            w.line(f"{test} = {test} & ({f} == 0.0f | ({normal}));")
    if spread:
        _exchange(scope, spread, name, own, layout.registers)
    return name, layout


def _exchange(scope: Scope, spread: Spread, name: str, own: str, registers: int) -> None:
    """Declare `name` and fill it with what lanes have in `own`."""
    w = scope.writer
    w.line(f"float {name}[{registers}];")
    if spread.own % 4 or spread.place * spread.replicas != 32 or spread.warp_bytes > scope.factor_room_bytes:
        w.line(unroll(registers))
        with w.block(f"for (int q = 0; q < {registers}; q++)"):
            w.line(f"{name}[q] = __shfl_sync(0xffffffffu, {own}[q % {spread.own}], {spread.source('q')});")
        return
    scope.factor_bytes, scope.exchanged = max(scope.factor_bytes, spread.warp_bytes), True
    place = scope.fresh("exchange")
    w.line(f"const u32 {place} = smem_factors + (worker * {scope.team.warps} + warp_in_group) * factor_bytes")
    w.line(f"  + lane % {spread.place} * {4 * spread.row};")
    w.line("__syncwarp();  // what was exchanged before has been read")
    w.line("#pragma unroll")
    with w.block(f"for (int q = 0; q < {spread.own}; q += 4)"):
        w.line(f"write_shared<16>({place} + ({spread.share} + q) * 4, {own} + q);")
    w.line("__syncwarp();")
    w.line(unroll(registers))
    w.line(f"for (int q = 0; q < {registers}; q += 4) read_shared<16>({name} + q, {place} + q * 4);")
