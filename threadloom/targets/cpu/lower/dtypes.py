"""Element types in registers and in memory, and the conversions between them.

    dtype          memory   register           dtype        memory   register
    f64            double   double             i64 i32 i8   same     same
    f32 tf32       float    float              u8 u4        i8       i8 (unsigned)
    f16            half     float              bool         i8       i1
    bf16           i16      float
    f8e4m3 f8e5m2  i8       float

All functions take scalars and vectors alike.
"""

from __future__ import annotations

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import Number, const
from threadloom.par.ops import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Attrs,
    Const,
    Float,
    Int,
    Operand,
    Type,
    Vector,
)


def register_type(dtype: Dtype) -> Int | Float:
    if dtype.is_float:
        return F64 if dtype.name == "f64" else F32
    if dtype.kind == "bool":
        return I1
    return {64: I64, 32: I32}.get(dtype.bits, I8)


def memory_type(dtype: Dtype) -> Int | Float:
    match dtype.name:
        case "f64":
            return F64
        case "f32" | "tf32":
            return F32
        case "f16":
            return F16
        case "bf16":
            return I16
        case "i64":
            return I64
        case "i32":
            return I32
    return I8


def kept_memory_type(dtype: Dtype) -> Int | Float:
    """The type in which a tile of `dtype` lies on chip: that of registers, bool in bytes."""
    return I8 if dtype.kind == "bool" else register_type(dtype)


def shaped(element: Int | Float, like: Type) -> Type:
    """`element`, or a vector of it as wide as `like`."""
    return Vector(like.lanes, element) if isinstance(like, Vector) else element


def element_of(type_: Type) -> Int | Float:
    element = type_.element if isinstance(type_, Vector) else type_
    if not isinstance(element, Int | Float):
        raise InternalError(f"{type_!r} has no elements to compute with")
    return element


def number(like: Type, value: Number) -> Const:
    return const(like, value)


# ---------------------------------------------------------------- memory <-> registers


def widen(b: Builder, loaded: Operand, dtype: Dtype) -> Operand:
    """What was loaded from a tensor of `dtype`, in registers."""
    match dtype.name:
        case "f16":
            return b.cast("fpext", loaded, shaped(F32, loaded.type))
        case "bf16":
            wide = b.cast("zext", loaded, shaped(I32, loaded.type))
            return b.cast("bitcast", b.shl(wide, number(wide.type, 16)), shaped(F32, loaded.type))
        case "f8e5m2":
            return _from_half_bits(b, b.shl(_as_i16(b, loaded), number(shaped(I16, loaded.type), 8)))
        case "f8e4m3":
            return _from_e4m3(b, loaded)
        case "bool":
            return b.icmp("ne", loaded, number(loaded.type, 0))
    return loaded


def narrow(b: Builder, value: Operand, dtype: Dtype, native_bf16: bool = False) -> Operand:
    """A register value as it is stored in a tensor of `dtype`; it is representable there or rounds to nearest even.
    `native_bf16`: vectors of 16 may use AVX-512's conversion, which takes subnormal numbers for zero."""
    match dtype.name:
        case "bf16" if native_bf16 and isinstance(value.type, Vector) and value.type.lanes == 16:
            attrs = Attrs(callee="llvm.x86.avx512bf16.cvtneps2bf16.512")
            made = b.leaf("call", (value,), Vector(16, BF16), attrs, "narrow")
            if made is None:
                raise InternalError("a conversion has a result")
            return b.cast("bitcast", made, Vector(16, I16))
        case "f16":
            return b.cast("fptrunc", value, shaped(F16, value.type))
        case "bf16":
            return b.cast("trunc", _bf16_bits(b, value), shaped(I16, value.type))
        case "f8e5m2":
            bits = _e5m2_bits(b, value)
            return b.cast("trunc", bits, shaped(I8, value.type))
        case "f8e4m3":
            return b.cast("trunc", _e4m3_bits(b, value), shaped(I8, value.type))
        case "bool":
            return b.cast("zext", value, shaped(I8, value.type))
    return value


def rounded(b: Builder, value: Operand, dtype: Dtype) -> Operand:
    """A float of registers rounded to what `dtype` can hold."""
    match dtype.name:
        case "f16":
            half = b.cast("fptrunc", value, shaped(F16, value.type))
            return b.cast("fpext", half, value.type)
        case "bf16":
            bits = b.shl(_bf16_bits(b, value), number(shaped(I32, value.type), 16))
            return b.cast("bitcast", bits, value.type)
        case "f8e4m3" | "f8e5m2":
            return widen(b, narrow(b, value, dtype), dtype)
    return value


