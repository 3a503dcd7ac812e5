"""Inline PTX -> leaves, for the instructions that programs write by hand: integer and bit operations, plain float
arithmetic, special registers, loads and stores, barriers and fences, hints.

    before:  %r = call i32 asm "bfe.u32 $0, $1, $2, $3;", "=r,r,r,r"(i32 %x, i32 3, i32 5)
    after:   the shift, mask and selects that it means

A statement list may declare registers (`.reg .u32 t;`). Everything else is an error with the statement's place:
predicates, carry chains, video, tensor and asynchronous copy instructions.
"""

from __future__ import annotations

from threadloom.cuda.ptx_instructions import HANDLERS
from threadloom.cuda.ptx_statement import Translator
from threadloom.par.ops import Attrs, Const, Leaf, Operand, Struct, Value
from threadloom.source import Loc


def translate(
    text: str, constraints: str, operands: tuple[Operand, ...], result: Value | None, name: str, loc: Loc | None
) -> list[Leaf]:
    """The leaves of one `call asm`: `$0`, `$1` ... are its outputs, then its inputs, in the order of `constraints`."""
    codes = [code for code in constraints.split(",") if not code.startswith("~")]
    outputs = [code for code in codes if code.startswith("=")]
    types = result.type.fields if result and isinstance(result.type, Struct) else (result.type,) if result else ()
    translator = Translator(HANDLERS, text, name, loc)
    for number, type_ in enumerate(types):
        translator.registers[f"${number}"] = Const(type_, "poison")
    for number, (code, operand) in enumerate(zip(codes[len(outputs) :], operands, strict=False), len(outputs)):
        translator.registers[f"${number}"] = operand
        if code.isdigit():  # tied to an output: "+r"
            translator.registers[f"${code}"] = operand
    translator.statements()
    values = [translator.resized(translator.registers[f"${n}"], type_) for n, type_ in enumerate(types)]
    if result is not None:
        _bind(translator, values, result)
    return translator.leaves


def _bind(translator: Translator, values: list[Operand], result: Value) -> None:
    if not isinstance(result.type, Struct):
        translator.leaves.append(Leaf("bitcast", (values[0],), result, loc=translator.loc))
        return
    whole: Operand = Const(result.type, "poison")
    for index, value in enumerate(values[:-1]):
        whole = translator.emit("insertvalue", (whole, value), result.type, Attrs(indices=(index,)))
    last = Attrs(indices=(len(values) - 1,))
    translator.leaves.append(Leaf("insertvalue", (whole, values[-1]), result, last, translator.loc))
