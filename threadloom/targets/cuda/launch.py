"""Runs calls on the GPU: plans and compiles once per kind of arguments, then launches on the caller's stream.

    call -> (extents, strides, alignment, constants) -> CudaKernel        known: some microseconds
            (bucket of extents, alignment)           -> CudaKernel        sizes that change: some milliseconds
                                                     -> plan, compile     new: seconds

The plan comes from the store of tuning results where it has one for the shape; nothing is measured here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from threadloom.arrays_device import LEGACY_STREAM, DeviceArray
from threadloom.errors import CompileError, InternalError, slug
from threadloom.lang.bind import Call
from threadloom.machine.model import Device
from threadloom.sched.ops import SProgram
from threadloom.targets.cuda import driver, driver_calls, driver_work
from threadloom.targets.cuda.best_plan import NOT_COMPILED, best_compiled, unaligned_copies
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, between_facts, facts_of
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.emit_for import EMITTED
from threadloom.targets.cuda.launch_prepared import Prepared
from threadloom.targets.cuda.serves import bucket, serves
from threadloom.tile.ops import Access, Kernel, Tensor
from threadloom.time_limit import compile_within_limit

NO_EMITTER = slug("no-emitter", "there is no code generator for the GPU's architecture")

EXTENT = slug("gpu-extent", "a dimension is longer than the 32-bit positions of the GPU's code reach")

MOST_EXTENT = 2**31 - 2**16  # positions run past the end by less than a tile
MOST_FORMS = 4096  # of a kernel, kept at a time

Key = tuple[object, ...]


@dataclass(slots=True)
class Known:
    """What has been made for one kernel. `kernel` keeps the object alive whose id is the key."""

    kernel: Kernel
    compiled: dict[Key, CudaKernel] = field(default_factory=dict)
    near: dict[Key, list[tuple[dict[str, int], CudaKernel]]] = field(default_factory=dict)  # bucket -> made for, code
    prepared: dict[Key, Prepared] = field(default_factory=dict)


_known: dict[int, Known] = {}
_lock = threading.Lock()


def device_tensor(array: DeviceArray, tensor: Tensor) -> DeviceTensor:
    """Address, shape and strides in elements of an array; NumPy arrays stand for such in device memory (compiling)."""
    size = max(1, array.dtype.itemsize)
    pointer = array.pointer if isinstance(array, DeviceArray) else array.__array_interface__["data"][0]
    return DeviceTensor(pointer, array.shape, tuple(s // size for s in array.strides))


def device_tensors(kernel: Kernel, arrays: Mapping[str, DeviceArray]) -> dict[str, DeviceTensor]:
    return {t.name: device_tensor(arrays[t.name], t) for t in kernel.tensors}


# ---------------------------------------------------------------- devices


@lru_cache(maxsize=16)
def model_of(ordinal: int = 0) -> Device:
    """The machine model of GPU `ordinal`: by its name, or else the nearest of its architecture."""
    from threadloom.machine.devices import NAMES, device

    major, minor = driver.capability(ordinal)
    arch = f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")
    if arch not in EMITTED:
        raise CompileError(
            NO_EMITTER,
            f"GPU {ordinal} is {arch}, and there is no code generator for it",
            why=f"code is made for {', '.join(EMITTED)}",
            try_="CPU tensors: the kernel runs on the CPU as it is",
        )
    name, memory_bytes = driver.name_and_memory(ordinal)
    models = [device(n) for n in NAMES if n != "cpu" and device(n).arch == arch]
    named = [m for m in models if m.name.lower() in name.lower()]
    larger = memory_bytes > 100e9  # an H100's EUs with an H200's memory
    return (named or [m for m in models if (m.name == "h200") == larger] or models)[0]


def check_arch(device: Device) -> None:
    if device.arch not in EMITTED:
        raise CompileError(
            NO_EMITTER,
            f"{device.name} is {device.arch}, and there is no code generator for it",
            why=f"code is made for {', '.join(EMITTED)}",
            try_="another --device, such as h200",
        )


def check_extents(kernel: Kernel, dims: Mapping[str, int]) -> None:
    """Refuse a dimension whose positions do not fit the code's i32. Tensors may have more elements than that, and
    strides of any size."""
    for name, extent in dims.items():
        if extent > MOST_EXTENT:
            raise CompileError(
                EXTENT,
                f"dimension {name} of {kernel.name} is {extent}, and code for a GPU takes at most {MOST_EXTENT}",
                loc=kernel.loc,
                why="positions along a dimension are 32-bit numbers there",
                try_=f"the same memory as two dimensions: in place of {name} two names, and x.view(-1, 4096)",
            )


# ---------------------------------------------------------------- compiling


def kernel_for(
    kernel: Kernel,
    dims: dict[str, int],
    given: dict[str, DeviceTensor],
    device: str | Device = "h200",
    defines: tuple[str, ...] = (),
    splits: bool = True,
) -> CudaKernel:
    """The compiled kernel for arguments like `given`; made at the first call of their bucket of extents. `defines`: for
    the device code; `splits`: it may be two kernels, where a reduction is split."""
    facts = {t.name: facts_of(t, given[t.name]) for t in kernel.tensors}
    name = device if isinstance(device, str) else device.name
    form = (name, defines, splits, *((f.contiguous_dim, f.aligned) for f in facts.values()))
    key = (tuple(dims.items()), *form)
    known = _known_of(kernel)
    made = known.compiled.get(key)
    if made is None:
        with _lock:
            made = known.compiled.get(key)
            if made is None:
                check_extents(kernel, dims)
                near = known.near.setdefault((tuple((n, bucket(e)) for n, e in dims.items()), *form), [])
                made = _near(kernel, dims, facts, device, near)
                if made is None:
                    make = partial(_make, kernel, dims, facts, device, defines, splits)
                    made = compile_within_limit(kernel, make)
                    near.append((dict(dims), made))
                _make_room(known.compiled)
                known.compiled[key] = made
    return made


def _near(
    kernel: Kernel,
    dims: dict[str, int],
    facts: dict[str, TensorFacts],
    device: str | Device,
    near: list[tuple[dict[str, int], CudaKernel]],
) -> CudaKernel | None:
    """Code made for extents of the same bucket that is right for these, unless a plan was measured for just these."""
    from threadloom.machine.devices import device as find_device
    from threadloom.sched.reuse import is_measured

    extents = {n: max(1, e) for n, e in dims.items()}
    if not near or is_measured(kernel, extents, find_device(device)):
        return None
    for made_for, made in near:
        if _serves(made.program, facts, made_for, dims) and not unaligned_copies(made.program, facts, extents):
            return made
    return None


def _serves(program: SProgram, facts: dict[str, TensorFacts], made_for: dict[str, int], dims: dict[str, int]) -> bool:
    """Whether the code of all that a plan launches is right for `dims`."""
    if program.combine is None:
        return serves(program, facts, made_for, dims)
    between = between_facts(program, made_for)
    joined = facts | between
    same = between == between_facts(program, dims)
    return same and serves(program, joined, made_for, dims) and serves(program.combine, joined, made_for, dims)


def _make_room(known: dict) -> None:
    """Forget the oldest forms where sizes change without end; what they were compiled to is kept with their bucket."""
    if len(known) >= MOST_FORMS:
        del known[next(iter(known))]


def _known_of(kernel: Kernel) -> Known:
    known = _known.get(id(kernel))
    if known is None:
        with _lock:
            known = _known.setdefault(id(kernel), Known(kernel))
    return known


def _make(
    kernel: Kernel,
    dims: dict[str, int],
    facts: dict[str, TensorFacts],
    device: str | Device,
    defines: tuple[str, ...],
    splits: bool,
) -> CudaKernel:
    from threadloom.machine.devices import device as find_device

    machine = find_device(device)
    check_arch(machine)
    return best_compiled(kernel, dims, facts, machine, defines, splits)


# ---------------------------------------------------------------- launching


def launch_on_gpu(call: Call) -> None:
    """Fill the call's outputs, on the stream that its arrays are ready on."""
    ordinal = ordinal_of(call.device)
    stream = current_stream(ordinal) if call.stream is None else call.stream
    prepared = prepared_for(call, ordinal)
    arrays = [call.arrays[t.name] for t in call.kernel.tensors]
    _order(call.others, stream, ordinal)
    clear_accumulated(call, stream, ordinal)
    if prepared.blocks:
        prepared.launch([a.pointer for a in arrays], [call.scalars[n] for n in prepared.scalars], stream)
    for other in call.others:
        _order((stream,), other, ordinal)


