"""Arrays of NumPy, torch, CuPy and anything with DLPack, seen in place: no copies.

`wrap` gives an `ArrayView`: a NumPy array over the caller's memory, or a `DeviceArray` where that is a GPU's, with the
logical shape and element type that kernels see. u4 has no array library: it is bytes, two elements each along the last
dimension.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from threadloom import arrays_device
from threadloom.arrays_device import DeviceArray
from threadloom.dtypes import ALL, Dtype, numpy_dtype, u4, u8
from threadloom.errors import CompileError, slug

_HOST = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost
NOT_AN_ARRAY = slug("not-an-array", "an argument is not an array that can be used in place")


@dataclass(frozen=True, slots=True)
class ArrayView:
    """`array` covers the caller's memory; `framework` ("numpy", "torch", "cupy", "dlpack") is what outputs are made
    with; `device`: "cpu" or "cuda:0"."""

    array: np.ndarray | DeviceArray
    dtype: Dtype
    framework: str
    writable: bool
    device: str = "cpu"


@lru_cache(maxsize=1)
def _dtype_of() -> dict[np.dtype, Dtype]:
    return {numpy_dtype(t): t for t in ALL.values() if t.name not in ("tf32", "u4")}


def wrap(thing: object, name: str) -> ArrayView:
    """See `thing` (argument `name`) in place."""
    if isinstance(thing, np.ndarray | np.generic):
        if hasattr(thing, "mask") and hasattr(thing, "filled"):
            raise CompileError(
                NOT_AN_ARRAY,
                f"{name} is a masked array",
                why="kernels know no masks, and would compute with what is masked",
                try_=f"{name}.filled(0), or the mask as an argument of its own",
            )
        array, framework = np.asarray(thing), "numpy"
    elif type(thing).__module__.partition(".")[0] == "torch" or _is_torch(thing):
        array, framework = _from_torch(thing, name), "torch"
    elif hasattr(thing, "__cuda_array_interface__"):
        array, framework = arrays_device.of_interface(thing, name, NOT_AN_ARRAY), _library(thing)
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
        native = array.dtype.newbyteorder("=")
        raise CompileError(
            NOT_AN_ARRAY,
            f"{name} has elements of {array.dtype}, which kernels do not know",
            try_=f'{name}.astype("{native if native in _dtype_of() else "float32"}")',
        )
    if isinstance(array, DeviceArray):
        return ArrayView(array, dtype, framework, array.writable, array.device)
    return ArrayView(array, dtype, framework, array.flags.writeable)


def _is_torch(thing: object) -> bool:
    """Whether it is of a subclass of torch's tensor that is defined elsewhere."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def _library(thing: object) -> str:
    return "cupy" if type(thing).__module__.partition(".")[0] == "cupy" else "dlpack"


def _from_torch(tensor: object, name: str) -> np.ndarray | DeviceArray:
    """A tensor's memory; dtypes that NumPy lacks go through integers of the same width."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise CompileError(NOT_AN_ARRAY, f"{name} is a {type(tensor).__name__}, not a tensor")
    if tensor.layout is not torch.strided:
        raise CompileError(NOT_AN_ARRAY, f"{name} has layout {tensor.layout}", try_=f"{name}.to_dense()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise CompileError(NOT_AN_ARRAY, f"{name} is on {tensor.device}", try_=f"{name}.cpu() or {name}.cuda()")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise CompileError(
            NOT_AN_ARRAY,
            f"{name} requires a gradient",
            why="kernels have no backward pass, so the gradient would be lost silently",
            try_=f"{name}.detach(), or call under torch.no_grad()",
        )
    if tensor.is_conj() or tensor.is_neg():
        raise CompileError(NOT_AN_ARRAY, f"{name} is a lazy conjugate or negative", try_=f"{name}.resolve_neg()")
    tensor = tensor.detach()
    if tensor.device.type == "cuda":
        made = arrays_device.of_torch(tensor)
        if made is None:
            raise CompileError(NOT_AN_ARRAY, f"{name} has elements of {tensor.dtype}, which kernels do not know")
        return made
    extended = {
        torch.bfloat16: (torch.int16, "bf16"),
        torch.float8_e4m3fn: (torch.uint8, "f8e4m3"),
        torch.float8_e5m2: (torch.uint8, "f8e5m2"),
    }
    if tensor.dtype in extended:
        plain, own = extended[tensor.dtype]
        return tensor.view(plain).numpy().view(numpy_dtype(ALL[own]))
    return tensor.numpy()


def _from_dlpack(thing: object, name: str) -> np.ndarray | DeviceArray:
    if thing.__dlpack_device__()[0] in (arrays_device.CUDA, arrays_device.CUDA_MANAGED):
        return arrays_device.of_dlpack(thing, name, NOT_AN_ARRAY)
    from threadloom.dlpack import from_dlpack

    if thing.__dlpack_device__()[0] not in _HOST:
        raise CompileError(NOT_AN_ARRAY, f"{name} is neither in this machine's memory nor on a CUDA device")
    try:
        array = from_dlpack(thing)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise CompileError(NOT_AN_ARRAY, f"{name} cannot be used in place: {error}") from error
    if array is None:
        raise CompileError(NOT_AN_ARRAY, f"{name} has elements of a DLPack type that kernels do not know")
    return array


def allocate(shape: tuple[int, ...], dtype: Dtype, framework: str, device: str = "cpu") -> object:
    """A new array of the caller's framework for logical `shape`; its content is undefined."""
    stored = stored_shape(shape, dtype)
    if device != "cpu":
        return arrays_device.allocate_on(device, stored, dtype, framework)
    if framework != "torch":
        return _on_a_line(stored, numpy_dtype(dtype))
    import torch

    return torch.empty(stored, dtype=arrays_device.torch_dtype(dtype))


LINE_BYTES, LARGE_BYTES = 64, 1 << 16


def _on_a_line(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array that starts on a cache line where it is large, since stores past the caches need that. NumPy's own
    large arrays start 16 bytes after one."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE_BYTES:
        return np.empty(shape, dtype)
    room = np.empty(size + LINE_BYTES, np.uint8)
    first = -room.__array_interface__["data"][0] % LINE_BYTES
    return room[first : first + size].view(dtype).reshape(shape)


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