def rounded_to_tf32(b: Builder, value: Operand) -> Operand:
    """10 bits of mantissa, to nearest even; infinities and NaN stay."""
    bits_type = shaped(I32, value.type)
    bits = b.cast("bitcast", value, bits_type)
    odd = b.and_(b.lshr(bits, 13), number(bits_type, 1))
    up = b.and_(b.add(bits, b.add(odd, number(bits_type, 0xFFF))), number(bits_type, 0xFFFFE000))
    finite = b.fcmp("ord", b.fsub(value, value), number(value.type, 0.0))
    return b.select(finite, b.cast("bitcast", up, value.type), value)


def _as_i16(b: Builder, value: Operand) -> Operand:
    return b.cast("zext", value, shaped(I16, value.type))


def _from_half_bits(b: Builder, bits: Operand) -> Operand:
    return b.cast("fpext", b.cast("bitcast", bits, shaped(F16, bits.type)), shaped(F32, bits.type))


def _from_e4m3(b: Builder, loaded: Operand) -> Operand:
    """Exponent and mantissa moved into a half are the value over 2**8, also where it is subnormal."""
    wide = _as_i16(b, loaded)
    magnitude = b.shl(b.and_(wide, number(wide.type, 0x7F)), number(wide.type, 7))
    sign = b.shl(b.and_(wide, number(wide.type, 0x80)), number(wide.type, 8))
    small = _from_half_bits(b, b.or_(magnitude, sign))
    value = b.fmul(small, number(small.type, 256.0))
    is_nan = b.icmp("eq", b.and_(wide, number(wide.type, 0x7F)), number(wide.type, 0x7F))
    return b.select(is_nan, nan(value.type), value)


def nan(type_: Type) -> Const:
    element = element_of(type_)
    text = "0x7FF8000000000000"
    return Const(type_, f"splat ({element.kind} {text})" if isinstance(type_, Vector) else text)


def _bf16_bits(b: Builder, value: Operand) -> Operand:
    """The upper half of an f32, rounded to nearest even, in the low 16 bits of an i32; NaN stays NaN."""
    bits_type = shaped(I32, value.type)
    bits = b.cast("bitcast", value, bits_type)
    odd = b.and_(b.lshr(bits, 16), number(bits_type, 1))
    up = b.lshr(b.add(bits, b.add(odd, number(bits_type, 0x7FFF))), 16)
    quiet = b.or_(b.lshr(bits, 16), number(bits_type, 0x40))
    return b.select(b.fcmp("uno", value, value), quiet, up)


def _e5m2_bits(b: Builder, value: Operand) -> Operand:
    """A saturated f32 as f8e5m2: through a magic addition that rounds once, at the right bit."""
    return _f8_bits(b, value, mantissa=2, least_exponent=-14, largest=57344.0, nan_bits=0x7E)


def _e4m3_bits(b: Builder, value: Operand) -> Operand:
    return _f8_bits(b, value, mantissa=3, least_exponent=-6, largest=448.0, nan_bits=0x7F)


def _f8_bits(b: Builder, value: Operand, mantissa: int, least_exponent: int, largest: float, nan_bits: int) -> Operand:
    """Round |value| to `mantissa` bits (fixed point below the least normal exponent), then rebias the exponent."""
    bits_type = shaped(I32, value.type)
    bits = b.cast("bitcast", value, bits_type)
    sign = b.and_(b.lshr(bits, 24), number(bits_type, 0x80))
    magnitude = b.intrinsic("fabs", (value,))
    limit = number(value.type, largest)
    magnitude = b.select(b.fcmp("ogt", magnitude, limit), limit, magnitude)
    size = b.cast("bitcast", magnitude, bits_type)
    drop = 23 - mantissa
    odd = b.and_(b.lshr(size, drop), number(bits_type, 1))
    normal = b.lshr(b.add(size, b.add(odd, number(bits_type, (1 << (drop - 1)) - 1))), drop)
    normal = b.sub(normal, number(bits_type, (127 + least_exponent - 1) << mantissa))
    step = number(value.type, 2.0 ** (least_exponent - mantissa + 23))
    fixed = b.sub(b.cast("bitcast", b.fadd(magnitude, step), bits_type), b.cast("bitcast", step, bits_type))
    is_small = b.fcmp("olt", magnitude, number(value.type, 2.0**least_exponent))
    code = b.select(is_small, fixed, normal)
    code = b.select(b.fcmp("uno", value, value), number(bits_type, nan_bits), code)
    return b.or_(code, sign)
