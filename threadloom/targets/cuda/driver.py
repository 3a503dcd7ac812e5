"""Loading and launching machine code through the CUDA driver, on the context and stream PyTorch uses.

Nothing here compiles. Every driver call's status is checked; an asynchronous failure is reported at the next
synchronisation with the kernel's name and, where the kernel was built with the watchdog, with the barrier it hung on.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

from threadloom.errors import CompileError, InternalError, slug
from threadloom.targets.cuda import driver_calls
from threadloom.targets.cuda.driver_calls import MAP_BYTES, NO_GPU, OnContext
from threadloom.targets.cuda.nvrtc import Cubin

GPU_TOO_OLD = slug("gpu-too-old", "the device cannot run code for the architecture the plan was made for")
GPU_MEMORY = slug("gpu-memory", "the device has not enough memory")


# Cycles after which a wait gives up in code that is built to be watched: about two seconds.
WATCHDOG = ("LOOM_WATCHDOG=4000000000",)
NOWHERE = 256  # address of tensors without elements: tensor maps do not take 0
WATCHDOG_WORDS = 64  # one for each barrier, the last for all further ones (headers/sm90.cuh)


@lru_cache(maxsize=1)
def _driver():
    try:
        from cuda.bindings import driver
    except ImportError as e:
        raise CompileError(
            NO_GPU, "running on a GPU needs cuda-bindings", why=str(e), try_="pip install 'threadloom[gpu]'"
        ) from e
    try:
        status = driver.cuInit(0)[0]
    except RuntimeError as e:
        raise CompileError(
            NO_GPU, "no NVIDIA driver was found", why=str(e), try_="install the driver, or run on the CPU"
        ) from e
    if status != driver.CUresult.CUDA_SUCCESS:
        raise CompileError(
            NO_GPU, "the NVIDIA driver does not start", why=status.name, try_="check nvidia-smi, or run on the CPU"
        )
    return driver


def api():
    """The bindings of the driver, initialised; CompileError `no-gpu` where there is none."""
    return _driver()


def check(result: tuple, doing: str):
    """The values of a driver call's `result`, or an error that says what was being done."""
    status, *values = result
    driver = _driver()
    if status == driver.CUresult.CUDA_SUCCESS:
        return values[0] if len(values) == 1 else tuple(values)
    if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise CompileError(GPU_MEMORY, f"out of device memory while {doing}", try_="free tensors or use smaller ones")
    if status == driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU:
        raise CompileError(
            GPU_TOO_OLD, f"this device cannot run the code ({doing})", try_="plan for this device: loom doctor"
        )
    raise InternalError(f"CUDA: {status.name} while {doing}")


def raise_status(status: int, doing: str) -> None:
    """The error for a status that is not success."""
    check((_driver().CUresult(status),), doing)


@lru_cache(maxsize=16)
def context(ordinal: int = 0):
    """The device's primary context (the one PyTorch uses), retained for the life of the process; current where none
    was."""
    driver = _driver()
    count = check(driver.cuDeviceGetCount(), "counting devices")
    if ordinal >= count:
        raise CompileError(NO_GPU, f"there is no GPU {ordinal}", why=f"{count} found", try_="loom doctor")
    device = check(driver.cuDeviceGet(ordinal), f"opening device {ordinal}")
    handle = check(driver.cuDevicePrimaryCtxRetain(device), f"opening device {ordinal}")
    if int(check(driver.cuCtxGetCurrent(), f"opening device {ordinal}")) == 0:
        check(driver.cuCtxSetCurrent(handle), f"opening device {ordinal}")
    return handle


@lru_cache(maxsize=16)
def capability(ordinal: int = 0) -> tuple[int, int]:
    """Compute capability (major, minor)."""
    driver = _driver()
    context(ordinal)
    device = check(driver.cuDeviceGet(ordinal), "opening the device")
    attribute = driver.CUdevice_attribute
    major = check(
        driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        "reading the device",
    )
    minor = check(
        driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        "reading the device",
    )
    return major, minor


