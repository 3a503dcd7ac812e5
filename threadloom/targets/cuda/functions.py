"""CUDA C++ spellings: element types, conversions and the elementwise functions of level tile.

Arithmetic on f16, bf16 and f8 values is done in f32; values are rounded to their dtype where they are stored or become
operands of a product.
"""

from __future__ import annotations

from threadloom.dtypes import Dtype
from threadloom.targets.cuda.unsupported import no_code

# dtype -> (type in memory, type in registers)
TYPES: dict[str, tuple[str, str]] = {
    "f64": ("double", "double"),
    "f32": ("float", "float"),
    "tf32": ("float", "float"),
    "f16": ("u16", "float"),
    "bf16": ("u16", "float"),
    "f8e4m3": ("u8", "float"),
    "f8e5m2": ("u8", "float"),
    "i64": ("i64", "i64"),
    "i32": ("i32", "i32"),
    "i8": ("i8", "i32"),
    "u8": ("u8", "i32"),
    "u4": ("u8", "i32"),
    "bool": ("u8", "bool"),
}

PAIRED = ("f16", "bf16")  # converted two at a time


def memory_type(dtype: Dtype) -> str:
    return TYPES[dtype.name][0]


def register_type(dtype: Dtype) -> str:
    return TYPES[dtype.name][1]


def literal(number: int | float | bool, dtype: Dtype) -> str:
    """C++ of a constant as a register of `dtype` holds it."""
    if dtype.kind == "bool":
        return "true" if number else "false"
    if not dtype.is_float and number == -(2**63):  # C has no negative literals
        return "(-9223372036854775807LL - 1)"
    if not dtype.is_float:
        return f"{int(number)}{'LL' if abs(int(number)) >= 2**31 else ''}"
    value = float(number)
    if value != value:
        return "__int_as_float(0x7fffffff)"
    if value in (float("inf"), float("-inf")):
        return "LOOM_INF" if value > 0 else "-LOOM_INF"
    return repr(value) if dtype.name == "f64" else f"{value!r}f"


def from_memory(dtype: Dtype, x: str) -> str:
    """C expression: the register form of element `x` as it stands in memory."""
    match dtype.name:
        case "f16" | "bf16" | "f8e4m3" | "f8e5m2":
            return f"from_{dtype.name.removeprefix('f8')}({x})"
        case "bool":
            return f"({x} != 0)"
    return x


def nibble(piece: str, e: str) -> str:
    """C expression: 4-bit element `e` of bytes, the low half first."""
    return f"{piece}[{e} / 2] >> 4 * ({e} % 2) & 15"


def to_memory(dtype: Dtype, x: str) -> str:
    match dtype.name:
        case "f16" | "bf16":
            return f"to_{dtype.name}({x})"
        case "f8e4m3" | "f8e5m2":
            return f"(u8)pack_{dtype.name.removeprefix('f8')}({x}, 0.f)"
        case "tf32":
            return f"round_tf32({x})"
        case "i8" | "u8" | "bool":
            return f"({memory_type(dtype)})({x})"
    return x


def atomic_add(dtype: Dtype, address: str, x: str) -> str:
    """C statement, less its semicolon, that adds `x`, as it is in registers, to memory.
    Narrow types have no instruction of their own."""
    match dtype.name:
        case "f64" | "f32" | "tf32" | "i32":
            return f"atomicAdd({address}, {to_memory(dtype, x)})"
        case "i64":
            return f"atomicAdd((u64*)({address}), (u64)({x}))"
    total = to_memory(dtype, f"{from_memory(dtype, 'one.seen()')} + {x}")
    return f"for (AtomicChange<{memory_type(dtype)}> one({address}); !one.done; ) one.put({total})"


def convert(source: Dtype, target: Dtype, x: str) -> str:
    """C expression of Cast. Narrow floats are rounded at once, so that a cast is visible in later arithmetic; integers
    wrap; floats become integers by cutting off and saturating."""
    if source == target:
        return x
    kind = register_type(target)
    if target.name == "bool":
        return f"({x} != 0)"
    if source.is_float and target.is_integer:
        if target.bits >= 32:
            return f"to_{target.name}({x})"
        least, most = (-128, 127) if target.name == "i8" else (0, 2**target.bits - 1)
        return f"to_narrow({x}, {least}, {most})"
    value = x if register_type(source) == kind else f"({kind})({x})"
    match target.name:
        case "f16" | "bf16" | "f8e4m3" | "f8e5m2":
            return from_memory(target, to_memory(target, value))
        case "tf32":
            return f"round_tf32({value})"
        case "i8":
            return f"(i32)(i8)({value})"
        case "u8":
            return f"(i32)(u8)({value})"
        case "u4":
            return f"(({value}) & 15)"
    return value


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

