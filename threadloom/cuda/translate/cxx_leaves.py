"""One leaf of par -> one C++ expression, from the expressions of its operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from threadloom.cuda.translate.cxx_values import (
    AND,
    BOTH,
    CHOICE,
    EITHER,
    EQUAL,
    LESS,
    OR,
    POSTFIX,
    PRODUCT,
    SHIFT,
    SUM,
    UNARY,
    XOR,
    Expr,
    cast,
    place_of,
    pointer_text,
    pointer_to,
    type_text,
    unsupported,
    with_sign,
)
from threadloom.par.constants import int_value
from threadloom.par.ops import I1, I8, PTR, Array, Float, Int, Leaf, Operand, Ptr, Struct, Type, Vector
from threadloom.par.result_types import size_bytes, struct_layout

Operands = list[Expr]
_BINARY = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "and": ("&", AND), "or": ("|", OR),
           "xor": ("^", XOR), "fadd": ("+", SUM), "fsub": ("-", SUM), "fmul": ("*", PRODUCT), "fdiv": ("/", PRODUCT),
           "sdiv": ("/", PRODUCT), "udiv": ("/", PRODUCT), "srem": ("%", PRODUCT), "urem": ("%", PRODUCT),
           "shl": ("<<", SHIFT), "lshr": (">>", SHIFT), "ashr": (">>", SHIFT)}  # fmt: skip
_COMPARE = {"eq": ("==", EQUAL), "ne": ("!=", EQUAL), "lt": ("<", LESS), "le": ("<=", LESS), "gt": (">", LESS),
            "ge": (">=", LESS)}  # fmt: skip
_NEGATED = {"ult": ">=", "ule": ">", "ugt": "<=", "uge": "<"}
# llvm.NAME.* -> C++ function (f is added for float)
_SAME = (
    "sqrt exp exp2 exp10 log log2 log10 sin cos tan pow floor ceil trunc rint nearbyint round copysign fma fabs "
    "tanh sinh cosh asin acos atan atan2 ldexp"
).split()
_MATH = {name: name for name in _SAME} | {
    "minnum": "fmin",
    "maxnum": "fmax",
    "minimumnum": "fmin",
    "maximumnum": "fmax",
    "roundeven": "nearbyint",
}
ATOMICS = {
    "add": "add", "fadd": "add", "sub": "sub", "fsub": "sub", "and": "and", "or": "or", "xor": "xor", "min": "min",
    "max": "max", "umin": "min", "umax": "max", "fmin": "min", "fmax": "max", "xchg": "exchange", "uinc_wrap": "inc",
    "udec_wrap": "dec",
}  # fmt: skip
OWN_SHIFTS = {"loom.shift_left": None, "loom.shift_right.signed": True, "loom.shift_right.unsigned": False}
OWN_DIVISIONS = {"loom.divide.signed": True, "loom.divide.unsigned": False, "loom.modulo.signed": True,
                 "loom.modulo.unsigned": False}  # fmt: skip


def expression(leaf: Leaf, operands: Operands) -> Expr:
    """The value of `leaf`, which writes nothing."""
    made = _made(leaf, operands)
    return replace(made, reads=made.reads or any(operand.reads for operand in operands))


def _made(leaf: Leaf, operands: Operands) -> Expr:
    opcode, type_ = leaf.opcode, leaf.result.type if leaf.result else None
    if opcode in ("icmp", "fcmp"):
        return (_icmp if opcode == "icmp" else _fcmp)(leaf, *operands)
    if opcode == "getelementptr":
        return gep(leaf, operands)
    if opcode == "load":
        return _load(leaf, operands[0])
    if opcode == "call":
        return call(leaf, operands)
    if opcode in _BINARY and type_ is not None:
        return _binary(opcode, type_, *operands)
    simple: dict[str, Callable[[], Expr]] = {
        "select": lambda: _select(*operands),
        "freeze": lambda: operands[0],
        "fneg": lambda: replace(operands[0], text=f"-{operands[0].at(UNARY)}", precedence=UNARY),
        "frem": lambda: _function("fmod", type_, operands),
        "extractelement": lambda: Expr(f"{operands[0].at(POSTFIX)}[{operands[1].text}]", POSTFIX, type_),
        "insertelement": lambda: Expr(f"loom::inserted({', '.join(one.text for one in operands)})", POSTFIX, type_),
        "extractvalue": lambda: _field(leaf, operands[0]),
        "shufflevector": lambda: _shuffle(leaf, *operands),
    }  # fmt: skip
    if opcode in simple:
        return simple[opcode]()
    return _cast(leaf, operands[0])


# ---------------------------------------------------------------- arithmetic


def _binary(opcode: str, type_: Type, a: Expr, b: Expr) -> Expr:
    sign, level = _BINARY[opcode]
    if type_ == I1:
        return _logic(opcode, a, b)
    if opcode in ("sdiv", "srem") and any(one.small and not one.signed for one in (a, b)):
        a, b = (cast(one, type_text(type_), type_) if one.small and not one.signed else with_sign(one, True)
                for one in (a, b))  # fmt: skip
    elif opcode in ("sdiv", "srem", "ashr"):
        a, b = with_sign(a, True), with_sign(b, True) if opcode != "ashr" else b
    elif opcode in ("udiv", "urem", "lshr"):
        a, b = with_sign(a, False), with_sign(b, False) if opcode != "lshr" else b
    if opcode == "add" and b.text.startswith("-") and b.text[1:].isdigit():
        sign, b = "-", replace(b, text=b.text[1:], precedence=POSTFIX)
    signed = a.signed if opcode in ("shl", "lshr", "ashr") else _common_sign(a, b)
    text = f"{a.at(level)} {sign} {b.at(level + 1)}"
    made = Expr(text, level, type_, signed)
    if isinstance(type_, Int) and type_.bits < 32:  # C++ computes in int
        made = cast(made, type_text(type_, signed), type_, signed)
    return made


def _common_sign(a: Expr, b: Expr) -> bool:
    """Of an operation on both: literals take the other's."""
    if b.text.lstrip("-").isdigit():
        return a.signed
    if a.text.lstrip("-").isdigit():
        return b.signed
    return a.signed and b.signed