@lru_cache(maxsize=16)
def multiprocessors(ordinal: int = 0) -> int:
    """SMs of the device."""
    driver = _driver()
    context(ordinal)
    device = check(driver.cuDeviceGet(ordinal), "opening the device")
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    return check(driver.cuDeviceGetAttribute(attribute, device), "reading the device")


@lru_cache(maxsize=16)
def name_and_memory(ordinal: int = 0) -> tuple[str, int]:
    """The device's name and its memory in bytes."""
    driver = _driver()
    context(ordinal)
    device = check(driver.cuDeviceGet(ordinal), "opening the device")
    name = check(driver.cuDeviceGetName(128, device), "reading the device")
    size_bytes = check(driver.cuDeviceTotalMem(device), "reading the device")
    return name.split(b"\0")[0].decode(errors="replace"), int(size_bytes)


def ordinal_of_pointer(pointer: int) -> int:
    """The device whose memory `pointer` is in."""
    driver = _driver()
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(check(driver.cuPointerGetAttribute(attribute, pointer), f"finding the device of address {pointer:#x}"))


def wait_for_stream(stream: int, other: int, ordinal: int = 0) -> None:
    """Whatever comes on `stream` waits for what is on `other` now."""
    api = _driver()
    with OnContext(int(context(ordinal))):
        event = check(api.cuEventCreate(api.CUevent_flags.CU_EVENT_DISABLE_TIMING), "ordering two streams")
        check(api.cuEventRecord(event, other), "ordering two streams")
        check(api.cuStreamWaitEvent(stream, event, 0), "ordering two streams")
        check(api.cuEventDestroy(event), "ordering two streams")  # the driver keeps it until it has happened


# ---------------------------------------------------------------- tensor maps

