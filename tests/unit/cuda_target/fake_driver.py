"""A driver without a GPU: host memory stands for the device's, and launches are recorded instead of run."""

from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from threadloom.targets.cuda import driver, driver_calls, launch

CONTEXTS = {0: 0x1000, 1: 0x2000}  # device -> its primary context


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_NOT_FOUND = 500


class Names:
    """Any enumeration of which only names are used."""

    def __getattr__(self, name: str) -> str:
        return name


@dataclass
class Launch:
    function: int
    blocks: int
    threads: int
    shared_bytes: int
    stream: int
    context: int
    words: list[int]  # the first eight bytes of each parameter
    cluster: int = 1


class Map:
    """128 bytes of which the first eight are the address, as in hardware's."""

    def __init__(self, pointer: int):
        self.memory = ctypes.create_string_buffer(128)
        ctypes.c_uint64.from_buffer(self.memory).value = pointer

    def getPtr(self) -> int:
        return ctypes.addressof(self.memory)


class FakeDriver:
    """`capability`, `name`: of every device; `fail`: driver function -> status to return."""

    def __init__(self) -> None:
        self.capability, self.name, self.devices = (9, 0), "NVIDIA H200", 2
        self.current = CONTEXTS[0]
        self.launches: list[Launch] = []
        self.filled: list[tuple[int, int, int]] = []  # (pointer, bytes, stream)
        self.allocated: list[tuple[int, int, int]] = []  # likewise
        self.freed: list[tuple[int, int]] = []  # (pointer, stream)
        self.ordered: list[tuple[str, int]] = []
        self.memory: dict[int, object] = {}  # address -> what cuMemAlloc gave there
        self.active_clusters = 66
        self.milliseconds = 0.5  # what every pair of events takes
        self.fail: dict[str, Status] = {}

    # ------------------------------------------------ what bindings offer (driver.py)

    CUresult = Status
    CUdevice_attribute = CUfunction_attribute = CUtensorMapDataType = CUtensorMapInterleave = Names()
    CUtensorMapSwizzle = CUtensorMapL2promotion = CUtensorMapFloatOOBfill = Names()
    CUpointer_attribute = CUevent_flags = CUstream_flags = CUstreamCaptureMode = Names()

    @staticmethod
    def cuuint64_t(value: int) -> int:
        return value

    cuuint32_t = cuuint64_t

    def __getattr__(self, name: str):
        def call(*arguments):
            if name in self.fail:
                return (self.fail[name], None)
            return (Status.CUDA_SUCCESS, *getattr(self, f"_{name}", lambda *_: ())(*arguments))

        if not name.startswith("cu"):
            raise AttributeError(name)
        return call

    def _cuDeviceGetCount(self):
        return (self.devices,)

    def _cuDeviceGet(self, ordinal):
        return (ordinal,)

    def _cuDevicePrimaryCtxRetain(self, device):
        return (CONTEXTS[device],)

    def _cuCtxGetCurrent(self):
        return (self.current,)

    def _cuDeviceGetAttribute(self, attribute, device):
        major, minor = self.capability
        return ({"MAJOR": major, "MINOR": minor, "COUNT": 132}[attribute.rpartition("_")[2]],)

    def _cuDeviceGetName(self, size, device):
        return (self.name.encode() + b"\0",)

    def _cuDeviceTotalMem(self, device):
        return (141 << 30,)

    def _cuModuleLoadData(self, code):
        return (0x77,)

    def _cuModuleGetFunction(self, library, name):
        return (0x1234,)

    def cuModuleGetGlobal(self, library, name):
        return (Status.CUDA_ERROR_NOT_FOUND, 0, 0)

    def _cuTensorMapEncodeTiled(self, kind, rank, pointer, *rest):
        return (Map(pointer),)

    def _cuEventCreate(self, flags):
        return (1,)

    def _cuEventRecord(self, event, stream):
        self.ordered.append(("record", stream))
        return ()

    def _cuEventElapsedTime(self, begin, end):
        return (self.milliseconds,)

    def _cuStreamCreate(self, flags):
        return (0x5555,)

    def _cuStreamEndCapture(self, stream):
        return (1,)

    def _cuGraphInstantiate(self, graph, flags):
        return (1,)

    def _cuMemAlloc(self, size):
        memory = ctypes.create_string_buffer(size + 256)
        start = -(-ctypes.addressof(memory) // 256) * 256
        self.memory[start] = memory
        return (start,)

    def _cuMemFree(self, pointer):
        del self.memory[pointer]
        return ()

    def _cuMemcpyHtoD(self, pointer, source, size):
        ctypes.memmove(pointer, source, size)
        return ()

    def _cuMemcpyDtoH(self, target, pointer, size):
        ctypes.memmove(target, pointer, size)
        return ()

    def _cuStreamWaitEvent(self, stream, event, flags):
        self.ordered.append(("wait", stream))
        return ()

    # ------------------------------------------------ what launches call (driver_calls.py)

    def calls(self) -> driver_calls.Calls:
        return driver_calls.Calls(
            self._launch, self._replace, self._context, self._push, self._pop, self._fill, self._allocate, self._free,
            self._active_clusters,
        )  # fmt: skip

    def _launch(self, config, function, parameters, extra):
        if self.current == 0:
            return 201  # CUDA_ERROR_INVALID_CONTEXT
        status = self.fail.get("cuLaunchKernelEx", Status.CUDA_SUCCESS)
        if status == Status.CUDA_SUCCESS:
            given, table = config._obj, parameters._obj
            words = [ctypes.c_uint64.from_address(a).value for a in table if a]
            grid, block = given.grid[0], given.block[0]
            cluster = given.attributes[0].value[0] if given.count else 1
            made = Launch(function.value, grid, block, given.shared_bytes, given.stream, self.current, words, cluster)
            self.launches.append(made)
        return int(status)

    def _active_clusters(self, place, function, config):
        place._obj.value = self.active_clusters
        return 0

    def _replace(self, address, pointer):
        ctypes.c_uint64.from_address(address).value = pointer
        return 0

    def _context(self, place):
        place._obj.value = self.current
        return 0

    def _push(self, context):
        self._before, self.current = self.current, context
        return 0

    def _pop(self, place):
        self.current = self._before
        return 0

    def _allocate(self, place, size, stream):
        status = self.fail.get("cuMemAllocAsync", Status.CUDA_SUCCESS)
        if status == Status.CUDA_SUCCESS:
            place._obj.value = 0x5000_0000 + 0x100_0000 * len(self.allocated)
            self.allocated.append((place._obj.value, size, stream))
        return int(status)

    def _free(self, pointer, stream):
        self.freed.append((pointer.value, stream))
        return 0

    def _fill(self, pointer, byte, count, stream):
        ctypes.memset(pointer, byte, count)
        self.filled.append((pointer, count, stream))
        return 0


CACHES = (driver.context, driver.capability, driver.multiprocessors, driver.name_and_memory, launch.model_of)


@pytest.fixture
def gpu(monkeypatch) -> FakeDriver:
    """Two H200s whose memory is this process's."""
    fake = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    made = fake.calls()
    monkeypatch.setattr(driver_calls, "calls", lambda: made)
    _forget()
    yield fake
    _forget()


def _forget() -> None:
    """What was learnt of the driver; compiled code stays, which does not depend on it."""
    for cached in CACHES:
        cached.cache_clear()
    for known in launch._known.values():
        known.prepared.clear()
        for kernel in known.compiled.values():
            kernel._loaded.clear()
            kernel._prepared.clear()


class OnGpu:
    """An array as CuPy shows its own: the CUDA array interface, a device, and a stream."""

    def __init__(self, array: np.ndarray, ordinal: int = 0, stream: int | None = None, read_only: bool = False):
        array = np.asarray(array)
        self.array, self.device = array, SimpleNamespace(id=ordinal)
        self.__cuda_array_interface__ = {
            "version": 3, "shape": array.shape, "typestr": array.dtype.str, "stream": stream,
            "data": (array.ctypes.data, read_only), "strides": array.strides,
        }  # fmt: skip

    def __dlpack__(self, **_: object):
        raise AssertionError("the CUDA array interface comes first")