def _logic(opcode: str, a: Expr, b: Expr) -> Expr:
    if opcode == "xor" and b.text == "true":
        return Expr(f"!{a.at(UNARY)}", UNARY, I1)
    sign, level = {"and": ("&&", BOTH), "or": ("||", EITHER)}.get(opcode, ("!=", EQUAL))
    return Expr(f"{a.at(level + 1) if sign == '!=' else a.at(level)} {sign} {b.at(level + 1)}", level, I1)


def _icmp(leaf: Leaf, a: Expr, b: Expr) -> Expr:
    predicate = leaf.attrs.predicate
    sign, level = _COMPARE[predicate[-2:]]
    if isinstance(a.type, Vector):
        if predicate not in ("eq", "ne"):
            a, b = (_vector_with_sign(one, predicate[0] == "s") for one in (a, b))
        return Expr(f"{a.at(level + 1)} {sign} {b.at(level + 1)}", level, Vector(a.type.lanes, I1))
    if isinstance(a.type, Ptr):
        a, b = (replace(cast(one, "char *", PTR), pointee=I8) if one.pointee != I8 else one for one in (a, b))
    elif predicate[0] in "su" and len(predicate) == 3:
        a, b = _comparable(a, b, predicate[0] == "s")
    elif isinstance(a.type, Int) and a.signed is not b.signed and not b.text.isdigit():
        a = with_sign(a, b.signed)
    return Expr(f"{a.at(level + 1)} {sign} {b.at(level + 1)}", level, I1)


def _vector_with_sign(one: Expr, signed: bool) -> Expr:
    if one.text.lstrip("-").isdigit() or one.signed is signed:
        return one
    return cast(one, type_text(one.type, signed), one.type, signed)


