"""DLPack tensors seen in place through the C structs: element types that NumPy cannot take over itself (bf16, f8), and
memory of a GPU, of which only the description is read.

The layout of the structs is that of DLPack 0.8 and 1.x (dlpack.h).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from threadloom.dtypes import ALL, Dtype, numpy_dtype

UNKNOWN_TO_NUMPY = {(4, 16): "bf16", (10, 8): "f8e4m3", (12, 8): "f8e5m2"}  # (DLDataTypeCode, bits)


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


class _Owner:
    """Keeps the producer's memory alive for as long as an array looks at it."""

    def __init__(self, capsule: object, address: int, strides: tuple[int, ...], shape: tuple[int, ...], bits: int):
        self.capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": tuple(s * bits // 8 for s in strides),
            "typestr": "|V1" if bits == 8 else "<u2",
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


def read_capsule(capsule: object) -> Capsule:
    """Description of the tensor in a capsule that nobody has taken over."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    shape = tuple(tensor.shape[at] for at in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[at] for at in range(tensor.ndim))
    else:
        strides = tuple(int(np.prod(shape[at + 1 :])) for at in range(tensor.ndim))
    return Capsule(
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, tensor.device_type, tensor.device_id,
        (tensor.data or 0) + tensor.byte_offset, shape, strides,
    )  # fmt: skip


def dtype_of(found: Capsule) -> Dtype | None:
    """The element type, None if kernels do not know it (dlpack.h: 0 int, 1 uint, 2 float, 6 bool)."""
    if found.lanes != 1:
        return None
    kinds = {0: "i", 1: "u", 2: "f"}
    named = {**UNKNOWN_TO_NUMPY, (6, 8): "bool"}
    return ALL.get(named.get((found.code, found.bits)) or f"{kinds.get(found.code, '?')}{found.bits}")


def from_capsule(thing: object) -> np.ndarray | None:
    """The array in host memory in `thing.__dlpack__()`, or None if its element type is not one of ours."""
    capsule = thing.__dlpack__()
    found = read_capsule(capsule)
    name = UNKNOWN_TO_NUMPY.get((found.code, found.bits))
    if name is None or found.lanes != 1 or found.device_type != 1:
        return None
    if 0 in found.shape:
        return np.zeros(found.shape, numpy_dtype(ALL[name]))
    owner = _Owner(capsule, found.address, found.strides, found.shape, found.bits)
    raw = np.asarray(owner)
    return raw.view(np.uint8 if found.bits == 8 else np.uint16).view(numpy_dtype(ALL[name]))
