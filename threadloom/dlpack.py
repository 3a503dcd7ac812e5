"""DLPack tensors seen in place through the C structs: any element type that kernels know, and memory of a GPU, of which
only the description is read. (NumPy takes over neither 8-bit floats nor, before 2.5, bf16, and makes what comes from
producers older than DLPack 1.0 read-only.)

The layout of the structs is that of DLPack 0.8 and 1.x (dlpack.h).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from threadloom.dtypes import ALL, Dtype, numpy_dtype

NAMED = {(4, 16): "bf16", (6, 8): "bool", (10, 8): "f8e4m3", (12, 8): "f8e5m2"}  # (DLDataTypeCode, bits)
NEWEST = (1, 1)
READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; what comes before version 1 begins with the tensor, and has no flags."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class _Owner:
    """Keeps the producer's memory alive for as long as an array looks at it."""

    def __init__(self, capsule: object, found: Capsule):
        self.capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "data": (found.address, found.read_only),
            "shape": found.shape,
            "strides": tuple(s * found.bits // 8 for s in found.strides),
            "typestr": "|u1" if found.bits == 8 else f"<u{found.bits // 8}",
        }


@dataclass(frozen=True, slots=True)
class Capsule:
    """What a DLPack capsule says: element type (code, bits, lanes), place, shape, strides in elements."""

    code: int
    bits: int
    lanes: int
    device_type: int
    device_id: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool


def capsule_of(thing: object, **kwargs: object) -> object:
    """The newest kind of capsule that the producer makes; it keeps the memory alive."""
    try:
        return thing.__dlpack__(max_version=NEWEST, **kwargs)
    except TypeError:  # a producer older than DLPack 1.0
        return thing.__dlpack__(**kwargs)


def read_capsule(capsule: object) -> Capsule:
    """Description of the tensor in a capsule that nobody has taken over."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    if api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        address = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        versioned = ctypes.cast(address, ctypes.POINTER(_Versioned)).contents
        if versioned.major > NEWEST[0]:
            raise BufferError(f"its DLPack {versioned.major}.{versioned.minor} is newer than {NEWEST[0]}.{NEWEST[1]}")
        tensor, read_only = versioned.tensor, bool(versioned.flags & READ_ONLY)
    else:
        address = api.PyCapsule_GetPointer(capsule, b"dltensor")
        tensor, read_only = ctypes.cast(address, ctypes.POINTER(_Tensor)).contents, False
    shape = tuple(tensor.shape[at] for at in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[at] for at in range(tensor.ndim))
    else:
        strides = tuple(int(np.prod(shape[at + 1 :])) for at in range(tensor.ndim))
    return Capsule(
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, tensor.device_type, tensor.device_id,
        (tensor.data or 0) + tensor.byte_offset, shape, strides, read_only,
    )  # fmt: skip


def dtype_of(found: Capsule) -> Dtype | None:
    """The element type, None if kernels do not know it (dlpack.h: 0 int, 1 uint, 2 float, 6 bool)."""
    if found.lanes != 1:
        return None
    kinds = {0: "i", 1: "u", 2: "f"}
    return ALL.get(NAMED.get((found.code, found.bits)) or f"{kinds.get(found.code, '?')}{found.bits}")


def from_dlpack(thing: object) -> np.ndarray | None:
    """The array in host memory that `thing` describes, or None if its element type is not one of ours.

    Raises what the producer raises: BufferError, RuntimeError, TypeError, ValueError.
    """
    capsule = capsule_of(thing)
    found = read_capsule(capsule)
    dtype = dtype_of(found)
    if dtype is None:
        return None
    if 0 in found.shape:
        return np.zeros(found.shape, numpy_dtype(dtype))
    return np.asarray(_Owner(capsule, found)).view(numpy_dtype(dtype))