def _comparable(a: Expr, b: Expr, signed: bool) -> tuple[Expr, Expr]:
    """C++ compares as unsigned where one side is: harmless only among numbers that both types have."""
    plain = all(one.small or one.text.isdigit() for one in (a, b))
    if plain:
        return a, b
    made = [cast(one, type_text(one.type, signed), one.type, signed) if one.small and one.signed is not signed
            else with_sign(one, signed) for one in (a, b)]  # fmt: skip
    return made[0], made[1]


def _fcmp(leaf: Leaf, a: Expr, b: Expr) -> Expr:
    predicate = leaf.attrs.predicate
    if predicate in ("true", "false"):
        return Expr(predicate, POSTFIX, I1)
    both = f"{a.at(EQUAL + 1)} {{}} {b.at(EQUAL + 1)}"
    if predicate in ("oeq", "une"):
        return Expr(both.format("==" if predicate == "oeq" else "!="), EQUAL, I1)
    if predicate[0] == "o" and predicate[1:] in _COMPARE and predicate != "one":
        return Expr(f"{a.at(SHIFT)} {_COMPARE[predicate[1:]][0]} {b.at(SHIFT)}", LESS, I1)
    if predicate in _NEGATED:
        return Expr(f"!({a.at(SHIFT)} {_NEGATED[predicate]} {b.at(SHIFT)})", UNARY, I1)
    if predicate in ("one", "ueq"):
        text = f"({a.at(SHIFT)} < {b.at(SHIFT)} || {a.at(SHIFT)} > {b.at(SHIFT)})"
        return Expr(text if predicate == "one" else f"!{text}", UNARY, I1)
    text = f"std::isnan({a.text}) || std::isnan({b.text})"
    return Expr(text, EITHER, I1) if predicate == "uno" else Expr(f"!({text})", UNARY, I1)


def _select(cond: Expr, yes: Expr, no: Expr) -> Expr:
    if isinstance(yes.type, Ptr):
        pointee = yes.pointee if yes.pointee == no.pointee else I8
        yes, no = pointer_to(yes, pointee), pointer_to(no, pointee)
        return Expr(f"{cond.at(EITHER)} ? {yes.at(CHOICE)} : {no.at(CHOICE)}", CHOICE, PTR, pointee=pointee)
    signed = _common_sign(yes, no)
    yes, no = with_sign(yes, signed), with_sign(no, signed)
    return Expr(f"{cond.at(EITHER)} ? {yes.at(CHOICE)} : {no.at(CHOICE)}", CHOICE, yes.type, signed)


def _cast(leaf: Leaf, a: Expr) -> Expr:
    assert leaf.result is not None
    target = leaf.result.type
    match leaf.opcode:
        case "bitcast" if isinstance(a.type, Vector) and a.type.element == I1:
            return Expr(f"({type_text(target)})loom::mask_of({a.text})", UNARY, target)
        case "bitcast" if isinstance(target, Vector) and target.element == I1:
            return Expr(f"loom::lanes_of<loom::Vector<int, {target.lanes}>>({a.text})", POSTFIX, target)
        case _ if isinstance(target, Vector) and leaf.opcode != "bitcast":
            return Expr(f"__builtin_convertvector({a.text}, {type_text(target)})", POSTFIX, target)
        case "sext" if a.type == I1:
            return Expr(f"-({type_text(target)}){a.at(UNARY)}", UNARY, target)
        case "sext" | "zext":
            signed = leaf.opcode == "sext" or ("nneg" in leaf.attrs.flags and a.signed)
            inner = a if a.type == I1 else with_sign(a, signed)
            if inner.small:
                signed = a.signed
            return replace(cast(inner, type_text(target, signed or a.type == I1), target, signed or a.type == I1),
                           narrow=inner.text)  # fmt: skip
        case "trunc" if target == I1:
            return Expr(f"({a.at(AND)} & 1) != 0", EQUAL, I1)
        case "trunc":
            return cast(a, type_text(target, a.signed), target, a.signed)
        case "fptosi" | "fptoui":
            signed = leaf.opcode == "fptosi"
            return cast(a, type_text(target, signed), target, signed)
        case "sitofp" | "uitofp":
            return cast(with_sign(a, leaf.opcode == "sitofp"), type_text(target), target)
        case "fptrunc" | "fpext":
            return cast(a, type_text(target), target)
        case "ptrtoint":
            return cast(a, type_text(target, False), target, False)
        case "inttoptr":
            return replace(cast(a, "char *", PTR), pointee=I8)
        case "bitcast":
            return Expr(f"loom::bits<{type_text(target)}>({a.text})", POSTFIX, target)
    raise unsupported(f"the operation {leaf.opcode}", leaf.loc)


