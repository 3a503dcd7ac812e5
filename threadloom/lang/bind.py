"""Checks a call's arguments against the signature, all at once, and gives every dimension its extent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from threadloom.arrays import ArrayView, allocate, storage_dtype, wrap
from threadloom.arrays_device import LEGACY_STREAM, DeviceArray, byte_range
from threadloom.dtypes import Dtype, numpy_dtype, u4
from threadloom.errors import CompileError, slug
from threadloom.lang.dims import Formula
from threadloom.lang.signature import ConstParam, FunctionParam, ScalarParam, Signature, TensorParam
from threadloom.tile.ops import Access, Dim, Kernel, Tensor

ARGUMENTS = slug("arguments", "the arguments of a call do not fit the kernel's signature")
TWO_DEVICES = slug("two-devices", "the arguments of a call are on different devices")

MOST_PLACES = 1 << 20  # of an array that are compared one by one


@dataclass(frozen=True, slots=True)
class Given:
    """A call's arguments sorted by kind, before dimensions are bound."""

    tensors: dict[str, ArrayView]
    scalars: dict[str, float | int | bool]
    consts: dict[str, object]
    dtypes: dict[str, Dtype]
    outputs: dict[str, object]  # what the caller gave to be filled, or None


@dataclass(frozen=True, slots=True)
class Call:
    """Everything a launch needs: `arrays` by tensor name (u4 still packed), extents by dimension name, scalars.

    `device`: "cpu", or "cuda:0", where all arrays are `DeviceArray`s; `stream`: the CUstream to launch on, None for
    torch's current one; `others`: further streams that arrays are made or used on.
    """

    kernel: Kernel
    arrays: dict[str, np.ndarray | DeviceArray]
    dims: dict[str, int]
    scalars: dict[str, float | int | bool]
    results: tuple[object, ...] = ()  # the caller's or newly made output objects, in the signature's order
    device: str = "cpu"
    stream: int | None = None
    others: tuple[int, ...] = ()


