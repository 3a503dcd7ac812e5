"""Runs calls on this machine's cores: plans once per kind of shape, compiles once per form of arguments.

    call -> (extents, strides, alignment) -> code            known: some microseconds
                                          -> plan, compile   new: a plan of the model, tens of milliseconds of LLVM

A plan serves all shapes of its bucket (extents that are equal up to a quarter of their power of two); code serves all
calls of its form. Nothing is measured here.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field
from pathlib import Path

from threadloom import env
from threadloom.lang.bind import Call
from threadloom.machine.cpu import host
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

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Code for one set of extents and strides; `words` are its arguments, but for addresses and scalars."""

    compiled: Compiled
    words: bytes
    addresses: tuple[tuple[str, int], ...]  # tensor -> its place among the words
    first_scalar: int


@dataclass(slots=True)
class Known:
    """What has been made for one kernel. `kernel` keeps the object alive whose id is the key."""

    kernel: Kernel
    schedules: dict[Key, CpuSchedule] = field(default_factory=dict)
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
    words = ctypes.create_string_buffer(ready.words, len(ready.words))
    slots = (ctypes.c_int64 * (len(ready.words) // 8)).from_buffer(words)
    for name, at in ready.addresses:
        slots[at] = call.arrays[name].__array_interface__["data"][0]
    for at, scalar in enumerate(ready.compiled.words.scalars, ready.first_scalar):
        value = call.scalars[scalar.name]
        if scalar.dtype.is_float:
            ctypes.c_double.from_buffer(words, 8 * at).value = float(value)
        else:
            slots[at] = int(value)
    ready.compiled.entry(ctypes.addressof(words))


def _prepare(known: Known, call: Call) -> Ready:
    """Plan and compile what is missing for this call."""
    schedule = _schedule(known, call)
    arguments = arguments_of(schedule, call.arrays)
    form = form_of(schedule, call.dims, arguments)
    compiled = known.compiled.get((id(schedule), form))
    if compiled is None:
        if folder := env.read("LOOM_DUMP"):
            from threadloom.dump import dump_call

            dump_call(call, Path(folder))
        compiled = compile_schedule(schedule, form, host_target())
        known.compiled[id(schedule), form] = compiled
    words = compiled.words
    packed = pack_arguments(words, arguments, call.dims, {s.name: 0 for s in words.scalars})
    places, at = [], 0
    for name, rank in zip(words.tensors, words.ranks, strict=True):
        places.append((name, at))
        at += 1 + rank
    return Ready(compiled, bytes(packed), tuple(places), at + len(words.dims))


def _schedule(known: Known, call: Call) -> CpuSchedule:
    from threadloom.sched.reuse import program_for

    bucket = tuple(_bucket(extent) for extent in call.dims.values())
    if bucket not in known.schedules:
        dims = {name: max(1, extent) for name, extent in call.dims.items()}
        known.schedules[bucket] = cpu_schedule(program_for(call.kernel, dims, host()).program)
    return known.schedules[bucket]


def _bucket(extent: int) -> int:
    """`extent` rounded up to a multiple of a quarter of the power of two below it."""
    step = max(1, 1 << max(0, extent.bit_length() - 3))
    return -(-extent // step) * step