# ---------------------------------------------------------------- memory


def _load(leaf: Leaf, pointer: Expr) -> Expr:
    assert leaf.result is not None
    type_ = leaf.result.type
    if leaf.attrs.ordering:
        pointer = pointer_to(pointer, type_)
        return Expr(f"__atomic_load_n({pointer.text}, __ATOMIC_SEQ_CST)", POSTFIX, type_, reads=True)
    if _is_odd(type_, leaf.attrs.align_bytes):
        return Expr(f"loom::load<{type_text(type_)}>({pointer.text})", POSTFIX, type_, reads=True)
    if leaf.attrs.volatile:
        return Expr(f"*(volatile {pointer_text(type_)}){pointer.at(UNARY)}", UNARY, type_, reads=True)
    place = place_of(pointer, type_)
    unsigned = pointer.of_unsigned and pointer.pointee == type_
    return Expr(place, UNARY if place.startswith(("*", "(")) else POSTFIX, type_, not unsigned, reads=True)


def store_text(leaf: Leaf, value: Expr, pointer: Expr) -> str:
    type_ = leaf.operands[0].type
    if leaf.attrs.ordering:
        pointer = pointer_to(pointer, type_)
        return f"__atomic_store_n({pointer.text}, {value.text}, __ATOMIC_SEQ_CST);"
    if _is_odd(type_, leaf.attrs.align_bytes):
        return f"loom::store<{type_text(type_)}>({pointer.text}, {value.text});"
    volatile = f"*(volatile {pointer_text(type_)}){pointer.at(UNARY)}" if leaf.attrs.volatile else ""
    place = volatile or place_of(pointer, type_)
    stored = value.text if not isinstance(type_, Ptr) else f"(char *){value.at(UNARY)}"
    for sign in ("+", "*", "-"):
        if value.text.startswith(f"{place} {sign} ") and value.precedence in (SUM, PRODUCT) and not volatile:
            rest = value.text[len(place) + 3 :]
            if value.precedence == PRODUCT or not any(other in rest for other in (" + ", " - ")) or sign == "+":
                return f"{place} {sign}= {rest};"
    return f"{place} = {stored};"


def _is_odd(type_: Type, align_bytes: int) -> bool:
    """Needs a copy: vectors, and less aligned than C++ expects."""
    return isinstance(type_, Vector) or 0 < align_bytes < min(size_bytes(type_), 8)


def gep(leaf: Leaf, operands: Operands) -> Expr:
    made = _address(leaf, operands)
    return replace(made, of_unsigned=operands[0].of_unsigned and made.pointee == operands[0].pointee)


def _address(leaf: Leaf, operands: Operands) -> Expr:
    base, source = operands[0], leaf.attrs.source_type
    assert source is not None
    first, rest = operands[1], list(zip(leaf.operands[2:], operands[2:], strict=True))
    if rest and int_value(leaf.operands[1]) == 0 and base.place and base.pointee == source:
        place, type_ = base.place, source
    elif not rest and int_value(leaf.operands[1]) == 0:
        return base
    elif isinstance(base.pointee, Array) and base.place and innermost_is(base.pointee, source):
        place, type_ = _flat(base, first), source
    elif isinstance(source, Struct | Array):
        return _bytes(leaf, base, source, first, rest)
    else:
        pointer = pointer_to(base, source)
        if pointer.place and not pointer.place.startswith("*"):
            pointer = Expr(f"(&{pointer.place})", POSTFIX, PTR, pointee=source)  # one of many
        place, type_ = f"{pointer.at(POSTFIX)}[{_index(first)}]", source
    for position, (_, index) in enumerate(rest):
        if not isinstance(type_, Array | Vector):
            whole = Expr(f"&{place}", UNARY, PTR, place=place, pointee=type_)
            return _bytes(leaf, whole, type_, None, rest[position:])
        place, type_ = f"{place}[{_index(index)}]", type_.element
    return Expr(f"&{place}", UNARY, PTR, place=place, pointee=type_)


