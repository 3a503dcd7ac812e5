"""Arrays in the memory of a GPU, seen in place: torch tensors, and whatever speaks DLPack or the CUDA array interface.

A `DeviceArray` says where elements are; it never reads them. Which stream they are ready on follows the producer's
protocol: torch's current stream, the stream that the CUDA array interface names, or (DLPack) the one that the producer
is asked to make them ready on, which is the legacy default stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from threadloom.dtypes import ALL, Dtype, numpy_dtype
from threadloom.errors import CompileError, slug

CUDA = 2  # kDLCUDA
CUDA_MANAGED = 13  # kDLCUDAManaged
LEGACY_STREAM = 1  # CU_STREAM_LEGACY; 0 means the same to a driver call, but DLPack has no 0

NO_ALLOCATOR = slug("no-allocator", "an output on a GPU is asked for and nothing that could allocate it is installed")


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """`pointer`: address of the first element; `strides` in bytes, as NumPy has them; `device`: "cuda:0";
    `stream`: the one its content is ready on (None: torch's current one); `owner` keeps the memory alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    device: str
    writable: bool = True
    stream: int | None = None
    owner: object = field(default=None, repr=False, compare=False)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        made = 1
        for extent in self.shape:
            made *= extent
        return made

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        return self.size == 0 or packed_strides(self.shape, self.itemsize, self.strides) == self.strides

    def addresses(self) -> np.ndarray:
        """An array with these addresses, to compare them with others; its elements must not be touched."""
        return np.asarray(_Interface(self.pointer, self.shape, self.strides, self.itemsize))


class _Interface:
    def __init__(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int):
        self.__array_interface__ = {
            "version": 3, "data": (pointer, True), "shape": shape, "strides": strides, "typestr": f"|V{itemsize}"
        }  # fmt: skip


def packed_strides(shape: tuple[int, ...], itemsize: int, given: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Byte strides without gaps in the order of the dimensions; those of extent 1 are as `given`."""
    made, step = [0] * len(shape), itemsize
    for at in reversed(range(len(shape))):
        made[at] = given[at] if given and shape[at] == 1 else step
        step *= shape[at]
    return tuple(made)


# ---------------------------------------------------------------- torch


@lru_cache(maxsize=1)
def torch_dtypes() -> dict[object, Dtype]:
    """torch's dtype -> ours."""
    import torch

    names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}
    names |= {"f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8", "bool": "bool"}
    return {getattr(torch, theirs): ALL[ours] for ours, theirs in names.items()}


def torch_dtype(dtype: Dtype) -> object:
    """The torch dtype that stores `dtype`."""
    stored = {"u4": "u8", "tf32": "f32"}.get(dtype.name, dtype.name)
    return next(theirs for theirs, ours in torch_dtypes().items() if ours.name == stored)


def of_torch(tensor: object) -> DeviceArray | None:
    """None where the element type is not one of ours."""
    dtype = torch_dtypes().get(tensor.dtype)
    if dtype is None:
        return None
    size = tensor.element_size()
    strides = tuple(s * size for s in tensor.stride())
    device = f"cuda:{tensor.device.index or 0}"
    return DeviceArray(tensor.data_ptr(), tuple(tensor.shape), strides, numpy_dtype(dtype), device, owner=tensor)


# ---------------------------------------------------------------- other libraries


def of_interface(thing: object, name: str, problem: str) -> DeviceArray:
    """`thing` has `__cuda_array_interface__` (CuPy, Numba, JAX ...). `problem`: slug of the error."""
    given = thing.__cuda_array_interface__
    dtype = np.dtype(given["typestr"])
    if given.get("mask") is not None:
        raise CompileError(problem, f"{name} has a mask", try_="an array without one")
    shape = tuple(int(n) for n in given["shape"])
    pointer, read_only = given["data"]
    strides = given.get("strides")
    strides = packed_strides(shape, dtype.itemsize) if strides is None else tuple(int(s) for s in strides)
    stream = given.get("stream")
    return DeviceArray(
        int(pointer or 0), shape, strides, dtype, f"cuda:{_ordinal(thing, int(pointer or 0))}", not read_only,
        LEGACY_STREAM if stream is None else int(stream), thing,
    )  # fmt: skip


def _ordinal(thing: object, pointer: int) -> int:
    """Of the device that holds `pointer`; the interface itself does not say."""
    device = getattr(thing, "device", None)
    for number in (getattr(device, "id", None), getattr(device, "index", None)):
        if isinstance(number, int):
            return number
    from threadloom.targets.cuda.driver import ordinal_of_pointer

    return ordinal_of_pointer(pointer) if pointer else 0


def of_dlpack(thing: object, name: str, problem: str) -> DeviceArray:
    """`thing` has DLPack and says that it is on a CUDA device."""
    from threadloom.dlpack import capsule_of, dtype_of, read_capsule

    capsule = capsule_of(thing, stream=LEGACY_STREAM)
    found = read_capsule(capsule)
    dtype = dtype_of(found)
    if dtype is None:
        what = f"DLPack type {found.code} with {found.bits} bits"
        raise CompileError(problem, f"{name} has elements of {what}, which kernels do not know")
    dtype = numpy_dtype(dtype)
    strides = tuple(s * dtype.itemsize for s in found.strides)
    device, owners = f"cuda:{found.device_id}", (capsule, thing)
    return DeviceArray(found.address, found.shape, strides, dtype, device, not found.read_only, LEGACY_STREAM, owners)


def allocate_on(device: str, shape: tuple[int, ...], dtype: Dtype, framework: str) -> object:
    """A new array on `device` of the caller's framework for the shape in memory; its content is undefined."""
    if framework == "cupy":
        import cupy

        if dtype.name not in ("bf16", "f8e4m3", "f8e5m2"):  # CuPy has no such types
            with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
                return cupy.empty(shape, numpy_dtype(dtype))
    try:
        import torch
    except ImportError as error:
        raise CompileError(
            NO_ALLOCATOR,
            f"an output on {device} is to be allocated, and PyTorch is not installed",
            why=str(error),
            try_="give the output, as in out=..., or pip install torch",
        ) from error
    return torch.empty(shape, dtype=torch_dtype(dtype), device=device)


def byte_range(array: DeviceArray) -> tuple[int, int]:
    """[first, last) address that its elements touch."""
    low = high = 0
    for extent, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, stride * (extent - 1)), high + max(0, stride * (extent - 1))
    return (array.pointer + low, array.pointer + high + array.itemsize) if array.size else (array.pointer,) * 2
