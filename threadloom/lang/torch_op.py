"""A kernel as a PyTorch operator, which torch.compile, torch.export and CUDA graphs take as it is.

The operator has the kernel's tensors and scalars as parameters and new tensors as results; compile-time constants are
settled when it is registered. Its fake implementation computes shapes and element types only, from the same signature
that calls are checked against, and works with symbolic extents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.arrays import stored_shape
from threadloom.arrays_device import torch_dtype, torch_dtypes
from threadloom.dtypes import Dtype
from threadloom.errors import CompileError, slug
from threadloom.lang.bind import settle_shapes
from threadloom.lang.signature import ConstParam, FunctionParam, ScalarParam, TensorParam

if TYPE_CHECKING:
    from threadloom.lang.kernel import Kernel

NO_OPERATOR = slug("no-operator", "a kernel cannot be registered as a PyTorch operator as asked")

_SCALARS = {"float": "float", "int": "int", "uint": "int", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class ShapeOnly:
    """What binding looks at of an array that has no memory; extents may be symbolic."""

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class FakeView:
    """Stands for `ArrayView`."""

    array: ShapeOnly
    dtype: Dtype


def register(kernel: Kernel, name: str, constants: Mapping[str, object]) -> Callable[..., object]:
    """The operator `name` ("namespace::operator") of `kernel`; `constants`: its constants and functions by name."""
    import torch

    if "::" not in name:
        raise CompileError(NO_OPERATOR, f"{name!r} has no namespace", try_=f'"mine::{name}"')
    fixed = _constants(kernel, constants)
    parameters = [p for p in kernel.signature.params if isinstance(p, TensorParam | ScalarParam)]
    names = [p.name for p in parameters]
    results = ["Tensor"] * len(kernel.signature.outputs)
    schema = f"({', '.join(_parameter(kernel, p) for p in parameters)}) -> "
    schema += results[0] if len(results) == 1 else f"({', '.join(results)})"

    def run(*args: object, **kwargs: object) -> object:
        with torch.no_grad():  # the operator itself refuses to be differentiated
            return kernel(**dict(zip(names, args, strict=False)), **kwargs, **fixed)

    def fake(*args: object, **kwargs: object) -> object:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        made = _fake_results(kernel, {n: v for n, v in given.items() if isinstance(v, torch.Tensor)}, fixed)
        return made[0] if len(made) == 1 else tuple(made)

    try:
        operator = torch.library.custom_op(name, run, mutates_args=(), schema=schema)
    except (RuntimeError, ValueError) as error:
        raise CompileError(NO_OPERATOR, f"PyTorch refuses {name}: {str(error).splitlines()[0]}") from error
    operator.register_fake(fake)
    return operator


def _constants(kernel: Kernel, given: Mapping[str, object]) -> dict[str, object]:
    wanted = [p.name for p in kernel.signature.params if isinstance(p, ConstParam | FunctionParam)]
    defaults = kernel.signature.defaults
    if unknown := given.keys() - set(wanted):
        raise CompileError(
            NO_OPERATOR,
            f"{kernel.name} has no compile-time constant {', '.join(sorted(unknown))}",
            try_=f"one of {', '.join(wanted)}" if wanted else "no constants",
        )
    if missing := [n for n in wanted if n not in given and n not in defaults]:
        raise CompileError(
            NO_OPERATOR,
            f"{kernel.name} needs {', '.join(missing)}",
            why="an operator's constants are settled when it is registered",
            try_=f'{kernel.name}.torch_op("mine::{kernel.name}", {missing[0]}=...)',
        )
    return {n: given.get(n, defaults.get(n)) for n in wanted}


def _parameter(kernel: Kernel, parameter: TensorParam | ScalarParam) -> str:
    if isinstance(parameter, TensorParam):
        return f"Tensor {parameter.name}"
    default = kernel.signature.defaults.get(parameter.name)
    shown = "" if default is None else f"={default}"
    return f"{_SCALARS[parameter.dtype.kind]} {parameter.name}{shown}"


def _fake_results(kernel: Kernel, tensors: Mapping[str, object], fixed: Mapping[str, object]) -> list[object]:
    """Results without data, for tensors without data."""
    known = torch_dtypes()
    views: dict[str, FakeView] = {}
    for name, tensor in tensors.items():
        if tensor.dtype not in known:
            raise CompileError(NO_OPERATOR, f"{name} has elements of {tensor.dtype}, which kernels do not know")
        views[name] = FakeView(ShapeOnly(tuple(tensor.shape)), known[tensor.dtype])
    variables = {}
    for parameter in kernel.signature.tensors():
        if isinstance(parameter.spec.dtype, str) and parameter.name in views:
            variables.setdefault(parameter.spec.dtype, views[parameter.name].dtype)
    parsed = kernel.parsed(**fixed, **variables)
    extents = settle_shapes(parsed.kernel, parsed.formulas, views)
    like = next(iter(tensors.values()))
    results = []
    for output in kernel.signature.outputs:
        tensor = next(t for t in parsed.kernel.tensors if t.name == output.name)
        shape = tuple(d if isinstance(d, int) else extents[d] for d in tensor.dims)
        results.append(like.new_empty(stored_shape(shape, tensor.dtype), dtype=torch_dtype(tensor.dtype)))
    return results