def innermost_is(array: Type, element: Type) -> bool:
    return isinstance(array, Array) and (array.element == element)


def _flat(base: Expr, index: Expr) -> str:
    return f"{base.place}[{_index(index)}]"


def _index(index: Expr) -> str:
    return index.narrow or index.text


def _bytes(leaf: Leaf, base: Expr, source: Type, first: Expr | None, rest: list[tuple[Operand, Expr]]) -> Expr:
    """Into structures, whose fields have no names here: by bytes."""
    terms, offset, type_ = [], 0, source
    steps: list[tuple[Operand | None, Expr | None, int]] = []
    if first is not None:
        steps.append((leaf.operands[1], first, size_bytes(source)))
    for operand, index in rest:
        match type_:
            case Struct(fields):
                number = int_value(operand) or 0
                offset, type_ = offset + struct_layout(type_)[0][number], fields[number]
            case Array(_, element) | Vector(_, element):
                type_ = element
                steps.append((operand, index, size_bytes(element)))
            case _:
                raise unsupported(f"an address in {type_!r}", leaf.loc)
    for operand, index, size in steps:
        known = int_value(operand) if operand is not None else None
        if known is not None:
            offset += known * size
        elif index is not None:
            terms.append(f"(long){with_sign(index, True).at(UNARY)} * {size}")
    shift = " + ".join([*terms, str(offset)] if offset or not terms else terms)
    byte = f"((char *){base.at(UNARY)})[{shift}]" if base.pointee != I8 else f"{base.at(POSTFIX)}[{shift}]"
    return Expr(f"&{byte}", UNARY, PTR, place=byte, pointee=I8)


_CLASSES = {0x003: "std::isnan({})", 0x204: "std::isinf({})", 0x1F8: "std::isfinite({})", 0x108: "std::isnormal({})",
            0x3FC: "!std::isnan({})", 0x207: "!std::isfinite({})", 0x060: "{} == 0"}  # fmt: skip


def _float_class(leaf: Leaf, value: Expr, classes: Expr) -> Expr:
    """llvm.is.fpclass: nan 3, infinities 0x204, normal 0x108, subnormal 0x90, zeros 0x60."""
    wanted = int(classes.text)
    if wanted not in _CLASSES:
        raise unsupported(f"the test for float classes {wanted:#x}", leaf.loc)
    return Expr(_CLASSES[wanted].format(value.at(EQUAL + 1)), EQUAL, I1)


def _shuffle(leaf: Leaf, a: Expr, b: Expr) -> Expr:
    assert leaf.result is not None
    type_, indices = leaf.result.type, leaf.attrs.indices
    if set(indices) == {0}:
        return Expr(f"loom::splat<{type_text(type_)}>({a.at(POSTFIX)}[0])", POSTFIX, type_)
    return Expr(f"__builtin_shufflevector({a.text}, {b.text}, {', '.join(map(str, indices))})", POSTFIX, type_)


def _field(leaf: Leaf, whole: Expr) -> Expr:
    """Of what compare_exchange gives, or of a product that may overflow."""
    assert leaf.result is not None
    name = "old" if leaf.attrs.indices == (0,) else "done"
    return Expr(f"{whole.at(POSTFIX)}.{name}", POSTFIX, leaf.result.type, signed=whole.signed)


# ---------------------------------------------------------------- calls


