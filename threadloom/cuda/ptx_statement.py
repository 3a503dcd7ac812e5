"""A statement of inline PTX while it is translated: its operands, registers, special registers and leaves."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from threadloom.errors import CompileError, slug
from threadloom.par.constants import const
from threadloom.par.ops import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    NO_ATTRS,
    PTR,
    Attrs,
    Const,
    Int,
    Leaf,
    Operand,
    Type,
    Value,
)
from threadloom.source import Loc

INLINE_ASM = slug("cuda-inline-asm", "device code contains inline PTX that is not translated")

TYPES: dict[str, Type] = {
    f"{kind}{bits}": Int(bits) for kind in "usb" for bits in (8, 16, 32, 64)
} | {"f32": F32, "f64": F64, "pred": I1}  # fmt: skip

# Modifiers that change the result and that no handler knows: leaving them out would be silently wrong.
UNTRANSLATED = {"rz", "rm", "rp", "cc", "sat", "relu", "NaN", "xorsign"}
# Handlers that look for them themselves.
KNOWN_TO = {
    "cvt": {"sat"}, "min": {"NaN"}, "max": {"NaN"},
    **{base: {"cc"} for base in ("add", "addc", "sub", "subc", "mad", "madc")},
}  # fmt: skip


@dataclass
class Translator:
    """One asm statement: its operands by number, its declared registers, and the leaves so far. `handlers`: opcode ->
    what writes its leaves (ptx_instructions.py)."""

    handlers: Mapping[str, Callable[[Translator, list[str], list[str]], None]]
    text: str
    name: str  # unique in the function: prefix of new values
    loc: Loc | None
    registers: dict[str, Operand] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)

    # ------------------------------------------------------------ building

    def emit(self, opcode: str, operands: tuple[Operand, ...], type_: Type, attrs: Attrs = NO_ATTRS) -> Value:
        result = Value(f"{self.name}.{len(self.leaves)}", type_)
        self.leaves.append(Leaf(opcode, operands, result, attrs, self.loc))
        return result

    def call(self, callee: str, operands: tuple[Operand, ...], type_: Type) -> Value:
        return self.emit("call", operands, type_, Attrs(callee=callee))

    def effect(self, opcode: str, operands: tuple[Operand, ...], attrs: Attrs) -> None:
        self.leaves.append(Leaf(opcode, operands, None, attrs, self.loc))

    def compare(self, predicate: str, a: Operand, b: Operand) -> Value:
        return self.emit("icmp", (a, b), I1, Attrs(predicate=predicate))

    def select(self, cond: Operand, a: Operand, b: Operand) -> Value:
        return self.emit("select", (cond, a, b), a.type)

    def resized(self, value: Operand, type_: Type, signed: bool = False) -> Operand:
        """`value` as bits of `type_`."""
        if value.type == type_:
            return value
        if isinstance(value.type, Int) and isinstance(type_, Int):
            opcode = "trunc" if value.type.bits > type_.bits else "sext" if signed else "zext"
            return self.emit(opcode, (value,), type_)
        if type_ == PTR:
            return self.emit("inttoptr", (value,), PTR)
        if value.type == PTR:
            return self.resized(self.emit("ptrtoint", (value,), I64), type_)
        return self.emit("bitcast", (value,), type_)

    def fail(self, what: str) -> CompileError:
        return CompileError(
            INLINE_ASM,
            f"inline PTX `{what}` is not translated to this CPU",
            why="only common integer, float and memory instructions are",
            try_="use the CUDA intrinsic for it, or #ifdef the statement out",
            loc=self.loc,
        )

    # ------------------------------------------------------------ statements

    def statements(self) -> None:
        text = self.text.replace("$(", "{").replace("$)", "}").replace("$|", "|")  # clang's way to write these
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text.replace("\\0A", "\n").replace("\\09", " "), flags=re.S)
        for statement in text.split(";"):
            words = statement.lstrip("{} \t\n").split(None, 1)  # braces in front are of scopes, others of vectors
            if words:
                self.statement(words[0], words[1] if len(words) > 1 else "")

    def statement(self, opcode: str, rest: str) -> None:
        if opcode == ".reg":
            kind, *names = re.split(r"[\s,]+", rest.strip())
            for name in names:
                self.registers[name] = Const(TYPES.get(kind.lstrip("."), I32), "poison")
            return
        base, *modifiers = opcode.split(".")
        handler = self.handlers.get(base)
        refused = UNTRANSLATED - KNOWN_TO.get(base, frozenset())
        if opcode.startswith("@") or handler is None or refused & set(modifiers):
            raise self.fail(f"{opcode} {rest}".strip())
        handler(self, modifiers, [part.strip() for part in re.split(r",(?![^\[]*\])", rest)] if rest.strip() else [])

    def value(self, text: str, type_: Type, signed: bool = False) -> Operand:
        if text.startswith("%") and text not in self.registers:
            return self.resized(self.special(text), type_)
        if text in self.registers:
            return self.resized(self.registers[text], type_, signed)
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            return const(type_, int(text.rstrip("U"), 0))
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
            return const(type_, struct.unpack(">f", bytes.fromhex(text[2:]))[0])
        raise self.fail(text)

    def define(self, text: str, value: Operand) -> None:
        if text not in self.registers and text != "_":
            raise self.fail(text)
        self.registers[text] = value

    def address(self, text: str) -> Operand:
        found = re.fullmatch(r"\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\w+))?\s*\]", text)
        if found is None:
            raise self.fail(text)
        register = self.registers.get(found[1])
        if register is not None and isinstance(register.type, Int) and register.type.bits < 64:
            raise CompileError(
                INLINE_ASM,
                f"inline PTX addresses memory by {register.type.bits} bits",
                why="addresses of shared memory have 64 bits here, as all others",
                try_="read or write through the pointer in C++, or #ifdef the statement out",
                loc=self.loc,
            )
        base = self.value(found[1], PTR)
        if not found[2]:
            return base
        offset = const(I64, int(found[2], 0))
        return self.emit("getelementptr", (base, offset), PTR, Attrs(("inbounds",), source_type=I8))

    def special(self, name: str) -> Operand:
        word = name.lstrip("%")
        if word in ("clock", "clock64", "globaltimer", "clock_hi", "globaltimer_lo", "globaltimer_hi"):
            ticks = self.call("loom.clock", (), I64)
            if word.endswith("_hi"):
                return self.emit("lshr", (ticks, const(I64, 32)), I64)
            return ticks
        index = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}
        if (found := re.fullmatch(r"(tid|ctaid|ntid|nctaid)\.([xyz])", word)) is not None:
            return self.call(f"loom.{index[found[1]]}.{found[2]}", (), I32)
        if word in ("smid", "nsmid"):  # all blocks on one of the processors: a number that fits arrays of any length
            return const(I32, 0 if word == "smid" else 1)
        if word in ("WARP_SZ", "nwarpid"):
            return const(I32, 32)
        if word in ("laneid", "warpid"):
            linear = self.thread_number()
            if word == "laneid":
                return self.emit("and", (linear, const(I32, 31)), I32)
            return self.emit("lshr", (linear, const(I32, 5)), I32)
        if (found := re.fullmatch(r"lanemask_(lt|le|eq|ge|gt)", word)) is not None:
            return self.lane_mask(found[1])
        raise self.fail(name)

    def thread_number(self) -> Value:
        x, y, z = (self.call(f"loom.threadIdx.{axis}", (), I32) for axis in "xyz")
        width, height = (self.call(f"loom.blockDim.{axis}", (), I32) for axis in "xy")
        row = self.emit("add", (self.emit("mul", (z, height), I32), y), I32)
        return self.emit("add", (self.emit("mul", (row, width), I32), x), I32)

    def lane_mask(self, kind: str) -> Operand:
        lane = self.emit("and", (self.thread_number(), const(I32, 31)), I32)
        own = self.emit("shl", (const(I32, 1), lane), I32)
        below = self.emit("sub", (own, const(I32, 1)), I32)
        upto = self.emit("or", (own, below), I32)
        flip = const(I32, -1)
        match kind:
            case "lt":
                return below
            case "le":
                return upto
            case "eq":
                return own
            case "ge":
                return self.emit("xor", (below, flip), I32)
        return self.emit("xor", (upto, flip), I32)
