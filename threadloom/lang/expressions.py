"""Evaluates the expressions of a kernel's text: constants in Python, everything else as tile operations."""

from __future__ import annotations

import ast
import builtins
import functools
import math
import operator
import types
from collections.abc import Callable
from difflib import get_close_matches

import threadloom
from threadloom.dtypes import Dtype, i64
from threadloom.errors import CompileError, slug
from threadloom.lang import builtins as tl
from threadloom.lang.builder import UNKNOWN_NAME, describe_type
from threadloom.lang.calls import HANDLERS, call, dot
from threadloom.lang.elsewhere import nearest_here, spelled_here
from threadloom.lang.places import UNSUPPORTED, Places
from threadloom.lang.values import Affine, TensorRef, Unusable
from threadloom.tile.ops import AxisKind, Bound, Term, Value

CONDITION = slug("tile-condition", "a condition in the control flow is a tile instead of a scalar")


_BINARY: dict[type, tuple[str, Callable[[object, object], object]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor),
    ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift),
    ast.Pow: ("pow", operator.pow),
    ast.MatMult: ("dot", operator.matmul),
}
_COMPARE: dict[type, tuple[str, Callable[[object, object], object]]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}
_INSTEAD: dict[type, str] = {
    ast.ListComp: "tiles have no elements to list; use operations on whole tiles",
    ast.GeneratorExp: "use operations on whole tiles, such as tl.sum(x, k)",
    ast.DictComp: "use operations on whole tiles",
    ast.SetComp: "use operations on whole tiles",
    ast.JoinedStr: "kernels have no strings at run time",
    ast.Lambda: "write a function at module level and call it",
    ast.NamedExpr: "assign on a line of its own",
    ast.Await: "kernels have no coroutines",
    ast.Yield: "return the value, or store it",
    ast.YieldFrom: "return the value, or store it",
    ast.Starred: "write the arguments out",
}
# Python and NumPy functions people reach for -> what the language has
_SAME_AS: dict[object, Callable[..., object]] = {
    builtins.abs: tl.abs, builtins.max: tl.maximum, builtins.min: tl.minimum, builtins.round: tl.round,
    math.exp: tl.exp, math.log: tl.log, math.sqrt: tl.sqrt, math.tanh: tl.tanh,
}  # fmt: skip


