"""Runs calls on this machine's cores: plans once per kind of shape, compiles once per form of arguments.

    call -> (extents, strides, alignment) -> code            known: some microseconds
                                          -> plan, compile   new: a plan of the model, tens of milliseconds of LLVM

A plan serves all shapes of its bucket (extents that are equal up to a quarter of their power of two); code serves all
calls of its form. Nothing is measured here.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from threadloom import env
from threadloom.lang.bind import Call
from threadloom.machine.cpu import host
from threadloom.sched.ops import SProgram
from threadloom.targets.cpu.between import Kept
from threadloom.targets.cpu.compile import (
    Compiled,
    arguments_of,
    clear_accumulated,
    compile_schedule,
    cpu_schedule,
    host_target,
    pack_arguments,
)
from threadloom.targets.cpu.schedule import CpuSchedule, Form, form_of
from threadloom.tile.ops import Kernel
from threadloom.time_limit import compile_within_limit

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Code for one set of extents and strides; `words` are its arguments, but for addresses and scalars."""

    compiled: Compiled
    words: bytes
    addresses: tuple[tuple[str, int], ...]  # tensor -> its place among the words
    first_scalar: int
    after: Ready | None = None  # combines the parts that this one makes, which it hands over in `between`
    between: Kept | None = None


@dataclass(slots=True)
class Known:
    """What has been made for one kernel. `kernel` keeps the object alive whose id is the key."""

    kernel: Kernel
    schedules: dict[Key, tuple[CpuSchedule, ...]] = field(default_factory=dict)  # one after the other
    programs: dict[Key, SProgram] = field(default_factory=dict)
    compiled: dict[tuple[int, Form], Compiled] = field(default_factory=dict)
    ready: dict[Key, Ready] = field(default_factory=dict)


_known: dict[int, Known] = {}
_lock = threading.Lock()


def launch_on_cpu(call: Call) -> None:
    """Fill the call's outputs."""
    known = _known.get(id(call.kernel))
    if known is None:
        with _lock:
            known = _known.setdefault(id(call.kernel), Known(call.kernel))
    arrays = call.arrays
    key = (
        tuple(call.dims.values()),
        *((a.strides, a.__array_interface__["data"][0] % 64 == 0) for a in arrays.values()),
    )
    ready = known.ready.get(key)
    if ready is None:
        with _lock:
            ready = known.ready.get(key) or _prepare(known, call)
            known.ready[key] = ready
    run(ready, call)


def forget(kernel: Kernel) -> None:
    """Have the next call plan anew."""
    with _lock:
        _known.pop(id(kernel), None)


def run(ready: Ready, call: Call) -> None:
    clear_accumulated(call.kernel, call.arrays, call.dims)
    if ready.after is None or ready.between is None:
        _start(ready, call.arrays, call)
        return
    between = ready.between.take()
    arrays = {**call.arrays, **between}
    _start(ready, arrays, call)
    _start(ready.after, arrays, call)
    ready.between.give(between)


def _start(ready: Ready, arrays: Mapping[str, np.ndarray], call: Call) -> None:
    words = ctypes.create_string_buffer(ready.words, len(ready.words))
    slots = (ctypes.c_int64 * (len(ready.words) // 8)).from_buffer(words)
    for name, at in ready.addresses:
        slots[at] = arrays[name].__array_interface__["data"][0]
    for at, scalar in enumerate(ready.compiled.words.scalars, ready.first_scalar):
        value = call.scalars[scalar.name]
        if scalar.dtype.is_float:
            ctypes.c_double.from_buffer(words, 8 * at).value = float(value)
        else:
            slots[at] = int(value)
    ready.compiled.entry(ctypes.addressof(words))


def _prepare(known: Known, call: Call) -> Ready:
    """Plan and compile what is missing for this call."""
    program, schedules = _schedules(known, call)
    if (folder := env.read("LOOM_DUMP")) and not any(id(schedules[0]) == made for made, _ in known.compiled):
        from threadloom.dump import dump_call

        dump_call(call, Path(folder))
    if len(schedules) == 1:
        return _ready(known, call, schedules[0], call.arrays)
    kept = Kept(program, call.dims)
    between = kept.take()
    first, second = (_ready(known, call, s, {**call.arrays, **between}) for s in schedules)
    kept.give(between)
    return replace(first, after=second, between=kept)


def _ready(known: Known, call: Call, schedule: CpuSchedule, arrays: Mapping[str, np.ndarray]) -> Ready:
    arguments = arguments_of(schedule, arrays)
    form = form_of(schedule, call.dims, arguments)
    compiled = known.compiled.get((id(schedule), form))
    if compiled is None:
        compiled = compile_within_limit(known.kernel, lambda: compile_schedule(schedule, form, host_target()))
        known.compiled[id(schedule), form] = compiled
    words = compiled.words
    packed = pack_arguments(words, arguments, call.dims, {s.name: 0 for s in words.scalars})
    places, at = [], 0
    for name, rank in zip(words.tensors, words.ranks, strict=True):
        places.append((name, at))
        at += 1 + rank
    return Ready(compiled, bytes(packed), tuple(places), at + len(words.dims))


def _schedules(known: Known, call: Call) -> tuple[SProgram, tuple[CpuSchedule, ...]]:
    from threadloom.sched.reuse import program_for

    bucket = tuple(_bucket(extent) for extent in call.dims.values())
    if bucket not in known.schedules:
        dims = {name: max(1, extent) for name, extent in call.dims.items()}
        program = known.programs[bucket] = program_for(call.kernel, dims, host()).program
        programs = (program,) if program.combine is None else (program, program.combine)
        known.schedules[bucket] = tuple(map(cpu_schedule, programs))
    return known.programs[bucket], known.schedules[bucket]


def _bucket(extent: int) -> int:
    """`extent` rounded up to a multiple of a quarter of the power of two below it."""
    step = max(1, 1 << max(0, extent.bit_length() - 3))
    return -(-extent // step) * step
