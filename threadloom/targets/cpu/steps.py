"""A block of tile operations -> steps that a core runs one after the other.

    s = dot(q, k); p = exp(s * c - m); l = l * a + sum p; acc = acc * a; acc = acc + dot(p, v)
    ->  Product s | Vector {p, l, acc'} | Product acc' += p v

Cheap values (loads, indices, constants, a few operations on such) belong to no step: they are computed where they are
read. Vector operations join the earliest step that their operands allow, so that they share loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from threadloom.errors import InternalError
from threadloom.tile.functions import TABLE, Cost
from threadloom.tile.ops import (
    Access,
    AtomicAdd,
    Block,
    Bound,
    Cast,
    Const,
    DimSize,
    Dot,
    Full,
    Grid,
    If,
    Index,
    Kernel,
    Load,
    Map,
    Op,
    Store,
    Stream,
    Value,
    Yield,
)
from threadloom.tile.uses import operands, regions, results, walk

RECOMPUTED_OPS = 4  # most elementwise operations that are worth repeating at every use
INDEX_RELATIONS = ("lt", "le", "gt", "ge")


@dataclass(frozen=True, slots=True)
class Vector:
    """Operations that become loop nests, in order. `masked`: the product that they, one `where` on indices, are alone
    to read, and whose place its result can take."""

    ops: tuple[Op, ...]
    masked: Value | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """`result` = dot (+ `addend`)."""

    dot: Dot
    result: Value
    addend: Value | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    op: Stream | Grid
    body: Body


@dataclass(frozen=True, slots=True)
class Chosen:
    op: If
    then: Body
    otherwise: Body


Step = Vector | Product | Repeated | Chosen


@dataclass(frozen=True, slots=True)
class Body:
    steps: tuple[Step, ...]
    yields: tuple[Value, ...] = ()


@dataclass(slots=True)
class Uses:
    """What is known of every value of a kernel: its definition, whether it is recomputed, what reads it."""

    definitions: dict[str, Op] = field(default_factory=dict)
    inline: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def is_inline(self, value: Value) -> bool:
        return value.name in self.inline

    def roots(self, value: Value) -> Iterator[Value]:
        """The values that are really read where `value` is."""
        if not self.is_inline(value):
            yield value
            return
        for operand in operands(self.definitions[value.name]):
            yield from self.roots(operand)

    def loads(self, value: Value) -> Iterator[Load]:
        """The loads that computing `value` in place performs."""
        if not self.is_inline(value):
            return
        op = self.definitions[value.name]
        if isinstance(op, Load):
            yield op
        for operand in operands(op):
            yield from self.loads(operand)


def uses_of(kernel: Kernel) -> Uses:
    uses = Uses()
    written = {tensor.name for tensor in kernel.tensors if tensor.access is not Access.IN}
    weights: dict[str, int] = {}
    for op in walk(kernel.body):
        for value in results(op):
            uses.definitions[value.name] = op
        for value in operands(op):
            uses.counts[value.name] = uses.counts.get(value.name, 0) + 1
        weight = _inline_weight(op, uses, weights, written)
        if weight is not None:
            weights[op.result.name] = weight
            uses.inline.add(op.result.name)
    for op in walk(kernel.body):
        if _is_cheap_beside_product(op, uses, weights):
            weights[op.result.name] = 1
            uses.inline.add(op.result.name)
    users = {value.name: op for op in walk(kernel.body) for value in operands(op)}
    uses.inline |= {op.result.name for op in walk(kernel.body) if _goes_into_its_user(op, uses, users)}
    return uses


def _goes_into_its_user(op: Op, uses: Uses, users: dict[str, Op]) -> bool:
    """A cheap operation that one other one reads, element by element: computed there it needs no memory, also where
    the other has to wait for a reduction. What it reads itself must not be more than what it makes."""
    if not isinstance(op, Map | Cast) or not op.result.type.axes or uses.is_inline(op.result):
        return False
    if isinstance(op, Map) and (op.fn == "add" or op.fn not in TABLE or TABLE[op.fn].cost not in (Cost.FMA, Cost.ALU)):
        return False
    user = users.get(op.result.name)
    alone = uses.counts.get(op.result.name) == 1 and isinstance(user, Map | Cast) and not uses.is_inline(user.result)
    if not alone or set(user.result.type.axes) != set(op.result.type.axes):
        return False
    if any(isinstance(uses.definitions.get(value.name), Dot) for value in operands(user)):
        return False  # what is added to a product is kept where the product is made
    roots = {root.name for value in operands(op) for root in uses.roots(value) if len(root.type.axes) > 1}
    return len(roots) <= 1


def _is_cheap_beside_product(op: Op, uses: Uses, weights: dict[str, int]) -> bool:
    """One operation on a product's result, which lies in memory anyway, read several times: cheaper done again than
    stored a second time. (A sum is left to become part of the product.)"""
    if not isinstance(op, Map | Cast) or not op.result.type.axes or uses.is_inline(op.result):
        return False
    if isinstance(op, Map) and (op.fn == "add" or op.fn not in TABLE or TABLE[op.fn].cost not in (Cost.FMA, Cost.ALU)):
        return False
    if uses.counts.get(op.result.name, 0) < 2:
        return False
    kept = [value for value in operands(op) if value.type.axes]
    of_products = [value for value in kept if isinstance(uses.definitions.get(value.name), Dot)]
    others_free = all(uses.is_inline(v) and not weights.get(v.name) for v in kept if v not in of_products)
    return bool(of_products) and others_free


def _inline_weight(op: Op, uses: Uses, weights: dict[str, int], written: set[str]) -> int | None:
    """Elementwise operations behind the result where it is recomputed at every use, None where it is kept."""
    match op:
        case Const() | DimSize() | Index() | Bound() | Full():
            return 0
        case Load():
            return None if op.tensor in written or not op.result.type.axes else 0
        case Map() | Cast() if op.result.type.axes:
            if isinstance(op, Map) and op.fn in TABLE and TABLE[op.fn].cost not in (Cost.FMA, Cost.ALU):
                return None
            total = 1
            for value in operands(op):
                if value.type.axes and value.name not in uses.inline:
                    return None
                total += weights.get(value.name, 0)
            return total if total <= RECOMPUTED_OPS else None
    return None


# ---------------------------------------------------------------- steps


class StepBuilder:
    """Sorts the operations of one block into steps."""

    def __init__(self, uses: Uses, written: frozenset[str]):
        self.uses, self.written = uses, written
        self.lists: list[list[Op] | Step] = []  # a list is a Vector step under construction
        self.step_of: dict[str, int] = {}  # value -> step that makes it
        self.touched: dict[str, int] = {}  # written tensor -> last step that reads or writes it
        self.yields: tuple[Value, ...] = ()

    def build(self, block: Block) -> Body:
        fused = _sums_of_products(block, self.uses)
        skipped = {product.dot.result.name for product in fused.values()}
        for op in block.ops:
            name = results(op)[0].name if results(op) else ""
            if isinstance(op, Yield):
                self.yields = op.values
            elif name in fused:
                self._append(fused[name], op)
            elif name not in skipped:
                self._place(op)
        steps = tuple(Vector(tuple(step)) if isinstance(step, list) else step for step in self.lists)
        return Body(steps, self.yields)

    def _place(self, op: Op) -> None:
        match op:
            case Dot():
                self._append(Product(op, op.result), op)
            case Stream() | Grid():
                self._append(Repeated(op, self._inner(op.body)), op)
            case If():
                self._append(Chosen(op, self._inner(op.then), self._inner(op.otherwise)), op)
            case _ if results(op) and self.uses.is_inline(results(op)[0]):
                pass
            case Map() if (product := self._masked_product(op)) is not None:
                self._append(Vector((op,), product), op)
            case _:
                self._join(op)

    def _masked_product(self, op: Map) -> Value | None:
        """The product of `where(comparison of indices, product, number)`, which nothing else reads; what is selected
        may also be computed from the product, element by element."""
        if op.fn != "where":
            return None
        condition, selected, other = op.args
        compares = self.uses.definitions.get(condition.name)
        is_mask = isinstance(compares, Map) and compares.fn in INDEX_RELATIONS and self.uses.is_inline(condition)
        read = [root for root in self.uses.roots(selected) if root.type.axes]
        if not is_mask or other.type.axes or len(read) != 1:
            return None
        (product,) = read
        at = self.step_of.get(product.name, -1)
        alone = self.uses.counts[product.name] == self.uses.counts[selected.name] == 1
        alike = product.type.dtype is op.result.type.dtype and set(product.type.axes) == set(op.result.type.axes)
        return product if alone and alike and at >= 0 and isinstance(self.lists[at], Product) else None

    def _inner(self, block: Block) -> Body:
        return StepBuilder(self.uses, self.written).build(block)

    def _append(self, step: Step, op: Op) -> None:
        self._note(op, len(self.lists))
        if isinstance(step, Product):
            self.step_of[step.result.name] = len(self.lists)
        self.lists.append(step)

    def _join(self, op: Op) -> None:
        """Into the first Vector step that is late enough."""
        first = 0
        for value in operands(op):
            for root in self.uses.roots(value):
                at = self.step_of.get(root.name, -1)
                is_vector = 0 <= at < len(self.lists) and isinstance(self.lists[at], list)
                first = max(first, at if is_vector else at + 1)
        for tensor in self._tensors(op):
            at = self.touched.get(tensor, -1)
            first = max(first, at if at >= 0 and isinstance(self.lists[at], list) else at + 1)
        for at in range(first, len(self.lists)):
            step = self.lists[at]
            if isinstance(step, list):
                step.append(op)
                self._note(op, at)
                return
        self._note(op, len(self.lists))
        self.lists.append([op])

    def _note(self, op: Op, at: int) -> None:
        for value in results(op):
            self.step_of[value.name] = at
        for inner in (op, *(o for region in regions(op) for o in walk(region))):
            for tensor in self._tensors(inner):
                self.touched[tensor] = at

    def _tensors(self, op: Op) -> Iterator[str]:
        if isinstance(op, Store | AtomicAdd | Load) and op.tensor in self.written:
            yield op.tensor


def _sums_of_products(block: Block, uses: Uses) -> dict[str, Product]:
    """`acc + dot` that nobody else reads, by the name of the sum: the product adds into the accumulator."""
    dots = {op.result.name: op for op in block.ops if isinstance(op, Dot)}
    found: dict[str, Product] = {}
    for op in block.ops:
        if not (isinstance(op, Map) and op.fn == "add"):
            continue
        for value, other in (op.args, op.args[::-1]):
            dot = dots.get(value.name)
            if dot is None or uses.counts[value.name] != 1 or other.name == value.name:
                continue
            if set(other.type.axes) == set(value.type.axes) == set(op.result.type.axes):
                found[op.result.name] = Product(dot, op.result, other)
                break
    return found


def grid_of(kernel: Kernel) -> Grid:
    grids = [op for op in kernel.body.ops if isinstance(op, Grid)]
    if len(grids) != 1:
        raise InternalError(f"{kernel.name} has {len(grids)} outermost grids")
    return grids[0]
