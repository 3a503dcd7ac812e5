"""PTX instructions that give or take a flag: predicates (`setp`, `selp`) and the carry (`add.cc`, `addc`, `madc` ...).

The carry lives in one asm statement: what takes it in a statement that did not give it is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.ptx_statement import TYPES, Translator
from threadloom.par.constants import const
from threadloom.par.ops import I1, Attrs, Float, Int, Operand

_CARRY = "%carry"  # a register that no program can name: `%` stands before special registers only
_ORDERS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_FLOAT = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "num": "ord", "nan": "uno",
          "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge"}  # fmt: skip


def setp(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`setp.lt.s32 p, a, b`; no second predicate, no combination with a third."""
    type_ = TYPES.get(modifiers[-1])
    if type_ is None or len(modifiers) != 2 or len(operands) != 3 or "|" in operands[0]:
        raise t.fail(f"setp.{'.'.join(modifiers)} {', '.join(operands)}")
    word, signed = modifiers[0], modifiers[-1].startswith("s")
    a, b = (t.value(operand, type_, signed) for operand in operands[1:])
    if isinstance(type_, Float):
        if word not in _FLOAT:
            raise t.fail(f"setp.{word}")
        t.define(operands[0], t.emit("fcmp", (a, b), I1, Attrs(predicate=_FLOAT[word])))
        return
    if word not in ("eq", "ne", *_ORDERS):
        raise t.fail(f"setp.{word}")
    predicate = word if word in ("eq", "ne") else ("s" if signed else "u") + _ORDERS[word]
    t.define(operands[0], t.compare(predicate, a, b))


def selp(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`selp.u32 d, a, b, p`."""
    type_ = TYPES.get(modifiers[-1])
    if type_ is None or len(operands) != 4:
        raise t.fail(f"selp.{'.'.join(modifiers)}")
    a, b = (t.value(operand, type_) for operand in operands[1:3])
    t.define(operands[0], t.select(t.value(operands[3], I1), a, b))


def sum_with_carry(base: str, takes: bool) -> Callable[[Translator, list[str], list[str]], None]:
    """`add.cc`, `addc`, `sub.cc`, `subc`: the carry, or the borrow, is the bit above the result's."""

    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        type_ = _integer(t, f"{base}{'c' * takes}", modifiers, takes)
        a, b = (t.value(operand, type_) for operand in operands[1:3])
        t.define(operands[0], _with_carry(t, base, a, b, takes, "cc" in modifiers))

    return handle


def multiply_with_carry(takes: bool) -> Callable[[Translator, list[str], list[str]], None]:
    """`mad.lo.cc d, a, b, c`, `madc.hi`: half of a product and c."""

    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        type_, signed = _integer(t, f"mad{'c' * takes}", modifiers, takes), modifiers[-1].startswith("s")
        if modifiers[0] not in ("lo", "hi"):
            raise t.fail(f"mad.{'.'.join(modifiers)}")
        wide = Int(2 * type_.bits)
        a, b = (t.resized(t.value(operand, type_, signed), wide, signed) for operand in operands[1:3])
        product: Operand = t.emit("mul", (a, b), wide)
        if modifiers[0] == "hi":
            product = t.emit("lshr", (product, const(wide, type_.bits)), wide)
        part, addend = t.resized(product, type_), t.value(operands[3], type_)
        t.define(operands[0], _with_carry(t, "add", part, addend, takes, "cc" in modifiers))

    return handle


def _integer(t: Translator, base: str, modifiers: list[str], takes: bool) -> Int:
    """The instruction's type; refused where it is none of integers, or takes a carry that nothing here gave."""
    type_ = TYPES.get(modifiers[-1])
    if not isinstance(type_, Int) or type_.bits < 32 or (takes and _CARRY not in t.registers):
        raise t.fail(".".join((base, *modifiers)))
    return type_


def _with_carry(t: Translator, base: str, a: Operand, b: Operand, takes: bool, gives: bool) -> Operand:
    narrow = a.type
    wide = Int(2 * narrow.bits)
    total: Operand = t.emit(base, (t.resized(a, wide), t.resized(b, wide)), wide)
    if takes:
        total = t.emit(base, (total, t.resized(t.registers[_CARRY], wide)), wide)
    if gives:
        above = t.emit("lshr", (total, const(wide, narrow.bits)), wide)
        t.registers[_CARRY] = t.resized(above, I1)
    return t.resized(total, narrow)
