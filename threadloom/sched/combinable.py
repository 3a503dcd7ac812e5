"""Which reductions of a loop may be cut into parts: how the carried values of two parts of its iterations combine.

    body of the loop                                rule                  combined (s before t)
    n = fn(a, what this iteration brings)           Fold(fn)              n = fn(s, t)
    n = a * exp(c*(r - r')) + what it brings at r'  Weighed(r, exp, c)    n = s*exp(c*(r_s - r')) + t*exp(c*(r_t - r'))

`fn` is associative and commutative (add, mul, maximum, minimum, and, or, xor). In the second form r is another carried
value, a maximum or a minimum, and r' its next value: the running sums of an online softmax. What an iteration brings is
"at r'" if it scales with exp(-c*r') and depends on the carried values in no other way. That is derived by following
the exponents: a value is linear in r and r' with known coefficients; exp of it is a weight; products with values that
do not depend on what is carried, sums over other axes, casts and sums of equal weights keep a weight.
`where(r' == -inf, 0, r')` counts as r', and `where(x == y, 1, exp(c*(x - y)))` as the weight: they only keep rows
without anything from computing inf - inf.

Guards: an iteration that leaves a Fold as it is (a branch of an `if`) brings nothing, which every rule allows.
Not handled (each is a reason that `rules_of` gives): recurrences, positions of maxima (argmax), values that look at
the carried ones otherwise. Source: FlashAttention's online softmax and FlashDecoding's combination of it; the general
rule and its derivation are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from threadloom.tile.ops import (
    AtomicAdd,
    Block,
    Bound,
    Cast,
    Const,
    Dot,
    Full,
    If,
    Index,
    Load,
    Map,
    Op,
    Reduce,
    Store,
    Stream,
    Value,
    Yield,
)
from threadloom.tile.uses import operands, regions, results, walk

FOLDS = ("add", "mul", "maximum", "minimum", "and", "or", "xor")
EXPONENTIALS = ("exp", "exp2")


@dataclass(frozen=True, slots=True)
class Fold:
    fn: str


@dataclass(frozen=True, slots=True)
class Weighed:
    """`reference`: place of r among the carried values; c = `number` * the product of `factors`, which no iteration
    changes (values made outside the loop, or by pure code in it)."""

    reference: int
    fn: str
    number: float
    factors: tuple[str, ...] = ()


Rule = Fold | Weighed


class NotCombinable(Exception):
    """The reason, as half a sentence."""


def rules_of(stream: Stream, constants: dict[str, float]) -> tuple[Rule, ...]:
    """The rule of every carried value; raises NotCombinable. `constants`: scalars made outside of known number."""
    for op in walk(stream.body):
        if isinstance(op, Store | AtomicAdd):
            raise NotCombinable(f"the loop writes {op.tensor}")
    state = _State(stream, constants)
    rules: dict[int, Rule] = {}
    for at, (arg, new) in enumerate(zip(stream.args, state.nexts, strict=True)):
        if (fn := state.fold(arg, new)) is not None:
            rules[at] = Fold(fn)
    state.follow_exponents({at: rule.fn for at, rule in rules.items() if isinstance(rule, Fold)})
    for at, (arg, new) in enumerate(zip(stream.args, state.nexts, strict=True)):
        if at not in rules:
            rules[at] = state.weighed(arg, new)
    return tuple(rules[at] for at in range(len(stream.args)))


# ---------------------------------------------------------------- forms of values

Monomial = tuple[str, ...]  # sorted names
Coefficient = dict[Monomial, float]


@dataclass(frozen=True, slots=True)
class Form:
    """How a value depends on references (names of r's and r''s): `terms` of the value itself where `fn` is "", of the
    exponent of its weight where it is an exponential. A value without an entry among the forms depends on what is
    carried in a way that no rule knows."""

    terms: tuple[tuple[str, tuple[tuple[Monomial, float], ...]], ...] = ()
    fn: str = ""

    @property
    def free(self) -> bool:
        return not self.terms

    def coefficients(self) -> dict[str, Coefficient]:
        return {name: dict(of) for name, of in self.terms}


FREE = Form()


def _form(terms: dict[str, Coefficient], fn: str = "") -> Form:
    kept = {name: {m: x for m, x in of.items() if x != 0} for name, of in terms.items()}
    return Form(tuple(sorted((name, tuple(sorted(of.items()))) for name, of in kept.items() if of)), fn)


def _sum(a: Form, b: Form, sign: float = 1.0) -> dict[str, Coefficient]:
    total = a.coefficients()
    for name, of in b.coefficients().items():
        mine = total.setdefault(name, {})
        for monomial, number in of.items():
            mine[monomial] = mine.get(monomial, 0.0) + sign * number
    return total


class _State:
    """The body of one loop, followed in program order."""

    def __init__(self, stream: Stream, constants: dict[str, float]):
        self.stream, self.constants = stream, dict(constants)
        self.nexts = _yielded(stream.body)
        self.made = {r.name: op for op in walk(stream.body) for r in results(op)}
        self.changed = _depends(stream)  # on anything carried
        self.axes_of = {v.name: v.type.axes for v in (*stream.args, *self.nexts)}
        self.fixed: set[str] = set()  # made in the body, the same in every iteration
        self.forms: dict[str, Form] = {}

    # ------------------------------------------------------------ folds

    def fold(self, arg: Value, new: Value) -> str | None:
        """fn where `new` is fn of `arg` and of values that do not depend on what is carried, by whatever branches; None
        where it is not."""
        found = self._fold(arg.name, new)
        return "add" if found == "" else found  # never changed: canonical kernels have none such, any rule would do

    def _fold(self, arg: str, value: Value) -> str | None:
        """"" where `value` is `arg` itself."""
        if value.name == arg:
            return ""
        op = self.made.get(value.name)
        match op:
            case Map(fn=fn, args=(x, y)) if fn in FOLDS:
                for kept, brought in ((x, y), (y, x)):
                    if brought.name not in self.changed and (inner := self._fold(arg, kept)) in ("", fn):
                        return fn
            case If() if op.cond.name not in self.changed:
                at = op.results.index(value)
                found = {self._fold(arg, _yielded(side)[at]) for side in (op.then, op.otherwise)} - {""}
                return found.pop() if len(found) == 1 else ("" if not found else None)
            case Stream():
                at = op.results.index(value)
                bounds = [v for a in op.axes for v in (a.start, a.stop) if v is not None]
                outer = self._fold(arg, op.inits[at])
                inner = self._fold(op.args[at].name, _yielded(op.body)[at])
                if outer is not None and inner is not None and not any(v.name in self.changed for v in bounds):
                    return inner if outer in ("", inner) else outer if inner == "" else None
        return None

    # ------------------------------------------------------------ exponents

    def follow_exponents(self, folds: dict[int, str]) -> None:
        references = {at for at, fn in folds.items() if fn in ("maximum", "minimum")}
        for at in references:
            self.forms[self.stream.args[at].name] = _form({self.stream.args[at].name: {(): 1.0}})
        news = {self.nexts[at].name for at in references}
        for op in self.stream.body.ops:
            self._note(op)
            for result in results(op):
                if result.name in news:
                    self.forms[result.name] = _form({result.name: {(): 1.0}})
                elif result.name not in self.changed:
                    self.forms[result.name] = FREE
                elif (form := self._of(op)) is not None:
                    self.forms[result.name] = form

    def _note(self, op: Op) -> None:
        match op:
            case Const() if isinstance(op.number, int | float):
                self.constants[op.result.name] = float(op.number)
                self.fixed.add(op.result.name)
            case Map() | Cast() | Full():
                if all(self._is_fixed(v) for v in operands(op)):
                    self.fixed.add(op.result.name)
                if isinstance(op, Full) and op.value.name in self.constants:
                    self.constants[op.result.name] = self.constants[op.value.name]

    def _is_fixed(self, value: Value) -> bool:
        outside = value.name not in self.made and value.name not in self.changed
        return outside or value.name in self.fixed

    def get(self, value: Value) -> Form | None:
        if value.name in self.forms:
            return self.forms[value.name]
        return None if value.name in self.changed else FREE

    def _of(self, op: Op) -> Form | None:
        """The form of the result of an operation that depends on what is carried."""
        forms = [self.get(v) for v in operands(op)]
        if isinstance(op, Map) and op.fn == "where" and None not in forms[1:]:
            return self._guarded(op, *forms[1:]) if forms[0] is None else self._either(op, *forms)
        if None in forms or regions(op) or isinstance(op, Load | Index | Bound):
            return None
        match op:
            case Map():
                return self._map(op, forms)
            case Cast():
                return self._cast(op, forms[0])
            case Full():
                return forms[0] if self.axes_known(forms[0], ()) else None
            case Reduce(fn="sum"):
                return forms[0] if self.axes_known(forms[0], (op.axis,)) and forms[0].fn else None
            case Dot():
                return self._product(forms) if all(self.axes_known(f, op.over) for f in forms) else None
        return None

    def axes_known(self, form: Form, gone: tuple[str, ...]) -> bool:
        """Whether no reference has an axis that is summed away."""
        return not any(axis in self.axes_of[name] for name, _ in form.terms for axis in gone)

    def _cast(self, op: Cast, form: Form) -> Form | None:
        old, new = op.arg.type.dtype, op.result.type.dtype
        if not new.is_float or (not form.fn and new.bits < old.bits):
            return None
        return form

    def _map(self, op: Map, forms: list[Form]) -> Form | None:
        match op.fn, forms:
            case ("add" | "sub"), [a, b]:
                return self._added(a, b, -1.0 if op.fn == "sub" else 1.0)
            case "neg", [a]:
                return a if a.fn else _form(_sum(FREE, a, -1.0))
            case "mul", [a, b]:
                for form, other, value in ((a, b, op.args[1]), (b, a, op.args[0])):
                    if form.terms and not form.fn and other.free and self._is_fixed(value):
                        return self._scaled(form, value)
                return self._product(forms)
            case "div", [a, b] if b.free and a.fn:
                return a
            case ("exp" | "exp2"), [a] if not a.fn:
                return Form(a.terms, op.fn)
        return None  # of a comparison, too; `_guarded` looks at its operation

    def _added(self, a: Form, b: Form, sign: float) -> Form | None:
        if a.fn or b.fn:
            return a if a == b else None
        return _form(_sum(a, b, sign))

    def _scaled(self, form: Form, by: Value) -> Form:
        number, names = self.constants.get(by.name), (by.name,)
        scaled = {
            name: {tuple(sorted((*m, *(() if number is not None else names)))): x * (1.0 if number is None else number)
                   for m, x in of.items()}
            for name, of in form.coefficients().items()
        }  # fmt: skip
        return _form(scaled)

    def _product(self, forms: list[Form]) -> Form | None:
        """Weights multiply; a linear value that is multiplied by another of an iteration is none."""
        if any(f.terms and not f.fn for f in forms):
            return None
        names = {f.fn for f in forms if f.terms}
        if len(names) > 1:
            return None
        return _form(_sum(*forms), names.pop())

    def _either(self, op: Map, cond: Form, yes: Form, no: Form) -> Form | None:
        if not cond.free:
            return None
        if yes == no:
            return yes
        for form, other, value in ((yes, no, op.args[2]), (no, yes, op.args[1])):
            if form.fn and other.free and self.constants.get(value.name) == 0.0:
                return form
        return None

    def _guarded(self, op: Map, yes: Form, no: Form) -> Form | None:
        """`where(x == -inf, number, x)`: x, wherever x is a number."""
        test = self.made.get(op.args[0].name)
        if not isinstance(test, Map) or test.fn not in ("eq", "ne"):
            return None
        if test.fn == "eq" and self._is_weight_of(op.args[2], test.args) and self.constants.get(op.args[1].name) == 1.0:
            return no  # exp(c * (x - y)) where x == y
        kept, other = (op.args[2], op.args[1]) if test.fn == "eq" else (op.args[1], op.args[2])
        limits = [self.constants.get(v.name) for v in test.args if v.name != kept.name]
        if len(limits) != 1 or limits[0] is None or not math.isinf(limits[0]):
            return None
        form = no if kept is op.args[2] else yes
        return form if not form.fn and self.get(other) == FREE else None

    def _is_weight_of(self, value: Value, both: tuple[Value, ...]) -> bool:
        """Whether `value` is exp(c * (x - y)) of the two values."""
        op = self.made.get(value.name)
        if not isinstance(op, Map) or op.fn not in EXPONENTIALS:
            return False
        op = self.made.get(op.args[0].name)
        while isinstance(op, Map) and op.fn == "mul":
            op = self.made.get(next((v.name for v in op.args if not self._is_fixed(v)), ""))
        return isinstance(op, Map) and op.fn == "sub" and {v.name for v in op.args} == {v.name for v in both}

    # ------------------------------------------------------------ weighed sums

    def weighed(self, arg: Value, new: Value) -> Weighed:
        """`new` as arg * weight + what is brought at the new reference; raises NotCombinable."""
        op = self.made.get(new.name)
        if isinstance(op, Map) and op.fn == "add":
            for kept, brought in (op.args, op.args[::-1]):
                scaled = self.made.get(kept.name)
                if not isinstance(scaled, Map) or scaled.fn != "mul":
                    continue
                for old, by in (scaled.args, scaled.args[::-1]):
                    rule = self._rule(self.get(by), self.get(brought)) if old.name == arg.name else None
                    if rule is not None and self._same_dtype(arg, rule):
                        return rule
        raise NotCombinable(f"{arg.name} is not known to combine: it is no sum or maximum, nor a sum with weights")

    def _same_dtype(self, arg: Value, rule: Weighed) -> bool:
        reference = self.stream.args[rule.reference]
        inside = set(reference.type.axes) <= set(arg.type.axes)
        return reference.type.dtype is arg.type.dtype and inside

    def _rule(self, weight: Form | None, brought: Form | None) -> Weighed | None:
        if weight is None or brought is None or weight.fn not in EXPONENTIALS or brought.fn not in (weight.fn, ""):
            return None
        if not brought.fn and brought.terms:
            return None
        for at, (old, new) in enumerate(zip(self.stream.args, self.nexts, strict=True)):
            of = weight.coefficients()
            if set(of) != {old.name, new.name} or of[new.name] != {m: -x for m, x in of[old.name].items()}:
                continue
            at_new = brought.coefficients()
            if brought.terms and (set(at_new) != {new.name} or at_new[new.name] != of[new.name]):
                continue
            if not brought.terms:
                continue  # it does not scale with the reference
            if len(of[old.name]) == 1:
                ((factors, number),) = of[old.name].items()
                return Weighed(at, weight.fn, number, factors)
        return None


def _yielded(block: Block) -> tuple[Value, ...]:
    last = block.ops[-1]
    return last.values if isinstance(last, Yield) else ()


def _depends(stream: Stream) -> set[str]:
    """Names of all values that depend on a carried one."""
    changed = {a.name for a in stream.args}

    def visit(block: Block, around: bool) -> None:
        for op in block.ops:
            depends = around or any(v.name in changed for v in operands(op))
            inside = {v.name for region in regions(op) for v in _yielded(region)}
            if isinstance(op, Stream):
                carried = zip(op.inits, op.args, _yielded(op.body), strict=True)
                changed.update(a.name for i, a, n in carried if {i.name, n.name} & changed or around)
            for region in regions(op):
                visit(region, around or (isinstance(op, If) and op.cond.name in changed))
            if depends or inside & changed:
                changed.update(r.name for r in results(op))

    before = 0
    while len(changed) > before:  # what an inner loop carries may come to depend on it late
        before = len(changed)
        visit(stream.body, False)
    return changed
