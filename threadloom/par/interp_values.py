"""Values of the interpreter, and how they lie in memory.

iN                 Python int in [0, 2^N)
float kinds        Python float that the kind can represent exactly
ptr                Python int: an address (see interp_memory.py)
vector, array, struct   tuple
poison             POISON, also as one lane of a vector; arithmetic on it raises TypeError, which leaves catch
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable

from threadloom.errors import InternalError
from threadloom.par.ops import Array, Float, Int, Ptr, Struct, Type, Vector
from threadloom.par.result_types import size_bytes, struct_layout


class Poison:
    """LLVM's poison; has no operators on purpose."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "poison"


POISON = Poison()
Scalar = int | float | Poison
InterpValue = Scalar | tuple["InterpValue", ...]


# ---------------------------------------------------------------- rounding

_MANTISSA_BITS = {"half": 11, "bfloat": 8, "float": 24, "double": 53}


def round_float(value: float, kind: str) -> float:
    """The nearest value of `kind`, ties to even; bfloat rounds by way of float, as machines do."""
    if kind == "double":
        return value
    if kind == "float":
        return ctypes.c_float(value).value
    if kind == "half":
        return _to_half(value)
    if kind == "bfloat":
        return bfloat_from_bits(bfloat_bits(value))
    raise InternalError(f"the interpreter has no {kind}")


def _to_half(value: float) -> float:
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def bfloat_bits(value: float) -> int:
    if math.isnan(value):
        return 0xFFC0 if math.copysign(1.0, value) < 0 else 0x7FC0
    bits = int.from_bytes(bytes(ctypes.c_float(value)), "little")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def bfloat_from_bits(bits: int) -> float:
    return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]


def round_int(value: int, kind: str) -> float:
    """An integer as a float of `kind`, rounded once."""
    excess = abs(value).bit_length() - _MANTISSA_BITS[kind]
    if excess > 0:
        kept, rest = abs(value) >> excess, abs(value) & ((1 << excess) - 1)
        half = 1 << (excess - 1)
        kept += rest > half or (rest == half and kept & 1)
        value = (kept << excess) * (-1 if value < 0 else 1)
    try:
        return round_float(float(value), kind)
    except OverflowError:
        return math.copysign(math.inf, value)


# ---------------------------------------------------------------- memory images


def zero_of(type_: Type) -> InterpValue:
    match type_:
        case Int() | Ptr():
            return 0
        case Float():
            return 0.0
        case Vector(lanes, element):
            return (zero_of(element),) * lanes
        case Array(length, element):
            return (zero_of(element),) * length
        case Struct(fields):
            return tuple(zero_of(field) for field in fields)
    raise InternalError(f"no value of type {type_!r}")


def to_bytes(type_: Type, value: InterpValue) -> bytes:
    """The bytes that a store writes; poison is written as zero."""
    match type_:
        case Int(bits):
            number = value if isinstance(value, int) else 0
            return (number & ((1 << bits) - 1)).to_bytes((bits + 7) // 8, "little")
        case Ptr():
            return (value if isinstance(value, int) else 0).to_bytes(8, "little")
        case Float(kind):
            return _float_bytes(kind, value if isinstance(value, float) else 0.0)
        case Vector(lanes, element):
            parts = value if isinstance(value, tuple) else (0,) * lanes
            if isinstance(element, Int) and element.bits % 8:
                packed = sum((part & ((1 << element.bits) - 1) if isinstance(part, int) else 0) << (element.bits * lane)
                             for lane, part in enumerate(parts))  # fmt: skip
                return packed.to_bytes((lanes * element.bits + 7) // 8, "little")
            return b"".join(to_bytes(element, part) for part in parts)
        case Array(length, element):
            parts = value if isinstance(value, tuple) else (zero_of(element),) * length
            return b"".join(to_bytes(element, part).ljust(size_bytes(element), b"\0") for part in parts)
        case Struct(fields):
            image = bytearray(size_bytes(type_))
            parts = value if isinstance(value, tuple) else tuple(zero_of(field) for field in fields)
            for offset, field, part in zip(struct_layout(type_)[0], fields, parts, strict=True):
                piece = to_bytes(field, part)
                image[offset : offset + len(piece)] = piece
            return bytes(image)
    raise InternalError(f"{type_!r} has no memory image")


def _float_bytes(kind: str, value: float) -> bytes:
    if kind == "double":
        return struct.pack("<d", value)
    if kind == "float":
        return bytes(ctypes.c_float(value))
    if kind == "half":
        return struct.pack("<e", _to_half(value))
    if kind == "bfloat":
        return bfloat_bits(value).to_bytes(2, "little")
    raise InternalError(f"the interpreter has no {kind}")


def from_bytes(type_: Type, image: bytes) -> InterpValue:
    """What a load of `type_` gets from the bytes `image`."""
    match type_:
        case Int(bits):
            return int.from_bytes(image, "little") & ((1 << bits) - 1)
        case Ptr():
            return int.from_bytes(image, "little")
        case Float("float"):
            return struct.unpack("<f", image)[0]
        case Float("double"):
            return struct.unpack("<d", image)[0]
        case Float("half"):
            return struct.unpack("<e", image)[0]
        case Float("bfloat"):
            return bfloat_from_bits(int.from_bytes(image, "little"))
        case Vector(lanes, element):
            if isinstance(element, Int) and element.bits % 8:
                packed = int.from_bytes(image, "little")
                return tuple((packed >> (element.bits * lane)) & ((1 << element.bits) - 1) for lane in range(lanes))
            size = stored_bytes(element)
            return tuple(from_bytes(element, image[lane * size : (lane + 1) * size]) for lane in range(lanes))
        case Array(length, element):
            size = size_bytes(element)
            return tuple(
                from_bytes(element, image[at * size : at * size + stored_bytes(element)]) for at in range(length)
            )
        case Struct(fields):
            offsets = struct_layout(type_)[0]
            return tuple(
                from_bytes(field, image[at : at + stored_bytes(field)])
                for at, field in zip(offsets, fields, strict=True)
            )
    raise InternalError(f"{type_!r} cannot be loaded")


def reader(type_: Type) -> Callable[[bytes], InterpValue]:
    """`from_bytes` for one type, with the common scalars worked out beforehand."""
    match type_:
        case Ptr():
            return lambda image: int.from_bytes(image, "little")
        case Int(bits) if bits % 8 == 0:
            return lambda image: int.from_bytes(image, "little")
        case Float("float" | "double" | "half" as kind):
            unpack = struct.Struct({"float": "<f", "double": "<d", "half": "<e"}[kind]).unpack
            return lambda image: unpack(image)[0]
    return lambda image: from_bytes(type_, image)


def stored_bytes(type_: Type) -> int:
    """Bytes that a load or store of `type_` touches (without padding behind it)."""
    match type_:
        case Int(bits):
            return (bits + 7) // 8
        case Vector(lanes, element):
            bits = element.bits if isinstance(element, Int) else 8 * size_bytes(element)
            return (lanes * bits + 7) // 8
    return size_bytes(type_)


def bitcast(source: Type, target: Type, value: InterpValue) -> InterpValue:
    return POISON if value is POISON else from_bytes(target, to_bytes(source, value))