class Expressions(Places):
    """One function's text under evaluation: `names` are its locals, over those its source can see."""

    # ------------------------------------------------------------ dispatch

    def evaluate(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self._lookup(name, node)
            case ast.BinOp(left, op, right):
                return self.binary(type(op), self.evaluate(left), self.evaluate(right), node)
            case ast.UnaryOp(op, operand):
                return self._unary(op, self.evaluate(operand), node)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp(op, values):
                return self._bool_op(op, values)
            case ast.IfExp(test, body, orelse):
                chosen = body if self.constant_truth(test, "x if c else y") else orelse
                return self.evaluate(chosen)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value, name):
                return self._attribute(self.evaluate(value), name, node)
            case ast.Subscript(value, index):
                return self._subscript(self.evaluate(value), index, node)
            case ast.Tuple(items) | ast.List(items):
                values = (self.evaluate(i) for i in items)
                return tuple(values) if isinstance(node, ast.Tuple) else list(values)
            case ast.Dict(keys, values) if None not in keys:
                return {self.evaluate(k): self.evaluate(v) for k, v in zip(keys, values, strict=True)}
        kind = type(node)
        raise self.unsupported(node, f"`{kind.__name__}` expression", _INSTEAD.get(kind, ""))

    def _lookup(self, name: str, node: ast.expr) -> object:
        for names in (self.names, self.origin.names):
            if name in names:
                value = names[name]
                if isinstance(value, Unusable):
                    raise CompileError(UNKNOWN_NAME, f"{name} has no value here", why=value.why, loc=self.loc(node))
                return value
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise CompileError(UNKNOWN_NAME, f"{name} has no value here", try_=self._defined_by(name), loc=self.loc(node))

    def _defined_by(self, name: str) -> str:
        """What would give `name` the value that it lacks."""
        dim = next((d for d in self.b.signature_dims or () if d.lower() == name.lower()), None)
        if dim is not None:
            return f'{name} as a variable of the loop, tl.grid(..., "{dim}"), or {name} = tl.axis("{dim}")'
        near = _nearest(name, [*self.names, *self.origin.names], cutoff=0.65)
        return f"did you mean {near}?" if near else "assign it before, or add it to the parameters"

    # ------------------------------------------------------------ operators

    def binary(self, op: type, left: object, right: object, node: ast.AST) -> object:
        fn, python = _BINARY[op]
        if _is_constant(left) and _is_constant(right):
            return self._in_python(python, node, left, right)
        self.check_operands(node, left, right)
        self.at(node)
        if fn == "pow":
            return self._power(left, right, node)
        if fn == "dot":
            return dot(self.b, left, right)
        affine = _affine(fn, left, right)
        return affine if affine is not None else self.b.map(fn, left, right)

    def _power(self, left: object, right: object, node: ast.AST) -> object:
        """Powers that are products, roots or reciprocals."""
        if isinstance(right, int) and not isinstance(right, bool) and 1 <= right <= 16:
            base = self.b.value(left)
            result: Value | None = None
            while right:
                if right & 1:
                    result = base if result is None else self.b.map("mul", result, base)
                right >>= 1
                base = self.b.map("mul", base, base) if right else base
            return result
        if right == 0.5:
            return self.b.map("sqrt", left)
        if right == -0.5:
            return self.b.map("rsqrt", left)
        if right == -1:
            return self.b.map("div", 1.0, left)
        instead = "x ** n for n = 1..16, 0.5, -0.5, -1; or tl.exp2(y * tl.log2(x))"
        power = describe_type(right.type) if isinstance(right, Value) else "a loop variable"
        shown = repr(right) if _is_constant(right) else power
        raise self.unsupported(node, f"a power with exponent {shown}", instead)

    def _unary(self, op: ast.unaryop, operand: object, node: ast.AST) -> object:
        python = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
        if _is_constant(operand):
            return self._in_python(python[type(op)], node, operand)
        self.check_operands(node, operand)
        self.at(node)
        match op:
            case ast.USub():
                return operand.times(-1) if isinstance(operand, Affine) else self.b.map("neg", operand)
            case ast.UAdd():
                return operand
            case ast.Invert():
                return self.b.map("not", operand)
        raise self.unsupported(node, "`not` of a tile or scalar", "~x for a bool x")

    def _compare(self, node: ast.Compare) -> object:
        """Chains such as a <= b < c hold where all parts hold."""
        values = [self.evaluate(v) for v in (node.left, *node.comparators)]
        result: object = True
        for at, op in enumerate(node.ops):
            part = self._compare_two(type(op), values[at], values[at + 1], node)
            if isinstance(result, bool):
                result = part if result else False
            elif not (isinstance(part, bool) and part):
                self.at(node)
                result = self.b.map("and", result, part)
        return result

    def _compare_two(self, op: type, left: object, right: object, node: ast.Compare) -> object:
        fn, python = _COMPARE[op]
        if fn in ("is", "is not") or (_is_constant(left) and _is_constant(right)):
            return self._in_python(python, node, left, right)
        if fn in ("in", "not in"):
            raise self.unsupported(node, f"`{fn}` on tiles", "(x == a) | (x == b)")
        self.check_operands(node, left, right)
        self.at(node)
        return self.b.map(fn, left, right)

    def _bool_op(self, op: ast.boolop, nodes: list[ast.expr]) -> object:
        value: object = None
        for node in nodes:
            value = self.evaluate(node)
            if not _is_constant(value):
                word, sign = ("and", "&") if isinstance(op, ast.And) else ("or", "|")
                raise self.unsupported(node, f"`{word}` with a tile or scalar", f"(a) {sign} (b), with the parentheses")
            if bool(value) != isinstance(op, ast.And):
                return value
        return value

    def _in_python(self, fn: Callable[..., object], node: ast.AST, *operands: object) -> object:
        """Compute with compile-time constants; a failure is the user's."""
        try:
            return fn(*operands)
        except Exception as error:  # any exception of the user's constants
            raise self.unsupported(node, f"{type(error).__name__}: {error}") from error

    def constant_truth(self, test: ast.expr, what: str) -> bool:
        value = self.evaluate(test)
        if _is_constant(value):
            return bool(value)
        raise CompileError(
            CONDITION,
            f"`{what}` on a value that is known only at run time",
            why="it would have to differ from element to element",
            try_="tl.where(c, x, y)",
            loc=self.loc(test),
        )

    # ------------------------------------------------------------ attributes, calls

    def _attribute(self, owner: object, name: str, node: ast.Attribute) -> object:
        match owner:
            case TensorRef(tensor):
                if name == "dtype":
                    return tensor.dtype
                instead = 'tl.dim("M") for a size' if name in ("shape", "size") else "axes have names: no transposing"
                raise self.unsupported(node, f"`.{name}` of a tensor", instead)
            case Value():
                if name == "dtype":
                    return owner.type.dtype
                instead = "the functions of tl, such as tl.cast(x, tl.f16)"
                if name in ("T", "mT", "transpose", "permute", "swapaxes", "reshape", "view"):
                    instead = "nothing: axes have names, and a result is stored by its own subscripts, out[n, m] = tile"
                raise self.unsupported(node, f"`.{name}` of a tile", instead)
            case Affine():
                return self._bound(owner, name, node)
        try:
            return getattr(owner, name)
        except AttributeError as error:
            if owner is threadloom:
                instead = nearest_here(name)
            else:
                near = _nearest(name, dir(owner))
                instead = near and f"did you mean {ast.unparse(node.value)}.{near}?"
            raise CompileError(UNKNOWN_NAME, str(error), try_=instead, loc=self.loc(node)) from None

    def _bound(self, owner: Affine, name: str, node: ast.Attribute) -> Value:
        axis = owner.axis()
        if axis is None or name not in ("start", "stop") or self.b.axes[axis].kind is AxisKind.EACH:
            raise self.unsupported(node, f"`.{name}` of a loop variable", "m.start and m.stop of a tiled axis")
        self.at(node)
        result = self.b.temporary((), i64)
        self.b.emit(Bound(result, axis, name, self.b.loc))
        return result

    def _call(self, node: ast.Call) -> object:
        callee = self.evaluate(node.func)
        if callee is tl.atomic_add:
            return self.atomic_add(node)
        args = [self.evaluate(a) for a in node.args]
        if any(k.arg is None for k in node.keywords):
            raise self.unsupported(node, "`**` in a call", "write the arguments out")
        kwargs = {k.arg: self.evaluate(k.value) for k in node.keywords}
        constant = all(_is_constant(a) for a in (*args, *kwargs.values()))
        if not constant and _hashable(callee) and callee in _SAME_AS:
            return self._same_as(callee, args, node)
        if _hashable(callee) and callee in HANDLERS:
            self.check_operands(node, *args, *kwargs.values())
            self.at(node)
            return call(callee, self.b, args, kwargs)
        if isinstance(callee, types.FunctionType):
            return self.inline(callee, args, kwargs, node)
        if callable(callee) and constant:
            if _varies(callee):
                raise CompileError(
                    UNSUPPORTED,
                    f"{ast.unparse(node.func)} in a kernel",
                    why="it would be called once, when the kernel is compiled",
                    try_="pass its results as a tensor",
                    loc=self.loc(node),
                )
            return self._in_python(lambda: callee(*args, **kwargs), node)
        name = getattr(callee, "__name__", repr(callee))
        instead = spelled_here(name) or "a function of tl, or a Python function of yours"
        raise self.unsupported(node, f"a call of {name} with tiles", instead)

    def _same_as(self, callee: object, args: list[object], node: ast.Call) -> object:
        """abs, min, max and math functions of tiles mean the language's own."""
        stub = _SAME_AS[callee]
        self.check_operands(node, *args)
        self.at(node)
        if callee in (builtins.min, builtins.max):
            if len(args) == 1:
                name = callee.__name__
                raise self.unsupported(node, f"{name}() of one tile", f"tl.{name}(x, k) over axis k of the tile")
            return functools.reduce(lambda x, y: call(stub, self.b, [x, y], {}), args)
        return call(stub, self.b, args, {})

    def inline(
        self, function: types.FunctionType, args: list[object], kwargs: dict[str, object], node: ast.AST
    ) -> object:
        raise NotImplementedError  # parse.py: it needs statements

    def _subscript(self, owner: object, index: ast.expr, node: ast.Subscript) -> object:
        if isinstance(owner, TensorRef):
            return self.load(owner, index, node)
        if isinstance(owner, Value | Affine):
            raise self.unsupported(node, "subscripts of a tile", "load the part that is needed from the tensor")
        key = self.evaluate(index)
        if not _is_constant(key):
            raise self.unsupported(node, "a Python container indexed by a tile", "pass it as a tensor")
        return self._in_python(operator.getitem, node, owner, key)


