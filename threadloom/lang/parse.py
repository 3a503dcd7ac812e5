"""From the text of a kernel to tile IR: statements, loops, conditions, helper functions.

What a name means after a loop or a condition follows from Python: a variable that has a value before a stream loop
and is assigned in it is carried from iteration to iteration; one that is first assigned inside has no value after it.
Where Python would give a name a value that a kernel cannot (from another iteration of a grid, say), it has none.
"""

from __future__ import annotations

import ast
import inspect
import types
from dataclasses import dataclass

import numpy as np

from threadloom.dtypes import Dtype, bool_
from threadloom.errors import CompileError, slug
from threadloom.lang import library
from threadloom.lang.builder import Builder, describe_type
from threadloom.lang.expressions import CONDITION, Expressions
from threadloom.lang.source_of import Origin, find_source
from threadloom.lang.values import Affine, AxisSpec, LoopSpec, Number, TensorRef, Unusable
from threadloom.source import Loc
from threadloom.tile.ops import (
    Access,
    AxisKind,
    Block,
    Grid,
    If,
    LoopAxis,
    Op,
    Store,
    Stream,
    Value,
    Yield,
)
from threadloom.tile.promote import literal_dtype, promote
from threadloom.tile.uses import made_of, operands, results, walk

CARRIED_TYPE = slug("carried-type", "a variable changes axes or dtype from one iteration of a stream to the next")
LOOP_FORM = slug("loop-form", "a `for` over something else than tl.grid, tl.stream or range, or with wrong targets")
ONE_GRID = slug("one-grid", "a kernel has several outermost grids, or a grid where none may be")
RECURSION = slug("recursion", "helper functions call each other without end")
RESULT_FORM = slug("helper-result", "a helper function does not return where its value is needed")

_INSTEAD: dict[type, str] = {
    ast.While: 'for k in tl.stream("K") with bounds: tl.span("K", start, stop)',
    ast.Try: "kernels raise no exceptions",
    ast.With: "nothing to enter in a kernel",
    ast.Raise: "check arguments before the call",
    ast.Assert: "check arguments before the call",
    ast.Delete: "names may simply stay",
    ast.Global: "return the value or store it",
    ast.Nonlocal: "return the value or store it",
    ast.FunctionDef: "write the helper at module level",
    ast.ClassDef: "write it at module level",
    ast.Import: "import at module level",
    ast.ImportFrom: "import at module level",
    ast.Break: "narrow the loop's bounds: tl.span(dim, start, stop)",
    ast.Continue: "an `if` around the rest of the body",
    ast.Match: "if and elif on compile-time constants",
    ast.AnnAssign: "x = tl.cast(value, tl.f32)",
}


@dataclass(frozen=True, slots=True)
class Returned:
    value: object


