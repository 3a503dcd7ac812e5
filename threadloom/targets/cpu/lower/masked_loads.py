"""Masked loads of elements that the machine has no masked loads of.

    load v under mask   ->   if every lane is on: load v, else: load.8xi8(pointer, mask), a function

LLVM branches for every lane of such a load, at every place: a fifth of the time that it takes to compile a product of
4-bit weights. Nearly all masks are full, so one branch is also quicker.
"""

from __future__ import annotations

from threadloom.par.constants import const
from threadloom.par.ops import PTR, Float, Int, Operand, Vector
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.lower.context import Context


def masked_load(c: Context, type_: Vector, pointer: Operand, mask: Operand) -> Operand:
    """The lanes that are on, 0 in the others, whose memory is not touched."""
    b = c.b
    if _has_masked_loads(c, type_):
        return b.masked_load(type_, pointer, mask)
    flags = Int(type_.lanes)
    every = b.icmp("eq", b.cast("bitcast", mask, flags), const(flags, -1))
    with b.if_(every, names=["load"]) as branch:
        branch.yield_(b.load(type_, pointer))
        branch.otherwise()
        branch.yield_(b.call(_function(c, type_, mask), (pointer, mask), type_, name="some"))
    return branch.results[0]


def _has_masked_loads(c: Context, type_: Vector) -> bool:
    return c.target.avx512 or (c.target.extension == "avx2" and size_bytes(type_.element) >= 4)


def _function(c: Context, type_: Vector, mask: Operand) -> str:
    element = type_.element
    kind = element.kind if isinstance(element, Float) else f"i{element.bits}"
    name = f"load.{type_.lanes}x{kind}"
    if name not in c.micro_kernels:
        c.micro_kernels.add(name)
        with c.module.function(name, [("at", PTR), ("mask", mask.type)], type_, attrs=("noinline", "nounwind")) as b:
            b.ret(b.masked_load(type_, *b.args))
    return name
