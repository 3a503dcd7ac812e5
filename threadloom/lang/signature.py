"""A kernel's signature: what each parameter is, read from the annotations once."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from threadloom.dtypes import Dtype
from threadloom.errors import CompileError
from threadloom.lang.annotations import SIGNATURE, ConstSpec, Function, OutputsSpec, TensorSpec
from threadloom.lang.source_of import Origin
from threadloom.source import Loc


@dataclass(frozen=True, slots=True)
class TensorParam:
    name: str
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class ScalarParam:
    name: str
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class ConstParam:
    """A compile-time constant; `type` is checked at the call where given."""

    name: str
    type: type | None


@dataclass(frozen=True, slots=True)
class FunctionParam:
    name: str


Param = TensorParam | ScalarParam | ConstParam | FunctionParam


@dataclass(frozen=True, slots=True)
class Signature:
    params: tuple[Param, ...]
    outputs: tuple[TensorParam, ...]
    python: inspect.Signature  # with the outputs appended as optional keywords
    positional: tuple[str, ...]
    names: frozenset[str]
    defaults: dict[str, object]

    def tensors(self) -> tuple[TensorParam, ...]:
        return tuple(p for p in self.params if isinstance(p, TensorParam))

    def dtype_variables(self) -> tuple[str, ...]:
        found = [p.spec.dtype for p in (*self.tensors(), *self.outputs) if isinstance(p.spec.dtype, str)]
        return tuple(dict.fromkeys(found))


def read_signature(function: Callable[..., object], origin: Origin) -> Signature:
    python = inspect.signature(function)
    annotations = _evaluated_annotations(function, origin)
    nodes = {a.arg: a for a in [*origin.node.args.args, *origin.node.args.kwonlyargs]}
    params = []
    for name, parameter in python.parameters.items():
        loc = origin.loc(nodes[name]) if name in nodes else origin.loc(origin.node)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise CompileError(SIGNATURE, f"kernel parameter *{name} is variadic", try_="name each parameter", loc=loc)
        params.append(_read_param(name, annotations.get(name), loc))
    outputs = _read_outputs(annotations.get("return"), function, origin)
    _check_dtype_names([*(p for p in params if isinstance(p, TensorParam)), *outputs], nodes, origin)
    taken = set(python.parameters)
    for output in outputs:
        if output.name in taken:
            raise CompileError(
                SIGNATURE, f"output {output.name} has the name of a parameter", loc=origin.loc(origin.node)
            )
    keywords = [inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=None) for o in outputs]
    extended = python.replace(parameters=[*python.parameters.values(), *keywords], return_annotation=python.empty)
    all_params = extended.parameters.values()
    return Signature(
        tuple(params),
        outputs,
        extended,
        positional=tuple(p.name for p in all_params if p.kind is not p.KEYWORD_ONLY),
        names=frozenset(p.name for p in all_params),
        defaults={p.name: p.default for p in all_params if p.default is not p.empty},
    )


def _check_dtype_names(tensors: list[TensorParam], nodes: dict[str, ast.arg], origin: Origin) -> None:
    """A dtype variable with a dimension's name is a tensor whose dtype was forgotten."""
    dims = {d: t.name for t in tensors for d in t.spec.dims}
    for tensor in tensors:
        if tensor.spec.dtype in dims:
            raise CompileError(
                SIGNATURE,
                f"{tensor.spec.dtype!r} is the dtype of {tensor.name} and a dimension of {dims[tensor.spec.dtype]}",
                why="the last item of tl.Tensor[...] is the dtype, or the name of one that the argument gives",
                try_=f"tl.Tensor[{', '.join(map(repr, (*tensor.spec.dims, tensor.spec.dtype)))}, tl.f32]",
                loc=origin.loc(nodes.get(tensor.name, origin.node)),
            )


def _evaluated_annotations(function: Callable[..., object], origin: Origin) -> dict[str, object]:
    """Annotations as objects, also under `from __future__ import annotations`."""
    found = dict(function.__annotations__)
    for name, annotation in found.items():
        if isinstance(annotation, str):
            try:
                found[name] = eval(annotation, dict(origin.names))
            except CompileError:
                raise
            except Exception as error:  # whatever the user's expression gives
                raise _unreadable(name, error, origin) from None
    return found


def _unreadable(name: str, error: Exception, origin: Origin) -> CompileError:
    nodes = {a.arg: a.annotation for a in [*origin.node.args.args, *origin.node.args.kwonlyargs]}
    nodes["return"] = origin.node.returns
    missing = isinstance(error, NameError)
    return CompileError(
        SIGNATURE,
        f"annotation of {name}: {error}",
        loc=origin.loc(nodes.get(name) or origin.node),
        why="`from __future__ import annotations` hides what only annotations use of a function around" * missing,
        try_="the name at the top of the file, or used in the kernel's body as well" if missing else "",
    )


def _read_param(name: str, annotation: object, loc: Loc) -> Param:
    match annotation:
        case TensorSpec():
            return TensorParam(name, annotation)
        case Dtype():
            return ScalarParam(name, annotation)
        case ConstSpec():
            return ConstParam(name, annotation.type)
    if annotation is Function:
        return FunctionParam(name)
    shown = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
    raise CompileError(
        SIGNATURE,
        f"parameter {name} has " + ("no annotation" if annotation is None else f"annotation {shown}"),
        why="the compiler needs to know what it is",
        try_='tl.Tensor["M", "K", tl.f16], a scalar such as tl.f32, tl.Const[bool], or tl.Function',
        loc=loc,
    )


def _read_outputs(annotation: object, function: Callable[..., object], origin: Origin) -> tuple[TensorParam, ...]:
    match annotation:
        case TensorSpec():
            return (TensorParam("out", annotation),)
        case OutputsSpec(outputs) if outputs:
            return tuple(TensorParam(name, spec) for name, spec in outputs)
    said = "does not say what it returns" if annotation is None else f"returns no tensors, but {annotation!r}"
    raise CompileError(
        SIGNATURE,
        f"kernel {function.__name__} {said}",
        why="results are tensors that the compiler allocates",
        try_='-> tl.Tensor["M", "N", tl.f16] (named `out` in the body) or -> tl.outputs(o=tl.Tensor[...], ...)',
        loc=origin.loc(origin.node),
    )
