"""Which axis lies in vector lanes: for every product's result, and for every group of vector operations.

    s = dot(q[m, d], k[n, d]); p = softmax of s over n; o = o + dot(p, v[n, d])
    lanes along m: Q is transposed once a tile, K and V are read where they lie, maxima and sums need no
                   horizontal steps; o is transposed when it is stored
    lanes along n: K is transposed at every step, rows are reduced horizontally

All choices for the products are tried (one after the other where there are too many); each is charged for elements
that have to be gathered, transposed, or computed one at a time. Costs are in element operations, weighted by an assumed
number of trips of each loop around.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from threadloom.targets.cpu.fuse import AxesOf, operation_cost
from threadloom.targets.cpu.schedule import Form
from threadloom.targets.cpu.steps import Body, Chosen, Product, Repeated, Uses, Vector
from threadloom.tile.ops import AtomicAdd, Load, Op, Reduce, Scan, Store, Subscript, Value
from threadloom.tile.uses import operands, results

ASSUMED_TRIPS = 8.0
GATHERED, TRANSPOSED, HORIZONTAL = 1.5, 0.4, 6.0
MOST_COMBINATIONS = 128


@dataclass(frozen=True, slots=True)
class Group:
    """Vector operations that depend on one another, and the loops around them."""

    ops: tuple[Op, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class PlacedProduct:
    product: Product
    depth: int


@dataclass(slots=True)
class Choice:
    """`of_product`: vector axis of every product's result by the result's name; `of_group`: by the group's first op."""

    of_product: dict[str, str] = field(default_factory=dict)
    of_value: dict[str, str] = field(default_factory=dict)  # values whose buffer has these lanes
    cost: float = 0.0


def unit_axis(form: Form, tensor: str, subscripts: Sequence[Subscript]) -> str | None:
    """The axis along which consecutive indices are consecutive elements, if there is one."""
    strides = form.tensor(tensor).strides
    for subscript, stride in reversed(list(zip(subscripts, strides, strict=True))):
        if stride == 1 and len(subscript.terms) >= 1:
            axes = [t.axis for t in subscript.terms if t.axis is not None and t.coefficient == 1]
            for axis in reversed(axes):
                if sum(t.axis == axis for s in subscripts for t in s.terms) == 1:
                    return axis
            return None
    return None


def groups_of(ops: Sequence[Op], uses: Uses) -> list[tuple[Op, ...]]:
    """The operations of a Vector step, split into those that have nothing to do with one another."""
    parent = list(range(len(ops)))

    def find(at: int) -> int:
        while parent[at] != at:
            at = parent[at]
        return at

    owner: dict[str, int] = {}
    for at, op in enumerate(ops):
        linked = [root.name for value in operands(op) for root in uses.roots(value)]
        linked += [value.name for value in results(op)]
        linked += [f"tensor {op.tensor}"] if isinstance(op, Store | AtomicAdd) else []
        for name in linked:
            if name in owner:
                parent[find(at)] = find(owner[name])
            elif name.startswith("tensor ") or any(value.name == name for value in results(op)):
                owner[name] = at
    grouped: dict[int, list[Op]] = {}
    for at, op in enumerate(ops):
        grouped.setdefault(find(at), []).append(op)
    return [tuple(members) for members in grouped.values()]


