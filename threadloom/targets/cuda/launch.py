"""Runs calls on the GPU: plans and compiles once per kind of arguments, then launches on the caller's stream.

    call -> (extents, strides, alignment, constants) -> CudaKernel        known: some microseconds
            (bucket of extents, alignment)           -> CudaKernel        sizes that change: some milliseconds
                                                     -> plan, compile     new: seconds

The plan comes from the store of tuning results where it has one for the shape; nothing is measured here.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from threadloom.arrays_device import LEGACY_STREAM, DeviceArray
from threadloom.errors import CompileError, InternalError, slug
from threadloom.lang.bind import Call
from threadloom.machine.model import Device, Figure
from threadloom.sched.candidate import Candidate
from threadloom.sched.live_registers import live_bytes
from threadloom.sched.ops import Issue, SProgram
from threadloom.sched.search import plan, proved_program
from threadloom.targets.cuda import driver, driver_calls, driver_work
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, between_facts, compile_program, facts_of
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.emit_for import EMITTED
from threadloom.targets.cuda.faults import fault_of, is_short_of_shared_memory
from threadloom.targets.cuda.launch_prepared import Prepared
from threadloom.targets.cuda.serves import bucket, serves
from threadloom.targets.cuda.unsupported import SharedMemoryShort
from threadloom.task.ops import Kind, Method
from threadloom.tile.ops import Access, Kernel, Load, Store, Tensor
from threadloom.time_limit import compile_within_limit

NOT_COMPILED = slug("gpu-not-supported", "no plan of the kernel could be compiled for the GPU")
NO_EMITTER = slug("no-emitter", "there is no code generator for the GPU's architecture")

EXTENT = slug("gpu-extent", "a dimension is longer than the 32-bit positions of the GPU's code reach")

MANY_SHORT = 4  # plans short of shared memory, after which others that take less are made
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
    """Compile the best plan whose code is what was planned. One with spills or serialised products is only taken where
    every plan of the search has some; spills of a plan that was measured, here or for a near shape, are in its time."""
    from threadloom.machine.devices import device as find_device
    from threadloom.sched.reuse import is_measured

    machine = find_device(device)
    check_arch(machine)
    fallback: CudaKernel | None = None
    reasons: list[str] = []
    short = 0  # of these plans
    no_code: CompileError | None = None
    measured = is_measured(kernel, {n: max(1, e) for n, e in dims.items()}, machine)
    for number, made in enumerate(_compiled(kernel, dims, facts, machine, defines, splits)):
        if isinstance(made, CudaKernel):
            borrowed = any(key == "borrowed_from" for key, _ in made.program.decisions)
            planned = (number == 0 and (measured or borrowed)) or find_device(made.program.device).fact("spills", False)
            fault = fault_of(made, spills=not planned)
            if not fault:
                return made
            reasons.append(fault)
            if is_short_of_shared_memory(made):
                short += 1
            elif fallback is None or made.cubin.spill_bytes < fallback.cubin.spill_bytes:
                fallback = made
        elif isinstance(made, CompileError):
            no_code = no_code or made
            short += isinstance(made, SharedMemoryShort)
            reasons.append(made.what + (f" ({made.why})" if made.why else ""))
        else:
            reasons.append(made)
        if short == len(reasons) >= MANY_SHORT:
            break
    if short and short == len(reasons) and (smaller := _with_less_memory(machine)) is not None:
        with suppress(CompileError):  # the reason is what was short here
            return _make(kernel, dims, facts, smaller, defines, splits)
    if fallback is None and no_code is not None and no_code.loc is not None:
        raise no_code  # of the best plan, at the line that it is about
    if fallback is None:
        raise CompileError(
            NOT_COMPILED,
            f"no plan of {kernel.name} for {machine.name} could be compiled",
            why="; ".join(dict.fromkeys(reasons)) or "the search made none",
            try_="other tile-friendly sizes, or run it on the CPU",
            loc=kernel.loc,
        )
    return fallback


def _with_less_memory(machine: Device) -> Device | None:
    """The device with half of its shared memory: code pads tiles to what products need, which plans do not count."""
    held = {m.name: m.capacity_bytes for m in machine.memories}.get("smem")
    if held is None or held.value < LEAST_PLANNED_BYTES:
        return None
    half = Figure(held.value // 2, f"half of what is {held.source}, for plans whose code takes more")
    memories = tuple(replace(m, capacity_bytes=half) if m.name == "smem" else m for m in machine.memories)
    return replace(machine, memories=memories)


LEAST_PLANNED_BYTES = 32 * 1024  # of shared memory, below which plans are not made smaller
TOO_FEW_REGISTERS = "Insufficient registers"  # ptxas on a wgmma that does not fit the launch bounds
MOST_TRIED = 32  # plans compiled before one with faults is taken


def _compiled(
    kernel, dims, facts, machine: Device, defines, splits: bool = True
) -> Iterator[CudaKernel | CompileError | str]:
    """Compiled plans, best first, or why one could not be; the first alone, since it nearly always serves, and then as
    many at a time as there are cores (NVRTC runs in parallel)."""

    def attempt(program) -> CudaKernel | CompileError | str:
        try:
            return compile_program(program, facts, dims, defines)
        except CompileError as error:
            return error
        except InternalError as error:
            if TOO_FEW_REGISTERS not in str(error):
                raise
            return "its instructions need more registers than its threads have"

    programs = _programs(kernel, dims, facts, machine, splits)
    yield attempt(next(programs))
    cores = max(1, min(16, os.cpu_count() or 1))
    tried = 1
    with ThreadPoolExecutor(cores) as pool:
        while tried < MOST_TRIED:
            batch = [p for _, p in zip(range(min(cores, MOST_TRIED - tried)), programs, strict=False)]
            if not batch:
                return
            tried += len(batch)
            yield from pool.map(attempt, batch)


def _programs(
    kernel: Kernel, dims: dict[str, int], facts: dict[str, TensorFacts], machine: Device, splits: bool = True
):
    """Plans, best first: the measured one, the model's, such as were measured for other shapes, its next candidates."""
    from threadloom.sched.reuse import Origin, from_afar, program_for

    bulk = {name: f.aligned for name, f in facts.items()}
    extents = {n: max(1, e) for n, e in dims.items()}
    if all(bulk.values()):  # what was measured had aligned tensors
        chosen = program_for(kernel, extents, machine)
        allowed = chosen.origin is not Origin.MODEL and (splits or chosen.program.combine is None)
        if allowed and not unaligned_copies(chosen.program, facts, extents):
            yield chosen.program
    outcome = plan(kernel, extents, machine, strides_ok=bulk, splits=splits)
    while unaligned := unaligned_copies(outcome.best, facts, extents):
        bulk |= dict.fromkeys(unaligned, False)
        outcome = plan(kernel, extents, machine, strides_ok=bulk, splits=splits)
    yield outcome.best
    if all(bulk.values()):
        for program in from_afar(kernel, extents, machine, outcome.best.predicted_ns):
            if (splits or program.combine is None) and not unaligned_copies(program, facts, extents):
                yield program
    further = _further(kernel, extents, machine, bulk, outcome.candidates)
    for candidate in itertools.chain(outcome.candidates[1:], further):
        program = proved_program(candidate)
        if program is not None and not unaligned_copies(program, facts, extents):
            yield program


