"""Calls that were made before, made again in a few microseconds: torch tensors of known forms on known devices.

The first call of a form goes the long way (bind, plan, compile, prepare). What it found is kept under a key that holds
everything the long way looks at but addresses and float scalars: types, shapes, strides, alignment, constants, device.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from threadloom.lang.signature import ScalarParam, Signature
from threadloom.targets.cuda.launch_written import Written, first_places, write_call
from threadloom.tile.ops import Access

if TYPE_CHECKING:
    from threadloom.lang.bind import Call
    from threadloom.targets.cuda.launch_prepared import Prepared

MOST_FORMS = 1024


@dataclass(frozen=True, slots=True)
class Form:
    """One known form. `order`: the prepared kernel's tensors as places among the call's tensors, or (-1 - k) for output
    k, which is to be made; `reaches`: bytes before and after the address that each tensor of the call touches;
    `written`: places of given outputs; `scalars`: the prepared kernel's, with 0 for `floats`: (place among them, place
    among the call's floats); `cleared`: (place in `order`, bytes) of outputs that atomic adds go to."""

    prepared: Prepared
    ordinal: int
    order: tuple[int, ...]
    given: tuple[int, ...]  # places of the call's tensors: 0, 1 ...
    made: tuple[object, ...]  # torch tensors to make outputs like (takes half the time of shape, type and device)
    results: tuple[int, ...]  # as `order`
    reaches: tuple[tuple[int, int], ...]
    written: tuple[int, ...]
    scalars: tuple[float | int | bool, ...]
    floats: tuple[tuple[int, int], ...]
    cleared: tuple[tuple[int, int], ...]
    apart: list[list[int] | None] = field(default_factory=lambda: [None])  # addresses last seen to be apart
    call: dict[tuple[int, ...], Written | None] = field(default_factory=dict)  # the form as functions of its own: by
    # which of the arguments are one object (`first_places`)


