"""A product with a constant becomes part of the sums that it stands in.

    %p = fmul contract double %t, 2.0
    %d = fsub contract double %a, %p    ->    %d = call double @llvm.fma.f64(double %t, double -2.0, double %a)
    %e = fsub contract double %b, %p          %e = call double @llvm.fma.f64(double %t, double -2.0, double %b)

LLVM fuses a product with a sum only where nothing else uses it, once it has merged equal products, and makes `2 * t` a
sum. A fused operation costs what the sum costs, so the product comes for nothing (nvcc fuses so, too). Rounding once
less is what `contract` allows.

Takes products and sums of one straight list of operations, all of them marked `contract`, on CPUs that fuse; not
`%p - %a`, nor products without a constant: a fused operation takes a cycle more, where the other summand comes late.
hotspot's stencil has 16 for 19 operations on the busier units of a Zen 3. Needs: vectors made. Not in the paper.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from threadloom.cuda.lower.traverse import walk
from threadloom.cuda.vectorize.leaves import has_fma
from threadloom.par.intrinsics import mangled
from threadloom.par.ops import Attrs, Block, Const, Function, Leaf, Module, Op, Value
from threadloom.par.passes import decline, map_functions
from threadloom.par.walk import operands, with_regions


@dataclass(frozen=True, slots=True)
class FuseProducts:
    name: str = "fuse-products"

    def apply(self, module: Module) -> Module:
        return map_functions(module, _function) if has_fma() else module


def _function(function: Function) -> Function:
    uses = Counter(one.name for op in walk(function.body.ops) for one in operands(op) if isinstance(one, Value))
    body = _block(function.body, uses)
    return function if body is function.body else replace(function, body=body)


def _block(block: Block, uses: Counter[str]) -> Block:
    ops = tuple(op if type(op) is Leaf else with_regions(op, lambda region: _block(region, uses)) for op in block.ops)
    if products := _products(ops, uses):
        return Block(tuple(new for op in ops for new in _fused(op, products)))
    return block if all(new is old for new, old in zip(ops, block.ops, strict=True)) else Block(ops)


def _products(ops: tuple[Op, ...], uses: Counter[str]) -> dict[str, Leaf]:
    """Those that become part of all that uses them, by name."""
    marked = (op for op in ops if _is_marked(op, "fmul"))
    found = {op.result.name: op for op in marked if any(isinstance(one, Const) for one in op.operands)}
    sums: dict[str, int] = defaultdict(int)
    for op in ops:
        if _is_marked(op, "fadd", "fsub"):
            one, other = op.operands
            if (product := _product(op, found)) is not None and one != other:
                sums[product.result.name] += 1
    for name, product in list(found.items()):
        if sums[name] < uses[name]:
            if sums[name]:
                decline("product not fused", "something else than sums beside it uses it", product.loc)
            del found[name]
    return found


def _is_marked(op: Op, *opcodes: str) -> bool:
    return type(op) is Leaf and op.opcode in opcodes and not {"contract", "fast"}.isdisjoint(op.attrs.flags)


def _product(sum_: Leaf, products: dict[str, Leaf]) -> Leaf | None:
    """The summand that can be fused: either of a sum, what is taken away of a difference; the last of two products."""
    for one in (sum_.operands[1], *(sum_.operands[:1] if sum_.opcode == "fadd" else ())):
        if isinstance(one, Value) and one.name in products:
            return products[one.name]
    return None


def _fused(op: Op, products: dict[str, Leaf]) -> list[Op]:
    if type(op) is Leaf and op.result is not None and op.result.name in products:
        return []
    product = _product(op, products) if _is_marked(op, "fadd", "fsub") else None
    if product is None:
        return [op]
    factor, constant = product.operands
    if isinstance(factor, Const):
        factor, constant = constant, factor
    rest = next(one for one in op.operands if one != product.result)
    ops: list[Op] = []
    if op.opcode == "fsub":
        negative = Value(f"{op.result.name}.minus", constant.type)
        ops.append(Leaf("fneg", (constant,), negative, loc=op.loc))
        constant = negative
    callee = mangled("llvm.fma", (op.result.type,))
    attrs = Attrs(callee=callee, flags=op.attrs.flags)
    return [*ops, Leaf("call", (factor, constant, rest), op.result, attrs, op.loc)]
