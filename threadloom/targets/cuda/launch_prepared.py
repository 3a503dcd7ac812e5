"""A kernel made ready for arguments of one form: what is left for a launch is to write addresses and scalars.

The parameters of a kernel (tensor maps, pointers, strides, extents, scalars) stand in one block of memory that is
written once; a launch replaces the addresses that changed since the last one. Nothing is allocated and nothing waits,
so that launches may be captured in CUDA graphs (the driver copies the parameters).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from threadloom.targets.cuda import driver, driver_calls

_SCALAR = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "bool": ctypes.c_bool,
    "f16": ctypes.c_float, "bf16": ctypes.c_float, "tf32": ctypes.c_float, "i8": ctypes.c_int32, "u8": ctypes.c_int32,
}  # fmt: skip

NOT_CURRENT = (201, 400)  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE: the thread has no, or another context


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a tensor map (128 bytes), an address of a tensor, a number fixed for the form, or a scalar.

    `what`: "map", "pointer", "number" or "scalar"; `name`: of its tensor or scalar; `value`: bytes of the map, or the
    ctypes number, or the ctypes type of the scalar.
    """

    what: str
    name: str
    value: object


class Prepared:
    """Launch with `launch(pointers, scalars, stream)`; `pointers` in the order of `tensors`, scalars in that of
    `scalars`."""

    def __init__(
        self,
        loaded: driver.LoadedKernel,
        tensors: Sequence[str],
        parameters: Sequence[Parameter],
        blocks: int,
        context: int,
    ):
        self.loaded, self.blocks, self.context = loaded, blocks, context
        self._calls = driver_calls.calls()
        self._lock = threading.Lock()
        self._now = ctypes.c_void_p()
        self._now_reference = ctypes.byref(self._now)
        self._config = driver_calls.launch_config(blocks, loaded.threads, loaded.shared_bytes, loaded.cluster)
        self._stream: int | None = None
        self._written: list[Sequence | None] = [None, None]  # addresses and scalars of the last launch
        self.scalars = tuple(p.name for p in parameters if p.what == "scalar")
        self._lay_out(tuple(tensors), parameters)
        self._arguments = (
            ctypes.byref(self._config), ctypes.c_void_p(loaded.function_handle), ctypes.byref(self._table), None,
        )  # fmt: skip

    def _lay_out(self, tensors: tuple[str, ...], parameters: Sequence[Parameter]) -> None:
        size = sum(driver_calls.MAP_BYTES if p.what == "map" else 8 for p in parameters)
        maps_first = sorted(range(len(parameters)), key=lambda at: parameters[at].what != "map")
        self._memory = ctypes.create_string_buffer(size + 64)
        base = -(-ctypes.addressof(self._memory) // 64) * 64
        addresses = [0] * len(parameters)
        self._maps: list[list[int]] = []  # [place among the pointers, address of the map, pointer in it]
        self._pointers: list[tuple[int, ctypes.c_void_p]] = []
        self._scalar_places: list[tuple[int, object]] = []
        for at in maps_first:
            p, addresses[at] = parameters[at], base
            if p.what == "map":
                ctypes.memmove(base, p.value, driver_calls.MAP_BYTES)
                self._maps.append([tensors.index(p.name), base, -1])
            elif p.what == "pointer":
                self._pointers.append((tensors.index(p.name), ctypes.c_void_p.from_address(base)))
            elif p.what == "number":
                ctypes.memmove(base, ctypes.addressof(p.value), ctypes.sizeof(p.value))
            else:
                self._scalar_places.append((self.scalars.index(p.name), p.value.from_address(base)))
            base += driver_calls.MAP_BYTES if p.what == "map" else 8
        self._table = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)

    def launch(
        self, pointers: Sequence[int], scalars: Sequence[float | int | bool], stream: int, current: bool | None = None
    ) -> None:
        """Put the kernel on `stream`, on its own device whichever is current. `scalars`: values in the order of
        `self.scalars`; `current`: whether its device is the thread's current one, where the caller knows."""
        with self._lock:
            if pointers != self._written[0]:
                self._write_addresses(pointers)
            if scalars != self._written[1]:
                for at, place in self._scalar_places:
                    place.value = scalars[at]
                self._written[1] = scalars
            if stream != self._stream:
                self._config.stream = self._stream = stream
            if current is None:
                self._calls.current_context(self._now_reference)
                current = self._now.value == self.context
            status = self._calls.launch_ex(*self._arguments) if current else NOT_CURRENT[0]
            if status in NOT_CURRENT:
                with driver_calls.OnContext(self.context):
                    status = self._calls.launch_ex(*self._arguments)
        if status:
            what = f"launching {self.loaded.name} with {self.blocks} blocks of {self.loaded.threads} threads"
            driver.raise_status(status, what)

    def _write_addresses(self, pointers: Sequence[int]) -> None:
        self._written[0] = None
        for known in self._maps:
            pointer = pointers[known[0]] or driver.NOWHERE
            if pointer != known[2]:
                status = self._calls.replace_address(known[1], pointer)
                if status:
                    driver.raise_status(status, f"describing a tensor for {self.loaded.name}")
                known[2] = pointer
        for at, place in self._pointers:
            place.value = pointers[at]
        self._written[0] = pointers


def number(value: int, kind: type = ctypes.c_int32) -> Parameter:
    return Parameter("number", "", kind(value))


def scalar(name: str, dtype: str) -> Parameter:
    return Parameter("scalar", name, _SCALAR[dtype])
