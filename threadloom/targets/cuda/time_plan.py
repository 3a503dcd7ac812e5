"""Measures plans on this machine's GPU, for tuning: compiled for packed tensors, in a CUDA graph, over rotating inputs.

A plan is made ready in one process (`make_ready`: no GPU needed, many at a time) and measured in another
(`time_ready`), which may hang or die. `explain_hang` runs a plan that hung again, built with the watchdog, and says
what it waits for.
"""

from __future__ import annotations

import pickle
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from threadloom.errors import CompileError, InternalError
from threadloom.machine.model import Device
from threadloom.sched.ops import SProgram
from threadloom.sched.timeline_measured import ClockRecord
from threadloom.targets.cuda import driver, driver_work, nvrtc
from threadloom.targets.cuda.clocks import read_clocks
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of, packed
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import NO_EMITTER, model_of, raise_if_stuck
from threadloom.targets.cuda.launch_prepared import Prepared
from threadloom.tile.ops import Access, Kernel

ROTATED_BYTES = 160e6  # of input sets together: more than three times what the second-level cache holds
MOST_SETS = 8
GRAPH_NS, MOST_CALLS = 2e6, 200  # how long one graph of launches should take, and the most launches in it
REPEATS, WARM_LAUNCHES = 7, 3
SAMPLED, SAMPLED_END = 2000, 64  # elements of each result that are compared between plans
CLOCK_RECORDS = 3000  # that each role of block 0 keeps
NOT_A_NUMBER = 1e300  # in their place, as JSON has none


# ---------------------------------------------------------------- made ready (no GPU)


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled plan. `fault`: what in its code is not as planned, "" for nothing."""

    kernel: CudaKernel
    fault: str


def packed_facts(kernel: Kernel, dims: Mapping[str, int]) -> dict[str, TensorFacts]:
    """What code may rely on for packed, aligned tensors."""
    facts = {}
    for tensor in kernel.tensors:
        shape = tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)
        facts[tensor.name] = facts_of(tensor, DeviceTensor(0, shape, packed(shape)))
    return facts


def packed_facts_of(program: SProgram, dims: Mapping[str, int]) -> dict[str, TensorFacts]:
    """Likewise of all that a plan's programs read and write."""
    facts = packed_facts(program.graph.kernel, dims)
    return facts if program.combine is None else packed_facts_of(program.combine, dims) | facts


def make_ready(program: SProgram, dims: Mapping[str, int], path: Path, clocks: bool = False) -> str:
    """Compile `program`, with in-kernel clocks where asked, and write it to `path`; returns what in its code is not as
    planned."""
    records = CLOCK_RECORDS if clocks else 0
    kernel = compile_program(program, packed_facts_of(program, dims), dict(dims), timeline=records)
    fault = fault_of(kernel)
    path.write_bytes(pickle.dumps(Ready(kernel, fault)))
    return fault


def read_ready(path: Path) -> CudaKernel:
    return pickle.loads(path.read_bytes()).kernel


# ---------------------------------------------------------------- measured


def time_plan(
    program: SProgram,
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, int],
    scalars: Mapping[str, float],
    device: Device,
) -> float:
    """Nanoseconds of one launch of `program` on GPU 0."""
    kernel = compile_program(program, packed_facts_of(program, dims), dict(dims))
    return time_kernels([kernel], arrays, dims, scalars, device)[0]


def time_ready(
    paths: Sequence[Path],
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, int],
    scalars: Mapping[str, float],
    device: Device,
) -> tuple[list[float], list[float]]:
    """(nanoseconds of one launch of each, samples of the results of the last); several are measured in turns, in a new
    order each time. Results are cleared first, so that one that is not written shows."""
    kernels = [read_ready(p) for p in paths]
    data = DeviceData.of(arrays)
    last = kernels[0].program.combine or kernels[0].program
    tensors = last.graph.kernel.tensors
    outputs = [t.name for t in tensors if t.access is Access.OUT]  # what is added to holds the sum of all launches
    for name in outputs:
        driver_work.fill(data.allocated[0][name], 0xFF, arrays[name].nbytes)
    times = time_kernels(kernels, arrays, dims, scalars, device)
    return times, [x for name in outputs for x in sample(data.allocated[0][name], arrays[name])]


def sample(pointer: int, like: np.ndarray) -> list[float]:
    """Some elements at fixed places, its last ones, and how many are not finite, of an array on the GPU."""
    found = np.empty(like.shape, like.dtype)
    driver_work.download(pointer, found)
    flat = found.reshape(-1)
    places = np.random.default_rng(0).integers(0, max(1, flat.size), min(flat.size, SAMPLED))
    chosen = np.concatenate([flat[places], flat[-SAMPLED_END:]]).astype(np.float64)
    return [float(x) for x in np.nan_to_num(chosen, nan=NOT_A_NUMBER)] + [_not_finite(flat)]