class Again:
    """Per kernel. `run` makes a call whose form is known, `learn` takes in what the long way found for another."""

    def __init__(self, signature: Signature):
        self._names = signature.positional
        floats = {p.name for p in signature.params if isinstance(p, ScalarParam) and p.dtype.is_float}
        self._float_scalars = frozenset(floats)
        self._is_float = tuple(name in floats for name in signature.positional)
        self._forms: dict[tuple, Form] = {}
        self.last: Written | None = None  # makes calls of the last call's form, NotImplemented for others
        self._torch = None

    def key(self, args: tuple, kwargs: Mapping[str, object]) -> tuple[tuple, list, list, list] | None:
        """(key, tensors, their addresses, floats), or None where only the long way knows."""
        torch = self._torch
        if torch is None and not self._find_torch():
            return None
        tensor_type, parameter_type = self._types
        key: list[object] = []
        tensors, addresses, floats = [], [], []
        for at, value in enumerate(args):
            kind = type(value)
            if kind is tensor_type or kind is parameter_type:
                if (value.requires_grad and self._torch.is_grad_enabled()) or value.is_neg():
                    return None
                address = value.data_ptr()
                strides = value.is_contiguous() or value.stride()
                key += (value.dtype, value.get_device(), value.shape, strides, address & 15)
                tensors.append(value)
                addresses.append(address)
            elif kind is float and self._is_float[at]:
                key.append(float)
                floats.append(value)
            else:
                key += (kind, value)
        for name, value in kwargs.items():
            kind = type(value)
            if kind is tensor_type or kind is parameter_type:
                if (value.requires_grad and self._torch.is_grad_enabled()) or value.is_neg():
                    return None
                address = value.data_ptr()
                strides = value.is_contiguous() or value.stride()
                key += (name, value.dtype, value.get_device(), value.shape, strides, address & 15)
                tensors.append(value)
                addresses.append(address)
            elif kind is float and name in self._float_scalars:
                key.append(name)
                floats.append(value)
            else:
                key += (name, kind, value)
        return tuple(key), tensors, addresses, floats

    def _find_torch(self) -> bool:
        from threadloom.targets.cuda import launch

        self._torch = torch = sys.modules.get("torch")
        if torch is None:
            return False
        self._types = torch.Tensor, torch.nn.Parameter
        self._stream, self._current_device = launch.torch_state()
        return True

    def run(self, args: tuple, kwargs: Mapping[str, object]) -> object:
        """The results, or NotImplemented where the form is not known. `last` is tried before."""
        found = self.key(args, kwargs) if len(args) <= len(self._names) else None
        if found is None:
            return NotImplemented
        key, tensors, pointers, floats = found
        try:
            form = self._forms.get(key)
        except TypeError:  # an argument that cannot be hashed
            return NotImplemented
        if form is None:
            return NotImplemented
        self.last = self._written(form, args, kwargs)
        if form.written and pointers != form.apart[0]:
            if not _apart(pointers, form):
                return NotImplemented
            form.apart[0] = pointers
        if form.made:
            empty_like = self._torch.empty_like
            made = [empty_like(pattern) for pattern in form.made]
            addresses = [pointers[at] if at >= 0 else made[-1 - at].data_ptr() for at in form.order]
        else:
            made = ()
            addresses = [pointers[at] for at in form.order] if form.order != form.given else pointers
        scalars = form.scalars
        if form.floats:
            scalars = list(scalars)
            for place, at in form.floats:
                scalars[place] = floats[at]
        stream = self._stream(form.ordinal)
        if form.cleared:
            _clear(form, addresses, stream)
        if form.prepared.blocks:
            form.prepared.launch(addresses, scalars, stream, self._current_device() == form.ordinal)
        if len(form.results) == 1:
            at = form.results[0]
            return tensors[at] if at >= 0 else made[-1 - at]
        return tuple([tensors[at] if at >= 0 else made[-1 - at] for at in form.results])

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
        form = _form(call, self._given(args, kwargs), prepared_for(call, ordinal), ordinal)
        if form is None:
            return
        if len(self._forms) >= MOST_FORMS:
            self._forms.clear()
            self.last = None
        self._forms[found[0]] = form

    def _written(self, form: Form, args: tuple, kwargs: Mapping[str, object]) -> Written | None:
        """The function of a form, made when it is wanted for the second time."""
        same = first_places((*args, *kwargs.values()))
        if same not in form.call:
            named = (*zip(self._names, args, strict=False), *kwargs.items())
            free = tuple(type(value) is float and name in self._float_scalars for name, value in named)
            state = self._stream, self._current_device
            form.call[same] = write_call(form, args, kwargs, free, self._torch, state, _apart)
        return form.call[same]

    def _given(self, args: tuple, kwargs: Mapping[str, object]) -> tuple[list[str], list[str]]:
        """Names of the tensors and of the floats, in the order of `key`."""
        named = [*zip(self._names, args, strict=False), *kwargs.items()]
        tensors = [name for name, value in named if type(value) in self._types]
        floats = [name for name, value in named if type(value) is float and name in self._float_scalars]
        return tensors, floats


def _form(call: Call, names: tuple[list[str], list[str]], prepared: Prepared, ordinal: int) -> Form | None:
    given, float_names = names
    outputs = [t for t in call.kernel.tensors if t.access is not Access.IN]
    new = [t.name for t in outputs if t.name not in given]
    made = []
    for name in new:
        result = call.results[[t.name for t in outputs].index(name)]
        if type(result).__module__.partition(".")[0] != "torch":
            return None
        made.append(result.new_empty(()).expand(result.shape) if result.numel() else result)
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
    scalars = prepared.scalars
    return Form(
        prepared, ordinal, tuple(place[t.name] for t in call.kernel.tensors), tuple(range(len(given))), tuple(made),
        tuple(place[t.name] for t in outputs), tuple(reaches), tuple(place[t.name] for t in outputs if t.name in given),
        tuple(0.0 if n in float_names else call.scalars[n] for n in scalars),
        tuple((scalars.index(name), at) for at, name in enumerate(float_names) if name in scalars), tuple(cleared),
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