class Parser(Expressions):
    """Runs the statements of one function's text; `depth` counts inlined calls."""

    def __init__(
        self,
        builder: Builder,
        origin: Origin,
        names: dict[str, object],
        fixed_loc: Loc | None = None,
        depth: int = 0,
    ):
        super().__init__(builder, origin, names, fixed_loc)
        self.depth = depth
        self.inside: tuple[str, ...] = ()  # kinds of the enclosing regions in this function: "grid" "stream" "if"
        self.around: tuple[str, ...] = ()  # and of those that the calls of this function stand in
        self.assigned_at: dict[str, Loc] = {}  # where each name was assigned last

    # ------------------------------------------------------------ statements

    def run(self, statements: list[ast.stmt]) -> Returned | None:
        for statement in statements:
            returned = self._statement(statement)
            if returned is not None:
                return returned
        return None

    def _statement(self, node: ast.stmt) -> Returned | None:
        match node:
            case ast.Assign(targets, value):
                result = self.evaluate(value)
                for target in targets:
                    self._assign(target, result, node)
            case ast.AugAssign(ast.Name(name) as target, op, value):
                old = self.evaluate(ast.copy_location(ast.Name(name, ast.Load()), target))
                self._assign(target, self.binary(type(op), old, self.evaluate(value), node), node)
            case ast.AugAssign():
                instead = "sum in a variable and store it once; or tl.atomic_add(out[...], value)"
                raise self.unsupported(node, "updating a tensor in place", instead)
            case ast.For():
                self._for(node)
            case ast.If(test, body, orelse):
                return self._if(test, body, orelse, node)
            case ast.Return(value):
                return self._return(value, node)
            case ast.Pass() | ast.Expr(ast.Constant()):
                pass
            case ast.Expr(value):
                if self.evaluate(value) is not None:
                    raise self.unsupported(node, "a value that nothing uses", "assign it, or leave it out")
            case _:
                raise self.unsupported(node, f"`{_keyword(node)}`", _INSTEAD.get(type(node), ""))
        return None

    def _return(self, value: ast.expr | None, node: ast.stmt) -> Returned:
        if self.depth == 0:
            raise self.unsupported(node, "`return`", "out[m, n] = value stores a result")
        if self.inside:
            raise self.unsupported(node, f"`return` inside a {self.inside[-1]}", "return at the end of the function")
        return Returned(None if value is None else self.evaluate(value))

    def _assign(self, target: ast.expr, value: object, node: ast.stmt) -> None:
        match target:
            case ast.Name(name):
                self.names[name] = self._named(name, value, node)
                self.assigned_at[name] = self.loc(node)
            case ast.Tuple(targets) | ast.List(targets):
                if not isinstance(value, tuple | list) or len(value) != len(targets):
                    raise self.unsupported(node, f"assigning to {len(targets)} names at once", "as many values")
                for part, item in zip(targets, value, strict=True):
                    self._assign(part, item, node)
            case ast.Subscript(owner, index):
                self._store(self.evaluate(owner), index, value, target)
            case _:
                raise self.unsupported(target, "assigning to this", "a name, or an output's subscripts")

    def _named(self, name: str, value: object, node: ast.stmt) -> object:
        """`value` under the user's name, where it has none yet."""
        match value:
            case Value():
                return self.b.name_result(value, name)
            case AxisSpec(kind=AxisKind.WHOLE):
                return self.b.new_axis(name, value.dim, AxisKind.WHOLE)
            case AxisSpec() | LoopSpec():
                raise self.unsupported(node, "a loop's axes outside a `for`", 'for m in tl.grid("M"):')
        return value

    def _store(self, ref: object, index: ast.expr, value: object, target: ast.Subscript) -> None:
        if not isinstance(ref, TensorRef):
            raise self.unsupported(target, "assigning to a part of a tile", "tl.where(tl.index(m) == i, new, old)")
        if ref.tensor.access is Access.IN:
            raise self.unsupported(target, f"storing into input {ref.tensor.name}", "an output: -> tl.Tensor[...]")
        if isinstance(value, TensorRef):
            raise self.bare_tensor(value, target)
        subscripts, axes = self.subscripts(ref, index, target)
        self.at(target)
        stored = self.b.cast(self.b.value(value, ref.tensor.dtype), ref.tensor.dtype)
        self.check_stored_axes(ref, axes, stored, target)
        self.b.emit(Store(ref.tensor.name, subscripts, self.spread(stored, subscripts), self.loc(target)))

    # ------------------------------------------------------------ loops

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            raise self.unsupported(node, "`else` of a loop", "the code after the loop")
        over = self.evaluate(node.iter)
        match over:
            case LoopSpec("grid"):
                self._grid(node, over)
            case LoopSpec():
                self._stream(node, over)
            case range() | tuple() | list():
                for item in over:  # unrolled
                    self._assign(node.target, item, node)
                    if self.run(node.body) is not None:
                        raise self.unsupported(node, "`return` inside a loop", "return at the end of the function")
            case _:
                raise CompileError(
                    LOOP_FORM,
                    "a `for` in a kernel runs over tl.grid(...), tl.stream(...), or a range of compile-time constants",
                    try_='for k in tl.stream("K"):',
                    loc=self.loc(node.iter),
                )

    def _loop_axes(self, node: ast.For, spec: LoopSpec) -> tuple[tuple[LoopAxis, ...], dict[str, Affine]]:
        """The loop's axes, named after its targets."""
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        if len(targets) != len(spec.axes) or not all(isinstance(t, ast.Name) for t in targets):
            raise CompileError(
                LOOP_FORM,
                f"the loop has {len(spec.axes)} axes and {len(targets)} variables",
                try_='for m, n in tl.grid("M", "N"):',
                loc=self.loc(node.target),
            )
        axes, variables = [], {}
        for target, axis in zip(targets, spec.axes, strict=True):
            around = self.names.get(target.id)
            if isinstance(around, Affine) and (name := around.axis()) is not None:
                raise CompileError(
                    LOOP_FORM,
                    f"{target.id} is the axis {name} already, which this loop runs inside of",
                    try_="a name of its own for each loop",
                    loc=self.loc(target),
                )
            variable = self.b.new_axis(target.id, axis.dim, axis.kind)
            axes.append(LoopAxis(self.b.axes[variable.axis()], axis.start, axis.stop))
            variables[target.id] = variable
        return tuple(axes), variables

    def _grid(self, node: ast.For, spec: LoopSpec) -> None:
        around = [kind for kind in (*self.around, *self.inside) if kind != "grid"]
        if around:
            raise CompileError(
                ONE_GRID,
                f"a grid inside a {around[-1]}",
                why="a grid's iterations are spread over the machine before anything else runs",
                try_="make the grid the outer loop, or tl.stream for a loop in order",
                loc=self.loc(node),
            )
        axes, variables = self._loop_axes(node, spec)
        loc = self.loc(node)
        where = f"inside the grid of line {node.lineno}, whose iterations are independent: tl.stream carries values"
        lost = dict.fromkeys(_assigned(node.body), Unusable(f"it is assigned {where}"))
        before = dict(self.names)
        self.names.update(lost)
        self.names.update(variables)
        with self._within("grid"), self.b.block() as ops:
            self.run(node.body)
        self.names = before | self._ended(variables, node) | lost
        self.b.emit(Grid(axes, Block(tuple(ops)), loc))

    def _stream(self, node: ast.For, spec: LoopSpec) -> None:
        axes, variables = self._loop_axes(node, spec)
        loc = self.loc(node)
        self.b.loc = loc
        assigned = _assigned(node.body)
        carried = [n for n in assigned if _carries(self.names.get(n)) and n not in variables]
        inits = [self.b.value(self.names[n]) for n in carried]
        lost = {n: self._not_carried(n, node) for n in assigned if n not in carried}
        before = dict(self.names)
        with self._within("stream"), self.b.block() as ops:
            args = [self.b.new_value(v.type.axes, v.type.dtype, n) for n, v in zip(carried, inits, strict=True)]
            self.names.update(lost)
            self.names.update(zip(carried, args, strict=True))
            self.names.update(variables)
            self.run(node.body)
            self.b.loc = loc
            tiled = {a.axis.name for a in axes if a.axis.kind is AxisKind.TILE}
            nexts = [self._next(n, arg, ops, tiled) for n, arg in zip(carried, args, strict=True)]
        kept = [at for at, value in enumerate(nexts) if isinstance(value, Value)]
        made = {at: self.b.new_value(args[at].type.axes, args[at].type.dtype, carried[at]) for at in kept}
        ops.append(Yield(tuple(nexts[at] for at in kept)))
        body = Block(tuple(ops))
        pick = lambda values: tuple(values[at] for at in kept)  # noqa: E731
        self.b.emit(Stream(axes, pick(inits), pick(args), body, tuple(made.values()), loc))
        self.names = before | self._ended(variables, node) | lost
        for at, name in enumerate(carried):
            self.names[name] = made[at] if at in made else nexts[at]

    def _next(self, name: str, arg: Value, ops: list[Op], tiled: set[str]) -> Value | Unusable:
        """The value of carried variable `name` at the end of the body; `tiled`: the axes that the loop takes in tiles,
        of which nobody knows the last."""
        found = self.names[name]
        if found is arg:
            return arg
        used = any(arg in operands(op) for op in walk(Block(tuple(ops))))
        if _carries(found):
            value = self.b.value(found, arg.type.dtype)
            if not used and value.name in made_of(tiled, ops):
                last = "each iteration of the loop overwrites it with what it makes of its own tile"
                return Unusable(f"{last}; {name} = {name} + ..., say, puts them together")
            same = value.type.dtype is arg.type.dtype and set(value.type.axes) == set(arg.type.axes)
            if same:
                made_here = any(value == r for op in ops for r in results(op))
                keep = made_here and value.type.axes == arg.type.axes
                return value if keep else self.b.copy(value, arg.type.axes)
            types_ = f"{describe_type(arg.type)} before the loop and {describe_type(value.type)} at the end of its body"
        elif isinstance(found, Unusable):
            types_ = f"without a value at the end of the loop's body: {found.why}"
        else:
            types_ = "something that is no tile at the end of the loop's body"
        if used:
            raise CompileError(
                CARRIED_TYPE,
                f"{name} is {types_}",
                why="what is carried from iteration to iteration keeps its axes and dtype",
                try_=f"give {name} these axes and dtype before the loop (tl.zeros, tl.full), or cast inside",
                loc=self.assigned_at.get(name, self.b.loc),
            )
        return Unusable(f"it is {types_}")

    # ------------------------------------------------------------ conditions

    def _if(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], node: ast.If) -> Returned | None:
        condition = self.evaluate(test)
        if isinstance(condition, TensorRef):
            raise self.bare_tensor(condition, test)
        if not isinstance(condition, Value | Affine):
            return self.run(body if condition else orelse)
        self.at(test)
        cond = self.b.value(condition)
        if cond.type.axes:
            raise CompileError(
                CONDITION,
                f"the condition of `if` is {describe_type(cond.type)}",
                why="`if` chooses once for the whole tile",
                try_="tl.where(condition, x, y) to choose element by element, or tl.any(condition, ...) for a scalar",
                loc=self.loc(test),
            )
        cond = cond if cond.type.dtype is bool_ else self.b.map("ne", cond, 0)
        before = dict(self.names)
        branches = []
        for statements in (body, orelse):
            self.names = dict(before)
            with self._within("if"), self.b.block() as ops:
                self.run(statements)
            branches.append((ops, self.names))
        self.names = before
        self._join(cond, branches, [*_assigned(body), *_assigned(orelse)], node)
        return None

    def _join(self, cond: Value, branches: list, assigned: list[str], node: ast.If) -> None:
        """Emit the If; a name assigned in a branch goes on with the value of the branch taken."""
        (then_ops, then_names), (else_ops, else_names) = branches
        yields: list[tuple[str, Value, Value]] = []
        loc = self.loc(node)
        for name in dict.fromkeys(assigned):
            a, b = then_names.get(name), else_names.get(name)
            if not _carries(a) or not _carries(b):
                self.names[name] = Unusable(f"only one branch of the `if` in line {node.lineno} assigns it")
                continue
            beside = _common_dtype(a, b)
            with self.b.block(then_ops):
                a = self.b.value(a, beside)
            with self.b.block(else_ops):
                b = self.b.value(b, beside)
            if a.type.dtype is not b.type.dtype or set(a.type.axes) != set(b.type.axes):
                both = f"{describe_type(a.type)} and {describe_type(b.type)}"
                self.names[name] = Unusable(f"the branches of the `if` in line {node.lineno} make it {both}")
                continue
            if a.type.axes != b.type.axes:
                with self.b.block(else_ops):
                    b = self.b.copy(b, a.type.axes)
            yields.append((name, a, b))
        joined = tuple(self.b.new_value(a.type.axes, a.type.dtype, n) for n, a, _ in yields)
        then_ops.append(Yield(tuple(a for _, a, _ in yields)))
        else_ops.append(Yield(tuple(b for _, _, b in yields)))
        self.b.emit(If(cond, Block(tuple(then_ops)), Block(tuple(else_ops)), joined, loc))
        for (name, _, _), result in zip(yields, joined, strict=True):
            self.names[name] = result

    # ------------------------------------------------------------ helpers

    def _within(self, kind: str) -> _Within:
        return _Within(self, kind)

    def _not_carried(self, name: str, node: ast.For) -> Unusable:
        """What `name`, which the stream's body assigns and does not carry, is before that and after the loop."""
        where = f"assigned inside the stream of line {node.lineno}"
        if isinstance(self.names.get(name, Unusable("")), Unusable):
            return Unusable(f"it is first {where}")
        return Unusable(f"it is {where}, which carries tiles, scalars and numbers, each in a variable of its own")

    def _ended(self, variables: dict[str, Affine], node: ast.For) -> dict[str, Unusable]:
        return dict.fromkeys(variables, Unusable(f"it is the variable of the loop of line {node.lineno}"))

    def inline(
        self, function: types.FunctionType, args: list[object], kwargs: dict[str, object], node: ast.AST
    ) -> object:
        if self.depth > 40:
            raise CompileError(RECURSION, f"{function.__name__} calls itself without end", loc=self.loc(node))
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise self.unsupported(node, f"{function.__name__}: {error}") from None
        bound.apply_defaults()
        origin = find_source(function)
        in_library = function.__module__ == library.__name__
        fixed = self.fixed_loc or (self.loc(node) if in_library else None)
        callee = Parser(self.b, origin, dict(bound.arguments), fixed, self.depth + 1)
        callee.around = (*self.around, *self.inside)
        if isinstance(origin.node, ast.Lambda):
            return callee.evaluate(origin.node.body)
        returned = callee.run(origin.node.body)
        if returned is None:
            raise CompileError(
                RESULT_FORM,
                f"{function.__name__} ends without a value",
                try_="end it with `return value`",
                loc=self.loc(node),
            )
        return returned.value