def integers_of(call: Call) -> dict[str, np.ndarray]:
    """Copies in host memory of the call's integer tensors, on which loops may depend; waits for the device."""
    found = {}
    for tensor in call.kernel.tensors:
        array = call.arrays[tensor.name]
        if tensor.access is Access.IN and array.dtype.kind in "iub":
            if not array.is_contiguous:
                raise CompileError(NOT_COMPILED, f"{tensor.name} has gaps", try_=f"{tensor.name}.contiguous()")
            found[tensor.name] = np.empty(array.shape, array.dtype)
            with driver_calls.OnContext(int(driver.context(ordinal_of(call.device)))):
                driver_work.download(array.pointer, found[tensor.name])
    return found


def forget(kernel: Kernel) -> None:
    """Have the next call plan anew."""
    with _lock:
        _known.pop(id(kernel), None)


def ordinal_of(device: str) -> int:
    return int(device.partition(":")[2] or 0)


def prepared_for(call: Call, ordinal: int) -> Prepared:
    """The call's kernel, ready on its device: planned, compiled and loaded at the first call of its form."""
    known = _known_of(call.kernel)
    arrays = call.arrays
    forms = tuple((a.shape, a.strides, a.pointer % 16 == 0) for a in arrays.values())
    key = (ordinal, tuple(call.dims.items()), tuple(arrays), forms)
    prepared = known.prepared.get(key)
    if prepared is None:
        given = device_tensors(call.kernel, arrays)
        made = kernel_for(call.kernel, call.dims, given, model_of(ordinal))
        with _lock:
            _make_room(known.prepared)
        prepared = known.prepared[key] = made.prepare(given, call.dims, ordinal)
    return prepared