def _further(
    kernel: Kernel, dims: dict[str, int], machine: Device, bulk: dict[str, bool], tried: tuple[Candidate, ...]
) -> Iterator[Candidate]:
    """Partitions that the search did not schedule as they cannot win, now that all it did schedule have faults: first
    those that ask for fewer registers than any of these."""
    known = {_identity(c) for c in tried}
    least = min(map(_register_bytes, tried))
    wider = plan(kernel, dims, machine, strides_ok=bulk, breadth=len(tried) + MOST_TRIED, splits=False)
    new = [c for c in wider.candidates if _identity(c) not in known]
    yield from sorted(new, key=lambda c: _register_bytes(c) >= least)


def _identity(made: Candidate) -> tuple:
    return made.partition, made.context.granularity, made.context.device.name


def _register_bytes(made: Candidate) -> int:
    """Bytes of what one worker holds in registers: its tiles, and most of what an sTask needs for itself."""
    units, tasks = made.placement.units, made.context.graph.tasks
    own = (live_bytes(t, made.sizes, units[t.name].split) for t in tasks if t.kind is Kind.VECTOR)
    tiles = sum(p.bytes_per_slot for p in made.placement.places.values() if p.space == "reg")
    return tiles + max(own, default=0)


def unaligned_copies(program: SProgram, facts: dict[str, TensorFacts], extents: dict[str, int]) -> set[str]:
    """Tensors whose bulk copies would begin within 16 bytes. The planner takes the last dimension for the contiguous
    one, so it cannot see this of transposed tensors."""
    from threadloom.sched.boxes import has_rows
    from threadloom.sched.sizes import axis_extents, sizes_of

    graph = program.graph
    sizes = sizes_of(graph, program.partition, axis_extents(graph, extents))
    issued = {i.task for s in program.sections for i in s.instrs
              if isinstance(i, Issue) and i.method is Method.BULK_COPY}  # fmt: skip
    found = set()
    for op in (o for t in graph.tasks if t.name in issued for o in t.ops if isinstance(o, Load | Store)):
        if op.tensor not in facts:  # between two kernels
            continue
        dim = facts[op.tensor].contiguous_dim
        if 0 <= dim < len(op.subscripts) - 1:
            rest = (*op.subscripts[:dim], *op.subscripts[dim + 1 :])
            if not has_rows(replace(op, subscripts=(*rest, op.subscripts[dim])), graph, sizes):
                found.add(op.tensor)
    return found if program.combine is None else found | unaligned_copies(program.combine, facts, extents)


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
