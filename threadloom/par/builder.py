"""Builds `par` from Python, top to bottom, as the code will run.

    m = ModuleBuilder()
    with m.function("scale", [("x", PTR, "noalias"), ("n", I64)], exported=True) as b:
        x, n = b.args
        with b.parallel(Level.BLOCKS, [0], [n], names=["i"]) as (i,):
            p = b.gep(F32, x, i)
            b.store(b.fmul(b.load(F32, p), 2.0), p)
        b.ret()
    module = m.build()

Python numbers stand for constants wherever the other operand tells their type. Integer arithmetic on constants is
folded, so generated code is clean. Names come from the caller's hints, or from the operation, and are made unique.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from threadloom.errors import InternalError
from threadloom.par.build_leaves import LeafBuilder, Wanted
from threadloom.par.constants import Number, const, int_value
from threadloom.par.ops import (
    I64,
    PTR,
    VOID,
    Alloca,
    Barrier,
    Block,
    Condition,
    Const,
    For,
    Function,
    Global,
    If,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Param,
    Return,
    Space,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.source import Loc

ParamSpec = tuple[str, Type] | tuple[str, Type, str]  # name, type, attributes in LLVM's spelling ("noalias readonly")


class ModuleBuilder:
    """Collects functions and globals; `build()` gives the Module."""

    def __init__(self, reuses: bool = False) -> None:
        """`reuses`: pure integer operations of a region that are built again are the ones built before."""
        self.reuses = reuses
        self._functions: dict[str, Function] = {}
        self._globals: dict[str, Global] = {}

    def build(self) -> Module:
        return Module(tuple(self._functions.values()), tuple(self._globals.values()))

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[ParamSpec] = (),
        result: Type = VOID,
        *,
        exported: bool = False,
        attrs: Sequence[str] = ("nounwind",),
        loc: Loc | None = None,
    ) -> Iterator[Builder]:
        """The body is what is built inside the `with`; it must end with `ret`."""
        if name in self._functions:
            raise InternalError(f"function {name} is built twice")
        builder = Builder(self, result)
        built = tuple(_param(builder, spec) for spec in params)
        builder.args = tuple(param.value for param in built)
        yield builder
        if not builder.ops or not isinstance(builder.ops[-1], Return):
            raise InternalError(f"function {name} does not end with ret()")
        self._functions[name] = Function(
            name, built, result, Block(tuple(builder.ops)), exported, tuple(attrs), loc=loc
        )

    def declare(self, name: str, params: Sequence[Type], result: Type, variadic: bool = False,
                attrs: Sequence[str] = ("nounwind",)) -> None:  # fmt: skip
        """Declare an external function unless it is known already; builder calls do it by themselves."""
        if name not in self._functions:
            values = tuple(Param(Value(f"arg{index}", type_)) for index, type_ in enumerate(params))
            self._functions[name] = Function(name, values, result, None, attrs=tuple(attrs), variadic=variadic)

    def global_(self, name: str, type_: Type, init: str | None = "zeroinitializer", *, constant: bool = False,
                align_bytes: int = 0, linkage: str = "internal") -> Const:  # fmt: skip
        """A module-level variable; returns its address."""
        self._globals[name] = Global(name, type_, init, constant, align_bytes, linkage)
        return Const(PTR, f"@{name}")


def _param(builder: Builder, spec: ParamSpec) -> Param:
    name, type_, *attrs = spec
    return Param(builder.fresh(name, type_), _split_attrs(attrs[0]) if attrs else ())


def _split_attrs(text: str) -> tuple[str, ...]:
    """`noalias align 64` is two attributes."""
    words, attrs = text.split(), []
    for word in words:
        if attrs and attrs[-1] == "align":
            attrs[-1] = f"align {word}"
        else:
            attrs.append(word)
    return tuple(attrs)


class Loop:
    """What `Builder.loop` yields: `iv`, the carried values `args`, and after the `with` the `results`."""

    def __init__(self, iv: Value, args: tuple[Value, ...]):
        self.iv, self.args = iv, args
        self.yielded: tuple[Wanted, ...] | None = None
        self.results: tuple[Value, ...] = ()

    def yield_(self, *values: Wanted) -> None:
        self.yielded = values


class Branch:
    """What `Builder.if_` yields: build the then part, `yield_`, `otherwise()`, build the else part, `yield_`."""

    def __init__(self, builder: Builder):
        self._builder = builder
        self.blocks: list[list[Op]] = [builder.ops]
        self.yields: list[tuple[Operand, ...]] = [()]
        self.results: tuple[Value, ...] = ()

    def yield_(self, *values: Operand) -> None:
        self.yields[-1] = values

    def otherwise(self) -> None:
        if len(self.blocks) == 2:
            raise InternalError("otherwise() is called twice in one if_")
        self._builder.ops = []
        self.blocks.append(self._builder.ops)
        self.yields.append(())


class Repeat:
    """What `Builder.while_` yields: build the test on `args`, `go_on(cond, ...)` gives the forwarded values inside
    the body, then `yield_` the next `args`; after the `with`, `results` are the forwarded values at exit."""

    def __init__(self, builder: Builder, args: tuple[Value, ...]):
        self._builder, self.args = builder, args
        self.before: list[Op] = builder.ops
        self.after: list[Op] = []
        self.after_args: tuple[Value, ...] = ()
        self.yielded: tuple[Wanted, ...] | None = None
        self.results: tuple[Value, ...] = ()
        self.tested = False

    def go_on(self, cond: Operand, *forwarded: Operand) -> tuple[Value, ...]:
        self._builder.ops.append(Condition(cond, forwarded))
        self.after_args = tuple(self._builder.fresh(_hint(value, "again"), value.type) for value in forwarded)
        self._builder.ops = self.after
        self.tested = True
        return self.after_args

    def yield_(self, *values: Wanted) -> None:
        self.yielded = values


def _hint(operand: Operand, default: str) -> str:
    return operand.name.split(".")[0] if isinstance(operand, Value) else default


class Builder(LeafBuilder):
    """Appends operations to the innermost open region of one function."""

    def __init__(self, module: ModuleBuilder, result: Type = VOID):
        super().__init__(module)
        self.args: tuple[Value, ...] = ()
        self._result = result

    @contextmanager
    def _region(self) -> Iterator[list[Op]]:
        outer, self.ops = self.ops, []
        try:
            yield outer
        finally:
            self.ops = outer

    @contextmanager
    def at(self, loc: Loc | None) -> Iterator[None]:
        """Give `loc` to what is built inside."""
        outer, self.loc = self.loc, loc
        try:
            yield
        finally:
            self.loc = outer

    @contextmanager
    def loop(self, lower: Wanted, upper: Wanted, step: Wanted = 1, inits: Sequence[Operand] = (),
             names: Sequence[str] = (), iv: str = "i", type_: Type = I64) -> Iterator[Loop]:  # fmt: skip
        """`for iv in range(lower, upper, step)` with carried values; the body tells their next values by `yield_`."""
        bounds = [self.wanted(bound, type_) for bound in (lower, upper, step)]
        hints = list(names) or [_hint(init, "carried") for init in inits]
        variable = self.fresh(iv, type_)
        if int_value(bounds[0]) == 0 and (every := int_value(bounds[2])):
            self._steps[variable.name] = every
        args = tuple(self.fresh(hint, init.type) for hint, init in zip(hints, inits, strict=True))
        loop, loc = Loop(variable, args), self.loc
        with self._region() as outer:
            yield loop
            yielded = self._yielded(loop.yielded, args)
            body = Block((*self.ops, Yield(yielded)))
            loop.results = tuple(self.fresh(f"{hint}.out", arg.type) for hint, arg in zip(hints, args, strict=True))
            outer.append(For(variable, *bounds, tuple(inits), args, body, loop.results, loc))

    def _yielded(self, values: tuple[Wanted, ...] | None, args: tuple[Value, ...]) -> tuple[Operand, ...]:
        values = values or ()
        if len(values) != len(args):
            raise InternalError(f"{len(args)} carried values but yield_ got {len(values)}")
        return tuple(self.wanted(value, arg.type) for value, arg in zip(values, args, strict=True))

    @contextmanager
    def while_(self, inits: Sequence[Operand], names: Sequence[str] = ()) -> Iterator[Repeat]:
        hints = list(names) or [_hint(init, "carried") for init in inits]
        args = tuple(self.fresh(hint, init.type) for hint, init in zip(hints, inits, strict=True))
        loc = self.loc
        with self._region() as outer:
            repeat = Repeat(self, args)
            yield repeat
            if not repeat.tested:
                raise InternalError("while_ without go_on(cond, ...)")
            after = Block((*self.ops, Yield(self._yielded(repeat.yielded, args))))
            repeat.results = tuple(self.fresh(f"{value.name}.out", value.type) for value in repeat.after_args)
            outer.append(
                While(tuple(inits), args, Block(tuple(repeat.before)), repeat.after_args, after, repeat.results, loc)
            )

    @contextmanager
    def if_(self, cond: Operand, names: Sequence[str] = ()) -> Iterator[Branch]:
        loc = self.loc
        with self._region() as outer:
            branch = Branch(self)
            yield branch
            then, otherwise = (*branch.yields, ()) if len(branch.yields) == 1 else branch.yields
            if [value.type for value in then] != [value.type for value in otherwise]:
                raise InternalError("the two sides of if_ yield different types")
            hints = list(names) or [_hint(value, "chosen") for value in then]
            branch.results = tuple(self.fresh(hint, value.type) for hint, value in zip(hints, then, strict=True))
            blocks = [
                Block((*ops, Yield(tuple(values)))) for ops, values in zip(branch.blocks, branch.yields, strict=True)
            ]
            outer.append(If(cond, blocks[0], blocks[1] if len(blocks) == 2 else Block((Yield(),)), branch.results, loc))

    @contextmanager
    def parallel(self, level: Level, lowers: Sequence[Wanted], uppers: Sequence[Wanted], names: Sequence[str] = (),
                 schedule: str = "static", type_: Type = I64) -> Iterator[tuple[Value, ...]]:  # fmt: skip
        """All iterations at once; yields the induction variables."""
        hints = list(names) or [f"{level}.{dimension}" for dimension in range(len(lowers))]
        ivs = tuple(self.fresh(hint, type_) for hint in hints)
        bounds = [tuple(self.wanted(bound, type_) for bound in side) for side in (lowers, uppers)]
        loc = self.loc
        with self._region() as outer:
            yield ivs
            outer.append(Parallel(level, ivs, bounds[0], bounds[1], Block(tuple(self.ops)), schedule, loc))

    def alloca(self, element: Type, count: Wanted = 1, space: Space = Space.PRIVATE, align_bytes: int = 0,
               name: str = "slot") -> Value:  # fmt: skip
        """`count` uninitialised elements; returns their address."""
        result = self.fresh(name, PTR)
        self.ops.append(Alloca(result, element, self.wanted(count, I64), space, align_bytes, self.loc))
        return result

    def barrier(self, scope: Level = Level.THREADS) -> None:
        self.ops.append(Barrier(scope, self.loc))

    def ret(self, value: Wanted | None = None) -> None:
        self.ops.append(Return(None if value is None else self.wanted(value, self._result)))

    def const(self, type_: Type, value: Number) -> Const:
        return const(type_, value)
