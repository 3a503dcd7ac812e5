"""Text to tile kernels; the form is told in text.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from threadloom.dtypes import ALL, Dtype
from threadloom.errors import CompileError
from threadloom.source import Loc
from threadloom.tile.functions import TABLE
from threadloom.tile.ops import (
    Access,
    AtomicAdd,
    Axis,
    AxisKind,
    Block,
    Bound,
    Cast,
    Const,
    Dim,
    DimSize,
    Dot,
    Full,
    Grid,
    If,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Map,
    Op,
    Reduce,
    Scalar,
    Scan,
    Store,
    Stream,
    Subscript,
    Tensor,
    Term,
    TileType,
    Value,
    Yield,
)
from threadloom.tile.verify import INVALID_TILE

_TOKEN = re.compile(
    r"(?:(?P<loc>;[^\n]*)|(?P<value>%\w+(?:\.\d+)*)|(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    r"|(?P<word>[A-Za-z_]\w*(?:\.\d+)*)|(?P<sign>\.\.|->|[-+*=:,.(){}\[\]]))"
)


def parse_text(text: str, file: str = "<tile>", own_places: bool = False) -> Kernel:
    """The kernel that `text` describes; it is not verified here. `own_places`: what has no location is where it
    stands in `text`."""
    return _Reader(text, file, own_places).kernel()


def parse_op(text: str, axes: Mapping[str, Axis], values: Mapping[str, Value], file: str, line: int) -> Op:
    """One operation that uses `axes` and `values`; it stands at `line` of `file`."""
    reader = _Reader("\n" * (line - 1) + text, file)
    reader.axes, reader.values = dict(axes), dict(values)
    op = reader.op()
    reader.take("end")
    return op


def parse_type(text: str) -> TileType:
    """`[m, n] f32`"""
    return _Reader(text, "<type>").type()


class _Reader:
    def __init__(self, text: str, file: str, own_places: bool = False):
        self.file, self.text, self.own_places = file, text, own_places
        self.begin = 0  # token of the operation under way
        self.tokens: list[tuple[str, str, int, int]] = []  # kind, text, line, column
        self.at = 0
        self.values: dict[str, Value] = {}
        self.axes: dict[str, Axis] = {}
        self._scan()

    def _scan(self) -> None:
        line, line_start, at = 1, 0, 0
        while at < len(self.text):
            if self.text[at].isspace():
                if self.text[at] == "\n":
                    line, line_start = line + 1, at + 1
                at += 1
                continue
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self._error(f"unexpected {self.text[at]!r}", line, at - line_start + 1)
            self.tokens.append((match.lastgroup, match[match.lastgroup], line, at - line_start + 1))
            at = match.end()
        self.tokens.append(("end", "", line, 1))

    def _error(self, what: str, line: int = 0, column: int = 0) -> CompileError:
        if not line:
            _, _, line, column = self.tokens[self.at]
        return CompileError(INVALID_TILE, what, loc=Loc(self.file, line, column, column + 1))

    # ------------------------------------------------------------ tokens

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def kind(self) -> str:
        return self.tokens[self.at][0]

    def take(self, kind: str = "", text: str = "") -> str:
        found_kind, found, _, _ = self.tokens[self.at]
        if (kind and found_kind != kind) or (text and found != text):
            raise self._error(f"expected {text or kind}, found {found or 'the end'!r}")
        self.at += 1
        return found

    def maybe(self, text: str) -> bool:
        if self.peek() != text:
            return False
        self.at += 1
        return True

    def listed(self, end: str) -> Iterator[None]:
        """Step over a comma-separated list up to `end`."""
        while self.peek() != end:
            yield
            if not self.maybe(","):
                break
        self.take(text=end)

    def loc(self) -> Loc | None:
        if self.kind() != "loc":
            _, begun, line, column = self.tokens[self.begin]
            return Loc(self.file, line, column, column + len(begun)) if self.own_places else None
        text = self.take()
        found = re.fullmatch(r";\s*(.*):(\d+):(\d+)-(\d+)\s*", text)
        return Loc(found[1], int(found[2]), int(found[3]), int(found[4])) if found else None

    # ------------------------------------------------------------ parts

    def dtype(self) -> Dtype:
        name = self.take("word")
        if name not in ALL:
            raise self._error(f"{name} is not a dtype")
        return ALL[name]

    def dim(self) -> Dim:
        return int(self.take()) if self.kind() == "number" else self.take("word")

    def value(self) -> Value:
        name = self.take("value")[1:]
        if name not in self.values:
            self.at -= 1
            raise self._error(f"%{name} has no value here")
        return self.values[name]

    def type(self) -> TileType:
        self.take(text="[")
        axes = tuple(self.take("word") for _ in self.listed("]"))
        return TileType(axes, self.dtype())

    def typed(self) -> Value:
        name = self.take("value")[1:]
        self.take(text=":")
        return Value(name, self.type())

    def define(self, value: Value) -> Value:
        self.values[value.name] = value
        return value

    # ------------------------------------------------------------ kernel

    def kernel(self) -> Kernel:
        self.take(text="kernel")
        name = self.take("word")
        tensors, scalars = [], []
        self.take(text="(")
        for _ in self.listed(")"):
            param = self.take("word")
            self.take(text=":")
            if self.maybe("["):
                dims = tuple(self.dim() for _ in self.listed("]"))
                tensors.append(Tensor(param, dims, self.dtype(), Access(self.take("word"))))
            else:
                scalars.append(Scalar(param, self.dtype()))
                self.define(Value(param, TileType((), scalars[-1].dtype)))
        self.take(text="{")
        loc = self.loc()
        if self.maybe("axes"):
            self._axes()
        body = self.block()
        self.take("end")
        return Kernel(name, tuple(tensors), tuple(scalars), tuple(self.axes.values()), body, loc)

    def _axes(self) -> None:
        while True:
            name = self.take("word")
            self.take(text=":")
            dim = self.dim()
            word = self.take("word")
            if word not in list(AxisKind):
                raise self._error(f"{word} is not a kind of axis: {', '.join(AxisKind)}")
            self.axes[name] = Axis(name, dim, AxisKind(word))
            if not self.maybe(","):
                return

    def block(self) -> Block:
        """Operations up to the closing brace, which is taken."""
        ops: list[Op] = []
        before = dict(self.values)
        while not self.maybe("}"):
            ops.append(self.op())
        self.values = before
        return Block(tuple(ops))

    def op(self) -> Op:
        self.begin = self.at
        if self.kind() == "value":
            result = self.typed()
            self.take(text="=")
            op = self._right_side(result)
            self.define(result)
            return op
        word = self.take("word")
        match word:
            case "store" | "atomic_add":
                tensor, subscripts = self.take("word"), self._subscripts()
                self.take(text="=")
                make = Store if word == "store" else AtomicAdd
                return make(tensor, subscripts, self.value(), self.loc())
            case "yield":
                values = [self.value()] if self.kind() == "value" else []
                while values and self.maybe(","):
                    values.append(self.value())
                return Yield(tuple(values))
            case "grid":
                axes = () if self.peek() == "{" else self._loop_axes()
                self.take(text="{")
                loc = self.loc()
                return Grid(axes, self.block(), loc)
            case "stream":
                return self._stream()
            case "if":
                return self._if()
        self.at -= 1
        raise self._error(f"{word} is not an operation")

    def _loop_axes(self) -> tuple[LoopAxis, ...]:
        found = []
        while True:
            name = self.take("word")
            if name not in self.axes:
                raise self._error(f"{name} is not an axis of the kernel")
            start = stop = None
            if self.maybe("in"):
                start = self.value() if self.kind() == "value" else None
                self.take(text="..")
                stop = self.value() if self.kind() == "value" else None
            found.append(LoopAxis(self.axes[name], start, stop))
            if not self.maybe(","):
                return tuple(found)

    def _stream(self) -> Stream:
        axes = self._loop_axes()
        inits, args, names = [], [], []
        if self.maybe("carry"):
            self.take(text="(")
            for _ in self.listed(")"):
                args.append(self.typed())
                self.take(text="=")
                inits.append(self.value())
            self.take(text="->")
            self.take(text="(")
            names = [self.take("value")[1:] for _ in self.listed(")")]
        self.take(text="{")
        loc = self.loc()
        before = dict(self.values)
        for arg in args:
            self.define(arg)
        body = self.block()
        self.values = before
        made = tuple(self.define(Value(n, a.type)) for n, a in zip(names, args, strict=False))
        return Stream(axes, tuple(inits), tuple(args), body, made, loc)

    def _if(self) -> If:
        cond = self.value()
        made: list[Value] = []
        if self.maybe("->"):
            self.take(text="(")
            made = [self.typed() for _ in self.listed(")")]
        self.take(text="{")
        loc = self.loc()
        then = self.block()
        self.take(text="else")
        self.take(text="{")
        otherwise = self.block()
        for value in made:
            self.define(value)
        return If(cond, then, otherwise, tuple(made), loc)

    def _right_side(self, result: Value) -> Op:
        word = self.take("word")
        match word:
            case "const":
                return Const(result, self._number(result.type.dtype), self.loc())
            case "index":
                return Index(result, self.take("word"), self.loc())
            case "bound":
                axis = self.take("word")
                self.take(text=".")
                return Bound(result, axis, self.take("word"), self.loc())
            case "dim":
                return DimSize(result, self.dim(), self.loc())
            case "load":
                return Load(result, self.take("word"), self._subscripts(), self.loc())
            case "cast":
                return Cast(result, self.value(), self.loc())
            case "full":
                return Full(result, self.value(), self.loc())
            case "reduce":
                fn, value = self.take("word"), self.value()
                self.take(text="over")
                return Reduce(result, fn, value, self.take("word"), self.loc())
            case "scan":
                fn, value = self.take("word"), self.value()
                self.take(text="along")
                axis = self.take("word")
                return Scan(result, fn, value, axis, self.maybe("reverse"), self.loc())
            case "dot":
                return self._dot(result)
        if word not in TABLE:
            self.at -= 1
            raise self._error(f"{word} is not an operation")
        args = [self.value()]
        while self.maybe(","):
            args.append(self.value())
        return Map(result, word, tuple(args), self.loc())

    def _dot(self, result: Value) -> Dot:
        a = self.value()
        self.take(text=",")
        b = self.value()
        self.take(text="over")
        over = [self.take("word")]
        while self.maybe(","):
            over.append(self.take("word"))
        return Dot(result, a, b, tuple(over), self.loc())

    def _number(self, dtype: Dtype) -> int | float | bool:
        negative = self.maybe("-")
        text = self.take()
        try:
            if dtype.kind == "bool":
                return {"True": True, "False": False}[text]
            number = float(text) if dtype.is_float else int(text)
        except (KeyError, ValueError):
            raise self._error(f"{text} is not a {dtype.name}") from None
        return -number if negative else number

    def _subscripts(self) -> tuple[Subscript, ...]:
        self.take(text="[")
        return tuple(self._subscript() for _ in self.listed("]"))

    def _subscript(self) -> Subscript:
        terms: list[Term] = []
        offset, sign = 0, -1 if self.maybe("-") else 1
        while True:
            factor = int(self.take()) if self.kind() == "number" else None
            if factor is not None and not self.maybe("*"):
                offset += sign * factor
            elif self.kind() == "value":
                terms.append(Term(sign * (factor or 1), value=self.value()))
            else:
                terms.append(Term(sign * (factor or 1), axis=self.take("word")))
            if self.maybe("+"):
                sign = 1
            elif self.maybe("-"):
                sign = -1
            else:
                return Subscript(tuple(terms), offset)
