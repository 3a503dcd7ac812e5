"""Tensors at subscripts: the places that loads, stores and atomic additions name."""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np

from threadloom.dtypes import bool_, u4
from threadloom.errors import CompileError, slug
from threadloom.lang.builder import OPERAND_DTYPE, Builder, describe_type
from threadloom.lang.source_of import Origin
from threadloom.lang.values import Affine, TensorRef
from threadloom.source import Loc
from threadloom.tile.ops import Access, AtomicAdd, AxisKind, Dim, Load, Subscript, Term, Value

UNSUPPORTED = slug("unsupported-python", "Python that has no meaning in a kernel")
SUBSCRIPTS = slug("subscripts", "a tensor is indexed with the wrong number or kind of subscripts")
AXIS_DIM = slug("axis-dimension", "a loop variable indexes a dimension that its loop does not run over")
REPEATED_AXIS = slug("repeated-whole-axis", "`:` stands for the same dimension twice in one tile")
READS_OUTPUT = slug("reads-output", "an output is read: a dependence through memory, which cannot be pipelined")
STORED_AXES = slug("stored-axes", "a stored tile has an axis that the place it is stored to has not")


class Places:
    """One function's text under evaluation: `names` are its locals, over those its source can see."""

    def __init__(self, builder: Builder, origin: Origin, names: dict[str, object], fixed_loc: Loc | None = None):
        self.b = builder
        self.origin = origin
        self.names = names
        self.fixed_loc = fixed_loc  # where library functions are inlined: the user's call

    def loc(self, node: ast.AST) -> Loc:
        return self.fixed_loc or self.origin.loc(node)

    def at(self, node: ast.AST) -> None:
        """What is emitted next comes from `node`."""
        self.b.loc = self.loc(node)

    def unsupported(self, node: ast.AST, what: str, instead: str = "") -> CompileError:
        return CompileError(UNSUPPORTED, f"{what} in a kernel", try_=instead, loc=self.loc(node))

    def evaluate(self, node: ast.expr) -> object:
        raise NotImplementedError  # expressions.py

    def bare_tensor(self, ref: TensorRef, node: ast.AST) -> CompileError:
        subscripts = ", ".join(str(d).lower() for d in ref.tensor.dims)
        return CompileError(
            SUBSCRIPTS,
            f"tensor {ref.tensor.name} is used without subscripts",
            why="only tiles of it can be computed with",
            try_=f"{ref.tensor.name}[{subscripts}] with loop variables, or : for a whole dimension",
            loc=self.loc(node),
        )

    def check_operands(self, node: ast.AST, *operands: object) -> None:
        for operand in operands:
            if isinstance(operand, TensorRef):
                raise self.bare_tensor(operand, node)

    def load(self, ref: TensorRef, index: ast.expr, node: ast.Subscript) -> Value:
        tensor = ref.tensor
        if tensor.access is not Access.IN:
            raise CompileError(
                READS_OUTPUT,
                f"output {tensor.name} is read",
                why="that is a dependence through memory, which cannot be pipelined",
                try_="keep the value in a variable, or make the tensor a parameter",
                loc=self.loc(node),
            )
        subscripts, axes = self.subscripts(ref, index, node)
        self.at(node)
        result = self.b.temporary(axes, tensor.dtype, tensor.name)
        self.b.emit(Load(result, tensor.name, subscripts, self.b.loc))
        return result

    def subscripts(
        self, ref: TensorRef, index: ast.expr, node: ast.AST
    ) -> tuple[tuple[Subscript, ...], tuple[str, ...]]:
        """The subscripts of a load or store and the axes of the tile they describe."""
        items = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        dims = ref.tensor.dims
        items = _expand_ellipsis(items, len(dims))
        if len(items) != len(dims):
            raise CompileError(
                SUBSCRIPTS,
                f"{ref.tensor.name} has {len(dims)} dimensions, {len(items)} subscripts given",
                why=f"its dimensions are [{', '.join(map(str, dims))}]",
                try_="one subscript for each; : takes a whole dimension",
                loc=self.loc(node),
            )
        found = tuple(self._one_subscript(ref, at, item) for at, item in enumerate(items))
        axes: list[str] = []
        for at, subscript in enumerate(found):
            for term in subscript.terms:
                axes += [a for a in self._term_axes(term) if a not in axes]
            self._check_repeated(items, at, found, ref)
        return found, tuple(axes)

    def _check_repeated(self, items: list[ast.expr], at: int, found: tuple[Subscript, ...], ref: TensorRef) -> None:
        if isinstance(items[at], ast.Slice) and found[at] in found[:at]:
            dim = ref.tensor.dims[at]
            raise CompileError(
                REPEATED_AXIS,
                f"`:` stands for dimension {dim} twice in one tile",
                try_=f"d = tl.axis({dim!r}) and one more, so that each has a name",
                loc=self.loc(items[at]),
            )

    def _term_axes(self, term: Term) -> tuple[str, ...]:
        if term.value is not None:
            return term.value.type.axes
        return () if self.b.axes[term.axis].kind is AxisKind.EACH else (term.axis,)

    def _one_subscript(self, ref: TensorRef, at: int, item: ast.expr) -> Subscript:
        dim = ref.tensor.dims[at]
        if isinstance(item, ast.Slice):
            if item.lower or item.upper or item.step:
                raise self.unsupported(item, "a slice with bounds", 'a loop axis tl.span("M", start, stop)')
            return Subscript((Term(1, axis=self.b.whole_axis(dim)),))
        if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub) and isinstance(item.operand, ast.Constant):
            raise CompileError(
                SUBSCRIPTS,
                f"subscript {at} of {ref.tensor.name} is -{item.operand.value!r}, which is always outside",
                why="nothing is counted from the end, and a load from outside gives 0",
                try_=f"tl.dim({dim!r}) - {item.operand.value!r}",
                loc=self.loc(item),
            )
        index = self.evaluate(item)
        index = index.item() if isinstance(index, np.generic) else index
        match index:
            case bool():
                pass
            case int():
                return Subscript((), index)
            case Affine():
                axis = index.axis()
                if axis is not None and self._is_wrong_dim(self.b.axes[axis].dim, dim):
                    raise self._wrong_dim(ref, at, axis, item)
                return Subscript(tuple(self._current(t) for t in index.terms), index.offset)
            case Value() if index.type.dtype.is_integer:
                return Subscript((Term(1, value=self.b.current(index)),))
        what = describe_type(index.type) if isinstance(index, Value) else f"{index!r}"
        raise CompileError(
            SUBSCRIPTS,
            f"subscript {at} of {ref.tensor.name} is {what}",
            why="a subscript is an integer: a loop variable, a scalar, a tile of indices, or a sum of them",
            loc=self.loc(item),
        )

    def _current(self, term: Term) -> Term:
        return term if term.value is None else replace(term, value=self.b.current(term.value))

    def _is_wrong_dim(self, looped: Dim, indexed: Dim) -> bool:
        """A formula such as "B + 1" may well be indexed by a loop over B."""
        return looped != indexed and looped not in self.b.formulas and indexed not in self.b.formulas

    def _wrong_dim(self, ref: TensorRef, at: int, axis: str, item: ast.expr) -> CompileError:
        dim = ref.tensor.dims[at]
        return CompileError(
            AXIS_DIM,
            f"{axis} runs over {self.b.axes[axis].dim}, but dimension {at} of {ref.tensor.name} is {dim}",
            why="the loop would not cover that dimension, or run past it",
            try_=f"swap the subscripts, give both dimensions one name, or loop over tl.span({dim!r}, ...); "
            f"tl.index({axis}) where both are meant",
            loc=self.loc(item),
        )

    def atomic_add(self, node: ast.Call) -> None:
        if len(node.args) != 2 or node.keywords or not isinstance(node.args[0], ast.Subscript):
            raise self.unsupported(node, "tl.atomic_add without a place", "tl.atomic_add(out[m, n], value)")
        target = node.args[0]
        ref = self.evaluate(target.value)
        if not isinstance(ref, TensorRef) or ref.tensor.access is Access.IN:
            raise self.unsupported(node, "tl.atomic_add into something that is no output", "name an output")
        if ref.tensor.dtype in (bool_, u4):
            raise CompileError(
                OPERAND_DTYPE,
                f"tl.atomic_add does not add to {ref.tensor.dtype.name}",
                why="no two threads may change parts of a byte" if ref.tensor.dtype is u4 else "it is no number",
                try_="an output of i32",
                loc=self.loc(node),
            )
        value = self.evaluate(node.args[1])
        self.check_operands(node, value)
        subscripts, axes = self.subscripts(ref, target.slice, target)
        self.at(node)
        stored = self.b.cast(value, ref.tensor.dtype)
        self.check_stored_axes(ref, axes, stored, node)
        self.b.accumulated.add(ref.tensor.name)
        self.b.emit(AtomicAdd(ref.tensor.name, subscripts, self.spread(stored, subscripts), self.b.loc))

    def spread(self, value: Value, subscripts: tuple[Subscript, ...]) -> Value:
        """A scalar that is stored at a tile of indices, as a tile of the same axes."""
        indices = [t.value for s in subscripts for t in s.terms if t.value is not None]
        axes = tuple(dict.fromkeys(a for v in indices for a in v.type.axes))
        return self.b.full(value, axes, value.type.dtype) if axes and not value.type.axes else value

    def check_stored_axes(self, ref: TensorRef, axes: tuple[str, ...], value: Value, node: ast.AST) -> None:
        extra = [a for a in value.type.axes if a not in axes]
        if extra:
            raise CompileError(
                STORED_AXES,
                f"the value has axes [{', '.join(value.type.axes)}], {ref.tensor.name} is indexed by "
                f"[{', '.join(axes)}]: no place for {', '.join(extra)}",
                try_="index the output by that axis too, or reduce the value over it",
                loc=self.loc(node),
            )


def _expand_ellipsis(items: list[ast.expr], rank: int) -> list[ast.expr]:
    """`...` stands for as many `:` as are missing."""
    at = [i for i, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is Ellipsis]
    if len(at) != 1:
        return items
    missing = max(0, rank - len(items) + 1)
    filler = [ast.copy_location(ast.Slice(), items[at[0]]) for _ in range(missing)]
    return items[: at[0]] + filler + items[at[0] + 1 :]