MAP_TYPES = {
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "tf32": "FLOAT32", "f64": "FLOAT64",
    "f8e4m3": "UINT8", "f8e5m2": "UINT8", "u8": "UINT8", "i8": "UINT8", "bool": "UINT8", "u4": "UINT8",
    "i32": "INT32", "i64": "INT64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MapSpec:
    """How one tensor is read or written by bulk copies: which of its dimensions (innermost first), the box in elements,
    the swizzle in bytes (0 none, 32, 64, 128), and how much of a line the L2 cache fetches at a time (128 or 256)."""

    tensor: str
    dtype: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int
    fetch_bytes: int = 256


def encode_map(spec: MapSpec, pointer: int, shape: tuple[int, ...], strides_bytes: tuple[int, ...]):
    """A CUtensorMap over the tensor at `pointer`; shape and strides in the tensor's own order of dimensions."""
    driver = _driver()
    rank = len(spec.dims)
    kind = getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{MAP_TYPES[spec.dtype]}")
    swizzle = f"{spec.swizzle_bytes}B" if spec.swizzle_bytes else "NONE"
    u64, u32 = driver.cuuint64_t, driver.cuuint32_t
    return check(
        driver.cuTensorMapEncodeTiled(
            kind,
            rank,
            pointer,
            [u64(max(1, shape[d])) for d in spec.dims],
            [u64(strides_bytes[d]) for d in spec.dims[1:]] or [u64(16)],  # rank 1: not read, but may not be empty
            [u32(b) for b in spec.box],
            [u32(1)] * rank,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{spec.fetch_bytes}B"),
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"describing {spec.tensor} for bulk copies (shape {shape}, byte strides {strides_bytes}, box {spec.box})",
    )


def map_bytes(spec: MapSpec, pointer: int, shape: tuple[int, ...], strides_bytes: tuple[int, ...]) -> bytes:
    """The tensor map as kernels take it: MAP_BYTES bytes."""
    made = encode_map(spec, pointer or NOWHERE, shape, strides_bytes)
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)


# ---------------------------------------------------------------- kernels


@dataclass(slots=True)
class LoadedKernel:
    """A kernel on a device. `flag`: address of the host memory in which a kernel built with LOOM_WATCHDOG says which
    barriers never completed (0: built without)."""

    name: str
    function: object
    library: object
    threads: int
    shared_bytes: int
    cluster: int = 1
    flag: int = 0

    @property
    def function_handle(self) -> int:
        return int(self.function)

    def active_clusters(self, multiprocessors: int) -> int:
        """Clusters that the current device runs at a time."""
        blocks = multiprocessors // self.cluster * self.cluster
        config = driver_calls.launch_config(blocks, self.threads, self.shared_bytes, self.cluster)
        found = ctypes.c_int()
        status = driver_calls.calls().active_clusters(
            ctypes.byref(found), ctypes.c_void_p(self.function_handle), ctypes.byref(config)
        )
        if status:
            raise_status(status, f"asking how many clusters of {self.name} run at a time")
        return found.value

    def stuck_barriers(self) -> list[tuple[int, int]]:
        """(index, parity) of the barriers that the watchdog gave up on. Works after the trap, which leaves the context
        unusable: the words are in host memory."""
        if not self.flag:
            return []
        words = (ctypes.c_uint32 * WATCHDOG_WORDS).from_address(self.flag)
        return [(at, word - 1) for at, word in enumerate(words) if word]


def watchdog_flag(library: object) -> int:
    """Host memory for the watchdog's words, made known to the module, which was built with it."""
    api = _driver()
    pointer, _ = check(api.cuModuleGetGlobal(library, b"loom_stuck"), "the watchdog")
    size = 4 * WATCHDOG_WORDS
    host = check(api.cuMemHostAlloc(size, api.CU_MEMHOSTALLOC_DEVICEMAP | api.CU_MEMHOSTALLOC_PORTABLE), "the watchdog")
    ctypes.memset(int(host), 0, size)
    word = ctypes.c_uint64(int(check(api.cuMemHostGetDevicePointer(host, 0), "the watchdog")))
    check(api.cuMemcpyHtoD(pointer, ctypes.addressof(word), 8), "the watchdog")
    return int(host)


def read_global(kernel: LoadedKernel, name: str, size_bytes: int) -> bytes:
    """Content of global variable `name` of the kernel's module, after everything launched so far."""
    api = _driver()
    check(api.cuCtxSynchronize(), f"waiting for {kernel.name}")
    pointer, size = check(api.cuModuleGetGlobal(kernel.library, name.encode()), f"finding {name}")
    words = (ctypes.c_char * min(size, size_bytes))()
    check(api.cuMemcpyDtoH(ctypes.addressof(words), pointer, len(words)), f"reading {name}")
    return bytes(words)


def load(cubin: Cubin, name: str, threads: int, shared_bytes: int, cluster: int = 1, ordinal: int = 0) -> LoadedKernel:
    """Put `cubin` on the device and find its kernel `name`."""
    driver = _driver()
    major, minor = capability(ordinal)
    if cubin.arch.rstrip("a") != f"sm_{major}{minor}" and (
        cubin.arch.endswith("a") or int(cubin.arch[3:]) > 10 * major + minor
    ):
        raise CompileError(
            GPU_TOO_OLD,
            f"{name} was compiled for {cubin.arch} and this device is sm_{major}{minor}",
            try_="choose --device for this GPU",
        )
    library = check(driver.cuModuleLoadData(cubin.code), f"loading {name}")
    function = check(driver.cuModuleGetFunction(library, name.encode()), f"finding {name}")
    attribute = driver.CUfunction_attribute
    if shared_bytes > 48 * 1024:
        check(
            driver.cuFuncSetAttribute(
                function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
            ),
            f"reserving {shared_bytes} bytes of shared memory for {name}",
        )
    if cluster > 8:
        check(
            driver.cuFuncSetAttribute(function, attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1), name
        )
    flag = watchdog_flag(library) if b"loom_stuck" in cubin.code else 0
    return LoadedKernel(name, function, library, threads, shared_bytes, cluster, flag)
