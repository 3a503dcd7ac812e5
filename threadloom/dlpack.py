"""DLPack tensors whose element types NumPy cannot take over itself (bf16, f8), seen in place through the C structs.

The layout of the structs is that of DLPack 0.8 and 1.x (dlpack.h); only host memory is looked at.
"""

from __future__ import annotations

import ctypes

import numpy as np

from threadloom.dtypes import ALL, numpy_dtype

_CODES = {(4, 16): "bf16", (10, 8): "f8e4m3", (12, 8): "f8e5m2"}  # (DLDataTypeCode, bits)


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


def from_capsule(thing: object) -> np.ndarray | None:
    """The array in `thing.__dlpack__()`, or None if its element type is not one of ours."""
    capsule = thing.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    name = _CODES.get((tensor.dtype.code, tensor.dtype.bits))
    if name is None or tensor.dtype.lanes != 1 or tensor.device_type != 1:
        return None
    shape = tuple(tensor.shape[at] for at in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[at] for at in range(tensor.ndim))
    else:
        strides = tuple(int(np.prod(shape[at + 1 :])) for at in range(tensor.ndim))
    if 0 in shape:
        return np.zeros(shape, numpy_dtype(ALL[name]))
    owner = _Owner(capsule, tensor.data + tensor.byte_offset, strides, shape, tensor.dtype.bits)
    raw = np.asarray(owner)
    return raw.view(np.uint8 if tensor.dtype.bits == 8 else np.uint16).view(numpy_dtype(ALL[name]))
