"""Is a par module well formed? Rules are data: (what they look at, condition, message).

`problems(module)` lists what is wrong, each with the operation's text; `verify(module)` raises an InternalError, since
a malformed module is our bug, not the user's. Two things are checked by walking rather than by rules: names (each
defined once, and before its uses) and how regions end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from threadloom.errors import InternalError
from threadloom.par.constants import int_value
from threadloom.par.leaf_rules import leaf_problems
from threadloom.par.ops import (
    I1,
    PTR,
    VOID,
    Alloca,
    Barrier,
    Block,
    Condition,
    For,
    Function,
    If,
    Int,
    Leaf,
    Level,
    Module,
    Op,
    Parallel,
    Return,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.par.printing import type_text
from threadloom.par.text import print_op
from threadloom.par.walk import arguments, operands, regions, results
from threadloom.source import Loc


@dataclass(frozen=True, slots=True)
class Problem:
    function: str
    message: str
    text: str  # the operation, its regions left out
    loc: Loc | None = None

    def __str__(self) -> str:
        where = f"{self.loc}: " if self.loc else ""
        return f"{where}{self.function}: {self.message}\n    {self.text}"


def verify(module: Module, after: str = "") -> None:
    """Raise an InternalError that lists the first problems; `after` names the pass that made the module."""
    if found := problems(module):
        shown = "\n  ".join(str(problem) for problem in found[:5])
        more = f"\n  and {len(found) - 5} more" if len(found) > 5 else ""
        raise InternalError(f"par is not well formed{f' after {after}' if after else ''}:\n  {shown}{more}")


def problems(module: Module) -> list[Problem]:
    found: list[Problem] = []
    by_name = {function.name: function for function in module.functions}
    seen: set[str] = set()
    for function in module.functions:
        if function.name in seen:
            found.append(Problem(function.name, "is defined or declared twice", ""))
        seen.add(function.name)
        if function.body is not None:
            found += _FunctionCheck(by_name, function).problems()
    return found


# ---------------------------------------------------------------- rules of structured operations


def _types(values: tuple) -> list[Type]:
    return [value.type for value in values]


@dataclass(frozen=True, slots=True)
class Rule:
    op: type
    holds: Callable[..., bool]
    message: str


def _counts(op: For) -> bool:
    return isinstance(op.iv.type, Int) and op.lower.type == op.upper.type == op.step.type == op.iv.type


RULES: tuple[Rule, ...] = (
    Rule(For, _counts, "variable and bounds of a for must be of one integer type"),
    Rule(For, lambda op: (int_value(op.step) or 1) > 0, "the step of a for must be positive"),
    Rule(For, lambda op: _types(op.inits) == _types(op.args) == _types(op.results),
         "inits, carried values and results of a for must agree in number and type"),
    Rule(While, lambda op: _types(op.inits) == _types(op.args), "inits and carried values of a while must agree"),
    Rule(While, lambda op: _types(op.after_args) == _types(op.results),
         "forwarded values and results of a while must agree"),
    Rule(If, lambda op: op.cond.type == I1, "the condition of an if must be an i1"),
    Rule(Parallel, lambda op: len(op.ivs) == len(op.lowers) == len(op.uppers) > 0,
         "a parallel needs as many lower and upper bounds as variables, and at least one"),
    Rule(Parallel, lambda op: all(isinstance(iv.type, Int) and iv.type == lower.type == upper.type
                                  for iv, lower, upper in zip(op.ivs, op.lowers, op.uppers, strict=False)),
         "each variable of a parallel and its bounds must be of one integer type"),
    Rule(Parallel, lambda op: op.schedule in ("static", "dynamic", "turns"), "it runs static or dynamic or by turns"),
    Rule(Parallel, lambda op: op.grain > 0 and op.grain & (op.grain - 1) == 0, "a grain is a power of two"),
    Rule(Alloca, lambda op: op.result.type == PTR and isinstance(op.count.type, Int),
         "an alloca gives a ptr and counts with an integer"),
    Rule(Alloca, lambda op: op.align_bytes & (op.align_bytes - 1) == 0, "an alignment must be a power of two"),
)  # fmt: skip


def _text_of(op: Op | None) -> str:
    """The first line of `op`, or its fields if it is too broken to print."""
    if op is None:
        return ""
    try:
        return print_op(op).split("\n", 1)[0]
    except (InternalError, KeyError, ValueError, IndexError):
        return repr(op)[:200]


# ---------------------------------------------------------------- names and regions


@dataclass
class _FunctionCheck:
    functions: dict[str, Function]
    function: Function
    found: list[Problem] = field(default_factory=list)
    all_names: set[str] = field(default_factory=set)

    def problems(self) -> list[Problem]:
        assert self.function.body is not None
        visible = {}
        for param in self.function.params:
            self._define(param.value, visible, None)
        self._block(self.function.body, visible, ())
        self._ends_with(self.function.body, Return, None)
        self._return_type()
        return self.found

    def _report(self, message: str, op: Op | None) -> None:
        self.found.append(Problem(self.function.name, message, _text_of(op), getattr(op, "loc", None)))

    def _block(self, block: Block, visible: dict[str, Value], levels: tuple[Level, ...]) -> None:
        inside = dict(visible)
        for op in block.ops:
            self._uses(op, inside)
            self._rules(op, levels)
            for number, region in enumerate(regions(op)):
                self._region(op, number, region, inside, levels)
            for value in results(op):
                self._define(value, inside, op)

    def _region(self, op: Op, number: int, region: Block, visible: dict[str, Value], levels: tuple[Level, ...]) -> None:
        inside = dict(visible)
        local = arguments(op)
        if isinstance(op, While):
            local = op.args if number == 0 else op.after_args
        for value in local:
            self._define(value, inside, op)
        if isinstance(op, Parallel):
            levels = (*levels, op.level)
        self._block(region, inside, levels)
        match op:
            case Parallel():
                self._ends_with(region, None, op)
            case While() if number == 0:
                self._ends_with(region, Condition, op)
                self._passes(region, op.after_args, "after_args", op)
            case While() | For():
                self._ends_with(region, Yield, op)
                self._passes(region, op.args, "carried values", op)
            case If():
                self._ends_with(region, Yield, op)
                self._passes(region, op.results, "results", op)

    def _define(self, value: Value, visible: dict[str, Value], op: Op | None) -> None:
        if value.name in self.all_names:
            self._report(f"%{value.name} is defined twice", op)
        self.all_names.add(value.name)
        visible[value.name] = value

    def _uses(self, op: Op, visible: dict[str, Value]) -> None:
        for operand in operands(op):
            if not isinstance(operand, Value):
                continue
            known = visible.get(operand.name)
            if known is None:
                self._report(f"%{operand.name} is used where it is not defined", op)
            elif known.type != operand.type:
                types = f"{type_text(operand.type)}, but it is {type_text(known.type)}"
                self._report(f"%{operand.name} is used as {types}", op)

    def _rules(self, op: Op, levels: tuple[Level, ...]) -> None:
        if isinstance(op, Leaf):
            for message in leaf_problems(op, self.functions):
                self._report(message, op)
            return
        for rule in RULES:
            if isinstance(op, rule.op) and not rule.holds(op):
                self._report(rule.message, op)
        if isinstance(op, Barrier) and op.scope not in levels:
            self._report(f"a barrier of scope {op.scope} must stand inside a parallel {op.scope}", op)

    def _ends_with(self, block: Block, kind: type | None, owner: Op | None) -> None:
        enders = (Yield, Condition, Return)
        for op in block.ops[:-1] if kind else block.ops:
            if isinstance(op, enders):
                self._report(f"{type(op).__name__.lower()} stands where its region does not end", op)
        if kind is not None and (not block.ops or not isinstance(block.ops[-1], kind)):
            self._report(f"this region must end with {kind.__name__.lower()}", owner)

    def _passes(self, block: Block, wanted: tuple[Value, ...], what: str, owner: Op) -> None:
        last = block.ops[-1] if block.ops else None
        if isinstance(last, Yield | Condition) and _types(last.values) != _types(wanted):
            given = ", ".join(type_text(value.type) for value in last.values)
            needed = ", ".join(type_text(value.type) for value in wanted)
            self._report(f"the region gives ({given}) but the {what} are ({needed})", owner)

    def _return_type(self) -> None:
        assert self.function.body is not None
        last = self.function.body.ops[-1] if self.function.body.ops else None
        if isinstance(last, Return):
            given = VOID if last.value is None else last.value.type
            if given != self.function.result:
                self._report(f"returns {type_text(given)}, declared as {type_text(self.function.result)}", last)
