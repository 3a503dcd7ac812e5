"""Data for a kernel that the command line names: the file's own `inputs`, or random arrays made from the signature."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from threadloom.cli import UsageError
from threadloom.cli.kernel_argument import Chosen, ask_file
from threadloom.dtypes import ALL, Dtype, numpy_dtype, u4
from threadloom.lang.bind import Call, sort_arguments
from threadloom.lang.signature import ConstParam, FunctionParam, Param, ScalarParam
from threadloom.tile.ops import Access, Kernel, Tensor

if TYPE_CHECKING:
    from threadloom.lang.dims import Formula

SEED = 20260101
INDEX_LIMIT = 8  # integers are often indices: small ones stay inside most tensors (outside, a load gives 0)


def make_inputs(chosen: Chosen, dtype: str | None = None, shape: Mapping[str, int] | None = None) -> dict[str, object]:
    """The kernel's arguments by name, the same at every call."""
    return {**_unset_inputs(chosen, dtype, shape), **chosen.settings}


def _unset_inputs(chosen: Chosen, dtype: str | None, shape: Mapping[str, int] | None) -> dict[str, object]:
    rng, extents = np.random.default_rng(SEED), dict(chosen.shape if shape is None else shape)
    own = getattr(chosen.module, "inputs", None)
    if own is None:
        return _from_signature(chosen, extents, dtype, rng)
    parameters = inspect.signature(own).parameters
    if dtype is not None:
        if "dtype" not in parameters:
            raise UsageError(f"{chosen.name} has its element types fixed: leave out --dtype")
        return ask_file(chosen, "inputs", rng, **extents, dtype=numpy_dtype(ALL[dtype]).type)
    return ask_file(chosen, "inputs", rng, **extents)


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel with every choice made but tile sizes: what a planner needs."""

    kernel: Kernel
    dims: dict[str, int]


def planning_problem(chosen: Chosen, dtype: str | None, usual_dtype: str) -> Problem:
    """The kernel and its extents without making data of that size, so that shapes of a big GPU can be planned here.
    `usual_dtype` stands where neither the caller nor the kernel says.

    Element types, constants and scalars are read off small inputs; extents that --shape does not determine come from
    real ones.
    """
    own = getattr(chosen.module, "inputs", None)
    if own is None:
        kernel, formulas = _specialized(chosen, dtype or usual_dtype)
        return Problem(kernel, _extents(chosen, kernel, formulas))
    if dtype is None and "dtype" in inspect.signature(own).parameters:
        dtype = usual_dtype
    small = (getattr(chosen.module, "SHAPES", None) or [chosen.shape])[0]
    given = sort_arguments(chosen.name, chosen.kernel.signature, (), make_inputs(chosen, dtype, small))
    parsed = chosen.kernel.parsed(**given.consts, **given.dtypes)
    dims = _with_formulas(parsed.kernel, parsed.formulas, chosen.shape)
    if _missing(parsed.kernel, dims):
        dims = bound_call(chosen, make_inputs(chosen, dtype)).dims
    return Problem(parsed.kernel, dims)


def bound_call(chosen: Chosen, inputs: Mapping[str, object]) -> Call:
    return chosen.kernel.bind(**inputs)


# ---------------------------------------------------------------- from the signature alone


def _from_signature(
    chosen: Chosen, extents: dict[str, int], dtype: str | None, rng: np.random.Generator
) -> dict[str, object]:
    kernel, formulas = _specialized(chosen, dtype)
    dims = _extents(replace(chosen, shape=extents), kernel, formulas)
    tensors = {t.name: t for t in kernel.tensors if t.access is Access.IN}
    made: dict[str, object] = {name: _random(tensor, dims, rng) for name, tensor in tensors.items()}
    for param in chosen.kernel.signature.params:
        default = chosen.kernel.signature.python.parameters[param.name].default
        if isinstance(param, ScalarParam) and default is inspect.Parameter.empty:
            made[param.name] = 1 if param.dtype.is_integer else True if param.dtype.kind == "bool" else 1.0
    return made


def _extents(chosen: Chosen, kernel: Kernel, formulas: tuple[Formula, ...]) -> dict[str, int]:
    """Every dimension's extent by `--shape` alone."""
    made = {f.name for f in formulas}
    asked = dict.fromkeys([*(n for n in _names(kernel) if n not in made), *(n for f in formulas for n in f.names)])
    if unknown := chosen.shape.keys() - asked:
        what = f"{chosen.name} has no dimension {', '.join(sorted(unknown))}"
        raise UsageError(f"{what}\n  try: {', '.join(asked) or 'no --shape: all extents are fixed'}")
    if missing := [n for n in asked if n not in chosen.shape]:
        raise UsageError(f"{chosen.name} needs extents: --shape {','.join(f'{n}=64' for n in missing)}")
    return _with_formulas(kernel, formulas, chosen.shape)


def _specialized(chosen: Chosen, dtype: str | None) -> tuple[Kernel, tuple[Formula, ...]]:
    """Constants by their defaults, open element types by --dtype (default f32)."""
    signature = chosen.kernel.signature
    open_ = [
        p.name
        for p in signature.params
        if _is_const(p)
        and signature.python.parameters[p.name].default is inspect.Parameter.empty
        and p.name not in chosen.settings
    ]
    if open_:
        raise UsageError(
            f"{chosen.name} has compile-time parameters without a default: {', '.join(open_)}\n"
            "  try: --set NAME=VALUE, or a function inputs(rng, **shape) in the file"
        )
    choice: dict[str, Dtype] = dict.fromkeys(signature.dtype_variables(), ALL[dtype or "f32"])
    consts = {k: v for k, v in chosen.settings.items() if k in {p.name for p in signature.params if _is_const(p)}}
    parsed = chosen.kernel.parsed(**choice, **consts)
    return parsed.kernel, parsed.formulas


def _is_const(param: Param) -> bool:
    return isinstance(param, ConstParam | FunctionParam)


def _with_formulas(kernel: Kernel, formulas: tuple[Formula, ...], shape: Mapping[str, int]) -> dict[str, int]:
    dims = {d: shape[d] for d in _names(kernel) if d in shape}
    for formula in formulas:
        if all(n in shape for n in formula.names):
            dims |= {n: shape[n] for n in formula.names} | {formula.name: formula.value(shape)}
    return dims


def _names(kernel: Kernel) -> list[str]:
    found = [d for t in kernel.tensors for d in t.dims] + [a.dim for a in kernel.axes]
    return [d for d in dict.fromkeys(found) if isinstance(d, str)]


def _missing(kernel: Kernel, dims: Mapping[str, int]) -> list[str]:
    return [d for d in _names(kernel) if d not in dims]


def _random(tensor: Tensor, dims: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)
    if tensor.dtype is u4:
        return rng.integers(0, 256, (*shape[:-1], (shape[-1] + 1) // 2), dtype=np.uint8)
    if tensor.dtype.is_float:
        return rng.standard_normal(shape, dtype=np.float32).astype(numpy_dtype(tensor.dtype))
    if tensor.dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, INDEX_LIMIT, shape).astype(numpy_dtype(tensor.dtype))
