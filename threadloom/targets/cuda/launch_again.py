"""Calls that were made before, made again in a few microseconds: torch tensors of known forms on known devices.

The first call of a form goes the long way (bind, plan, compile, prepare). What it found is kept under a key that holds
everything the long way looks at but addresses and float scalars: types, shapes, strides, alignment, constants, device.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.lang.signature import ScalarParam, Signature
from threadloom.tile.ops import Access

if TYPE_CHECKING:
    from threadloom.lang.bind import Call
    from threadloom.targets.cuda.launch_prepared import Prepared

MOST_FORMS = 1024


@dataclass(frozen=True, slots=True)
class Form:
    """One known form. `order`: the prepared kernel's tensors as places among the call's tensors, or (-1 - k) for output
    k, which is to be made; `reaches`: bytes before and after the address that each tensor of the call touches;
    `written`: places of given outputs; `scalars`: of floats: parameter -> place among the floats; `fixed`: others;
    `cleared`: (place in `order`, bytes) of outputs that atomic adds go to."""

    prepared: Prepared
    ordinal: int
    order: tuple[int, ...]
    made: tuple[tuple[tuple[int, ...], object, object], ...]  # (shape, torch dtype, device) of outputs to make
    results: tuple[int, ...]  # as `order`
    reaches: tuple[tuple[int, int], ...]
    written: tuple[int, ...]
    floats: tuple[tuple[str, int], ...]
    fixed: dict[str, float | int | bool]
    cleared: tuple[tuple[int, int], ...]


class Again:
    """Per kernel. `find` gives the key of a call, or None where only the long way knows; `run` and `learn` take it."""

    def __init__(self, signature: Signature):
        self._names = signature.positional
        self._float_scalars = frozenset(
            p.name for p in signature.params if isinstance(p, ScalarParam) and p.dtype.is_float
        )
        self._forms: dict[tuple, Form] = {}
        self._torch = None

    def key(self, args: tuple, kwargs: Mapping[str, object]) -> tuple[tuple, list, list] | None:
        """(key, tensors, floats)."""
        torch = self._torch
        if torch is None:
            torch = self._torch = sys.modules.get("torch")
            if torch is None:
                return None
            from threadloom.targets.cuda.launch import current_stream

            self._types, self._stream = (torch.Tensor, torch.nn.Parameter), current_stream
        types, key, tensors, floats = self._types, [], [], []
        named = zip(self._names, args, strict=False)
        for name, value in (*named, *kwargs.items()) if kwargs else named:
            kind = type(value)
            if kind in types:
                if (value.requires_grad and torch.is_grad_enabled()) or value.is_neg() or value.is_conj():
                    return None
                key += (name, value.dtype, value.device, value.shape, value.stride(), value.data_ptr() & 15)
                tensors.append(value)
            elif kind is float and name in self._float_scalars:
                key.append(name)
                floats.append(value)
            else:
                key += (name, kind, value)
        return tuple(key), tensors, floats

    def run(self, args: tuple, kwargs: Mapping[str, object]) -> object:
        """The results, or NotImplemented where the form is not known."""
        found = self.key(args, kwargs)
        try:
            form = self._forms.get(found[0]) if found is not None else None
        except TypeError:  # an argument that cannot be hashed
            return NotImplemented
        if form is None:
            return NotImplemented
        _, tensors, floats = found
        pointers = [t.data_ptr() for t in tensors]
        if form.written and not _apart(pointers, form):
            return NotImplemented
        empty = self._torch.empty
        made = [empty(shape, dtype=dtype, device=device) for shape, dtype, device in form.made]
        addresses = [pointers[at] if at >= 0 else made[-1 - at].data_ptr() for at in form.order]
        scalars = form.fixed
        if form.floats:
            scalars = dict(scalars)
            for name, at in form.floats:
                scalars[name] = floats[at]
        stream = self._stream(form.ordinal)
        if form.cleared:
            _clear(form, addresses, stream)
        if form.prepared.blocks:
            form.prepared.launch(addresses, scalars, stream)
        results = tuple([tensors[at] if at >= 0 else made[-1 - at] for at in form.results])
        return results[0] if len(results) == 1 else results

    def learn(self, args: tuple, kwargs: Mapping[str, object], call: Call) -> None:
        """Keep what the long way found for a call that it has just launched."""
        from threadloom.targets.cuda.launch import ordinal_of, prepared_for

        try:
            found = self.key(args, kwargs)
            if found is None or call.stream is not None or call.others or found[0] in self._forms:
                return
        except TypeError:
            return
        ordinal = ordinal_of(call.device)
        form = _form(call, found[1], found[2], self._given(args, kwargs), prepared_for(call, ordinal), ordinal)
        if form is None:
            return
        if len(self._forms) >= MOST_FORMS:
            self._forms.clear()
        self._forms[found[0]] = form

    def _given(self, args: tuple, kwargs: Mapping[str, object]) -> tuple[list[str], list[str]]:
        """Names of the tensors and of the floats, in the order of `key`."""
        named = [*zip(self._names, args, strict=False), *kwargs.items()]
        tensors = [name for name, value in named if type(value) in self._types]
        floats = [name for name, value in named if type(value) is float and name in self._float_scalars]
        return tensors, floats


def _form(
    call: Call, tensors: list, floats: list, names: tuple[list[str], list[str]], prepared: Prepared, ordinal: int
) -> Form | None:
    given, float_names = names
    outputs = [t for t in call.kernel.tensors if t.access is not Access.IN]
    new = [t.name for t in outputs if t.name not in given]
    made = []
    for name in new:
        result = call.results[[t.name for t in outputs].index(name)]
        if type(result).__module__.partition(".")[0] != "torch":
            return None
        made.append((tuple(result.shape), result.dtype, result.device))
    if any(t.name not in given and t.name not in new for t in call.kernel.tensors):
        return None
    place = {name: at for at, name in enumerate(given)} | {name: -1 - at for at, name in enumerate(new)}
    from threadloom.arrays_device import byte_range

    reaches = []
    for name in given:
        array = call.arrays[name]
        low, high = byte_range(array)
        reaches.append((low - array.pointer, high - array.pointer))
    cleared = []
    for at, tensor in enumerate(call.kernel.tensors):
        if tensor.access is Access.INOUT:
            array = call.arrays[tensor.name]
            if not array.is_contiguous:
                return None
            cleared.append((at, array.size * array.itemsize))
    scalars = {name: value for name, value in call.scalars.items() if name not in float_names}
    return Form(
        prepared, ordinal, tuple(place[t.name] for t in call.kernel.tensors), tuple(made),
        tuple(place[t.name] for t in outputs), tuple(reaches), tuple(place[t.name] for t in outputs if t.name in given),
        tuple((name, at) for at, name in enumerate(float_names)), scalars, tuple(cleared),
    )  # fmt: skip


def _apart(pointers: list[int], form: Form) -> bool:
    """Whether no given output touches the range of another tensor; where it does, the long way looks closer."""
    for at in form.written:
        low, high = pointers[at] + form.reaches[at][0], pointers[at] + form.reaches[at][1]
        for other, pointer in enumerate(pointers):
            if other != at and pointer + form.reaches[other][0] < high and low < pointer + form.reaches[other][1]:
                return False
    return True


def _clear(form: Form, addresses: list[int], stream: int) -> None:
    from threadloom.targets.cuda import driver, driver_calls

    with driver_calls.OnContext(form.prepared.context):
        for at, size_bytes in form.cleared:
            if size_bytes and (status := driver_calls.calls().fill_bytes(addresses[at], 0, size_bytes, stream)):
                driver.raise_status(status, f"clearing an output of {form.prepared.loaded.name}")