_FLOAT_CALLS = {
    "maximum": "fmax_nan({0}, {1})", "minimum": "fmin_nan({0}, {1})", "abs": "fabsf({0})", "floor": "floorf({0})",
    "ceil": "ceilf({0})", "round": "rintf({0})", "sqrt": "sqrtf({0})", "rsqrt": "rsqrtf({0})", "exp": "expf({0})",
    "exp2": "exp2_fast({0})", "exp_fast": "exp2_fast({0} * 1.442695041f)",
    "log": "logf({0})", "log2": "log2f({0})", "tanh": "tanhf({0})", "erf": "erff({0})",
    "sin": "sinf({0})", "cos": "cosf({0})", "floordiv": "floorf({0} / {1})",
    "mod": "({0} - floorf({0} / {1}) * {1})", "isnan": "isnan({0})",
}  # fmt: skip

_INTEGER_CALLS = {
    "maximum": "max({0}, {1})", "minimum": "min({0}, {1})", "abs": "abs({0})", "floordiv": "floor_div({0}, {1})",
    "mod": "floor_mod({0}, {1})", "shl": "shift_left({0}, {1})", "shr": "shift_right({0}, {1})",
}  # fmt: skip


def expression(fn: str, operand: Dtype, args: list[str]) -> str:
    """C expression of Map's `fn` on operands of dtype `operand` (the last operand's)."""
    if fn == "where":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if fn == "neg":
        text = f"(-{args[0]})" if operand.is_float else f"negative({args[0]})"
    elif fn == "not":
        text = f"(!{args[0]})" if operand.kind == "bool" else f"(~{args[0]})"
    elif fn == "div" and operand.is_float and operand.name != "f64":
        text = f"divide({args[0]}, {args[1]})"
    elif fn in _INFIX:
        text = f"({args[0]} {_INFIX[fn]} {args[1]})"
    elif operand.is_float:
        text = _FLOAT_CALLS[fn].format(*args)
        if operand.name == "f64":
            text = _double(fn, text)
    elif fn in _INTEGER_CALLS:
        if operand.name == "i64" and fn in ("maximum", "minimum"):  # an extent is an i32, and max takes two of a kind
            args = [f"(i64)({a})" for a in args]
        text = _INTEGER_CALLS[fn].format(*args)
    else:
        raise no_code(f"{fn} of {operand}", "it has no CUDA spelling", None)
    if operand.name in ("i8", "u8") and fn not in ("eq", "ne", "lt", "le", "gt", "ge"):
        return f"(i32)({memory_type(operand)})({text})"  # arithmetic wraps at the dtype's width
    return text


def _double(fn: str, text: str) -> str:
    if fn == "exp2":
        return text.replace("exp2_fast(", "exp2(", 1)
    for name in ("fabs", "floor", "ceil", "rint", "rsqrt", "sqrt", "exp", "log2", "log", "tanh", "erf", "sin", "cos"):
        text = text.replace(f"{name}f(", f"{name}(")
    return text


# Reduce and Scan: fn -> (identity, combine) by register type
def identity(fn: str, dtype: Dtype) -> str:
    """C expression that leaves `fn` unchanged."""
    match fn:
        case "sum":
            return "0"
        case "prod":
            return "1"
        case "any":
            return "false"
        case "all":
            return "true"
    if dtype.is_float:
        return "-LOOM_INF" if fn in ("max", "argmax") else "LOOM_INF"
    bits = 64 if dtype.name == "i64" else 32
    if fn in ("max", "argmax"):
        return f"(-{2 ** (bits - 1) - 1}{'LL' if bits == 64 else ''} - 1)"
    return f"{2 ** (bits - 1) - 1}{'LL' if bits == 64 else ''}"


def combine(fn: str, dtype: Dtype, a: str, b: str) -> str:
    match fn:
        case "sum":
            return f"{a} + {b}"
        case "prod":
            return f"{a} * {b}"
        case "any":
            return f"({a} | {b})"  # both sides are evaluated: one may be a shuffle, which all lanes must reach
        case "all":
            return f"({a} & {b})"
        case "max":
            return expression("maximum", dtype, [a, b])
        case "min":
            return expression("minimum", dtype, [a, b])
    raise no_code(f"the reduction {fn}", "it has no CUDA spelling", None)