def call(leaf: Leaf, operands: Operands) -> Expr:
    """A call for its value; what is called is C++'s own or loom's."""
    callee, type_ = leaf.attrs.callee, leaf.result.type if leaf.result else PTR
    if callee in OWN_SHIFTS:
        value = operands[0] if OWN_SHIFTS[callee] is None else with_sign(operands[0], bool(OWN_SHIFTS[callee]))
        name = "shift_left" if callee == "loom.shift_left" else "shift_right"
        return Expr(f"loom::{name}({value.text}, {operands[1].text})", POSTFIX, type_, value.signed)
    if callee in OWN_DIVISIONS:
        signed = OWN_DIVISIONS[callee]
        listed = ", ".join(with_sign(one, signed).text for one in operands)
        kind = type_text(type_, signed)
        return Expr(f"loom::{callee.split('.')[1]}<{kind}>({listed})", POSTFIX, type_, signed)
    if not callee.startswith("llvm."):
        return Expr(f"{callee}({', '.join(_passed(one) for one in operands)})", POSTFIX, type_)
    return _intrinsic(leaf, callee.removeprefix("llvm."), type_, operands)


def _passed(operand: Expr) -> str:
    return operand.text


def _function(name: str, type_: Type | None, operands: Operands) -> Expr:
    assert type_ is not None
    if not isinstance(type_, Float) or type_.kind not in ("float", "double"):
        raise unsupported(f"{name} of {type_!r}")
    suffix = "f" if type_.kind == "float" else ""
    return Expr(f"{name}{suffix}({', '.join(one.text for one in operands)})", POSTFIX, type_)


def _intrinsic(leaf: Leaf, name: str, type_: Type, operands: Operands) -> Expr:
    base = name.split(".")[0]
    if base == "fmuladd":
        a, b, c = operands
        return Expr(f"{a.at(PRODUCT)} * {b.at(PRODUCT + 1)} + {c.at(SUM + 1)}", SUM, type_)
    if base in _MATH and isinstance(type_, Float):
        return _function(_MATH[base], type_, operands)
    if base in ("smin", "smax", "umin", "umax"):
        a, b = (with_sign(one, base[0] == "s") for one in operands)
        kind = type_text(type_, base[0] == "s")
        return Expr(f"loom::{'least' if base.endswith('min') else 'most'}<{kind}>({a.text}, {b.text})", POSTFIX, type_,
                    base[0] == "s")  # fmt: skip
    if name.startswith(("fptosi.sat", "fptoui.sat")):
        signed = name.startswith("fptosi")
        return Expr(f"loom::saturate<{type_text(type_, signed)}>({operands[0].text})", POSTFIX, type_, signed)
    if name.startswith("is.fpclass."):
        return _float_class(leaf, operands[0], operands[1])
    if name.startswith("vector.reduce."):
        how = name.split(".")[2]
        kind = type_text(type_, not how.startswith("u"))
        return Expr(f"({type_text(type_)})loom::reduce_{how.lstrip('us')}<{kind}>({operands[0].text})", UNARY, type_)
    bits = type_.bits if isinstance(type_, Int) else 0
    wide = "l" if bits == 64 else ""
    x = operands[0].text
    if base == "abs":
        return Expr(f"{'l' if bits == 64 else ''}abs({with_sign(operands[0], True).text})", POSTFIX, type_)
    if base == "ctpop" and bits in (32, 64):
        return Expr(f"__builtin_popcount{wide}({x})", POSTFIX, type_)
    if base in ("ctlz", "cttz") and bits in (32, 64):
        return Expr(f"({x} == 0 ? {bits} : __builtin_{base.replace('t', '', 1)}{wide}({x}))", POSTFIX, type_)
    if base == "bswap" and bits in (32, 64):
        return Expr(f"__builtin_bswap{bits}({x})", POSTFIX, type_, False)
    if base in ("bitreverse", "fshl", "fshr") and bits in (32, 64):
        listed = ", ".join(with_sign(one, False).text for one in operands)
        return Expr(f"loom::{base}<{type_text(type_, False)}>({listed})", POSTFIX, type_, False)
    if base == "expect":
        return operands[0]
    raise unsupported(f"the function llvm.{name}", leaf.loc)