def _is_constant(thing: object) -> bool:
    """Known while compiling: a Python object that holds no tile."""
    if isinstance(thing, tuple | list):
        return all(_is_constant(t) for t in thing)
    return not isinstance(thing, Value | Affine | TensorRef)


def _varies(function: Callable[..., object]) -> bool:
    """Whether a function gives something else at each call: of a generator of random numbers, of a clock."""
    homes = (function, type(getattr(function, "__self__", None)))
    modules = [str(getattr(home, "__module__", "")) for home in homes]
    return any(m in ("random", "secrets", "time") or m.startswith("numpy.random") for m in modules)


def _hashable(thing: object) -> bool:
    return callable(thing) and not isinstance(thing, Dtype) and thing.__hash__ is not None


def _affine(fn: str, left: object, right: object) -> Affine | None:
    """left fn right as a subscript in the making, where that is possible."""
    if not isinstance(left, Affine) and not isinstance(right, Affine):
        return None
    if fn in ("add", "sub"):
        a, b = _as_affine(left), _as_affine(right)
        return None if a is None or b is None else a.plus(b, 1 if fn == "add" else -1)
    if fn == "mul":
        for affine, factor in ((left, right), (right, left)):
            if isinstance(affine, Affine) and isinstance(factor, int) and not isinstance(factor, bool):
                return affine.times(factor)
    return None


def _as_affine(thing: object) -> Affine | None:
    match thing:
        case Affine():
            return thing
        case bool():
            return None
        case int():
            return Affine((), thing)
        case Value() if thing.type.dtype.is_integer:
            return Affine((Term(1, value=thing),))
    return None


def _nearest(name: str, known: list[str], cutoff: float = 0.6) -> str:
    return next(iter(get_close_matches(name, [k for k in known if not k.startswith("__")], 1, cutoff)), "")