def _not_finite(flat: np.ndarray) -> float:
    if flat.dtype.kind in "iub":
        return 0.0
    some = flat[:: max(1, flat.size >> 22)]
    return float(np.count_nonzero(~np.isfinite(some.astype(np.float32))))


def time_kernels(
    kernels: Sequence[CudaKernel],
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, int],
    scalars: Mapping[str, float],
    device: Device,
) -> list[float]:
    here = model_of(0)
    if here.name != device.name:
        raise CompileError(
            NO_EMITTER, f"this machine has an {here.name}, not an {device.name}", try_=f"--device {here.name}"
        )
    data = DeviceData.of(arrays)
    with driver_work.new_stream() as stream:
        graphs = [_graph(kernel, data, dict(dims), scalars, stream) for kernel in kernels]
        times: list[list[float]] = [[] for _ in kernels]
        order = list(range(len(kernels)))
        for repeat in range(REPEATS + 1):
            random.shuffle(order)
            for at in order:
                ns = driver_work.time_graph(graphs[at].handle, stream) / graphs[at].calls
                if repeat:
                    times[at].append(ns)
        for graph in graphs:
            driver_work.destroy_graph(graph.handle)
    return [statistics.median(t) for t in times]


@dataclass(frozen=True, slots=True)
class Graph:
    handle: object
    calls: int


def _graph(kernel: CudaKernel, data: DeviceData, dims: dict[str, int], scalars, stream: int) -> Graph:
    """Launches over the input sets in turn, enough of them to take a few milliseconds."""
    prepared = kernel.prepare(data.tensors, dims)
    values = [scalars[n] for n in prepared.scalars]

    def launches(count: int) -> None:
        for at in range(count if prepared.blocks else 0):
            prepared.launch(data.pointers(at), values, stream)

    launches(1)
    driver_work.synchronize(stream, kernel.source.name)
    first = driver_work.time_launches(lambda: launches(2), stream) / 2
    calls = int(min(MOST_CALLS, max(1, GRAPH_NS // max(first, 1.0))))
    calls = -(-calls // data.sets) * data.sets
    return Graph(driver_work.capture(lambda: launches(calls), stream), calls)


def clocks_of(
    kernel: CudaKernel, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int], scalars: Mapping[str, float]
) -> list[ClockRecord]:
    """What the clocks of `kernel`, compiled with them, show in the last of a few launches."""
    data = DeviceData.of(arrays)
    prepared = kernel.prepare(data.tensors, dict(dims))
    for number in range(WARM_LAUNCHES):
        prepared.launch(data.pointers(number), [scalars[n] for n in prepared.scalars], 0)
    driver_work.synchronize(0, kernel.source.name)
    return read_clocks(kernel, CLOCK_RECORDS)


def explain_hang(path: Path, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int], scalars) -> str:
    """What a plan that hung waits for, by a build with the watchdog; "" where that one ends."""
    kernel = read_ready(path)
    source = kernel.source
    watched = replace_code(kernel, nvrtc.compile_source(source.text, source.arch, defines=driver.WATCHDOG))
    data = DeviceData.of(arrays)
    prepared: Prepared = watched.prepare(data.tensors, dict(dims))
    prepared.launch(data.pointers(0), [scalars[n] for n in prepared.scalars], 0)
    try:
        driver_work.synchronize(0, source.name)
    except InternalError:
        try:
            raise_if_stuck(watched)
        except InternalError as error:
            return str(error)
        raise
    return ""


def replace_code(kernel: CudaKernel, cubin: nvrtc.Cubin) -> CudaKernel:
    """The kernel with other machine code for the same launch."""
    return replace(kernel, cubin=cubin, _loaded={}, _prepared={})


# ---------------------------------------------------------------- data


@dataclass
class DeviceData:
    """Arrays of one call in device memory, `sets` times over, so that a launch does not find its inputs cached."""

    tensors: dict[str, DeviceTensor]
    allocated: list[dict[str, int]]

    _last: ClassVar[tuple[Mapping[str, np.ndarray], DeviceData] | None] = None

    @property
    def sets(self) -> int:
        return len(self.allocated)

    def pointers(self, number: int) -> list[int]:
        chosen = self.allocated[number % self.sets]
        return [chosen[name] for name in self.tensors]

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> DeviceData:
        """Uploaded once for all plans of a kernel; the data of another one is freed first."""
        if cls._last is not None and cls._last[0] is arrays:
            return cls._last[1]
        if cls._last is not None:
            cls._last[1].free()
        total = sum(a.nbytes for a in arrays.values())
        sets = int(min(MOST_SETS, max(1, ROTATED_BYTES // max(1, total))))
        allocated = [{n: driver_work.upload(a) for n, a in arrays.items()} for _ in range(sets)]
        tensors = {n: DeviceTensor(allocated[0][n], a.shape, packed(a.shape)) for n, a in arrays.items()}
        made = cls(tensors, allocated)
        cls._last = (arrays, made)
        return made

    def free(self) -> None:
        for chosen in self.allocated:
            for pointer in chosen.values():
                driver_work.free(pointer)
