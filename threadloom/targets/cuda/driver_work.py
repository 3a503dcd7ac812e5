"""Memory, streams, graphs and timing through the driver: what measuring needs where PyTorch need not be installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from threadloom.targets.cuda.driver import api, check, context


def upload(array: np.ndarray) -> int:
    """A copy of `array` on GPU 0; its address."""
    driver = api()
    context(0)
    array = np.ascontiguousarray(array)
    pointer = int(check(driver.cuMemAlloc(max(16, array.nbytes)), f"allocating {array.nbytes} bytes"))
    if array.nbytes:
        check(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes), "copying to the GPU")
    return pointer


def fill(pointer: int, byte: int, size_bytes: int) -> None:
    if size_bytes:
        check(api().cuMemsetD8(pointer, byte, size_bytes), "filling device memory")


def download(pointer: int, into: np.ndarray) -> None:
    """Fill the contiguous array `into` from the GPU, after all work there."""
    driver = api()
    check(driver.cuCtxSynchronize(), "waiting for the GPU")
    if into.nbytes:
        check(driver.cuMemcpyDtoH(into.ctypes.data, pointer, into.nbytes), "copying from the GPU")


def free(pointer: int) -> None:
    check(api().cuMemFree(pointer), "freeing device memory")


@contextlib.contextmanager
def new_stream() -> Iterator[int]:
    driver = api()
    context(0)
    stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING), "making a stream")
    try:
        yield int(stream)
    finally:
        driver.cuStreamDestroy(stream)


def synchronize(stream: int, name: str) -> None:
    """Wait for the stream; a failure of kernel `name` shows here."""
    check(api().cuStreamSynchronize(stream), f"running {name}")


def time_launches(launch: Callable[[], object], stream: int) -> float:
    """Nanoseconds on the GPU of what `launch` puts on the stream."""
    driver = api()
    flag = driver.CUevent_flags.CU_EVENT_DEFAULT
    begin, end = (check(driver.cuEventCreate(flag), "making an event") for _ in range(2))
    check(driver.cuEventRecord(begin, stream), "timing")
    launch()
    check(driver.cuEventRecord(end, stream), "timing")
    check(driver.cuEventSynchronize(end), "running a kernel that is timed")
    taken_ms = check(driver.cuEventElapsedTime(begin, end), "timing")
    for event in (begin, end):
        check(driver.cuEventDestroy(event), "timing")
    return float(taken_ms) * 1e6


def capture(launch: Callable[[], object], stream: int) -> object:
    """A CUDA graph of what `launch` puts on the stream, ready to be replayed."""
    driver = api()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    check(driver.cuStreamBeginCapture(stream, mode), "capturing a graph")
    try:
        launch()
    finally:
        graph = check(driver.cuStreamEndCapture(stream), "capturing a graph")
    made = check(driver.cuGraphInstantiate(graph, 0), "instantiating a graph")
    check(driver.cuGraphDestroy(graph), "instantiating a graph")
    return made


def time_graph(graph: object, stream: int) -> float:
    """Nanoseconds of one replay."""
    return time_launches(lambda: check(api().cuGraphLaunch(graph, stream), "replaying a graph"), stream)


def destroy_graph(graph: object) -> None:
    check(api().cuGraphExecDestroy(graph), "destroying a graph")
