"""The driver's functions that a repeated launch needs, called through ctypes: an eighth of the time that bindings take
which convert every argument. The slow paths (loading, describing tensors) are in driver.py.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int, c_size_t, c_uint, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache

from threadloom.errors import CompileError, slug

NO_GPU = slug("no-gpu", "GPU work is asked for but there is no usable NVIDIA driver or device")

MAP_BYTES = 128  # of a CUtensorMap, at a multiple of 64
_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", c_int), ("pad", c_int), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint), ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)), ("count", c_uint),
    ]  # fmt: skip


def launch_config(blocks: int, threads: int, shared_bytes: int, cluster: int) -> LaunchConfig:
    attribute = LaunchAttribute(_CLUSTER_DIMENSION)
    attribute.value[0:3] = [cluster, 1, 1]
    attributes = (LaunchAttribute * 1)(attribute)
    return LaunchConfig(
        (c_uint * 3)(blocks, 1, 1), (c_uint * 3)(threads, 1, 1), shared_bytes, None, attributes, int(cluster > 1)
    )


@dataclass(frozen=True, slots=True)
class Calls:
    """Each returns a CUresult as an int, 0 for success. Arguments are Python ints unless said otherwise."""

    launch_ex: object  # (config, function, parameters, extra): ctypes objects and None, passed on as they are
    replace_address: object  # (map, pointer)
    current_context: object  # (pointer to the context)
    push_context: object  # (context)
    pop_context: object  # (pointer to the context)
    fill_bytes: object  # (pointer, byte, count, stream)
    allocate: object  # (pointer to the pointer, bytes, stream), in the stream's order
    free: object  # (pointer, stream), likewise
    active_clusters: object  # (pointer to the number, function, config)


def calls_of(library: object) -> Calls:
    """`library`: a CDLL of the driver, or what stands in for it."""
    signatures = {
        "cuLaunchKernelEx": None,  # its arguments are made once: not to be converted at each launch takes half the time
        "cuTensorMapReplaceAddress": (c_void_p, c_void_p),
        "cuCtxGetCurrent": (c_void_p,),
        "cuCtxPushCurrent_v2": (c_void_p,),
        "cuCtxPopCurrent_v2": (c_void_p,),
        "cuMemsetD8Async": (c_uint64, c_uint8, c_size_t, c_void_p),
        "cuMemAllocAsync": (c_void_p, c_size_t, c_void_p),
        "cuMemFreeAsync": (c_uint64, c_void_p),
        "cuOccupancyMaxActiveClusters": (c_void_p, c_void_p, c_void_p),
    }
    found = []
    for name, types in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = c_int, types
        found.append(function)
    return Calls(*found)


@lru_cache(maxsize=1)
def calls() -> Calls:
    """The calls of this machine's driver."""
    try:
        return calls_of(ctypes.CDLL("libcuda.so.1"))
    except (OSError, AttributeError) as error:
        raise CompileError(
            NO_GPU, "no usable NVIDIA driver was found", why=str(error), try_="install the driver, or run on the CPU"
        ) from error


class OnContext:
    """`with OnContext(c): ...` runs with context `c` current and leaves the thread as it was."""

    __slots__ = ("_calls", "_context", "_pushed")

    def __init__(self, context: int):
        self._calls, self._context, self._pushed = calls(), context, False

    def __enter__(self) -> None:
        now = c_void_p()
        self._calls.current_context(byref(now))
        if now.value != self._context:
            self._pushed = self._calls.push_context(self._context) == 0

    def __exit__(self, *_: object) -> None:
        if self._pushed:
            self._calls.pop_context(byref(c_void_p()))
