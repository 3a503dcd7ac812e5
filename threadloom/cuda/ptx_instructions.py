"""PTX instructions: one function for each group, and the table of them by opcode."""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.ptx_flags import multiply_with_carry, selp, setp, sum_with_carry
from threadloom.cuda.ptx_statement import TYPES, Translator
from threadloom.par.constants import const
from threadloom.par.ops import (
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    Attrs,
    Const,
    Float,
    Int,
    Operand,
    Type,
    Value,
)
from threadloom.par.result_types import size_bytes

Handler = Callable[[Translator, list[str], list[str]], None]


def _type_of(t: Translator, modifiers: list[str]) -> tuple[Type, bool]:
    kind = next((m for m in reversed(modifiers) if m in TYPES), None)
    if kind is None:
        raise t.fail(".".join(modifiers))
    return TYPES[kind], kind.startswith("s")


def _mov(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, signed = _type_of(t, modifiers)
    if any("{" in operand for operand in operands):
        return _mov_parts(t, type_, operands)
    t.define(operands[0], t.value(operands[1], type_, signed))
    return None


def _mov_parts(t: Translator, type_: Type, operands: list[str]) -> None:
    """`mov.b64 %0, {lo, hi}` and `mov.b64 {lo, hi}, %1`: two or four parts, the lowest first."""
    names = [operand.strip("{ }") for operand in operands]
    count = len(operands) - 1
    if not isinstance(type_, Int) or count not in (2, 4):
        raise t.fail(f"mov {', '.join(operands)}")
    part = Int(type_.bits // count)
    if "{" in operands[0]:
        whole = t.value(names[-1], type_)
        for index, name in enumerate(names[:-1]):
            moved = t.emit("lshr", (whole, const(type_, index * part.bits)), type_) if index else whole
            t.define(name, t.resized(moved, part))
        return
    joined = t.resized(t.value(names[1], part), type_)
    for index, name in enumerate(names[2:], 1):
        upper = t.emit("shl", (t.resized(t.value(name, part), type_), const(type_, index * part.bits)), type_)
        joined = t.emit("or", (joined, upper), type_)
    t.define(names[0], joined)


def _arithmetic(base: str) -> Handler:
    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        if "cc" in modifiers:
            return sum_with_carry(base, takes=False)(t, modifiers, operands)
        type_, signed = _type_of(t, modifiers)
        a, b = (t.value(operand, type_, signed) for operand in operands[1:3])
        opcode = f"f{base}" if isinstance(type_, Float) else base
        t.define(operands[0], t.emit(opcode, (a, b), type_))
        return None

    return handle


def _mul(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    t.define(operands[0], _product(t, modifiers, operands))


def _mad(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    if "cc" in modifiers:
        return multiply_with_carry(takes=False)(t, modifiers, operands)
    type_, signed = _type_of(t, modifiers)
    if isinstance(type_, Float):
        return _fma(t, modifiers, operands)
    product = _product(t, modifiers, operands)
    addend = t.value(operands[3], product.type, signed)
    t.define(operands[0], t.emit("add", (product, addend), product.type))
    return None


def _product(t: Translator, modifiers: list[str], operands: list[str]) -> Operand:
    type_, signed = _type_of(t, modifiers)
    if isinstance(type_, Float):
        a, b = (t.value(operand, type_) for operand in operands[1:3])
        return t.emit("fmul", (a, b), type_)
    a, b = (t.value(operand, type_, signed) for operand in operands[1:3])
    if "hi" in modifiers or "wide" in modifiers:
        wide = Int(type_.bits * 2)
        product = t.emit("mul", (t.resized(a, wide, signed), t.resized(b, wide, signed)), wide)
        if "wide" in modifiers:
            return product
        return t.resized(t.emit("lshr", (product, const(wide, type_.bits)), wide), type_)
    return t.emit("mul", (a, b), type_)


def _fma(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    values = tuple(t.value(operand, type_) for operand in operands[1:4])
    t.define(operands[0], t.call(f"llvm.fma.{modifiers[-1]}", values, type_))


def _float_function(intrinsic: str) -> Handler:
    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        type_, _ = _type_of(t, modifiers)
        if not isinstance(type_, Float):
            raise t.fail(intrinsic)
        t.define(operands[0], t.call(f"llvm.{intrinsic}.{modifiers[-1]}", (t.value(operands[1], type_),), type_))

    return handle


def _rcp(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    t.define(operands[0], t.emit("fdiv", (const(type_, 1.0), t.value(operands[1], type_)), type_))


def _rsqrt(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    root = t.call(f"llvm.sqrt.{modifiers[-1]}", (t.value(operands[1], type_),), type_)
    t.define(operands[0], t.emit("fdiv", (const(type_, 1.0), root), type_))


def _min_max(base: str) -> Handler:
    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        type_, signed = _type_of(t, modifiers)
        a, b = (t.value(operand, type_, signed) for operand in operands[1:3])
        if isinstance(type_, Float):
            name = f"llvm.{base}num.{modifiers[-1]}"
        else:
            name = f"llvm.{'s' if signed else 'u'}{base}.i{type_.bits}"
        found = t.call(name, (a, b), type_)
        if "NaN" in modifiers:  # where either is none
            nan = t.emit("fcmp", (a, b), I1, Attrs(predicate="uno"))
            found = t.emit("select", (nan, t.emit("fadd", (a, b), type_), found), type_)
        t.define(operands[0], found)

    return handle


def _not(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    t.define(operands[0], t.emit("xor", (t.value(operands[1], type_), const(type_, -1)), type_))


def _neg(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    value = t.value(operands[1], type_)
    if isinstance(type_, Float):
        t.define(operands[0], t.emit("fneg", (value,), type_))
    else:
        t.define(operands[0], t.emit("sub", (const(type_, 0), value), type_))


def _abs(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    value = t.value(operands[1], type_, True)
    if isinstance(type_, Float):
        t.define(operands[0], t.call(f"llvm.fabs.{modifiers[-1]}", (value,), type_))
    else:
        t.define(operands[0], t.call(f"llvm.abs.i{type_.bits}", (value, Const(I1, "false")), type_))


def _shift(opcode: str) -> Handler:
    """PTX clamps the amount: the result of a shift by the width or more is 0, or the sign."""

    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        type_, signed = _type_of(t, modifiers)
        value, amount = t.value(operands[1], type_, signed), t.value(operands[2], I32)
        t.define(operands[0], _shifted(t, "ashr" if signed and opcode == "lshr" else opcode, value, amount))

    return handle


def _shifted(t: Translator, opcode: str, value: Operand, amount: Operand) -> Value:
    type_ = value.type
    small = t.compare("ult", amount, const(I32, type_.bits))
    last = const(type_, type_.bits - 1 if opcode == "ashr" else 0)
    safe = t.select(small, t.resized(amount, type_), last)
    shifted = t.emit(opcode, (value, safe), type_)
    return shifted if opcode == "ashr" else t.select(small, shifted, const(type_, 0))


def _mask(t: Translator, length: Operand, type_: Type) -> Value:
    """The lowest `length` bits set; all of them from the width on."""
    return t.emit("xor", (_shifted(t, "shl", const(type_, -1), length), const(type_, -1)), type_)


def _bfe(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, signed = _type_of(t, modifiers)
    value = t.value(operands[1], type_, signed)
    start, length = (t.emit("and", (t.value(o, I32), const(I32, 255)), I32) for o in operands[2:4])
    if not signed:
        field_ = _shifted(t, "lshr", value, start)
        t.define(operands[0], t.emit("and", (field_, _mask(t, length, type_)), type_))
        return
    end = t.emit("add", (start, length), I32)
    over = t.call("llvm.umin.i32", (end, const(I32, type_.bits)), I32)
    left = t.emit("sub", (const(I32, type_.bits), over), I32)
    right = t.emit("add", (left, start), I32)
    moved = _shifted(t, "ashr", _shifted(t, "shl", value, left), right)
    t.define(operands[0], t.select(t.compare("eq", length, const(I32, 0)), const(type_, 0), moved))


def _bfi(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    type_, _ = _type_of(t, modifiers)
    inserted, base = (t.value(operand, type_) for operand in operands[1:3])
    start, length = (t.emit("and", (t.value(o, I32), const(I32, 255)), I32) for o in operands[3:5])
    mask = _shifted(t, "shl", _mask(t, length, type_), start)
    placed = t.emit("and", (_shifted(t, "shl", inserted, start), mask), type_)
    kept = t.emit("and", (base, t.emit("xor", (mask, const(type_, -1)), type_)), type_)
    t.define(operands[0], t.emit("or", (placed, kept), type_))


def _count(intrinsic: str) -> Handler:
    def handle(t: Translator, modifiers: list[str], operands: list[str]) -> None:
        type_, _ = _type_of(t, modifiers)
        values: tuple[Operand, ...] = (t.value(operands[1], type_),)
        if intrinsic == "ctlz":
            values = (*values, Const(I1, "false"))
        result = t.call(f"llvm.{intrinsic}.i{type_.bits}", values, type_)
        t.define(operands[0], result if intrinsic == "bitreverse" else t.resized(result, I32))

    return handle


def _lop3(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    table = int(operands[4], 0)
    a, b, c = (t.value(operand, I32) for operand in operands[1:4])
    result: Operand = const(I32, 0)
    for row in range(8):
        if not table >> row & 1:
            continue
        term: Operand = const(I32, -1)
        for bit, value in ((4, a), (2, b), (1, c)):
            literal = value if row & bit else t.emit("xor", (value, const(I32, -1)), I32)
            term = t.emit("and", (term, literal), I32)
        result = t.emit("or", (result, term), I32)
    t.define(operands[0], result)


def _prmt(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`prmt.b32 d, a, b, c`: each byte of d is one of a's and b's eight, or its sign alone."""
    if modifiers != ["b32"]:
        raise t.fail(f"prmt.{'.'.join(modifiers)}")
    a, b, selector = (t.value(operand, I32) for operand in operands[1:4])
    high = t.emit("shl", (t.resized(b, I64), const(I64, 32)), I64)
    both, result = t.emit("or", (high, t.resized(a, I64)), I64), const(I32, 0)
    for place in range(4):
        pick = t.emit("lshr", (selector, const(I32, 4 * place)), I32)
        index = t.emit("shl", (t.emit("and", (pick, const(I32, 7)), I32), const(I32, 3)), I32)
        byte = t.resized(t.emit("lshr", (both, t.resized(index, I64)), I64), I8)
        sign = t.emit("ashr", (byte, const(I8, 7)), I8)
        signs = t.compare("ne", t.emit("and", (pick, const(I32, 8)), I32), const(I32, 0))
        chosen = t.resized(t.select(signs, sign, byte), I32)
        result = t.emit("or", (result, t.emit("shl", (chosen, const(I32, 8 * place)), I32)), I32)
    t.define(operands[0], result)


def _shf(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`shf.l.wrap.b32 d, a, b, c`: 32 bits of {b, a}, b above a, shifted by c; `clamp`: by 32 at most."""
    if modifiers not in [[side, end, "b32"] for side in "lr" for end in ("wrap", "clamp")]:
        raise t.fail(f"shf.{'.'.join(modifiers)}")
    low, high, amount = (t.value(operand, I32) for operand in operands[1:4])
    callee = "llvm.fshl.i32" if modifiers[0] == "l" else "llvm.fshr.i32"
    shifted: Operand = t.call(callee, (high, low, amount), I32)  # takes the amount modulo 32
    if modifiers[1] == "clamp":
        far = t.compare("ugt", amount, const(I32, 31))
        shifted = t.select(far, low if modifiers[0] == "l" else high, shifted)
    t.define(operands[0], shifted)


def _parts(t: Translator, registers: list[str], address: str, step_bytes: int) -> list[tuple[str, Operand]]:
    """Each register of `{a, b}` (or the only one) and the address of its element."""
    base = t.address(address)
    names = [name.strip("{ }") for name in registers]
    return [(names[0], base)] + [
        (name, t.emit("getelementptr", (base, const(I64, i * step_bytes)), PTR, Attrs(("inbounds",), source_type=I8)))
        for i, name in enumerate(names[1:], 1)
    ]


def _ld(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`ld.global.u32 a, [p]` and `ld.global.v2.u32 {a, b}, [p]`."""
    type_, signed = _type_of(t, modifiers)
    volatile = bool({"volatile", "relaxed", "acquire", "cv"} & set(modifiers))
    attrs = Attrs(align_bytes=size_bytes(type_), volatile=volatile)
    loaded = [
        (name, t.emit("load", (place,), type_, attrs))
        for name, place in _parts(t, operands[:-1], operands[-1], size_bytes(type_))
    ]
    if "acquire" in modifiers:
        _fence(t, modifiers, [])
    for name, value in loaded:
        _define_extended(t, name, value, signed)


def _define_extended(t: Translator, name: str, value: Operand, signed: bool) -> None:
    """A register wider than the instruction's type gets all its bits."""
    wide = t.registers[name].type if name in t.registers else value.type
    t.define(name, t.resized(value, wide, signed) if isinstance(wide, Int) else value)


def _st(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`st.global.u32 [p], a` and `st.global.v2.u32 [p], {a, b}`."""
    type_, _ = _type_of(t, modifiers)
    volatile = bool({"volatile", "relaxed", "release", "wt"} & set(modifiers))
    attrs = Attrs(align_bytes=size_bytes(type_), volatile=volatile)
    if "release" in modifiers:
        _fence(t, modifiers, [])
    for name, place in _parts(t, operands[1:], operands[0], size_bytes(type_)):
        t.effect("store", (t.value(name, type_), place), attrs)


def _cvt(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """Floats to integers saturate with and without `sat`."""
    kinds = [m for m in modifiers if m in TYPES]
    if len(kinds) != 2:
        raise t.fail("cvt." + ".".join(modifiers))
    to, source = TYPES[kinds[0]], TYPES[kinds[1]]
    if "sat" in modifiers and not (isinstance(to, Int) and isinstance(source, Float)):
        raise t.fail("cvt." + ".".join(modifiers))
    signed = kinds[1].startswith("s")
    value = t.value(operands[1], source, signed)
    whole = next((_WHOLE[m] for m in modifiers if m in _WHOLE), None)
    if whole is not None and isinstance(source, Float):
        value = t.call(f"llvm.{whole}.{kinds[1]}", (value,), source)
    match to, source:
        case (Int(), Int()):
            result = t.resized(value, to, signed)
        case (Float(), Int()):
            result = t.emit("sitofp" if signed else "uitofp", (value,), to)
        case (Int(bits), Float()):
            name = f"llvm.fpto{'s' if kinds[0].startswith('s') else 'u'}i.sat.i{bits}.{kinds[1]}"
            result = t.call(name, (value,), to)
        case _:
            result = value if to == source else t.emit("fpext" if to == F64 else "fptrunc", (value,), to)
    _define_extended(t, operands[0], result, kinds[0].startswith("s"))


_WHOLE = {"rni": "rint", "rmi": "floor", "rpi": "ceil", "rzi": "trunc"}


def _bar(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    if "warp" in modifiers:
        t.effect("call", (t.value(operands[0], I32),), Attrs(callee="loom.syncwarp"))
    elif modifiers and modifiers[0] in ("sync", "cta") and operands in (["0"], []):
        t.effect("call", (), Attrs(callee="loom.syncthreads"))
    else:
        raise t.fail(f"bar.{'.'.join(modifiers)} {', '.join(operands)}")


def _fence(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    of_block = "cta" in modifiers  # as __threadfence_block() (headers/loom/execution.h)
    t.effect("fence", (), Attrs(ordering="acq_rel" if of_block else "seq_cst"))


def _nothing(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """Hints about caches and scheduling, and address space conversions that are checked elsewhere."""


def _trap(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    t.effect("call", (), Attrs(callee="loom.trap"))


def _cvta(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    t.define(operands[0], t.value(operands[1], I64))


def _vabsdiff4(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`vabsdiff4.u32.u32.u32.add d, a, b, c`: the sum of the four bytes' absolute differences, and c."""
    if modifiers != ["u32", "u32", "u32", "add"]:
        raise t.fail(f"vabsdiff4.{'.'.join(modifiers)}")
    a, b, total = (t.value(operand, I32) for operand in operands[1:4])
    for place in range(0, 32, 8):
        left, right = (
            t.emit("and", (t.emit("lshr", (x, const(I32, place)), I32), const(I32, 255)), I32) for x in (a, b)
        )
        size = t.call("llvm.abs.i32", (t.emit("sub", (left, right), I32), Const(I1, "false")), I32)
        total = t.emit("add", (total, size), I32)
    t.define(operands[0], total)


def _vshr(t: Translator, modifiers: list[str], operands: list[str]) -> None:
    """`vshr.u32.u32.u32.clamp.add d, a, b, c`: a shifted by b, which is 32 at most (`wrap`: its low bits), and c by the
    last word if there is one."""
    if modifiers[:3] != ["u32"] * 3 or modifiers[3] not in ("clamp", "wrap") or len(modifiers) > 5:
        raise t.fail(f"vshr.{'.'.join(modifiers)}")
    a, count = (t.value(operand, I32) for operand in operands[1:3])
    low = t.emit("and", (count, const(I32, 31)), I32)
    shifted: Operand = t.emit("lshr", (a, low), I32)
    if modifiers[3] == "clamp":
        shifted = t.select(t.compare("ugt", count, const(I32, 31)), const(I32, 0), shifted)
    if len(modifiers) == 5:
        third = t.value(operands[3], I32)
        match modifiers[4]:
            case "add":
                shifted = t.emit("add", (shifted, third), I32)
            case "min" | "max" as name:
                shifted = t.call(f"llvm.u{name}.i32", (shifted, third), I32)
            case other:
                raise t.fail(f"vshr with {other}")
    t.define(operands[0], shifted)


HANDLERS: dict[str, Handler] = {
    "mov": _mov, "cvta": _cvta, "cvt": _cvt,
    "add": _arithmetic("add"), "sub": _arithmetic("sub"), "mul": _mul, "mad": _mad, "fma": _fma,
    "and": _arithmetic("and"), "or": _arithmetic("or"), "xor": _arithmetic("xor"),
    "not": _not, "neg": _neg, "abs": _abs,
    "min": _min_max("min"), "max": _min_max("max"), "shl": _shift("shl"), "shr": _shift("lshr"),
    "bfe": _bfe, "bfi": _bfi, "popc": _count("ctpop"), "clz": _count("ctlz"), "brev": _count("bitreverse"),
    "setp": setp, "selp": selp, "prmt": _prmt, "shf": _shf,
    "addc": sum_with_carry("add", takes=True), "subc": sum_with_carry("sub", takes=True),
    "madc": multiply_with_carry(takes=True),
    "lop3": _lop3, "vabsdiff4": _vabsdiff4, "vshr": _vshr,
    "ex2": _float_function("exp2"), "lg2": _float_function("log2"), "sin": _float_function("sin"),
    "cos": _float_function("cos"), "sqrt": _float_function("sqrt"), "tanh": _float_function("tanh"), "rcp": _rcp,
    "rsqrt": _rsqrt, "ld": _ld, "ldu": _ld, "st": _st, "bar": _bar, "barrier": _bar, "membar": _fence, "fence": _fence,
    "prefetch": _nothing, "prefetchu": _nothing, "discard": _nothing, "applypriority": _nothing, "nanosleep": _nothing,
    "pragma": _nothing, "trap": _trap,
}  # fmt: skip