@dataclass(slots=True)
class Chooser:
    uses: Uses
    axes_of: AxesOf
    form: Form
    sizes: Mapping[str, int]
    lanes: int
    groups: list[Group] = field(default_factory=list)
    products: list[PlacedProduct] = field(default_factory=list)
    depth_of: dict[str, int] = field(default_factory=dict)  # value -> loops around its definition
    conditions: list[tuple[Value, Value]] = field(default_factory=list)  # carried pairs that want one buffer
    masked: list[tuple[Value, Value]] = field(default_factory=list)  # a product and what its mask makes of it

    def choose(self, body: Body) -> Choice:
        self._collect(body, 0)
        options = [self.candidates(placed.product) for placed in self.products]
        if math.prod(map(len, options)) <= MOST_COMBINATIONS:
            return min((self._cost(axes) for axes in itertools.product(*options)), key=lambda choice: choice.cost)
        axes = [option[0] for option in options]
        for _ in range(2):
            for at, option in enumerate(options):
                trials = [[*axes[:at], axis, *axes[at + 1 :]] for axis in option]
                axes = min(trials, key=lambda trial: self._cost(trial).cost)
        return self._cost(axes)

    def _collect(self, body: Body, depth: int) -> None:
        for step in body.steps:
            match step:
                case Vector((op,), masked) if masked is not None:
                    self.depth_of[op.result.name] = depth
                    self.masked.append((masked, op.result))
                case Vector(ops):
                    for op in ops:
                        self.depth_of |= {value.name: depth for value in results(op)}
                    self.groups += [Group(members, depth) for members in groups_of(ops, self.uses)]
                case Product():
                    self.depth_of[step.result.name] = depth
                    self.products.append(PlacedProduct(step, depth))
                case Repeated(op, inner):
                    self.depth_of |= {value.name: depth for value in results(op)}
                    self._collect(inner, depth + 1)
                    for init, arg, made, out in zip(
                        getattr(op, "inits", ()), getattr(op, "args", ()), inner.yields, results(op), strict=True
                    ):
                        self.conditions += [(init, arg), (arg, made), (arg, out)]
                case Chosen(_, then, otherwise):
                    self._collect(then, depth)
                    self._collect(otherwise, depth)

    def candidates(self, product: Product) -> list[str]:
        a, b = product.dot.a.type.axes, product.dot.b.type.axes
        free = [axis for axis in product.result.type.axes if (axis in a) != (axis in b)]
        return sorted(free, key=lambda axis: axis not in b)

    # ------------------------------------------------------------ costs

    def _cost(self, axes: Sequence[str]) -> Choice:
        choice = Choice()
        for placed, axis in zip(self.products, axes, strict=True):
            product = placed.product
            choice.of_product[product.result.name] = axis
            choice.of_value[product.result.name] = axis
        for product, result in self.masked:
            choice.of_value[result.name] = choice.of_value[product.name]
        for placed, axis in zip(self.products, axes, strict=True):
            addend = placed.product.addend
            if addend is not None and choice.of_value.setdefault(addend.name, axis) != axis:
                choice.cost += self.elems(addend.type.axes) * GATHERED * ASSUMED_TRIPS**placed.depth
        for placed, axis in zip(self.products, axes, strict=True):
            packed = _operand_with(placed.product, axis)
            choice.of_value.setdefault(packed.name, axis)
        self._spread_carried(choice)
        for placed, axis in zip(self.products, axes, strict=True):
            choice.cost += self._product_cost(placed, axis)
        for group in self.groups:
            choice.cost += self.best_axis(group.ops, choice)[1] * ASSUMED_TRIPS**group.depth
        return choice

    def _spread_carried(self, choice: Choice) -> None:
        """Values that share a carried buffer have its lanes."""
        for _ in range(3):
            for left, right in self.conditions:
                known = choice.of_value.get(left.name) or choice.of_value.get(right.name)
                if known is not None:
                    choice.of_value.setdefault(left.name, known)
                    choice.of_value.setdefault(right.name, known)

    def _product_cost(self, placed: PlacedProduct, axis: str) -> float:
        lanes_operand = _operand_with(placed.product, axis)
        other = placed.product.dot.b if lanes_operand == placed.product.dot.a else placed.product.dot.a
        cost = 0.0
        for value, is_lanes in ((lanes_operand, True), (other, False)):
            if not self.uses.is_inline(value):
                continue
            elems = self.elems(value.type.axes)
            straight = all(unit_axis(self.form, op.tensor, op.subscripts) == axis for op in self.uses.loads(value))
            per_elem = 1.0 / self.lanes if straight or not is_lanes else TRANSPOSED
            cost += elems * per_elem * ASSUMED_TRIPS ** self._pack_depth(value, placed.depth)
        return cost

    def _pack_depth(self, value: Value, depth: int) -> int:
        """Loops around the place where the operand is packed: what it is computed from may change less often."""
        roots = list(self.uses.roots(value))
        moving = [self.depth_of.get(root.name, 0) for root in roots if root.type.axes]
        streams = sum(1 for axis in value.type.axes if axis in self._streamed)
        return min(depth, max([streams, *moving]))

    @property
    def _streamed(self) -> frozenset[str]:
        loops = (definition for definition in self.uses.definitions.values() if hasattr(definition, "inits"))
        return frozenset(axis.axis.name for loop in loops for axis in loop.axes)

    def elems(self, axes: Sequence[str] | frozenset[str]) -> float:
        return math.prod(self.sizes.get(axis, 1) for axis in axes)

    def best_axis(self, ops: Sequence[Op], choice: Choice) -> tuple[str | None, float]:
        """The cheapest vector axis of a group, and its cost; None where it has no axes, or adds atomically."""
        if any(isinstance(op, AtomicAdd) for op in ops):
            return None, sum(self.elems(self.axes_of(op)) for op in ops)
        candidates = sorted({axis for op in ops for axis in self.axes_of(op)})
        costs = [(self._group_cost(ops, axis, choice), axis) for axis in candidates]
        if not costs:
            return None, 0.0
        cost, axis = min(costs)
        return axis, cost

    def _group_cost(self, ops: Sequence[Op], axis: str, choice: Choice) -> float:
        cost = 0.0
        for op in ops:
            axes = self.axes_of(op)
            elems = self.elems(axes)
            cost += elems * operation_cost(op) / (self.lanes if axis in axes else 1.0)
            if isinstance(op, Reduce) and op.axis == axis:
                cost += elems / max(1, self.sizes.get(axis, 1)) * HORIZONTAL
            if isinstance(op, Scan) and op.axis == axis:
                cost += elems * 0.5
            cost += sum(self.elems(axes) * GATHERED for axes in self._mismatches(op, axis, choice))
        return cost

    def _mismatches(self, op: Op, axis: str, choice: Choice) -> Iterator[frozenset[str] | tuple[str, ...]]:
        """Axes of every access of `op` that has the vector axis, but not in consecutive elements."""
        for value in operands(op):
            for load in self.uses.loads(value):
                if axis in load.result.type.axes and unit_axis(self.form, load.tensor, load.subscripts) != axis:
                    yield load.result.type.axes
            for root in self.uses.roots(value):
                if axis in root.type.axes and choice.of_value.get(root.name, axis) != axis:
                    yield root.type.axes
        for value in results(op):
            if axis in value.type.axes and choice.of_value.get(value.name, axis) != axis:
                yield value.type.axes
        is_memory = isinstance(op, Store | AtomicAdd | Load)
        if is_memory and axis in self.axes_of(op) and unit_axis(self.form, op.tensor, op.subscripts) != axis:
            yield self.axes_of(op)


def _operand_with(product: Product, axis: str) -> Value:
    return product.dot.a if axis in product.dot.a.type.axes else product.dot.b