def clear_accumulated(call: Call, stream: int, ordinal: int) -> None:
    """Targets of atomic adds begin at zero."""
    for tensor in call.kernel.tensors:
        if tensor.access is Access.INOUT:
            array = call.arrays[tensor.name]
            if not array.is_contiguous:
                _fill_with_torch(call, tensor.name)
            elif array.size:
                with driver_calls.OnContext(int(driver.context(ordinal))):
                    status = driver_calls.calls().fill_bytes(array.pointer, 0, array.size * array.itemsize, stream)
                if status:
                    driver.raise_status(status, f"clearing {tensor.name}")


def _fill_with_torch(call: Call, name: str) -> None:
    outputs = [t.name for t in call.kernel.tensors if t.access is not Access.IN]
    given = call.results[outputs.index(name)]
    if not hasattr(given, "zero_"):
        raise CompileError(
            NOT_COMPILED, f"{name} has gaps and is added to", try_="give an output without gaps, or a torch tensor"
        )
    given.zero_()


def current_stream(ordinal: int) -> int:
    """torch's current stream of the device, or the legacy default one where torch is not in use."""
    return torch_state()[0](ordinal) if "torch" in sys.modules else LEGACY_STREAM


def torch_state() -> tuple[Callable[[int], int], Callable[[], int]]:
    """Functions of torch, which is in use: current stream of a device; current device of the thread. torch's own fast
    ones where this version has them."""
    torch = sys.modules["torch"]
    stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    device = getattr(torch._C, "_cuda_getDevice", None)
    return (
        stream or (lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream),
        device or torch.cuda.current_device,
    )


def _order(before: tuple[int, ...], stream: int, ordinal: int) -> None:
    """Work on `stream` from here on comes after what is on the streams `before` now."""
    for other in before:
        if other != stream:
            driver.wait_for_stream(stream, other, ordinal)


def stuck(kernel: CudaKernel, ordinal: int = 0) -> str:
    """Which barriers a kernel built with the watchdog hung on, "" for none."""
    loaded = kernel._loaded.get(ordinal)
    names = kernel.source.barriers
    found = [
        f"{names[at] if at < len(names) else 'a further barrier'} (phase parity {parity})"
        for at, parity in (loaded.stuck_barriers() if loaded is not None else ())
    ]
    return ", ".join(found)


def raise_if_stuck(kernel: CudaKernel, ordinal: int = 0) -> None:
    """InternalError where the watchdog ended the kernel; call it after a failed synchronisation."""
    if waits := stuck(kernel, ordinal):
        raise InternalError(f"{kernel.source.name} hung on the GPU: waits for {waits}, which never completed")
