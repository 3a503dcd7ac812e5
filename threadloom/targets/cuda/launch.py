"""Runs calls on the GPU: plans and compiles once per kind of arguments, then launches on the caller's stream.

    call -> (extents, strides, alignment, constants) -> CudaKernel        known: some microseconds
                                                     -> plan, compile     new: seconds

The plan comes from the store of tuning results where it has one for the shape; nothing is measured here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from threadloom.errors import CompileError, slug
from threadloom.lang.bind import Call
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.tile.ops import Access, Kernel, Tensor

NOT_COMPILED = slug("gpu-not-supported", "no plan of the kernel could be compiled for the GPU")

Key = tuple[object, ...]


@dataclass(slots=True)
class Known:
    """What has been made for one kernel. `kernel` keeps the object alive whose id is the key."""

    kernel: Kernel
    compiled: dict[Key, CudaKernel] = field(default_factory=dict)


_known: dict[int, Known] = {}
_lock = threading.Lock()


def device_tensor(array: np.ndarray, tensor: Tensor) -> DeviceTensor:
    """Address, logical shape and strides in elements of an array that lies in device memory."""
    interface = array.__array_interface__["data"][0]
    size = max(1, array.dtype.itemsize)
    return DeviceTensor(interface, array.shape, tuple(s // size for s in array.strides))


def device_tensors(kernel: Kernel, arrays: Mapping[str, np.ndarray]) -> dict[str, DeviceTensor]:
    return {t.name: device_tensor(arrays[t.name], t) for t in kernel.tensors}


def kernel_for(
    kernel: Kernel,
    dims: dict[str, int],
    given: dict[str, DeviceTensor],
    device: str = "h200",
    defines: tuple[str, ...] = (),
) -> CudaKernel:
    """The compiled kernel for arguments like `given`; made at the first call. `defines`: for the device code."""
    facts = {t.name: facts_of(t, given[t.name]) for t in kernel.tensors}
    key = (device, defines, tuple(dims.items()), *((f.contiguous_dim, f.aligned) for f in facts.values()))
    known = _known.get(id(kernel))
    if known is None:
        with _lock:
            known = _known.setdefault(id(kernel), Known(kernel))
    made = known.compiled.get(key)
    if made is None:
        with _lock:
            made = known.compiled.get(key)
            if made is None:
                made = known.compiled[key] = _make(kernel, dims, facts, device, defines)
    return made


def _make(
    kernel: Kernel, dims: dict[str, int], facts: dict[str, TensorFacts], device: str, defines: tuple[str, ...]
) -> CudaKernel:
    """Compile the best plan whose code is what was planned; of several, the first without spills."""
    fallback: CudaKernel | None = None
    reasons = []
    for program in _programs(kernel, dims, facts, device):
        made = compile_program(program, facts, dims, defines)
        fault = fault_of(made)
        if not fault:
            return made
        reasons.append(fault)
        if made.source.shared_bytes <= MOST_SHARED_BYTES:
            fallback = fallback or made
    if fallback is None:
        raise CompileError(
            NOT_COMPILED,
            f"no plan of {kernel.name} for {device} could be compiled",
            why="; ".join(reasons) or "the search made none",
            try_="other tile-friendly sizes, or run it on the CPU",
            loc=kernel.loc,
        )
    return fallback


MOST_SHARED_BYTES = 227 * 1024
MOST_TRIED = 4  # plans compiled before one with faults is taken


def _programs(kernel: Kernel, dims: dict[str, int], facts: dict[str, TensorFacts], device: str):
    """Plans, best first: the model's, then its next candidates."""
    from threadloom.sched.search import plan, proved_program

    bulk = {name: f.aligned for name, f in facts.items()}
    outcome = plan(kernel, {n: max(1, e) for n, e in dims.items()}, device, strides_ok=bulk)
    yield outcome.best
    for candidate in outcome.candidates[1:MOST_TRIED]:
        program = proved_program(candidate)
        if program is not None:
            yield program


def fault_of(made: CudaKernel) -> str:
    """What in the machine code is not as planned, "" where all is."""
    cubin = made.cubin
    if made.source.shared_bytes > MOST_SHARED_BYTES:
        return f"{made.source.shared_bytes} bytes of shared memory are needed"
    if cubin.serialised:
        return "products are serialised"
    return f"{cubin.spill_bytes} bytes are spilled" if cubin.spill_bytes else ""


def launch_on_gpu(call: Call) -> None:
    """Fill the call's outputs, on the current stream of their device."""
    ordinal, stream = _current(call.device)
    given = device_tensors(call.kernel, call.arrays)
    made = kernel_for(call.kernel, call.dims, given)
    for tensor, result in zip((t for t in call.kernel.tensors if t.access is not Access.IN), call.results, strict=True):
        if tensor.access is Access.INOUT:
            result.zero_()
    made.launch(given, call.dims, call.scalars, stream, ordinal)


def _current(device: str) -> tuple[int, int]:
    """(ordinal, current stream) of "cuda:N"."""
    import torch

    ordinal = int(device.partition(":")[2] or 0)
    return ordinal, torch.cuda.current_stream(ordinal).cuda_stream