def sort_arguments(name: str, signature: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Given:
    """Match arguments to parameters; constants, functions and dtype variables are settled here."""
    values = _by_name(name, signature, args, kwargs)
    problems: list[str] = []
    given = Given({}, {}, {}, {}, {o.name: values[o.name] for o in signature.outputs})
    for param in signature.params:
        value = values[param.name]
        match param:
            case TensorParam():
                given.tensors[param.name] = wrap(value, param.name)
            case ScalarParam():
                given.scalars[param.name] = _scalar(param, value, problems)
            case ConstParam() | FunctionParam():
                given.consts[param.name] = _const(param, value, problems)
    for param in (*signature.tensors(), *signature.outputs):
        if isinstance(variable := param.spec.dtype, str):
            _bind_dtype(param, variable, given, problems)
    _raise_all(name, problems)
    return given


def _by_name(
    name: str, signature: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Mapping[str, object]:
    """Every parameter's value; inspect's binding is slow, so it only sees calls that are out of the ordinary."""
    positional = signature.positional
    if len(args) <= len(positional):
        values = {**signature.defaults, **dict(zip(positional, args, strict=False)), **kwargs}
        doubled = kwargs and any(k in kwargs for k in positional[: len(args)])
        if len(values) == len(signature.python.parameters) and not doubled and values.keys() == signature.names:
            return values
    parameters = f"its parameters are {signature.python}"
    for unknown in kwargs.keys() - signature.names:  # Python would name a missing parameter first
        near = "".join(get_close_matches(unknown, signature.names, 1))
        advice = f"did you mean {near}?" if near else ""
        what = f"{name}: got an unexpected keyword argument {unknown!r}"
        raise CompileError(ARGUMENTS, what, why=parameters, try_=advice)
    try:
        bound = signature.python.bind(*args, **kwargs)
    except TypeError as error:
        raise CompileError(ARGUMENTS, f"{name}: {error}", why=parameters) from None
    bound.apply_defaults()
    return bound.arguments


def _scalar(param: ScalarParam, value: object, problems: list[str]) -> float | int | bool:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        if _is_on_gpu(value):
            problems.append(f"{param.name} is on a GPU and reading it would wait for it: give {param.name}.item()")
            return 0
        value = value.item()
    allowed = {"float": int | float, "int": int, "uint": int, "bool": bool}[param.dtype.kind]
    if not isinstance(value, allowed) or (isinstance(value, bool) and param.dtype.kind != "bool"):
        problems.append(f"{param.name} is {value!r}, not a scalar {param.dtype.name}")
        return 0
    if param.dtype.is_integer:
        bits = param.dtype.bits - (param.dtype.kind == "int")
        if not (-(2**bits) if param.dtype.kind == "int" else 0) <= value < 2**bits:
            problems.append(f"{param.name} is {value}, which does not fit {param.dtype.name}")
    return value


def _is_on_gpu(value: object) -> bool:
    return value.is_cuda if hasattr(value, "is_cuda") else hasattr(value, "__cuda_array_interface__")


def _const(param: ConstParam | FunctionParam, value: object, problems: list[str]) -> object:
    if isinstance(param, FunctionParam):
        if not callable(value):
            problems.append(f"{param.name} is {value!r}, not a function")
    elif isinstance(param.type, type) and not isinstance(value, param.type):
        problems.append(f"{param.name} is {value!r}, not of type {param.type.__name__}")
    try:
        hash(value)
    except TypeError:
        problems.append(f"{param.name} is a {type(value).__name__}: a compile-time constant must be hashable")
    return value


def _bind_dtype(param: TensorParam, variable: str, given: Given, problems: list[str]) -> None:
    view = given.tensors.get(param.name)
    if view is None:  # an output: a given array may be the only one to say
        array = given.outputs.get(param.name)
        if variable not in given.dtypes:
            if array is None:
                problems.append(f"dtype {variable} of output {param.name} is not determined by the inputs")
                return
            given.dtypes[variable] = wrap(array, param.name).dtype
        return
    known = given.dtypes.setdefault(variable, view.dtype)
    if known is not view.dtype:
        problems.append(f"{param.name} has dtype {view.dtype.name}, but {variable} is {known.name} already")


def _raise_all(name: str, problems: list[str], advice: str = "") -> None:
    if problems:
        text = f" {problems[0]}" if len(problems) == 1 else "".join(f"\n    - {p}" for p in problems)
        raise CompileError(ARGUMENTS, f"call of {name}:{text}", try_=advice)


# ---------------------------------------------------------------- dimensions


@dataclass(slots=True)
class _Dims:
    """Extents by dimension, with where each came from for the messages."""

    formulas: dict[str, Formula]
    extents: dict[str, int] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    advice: str = ""
    unread: set[Dim] = field(default_factory=set)  # those of arguments with another number of dimensions

    def meet(self, tensor: Tensor, at: int, extent: int) -> None:
        dim, place = tensor.dims[at], f"dimension {at} of {tensor.name}"
        if isinstance(dim, int):
            if extent != dim and not self._odd(tensor, at, extent, dim):
                self.problems.append(f"{place} is {extent}, not {dim}")
            return
        if dim in self.formulas:
            return  # after the plain names
        known = self.extents.setdefault(dim, extent)
        self.origin.setdefault(dim, place)
        if known != extent and not self._odd(tensor, at, extent, known):
            self.problems.append(f"{place} is {extent}, but {dim} is {known} ({self.origin[dim]})")

    def _odd(self, tensor: Tensor, at: int, extent: int, wanted: int) -> bool:
        """A last dimension of u4 may end in the middle of a byte."""
        return _is_packed(tensor, at) and extent - 1 == wanted

    def why_unknown(self, dim: Dim, tensors: list[tuple[Tensor, tuple[int, ...]]]) -> str:
        for formula in self.formulas.values():
            if dim in formula.names:
                for place, extent in _places(formula, tensors):
                    return f"cannot be told from {formula.text} = {extent} ({place})"
        return "is given by no argument"

    def settle_formulas(self, tensors: list[tuple[Tensor, tuple[int, ...]]]) -> None:
        for formula in self.formulas.values():  # a tensor whose dim is a formula may settle the one unknown name
            for place, extent in _places(formula, tensors):
                for name, value in formula.solve(self.extents, extent).items():
                    self.extents[name] = value
                    self.origin[name] = f"from {formula.text} = {extent}, {place}"
        for formula in self.formulas.values():
            places = _places(formula, tensors)
            missing = [n for n in formula.names if n not in self.extents]
            if missing and not places:
                self.problems.append(f"dimension {formula.text} needs {', '.join(missing)}, which no argument gives")
                continue
            value = places[0][1] if missing else formula.value(self.extents)
            self.extents[formula.name] = value
            for place, extent in places:
                if extent != value:
                    self.problems.append(f"{place} is {extent}, but {formula.text} is {value}")


def _is_packed(tensor: Tensor, at: int) -> bool:
    return tensor.dtype is u4 and at == len(tensor.dims) - 1


def _places(formula: Formula, tensors: list[tuple[Tensor, tuple[int, ...]]]) -> list[tuple[str, int]]:
    return [
        (f"dimension {at} of {tensor.name}", shape[at])
        for tensor, shape in tensors
        for at, dim in enumerate(tensor.dims)
        if dim == formula.name
    ]


def logical_shape(view: ArrayView, tensor: Tensor) -> tuple[int, ...]:
    """The shape in elements: bytes of u4 hold two."""
    shape = view.array.shape
    return (*shape[:-1], shape[-1] * 2) if tensor.dtype is u4 and shape else shape


def bind_call(kernel: Kernel, formulas: tuple[Formula, ...], known: dict[Shapes, Extents], given: Given) -> Call:
    """Check dtypes and shapes, settle the dimensions, make the outputs. `known` remembers the extents of shapes that
    have been checked."""
    views = dict(given.tensors)
    views |= {name: wrap(array, name) for name, array in given.outputs.items() if array is not None}
    device = _device_of(kernel, views)
    shapes = tuple((name, view.array.shape, view.dtype.name) for name, view in views.items())
    extents = known.get(shapes)
    if extents is None:
        extents = settle_shapes(kernel, formulas, views)
        if len(known) >= 1024:
            known.clear()
        known[shapes] = extents
    framework = next((v.framework for v in given.tensors.values()), "numpy")
    results = [_output(kernel, name, array, extents, framework, device) for name, array in given.outputs.items()]
    arrays = {name: view.array for name, view in views.items()}
    for name, result in zip(given.outputs, results, strict=True):
        if name not in arrays:
            arrays[name] = wrap(result, name).array
    for name, array in given.outputs.items():
        if array is not None:
            _check_given(kernel, name, views[name], arrays)
    return Call(kernel, arrays, extents, given.scalars, tuple(results), device, *_streams_of(arrays, device))


def _device_of(kernel: Kernel, views: Mapping[str, ArrayView]) -> str:
    """The one device that all arrays are on."""
    places: dict[str, list[str]] = {}
    for name, view in views.items():
        places.setdefault(view.device, []).append(name)
    if len(places) > 1:
        where = "; ".join(f"{', '.join(names)} on {device}" for device, names in places.items())
        raise CompileError(
            TWO_DEVICES,
            f"call of {kernel.name}: {where}",
            why="a kernel runs on one device and copies nothing by itself",
            try_="move them to one device, as in x.to(other.device)",
        )
    return next(iter(places), "cpu")


def _streams_of(arrays: Mapping[str, np.ndarray | DeviceArray], device: str) -> tuple[int | None, tuple[int, ...]]:
    """(stream to launch on, other streams that arrays are ready on): torch's (None) where a torch tensor takes part."""
    named = dict.fromkeys(a.stream for a in arrays.values()) if device != "cpu" else {}
    if None in named or not named:
        return None, tuple(s for s in named if s is not None)
    first = next((s for s in named if s != LEGACY_STREAM), LEGACY_STREAM)
    return first, tuple(s for s in named if s != first)


Shapes = tuple[tuple[str, tuple[int, ...], str], ...]  # name, shape in memory, dtype of each given array
Extents = dict[str, int]


def settle_shapes(kernel: Kernel, formulas: tuple[Formula, ...], views: Mapping[str, ArrayView]) -> Extents:
    """The extent of every dimension; one error names everything that does not fit."""
    dims = _Dims({f.name: f for f in formulas})
    shaped: list[tuple[Tensor, tuple[int, ...]]] = []
    for tensor in kernel.tensors:
        if tensor.name in views:
            _check_kind(tensor, views[tensor.name], dims, shaped)
    places = [(tensor, at, extent) for tensor, shape in shaped for at, extent in enumerate(shape)]
    places.sort(key=lambda p: _is_packed(p[0], p[1]))  # last: the others say whether the last byte is full
    for tensor, at, extent in places:
        dims.meet(tensor, at, extent)
    dims.settle_formulas(shaped)
    for dim in _named_dims(kernel):
        if dim not in dims.extents and dim not in dims.unread and not (dims.problems and dim in dims.formulas):
            dims.problems.append(f"dimension {dim} {dims.why_unknown(dim, shaped)}")
    _raise_all(kernel.name, dims.problems, dims.advice)
    return dims.extents


def _casting(name: str, framework: str, dtype: Dtype) -> str:
    """How a caller casts argument `name` to `dtype`."""
    known = numpy_dtype(dtype).name
    return f"{name}.to(torch.{known})" if framework == "torch" else f'{name}.astype("{known}")'


def _check_kind(tensor: Tensor, view: ArrayView, dims: _Dims, shaped: list[tuple[Tensor, tuple[int, ...]]]) -> None:
    if view.dtype is not storage_dtype(tensor.dtype):
        stored = " (two u4 to a byte: u8)" if tensor.dtype is u4 else ""
        dims.problems.append(f"{tensor.name} has dtype {view.dtype.name}, not {tensor.dtype.name}{stored}")
        if tensor.access is Access.IN and tensor.dtype is not u4:  # an output would be cast into a copy
            dims.advice = dims.advice or _casting(tensor.name, view.framework, tensor.dtype)
    if (rank := view.array.ndim) != len(tensor.dims):
        wanted = f"{len(tensor.dims)} [{', '.join(map(str, tensor.dims))}]"
        dims.problems.append(f"{tensor.name} has {rank} dimension{'s' * (rank != 1)}, not {wanted}")
        dims.unread.update(tensor.dims)
        return
    shaped.append((tensor, logical_shape(view, tensor)))


def _named_dims(kernel: Kernel) -> list[Dim]:
    found = [d for t in kernel.tensors for d in t.dims] + [a.dim for a in kernel.axes]
    return [d for d in dict.fromkeys(found) if isinstance(d, str)]


def _output(
    kernel: Kernel, name: str, given: object, extents: Extents, framework: str, device: str
) -> object:
    if given is not None:
        return given
    tensor = next(t for t in kernel.tensors if t.name == name)
    shape = tuple(d if isinstance(d, int) else extents[d] for d in tensor.dims)
    return allocate(shape, tensor.dtype, framework, device)


def _check_given(
    kernel: Kernel, name: str, view: ArrayView, arrays: Mapping[str, np.ndarray | DeviceArray]
) -> None:
    """An output to be filled is writable, and shares no memory with another argument, which would then be read after
    it is written."""
    if not view.writable:
        raise CompileError(ARGUMENTS, f"call of {kernel.name}: {name} is read-only")
    if _overlaps_itself(view.array):
        raise CompileError(
            ARGUMENTS,
            f"call of {kernel.name}: elements of {name} share memory with each other",
            why="a stored value would overwrite others",
            try_=f"{name}= an array with an element for each index, such as a copy",
        )
    for other, memory in arrays.items():
        if other != name and _share(view.array, memory):
            raise CompileError(
                ARGUMENTS,
                f"call of {kernel.name}: {name} shares memory with {other}",
                why="tiles are read and written in no fixed order",
                try_=f"{name}= an array of its own",
            )


def _overlaps_itself(array: np.ndarray | DeviceArray) -> bool:
    """Whether two indices are one place: surely not where every stride steps over all that the smaller ones reach."""
    reach_bytes = array.itemsize
    dims = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    for stride_bytes, extent in dims:
        if stride_bytes < reach_bytes:
            break
        reach_bytes += stride_bytes * (extent - 1)
    else:
        return False
    if array.size > MOST_PLACES:
        return True  # no array that anyone makes by slicing
    places = np.zeros((), np.int64)
    for stride_bytes, extent in dims:
        places = np.add.outer(places, np.arange(extent) * stride_bytes)
    return bool(array.size) and bool((np.diff(np.sort(places, axis=None)) < array.itemsize).any())


def _share(a: np.ndarray | DeviceArray, b: np.ndarray | DeviceArray) -> bool:
    if isinstance(a, DeviceArray):
        (low, high), (other_low, other_high) = byte_range(a), byte_range(b)
        if high <= other_low or other_high <= low:
            return False
        a, b = a.addresses(), b.addresses()
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return False  # interleaved views of one array are the usual reason