class _Within:
    """Marks the region that is being parsed, so that misplaced statements can say where they stand."""

    def __init__(self, parser: Parser, kind: str):
        self.parser, self.kind = parser, kind

    def __enter__(self) -> None:
        self.outer = self.parser.inside
        self.parser.inside = (*self.outer, self.kind)

    def __exit__(self, *error: object) -> None:
        self.parser.inside = self.outer


def _common_dtype(a: object, b: object) -> Dtype | None:
    """The dtype that literals among the two ends of a condition's branches take."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Value) and isinstance(other, Number | np.generic):
            return one.type.dtype
    if isinstance(a, Number) and isinstance(b, Number):
        return promote(literal_dtype(a, None), literal_dtype(b, None))
    return None


def _carries(thing: object) -> bool:
    """Whether a variable holding `thing` can be carried through a loop or out of a condition."""
    return isinstance(thing, Value | Affine | Number | np.generic)


def _assigned(statements: list[ast.stmt]) -> list[str]:
    """Names that the statements assign, in order (loop variables are not: they end with their loop)."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign):
                targets = [node.target]
            else:
                continue
            for target in targets:
                found = (n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
                names.update(dict.fromkeys(found))
    return list(names)


def _keyword(node: ast.stmt) -> str:
    words = {ast.FunctionDef: "def", ast.ClassDef: "class", ast.ImportFrom: "import", ast.Delete: "del"}
    words |= {ast.AnnAssign: "name: type = value", ast.AsyncFunctionDef: "async def", ast.TryStar: "try"}
    return words.get(type(node), type(node).__name__.lower())
