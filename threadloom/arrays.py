"""Arrays of NumPy, torch and anything with DLPack, seen in place: no copies.

`wrap` gives an `ArrayView`: a NumPy array over the caller's memory (host memory only) with the logical shape and
element type that kernels see. u4 has no array library: it is bytes, two elements each along the last dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from threadloom.dtypes import ALL, Dtype, numpy_dtype, u4, u8
from threadloom.errors import CompileError, slug

_HOST = 1  # kDLCPU
NOT_AN_ARRAY = slug("not-an-array", "an argument is not an array that can be used in place")


@dataclass(frozen=True, slots=True)
class ArrayView:
    """`array` covers the caller's memory; `framework` ("numpy", "torch", "dlpack") is what outputs are made with."""

    array: np.ndarray
    dtype: Dtype
    framework: str
    writable: bool


@lru_cache(maxsize=1)
def _dtype_of() -> dict[np.dtype, Dtype]:
    return {numpy_dtype(t): t for t in ALL.values() if t.name not in ("tf32", "u4")}


def wrap(thing: object, name: str) -> ArrayView:
    """See `thing` (argument `name`) in place."""
    if isinstance(thing, np.ndarray | np.generic):
        array, framework = np.asarray(thing), "numpy"
    elif type(thing).__module__.partition(".")[0] == "torch":
        array, framework = _from_torch(thing, name), "torch"
    elif hasattr(thing, "__dlpack__"):
        array, framework = _from_dlpack(thing, name), "dlpack"
    else:
        raise CompileError(
            NOT_AN_ARRAY,
            f"{name} is a {type(thing).__name__}, not an array",
            try_="a NumPy array, a torch tensor, or anything with DLPack",
        )
    dtype = _dtype_of().get(array.dtype)
    if dtype is None:
        raise CompileError(NOT_AN_ARRAY, f"{name} has elements of {array.dtype}, which kernels do not know")
    return ArrayView(array, dtype, framework, array.flags.writeable)


def _from_torch(tensor: object, name: str) -> np.ndarray:
    """A CPU tensor's memory; dtypes that NumPy lacks go through integers of the same width."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise CompileError(NOT_AN_ARRAY, f"{name} is a {type(tensor).__name__}, not a tensor")
    if tensor.device.type != "cpu":
        raise CompileError(NOT_AN_ARRAY, f"{name} is on {tensor.device}", try_=f"{name}.cpu()")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise CompileError(
            NOT_AN_ARRAY,
            f"{name} requires a gradient",
            why="kernels have no backward pass, so the gradient would be lost silently",
            try_=f"{name}.detach(), or call under torch.no_grad()",
        )
    tensor = tensor.detach()
    extended = {
        torch.bfloat16: (torch.int16, "bf16"),
        torch.float8_e4m3fn: (torch.uint8, "f8e4m3"),
        torch.float8_e5m2: (torch.uint8, "f8e5m2"),
    }
    if tensor.dtype in extended:
        plain, own = extended[tensor.dtype]
        return tensor.view(plain).numpy().view(numpy_dtype(ALL[own]))
    if tensor.is_conj() or tensor.is_neg():
        raise CompileError(NOT_AN_ARRAY, f"{name} is a lazy conjugate or negative", try_=f"{name}.resolve_neg()")
    return tensor.numpy()


def _from_dlpack(thing: object, name: str) -> np.ndarray:
    try:
        return np.from_dlpack(thing)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        from threadloom.dlpack import from_capsule

        extended = from_capsule(thing) if thing.__dlpack_device__()[0] == _HOST else None
        if extended is not None:
            return extended
        raise CompileError(NOT_AN_ARRAY, f"{name} cannot be used in place: {error}") from error


def allocate(shape: tuple[int, ...], dtype: Dtype, framework: str) -> object:
    """A new array of the caller's framework for logical `shape`; its content is undefined."""
    stored = stored_shape(shape, dtype)
    if framework != "torch":
        return np.empty(stored, numpy_dtype(dtype))
    import torch

    names = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16"}
    names |= {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i8": "int8"}
    names |= {"u8": "uint8", "u4": "uint8", "bool": "bool"}
    return torch.empty(stored, dtype=getattr(torch, names[dtype.name]))


def stored_shape(shape: tuple[int, ...], dtype: Dtype) -> tuple[int, ...]:
    """Shape in memory: u4 takes half as many bytes along the last dimension."""
    if dtype is not u4 or not shape:
        return shape
    return (*shape[:-1], (shape[-1] + 1) // 2)


def storage_dtype(dtype: Dtype) -> Dtype:
    """The dtype that an array holding `dtype` shows."""
    return {"u4": u8, "tf32": ALL["f32"]}.get(dtype.name, dtype)


def unpack_u4(packed: np.ndarray, extent: int) -> np.ndarray:
    """[..., bytes] -> [..., extent], one element a byte, low nibble first."""
    both = np.stack([packed & 15, packed >> 4], axis=-1)
    return both.reshape(*packed.shape[:-1], packed.shape[-1] * 2)[..., :extent]


def pack_u4(elements: np.ndarray) -> np.ndarray:
    """[..., extent] -> [..., bytes]; an odd end is filled with 0."""
    if elements.shape[-1] % 2:
        elements = np.concatenate([elements, np.zeros_like(elements[..., :1])], axis=-1)
    pairs = elements.astype(np.uint8).reshape(*elements.shape[:-1], -1, 2)
    return pairs[..., 0] & 15 | pairs[..., 1] << 4
