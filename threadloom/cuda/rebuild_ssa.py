"""Structured statements with variables -> structured `par` in SSA form.

    before:  Choose(c, [Move(x, 1)], [Move(x, 2)]); use(x)
    after:   %x = if %c { yield 1 } else { yield 2 }; use(%x)

Every SSA value of the cfg and every variable of `structure` is treated as a variable; liveness decides what an `if`
or `while` must yield, so a value that is used beyond the construct that defines it becomes one of its results,
poison on the paths where it has no value (those paths never use it). Assignments nobody reads disappear.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from threadloom.cuda.structure import EXIT, Choose, ExitTest, Move, Repeat, Statement
from threadloom.par.ops import (
    I1,
    I32,
    Alloca,
    Attrs,
    Barrier,
    Block,
    Condition,
    Const,
    If,
    Leaf,
    Op,
    Operand,
    Type,
    Value,
    While,
    Yield,
)

Names = frozenset[str]
Env = dict[str, Operand]


@dataclass
class SsaRebuilder:
    """One function; `env` are the values that exist before its body (parameters, induction variables ...)."""

    env: Env
    taken: set[str]
    live_after: dict[int, Names] = field(default_factory=dict)  # id(Choose) -> names
    live_loop: dict[int, tuple[Names, Names]] = field(default_factory=dict)  # id(Repeat) -> at its head, at its test
    types: dict[str, Type] = field(default_factory=dict)

    def body(self, statements: tuple[Statement, ...], wanted: tuple[str, ...] = ()) -> tuple[tuple[Op, ...], Env]:
        """The operations of `statements`, and the environment after them, right for the names `wanted`."""
        _collect_types(statements, self.types)
        self._live(statements, frozenset(wanted))
        env = dict(self.env)
        return tuple(self._ops(statements, env)), env

    # ------------------------------------------------------------ liveness, backwards

    def _live(self, statements: tuple[Statement, ...], after: Names) -> Names:
        live = set(after)
        for statement in reversed(statements):
            match statement:
                case Leaf(result=result) | Alloca(result=result):
                    if result:
                        live.discard(result.name)
                    live.update(_uses(statement))
                case Move(targets, sources):
                    kept = [(t, s) for t, s in zip(targets, sources, strict=True) if t.name in live]
                    live -= {t.name for t, _ in kept}
                    live |= {s.name for _, s in kept if isinstance(s, Value)}
                case Choose(cond, then, otherwise):
                    self.live_after[id(statement)] = behind = frozenset(live)
                    live = {*self._live(then, behind), *self._live(otherwise, behind), *_test_uses(cond)}
                case Repeat():
                    live = set(self._live_repeat(statement, frozenset(live)))
        return frozenset(live)

    def _live_repeat(self, loop: Repeat, after: Names) -> Names:
        """Names at the loop's head. A loop around it asks again, for more names behind: what was found is part of the
        answer, so it begins there, or nested loops would take exponential time."""
        head = self.live_loop[id(loop)][0] if id(loop) in self.live_loop else frozenset()
        while True:
            behind = after | self._live(loop.after, head)
            new = self._live(loop.before, behind | _test_uses(loop.test))
            if new == head:
                self.live_loop[id(loop)] = (head, behind)
                return head
            head = new

    # ------------------------------------------------------------ renaming, forwards

    def _fresh(self, name: str, type_: Type) -> Value:
        candidate, number = name, 0
        while candidate in self.taken:
            number += 1
            candidate = f"{name}.{number}"
        self.taken.add(candidate)
        return Value(candidate, type_)

    def _value(self, name: str, env: Env) -> Operand:
        return env.get(name) or Const(self.types[name], "poison")

    def _operand(self, operand: Operand, env: Env) -> Operand:
        return self._value(operand.name, env) if isinstance(operand, Value) else operand

    def _ops(self, statements: tuple[Statement, ...], env: Env) -> list[Op]:
        ops: list[Op] = []
        for statement in statements:
            match statement:
                case Leaf(opcode, operands, result, attrs, loc):  # `replace` takes five times as long
                    ops.append(Leaf(opcode, tuple(self._operand(o, env) for o in operands), result, attrs, loc))
                    if result is not None:
                        env[result.name] = result
                case Alloca(count=count, result=result):
                    ops.append(replace(statement, count=self._operand(count, env)))
                    env[result.name] = result
                case Barrier():
                    ops.append(statement)
                case Move(targets, sources):
                    values = [self._operand(source, env) for source in sources]
                    env.update((target.name, value) for target, value in zip(targets, values, strict=True))
                case Choose():
                    ops += self._choose(statement, env)
                case Repeat():
                    ops += self._repeat(statement, env)
        return ops

    def _test(self, test: Operand | ExitTest, env: Env, ops: list[Op], negated: bool = False) -> Operand:
        """The i1 value of a test, computed at the end of `ops`."""
        if isinstance(test, ExitTest):
            exit_now = self._value(EXIT.name, env)
            if isinstance(exit_now, Const) and exit_now.text != "poison":
                return Const(I1, "true" if (exit_now.text == str(test.number)) != negated else "false")
            result = self._fresh("leaves" if negated else "goes", I1)
            attrs = Attrs(predicate="ne" if negated else "eq")
            ops.append(Leaf("icmp", (exit_now, Const(I32, str(test.number))), result, attrs))
            return result
        cond = self._operand(test, env)
        if not negated:
            return cond
        result = self._fresh("not", I1)
        ops.append(Leaf("xor", (cond, Const(I1, "true")), result))
        return result

    def _choose(self, choice: Choose, env: Env) -> list[Op]:
        ops: list[Op] = []
        cond = self._test(choice.cond, env, ops)
        then_env, else_env = dict(env), dict(env)
        then, otherwise = self._ops(choice.then, then_env), self._ops(choice.otherwise, else_env)
        names = sorted(n for n in self.live_after[id(choice)] if then_env.get(n) != else_env.get(n))
        for name in self.live_after[id(choice)]:
            if name not in names and name in then_env:
                env[name] = then_env[name]
        yields = tuple(self._value(n, then_env) for n in names), tuple(self._value(n, else_env) for n in names)
        results = tuple(self._fresh(n, self.types[n]) for n in names)
        env.update(zip(names, results, strict=True))
        if not then and not otherwise and not names:
            return ops
        blocks = Block((*then, Yield(yields[0]))), Block((*otherwise, Yield(yields[1])))
        ops.append(If(cond, *blocks, results, choice.loc))
        return ops

    def _repeat(self, loop: Repeat, env: Env) -> list[Op]:
        head, at_test = self.live_loop[id(loop)]
        assigned = _assigned(loop.before) | _assigned(loop.after)
        carried = sorted(head & assigned)
        args = tuple(self._fresh(n, self.types[n]) for n in carried)
        inits = tuple(self._value(n, env) for n in carried)
        before_env = {**env, **dict(zip(carried, args, strict=True))}
        before = self._ops(loop.before, before_env)
        cond = self._test(loop.test, before_env, before, loop.negated)
        forwarded = sorted(n for n in at_test if n in before_env and before_env[n] != env.get(n))
        before.append(Condition(cond, tuple(before_env[n] for n in forwarded)))
        after_args = tuple(self._fresh(n, self.types[n]) for n in forwarded)
        after_env = {**env, **dict(zip(forwarded, after_args, strict=True))}
        after = self._ops(loop.after, after_env)
        after.append(Yield(tuple(self._value(n, after_env) for n in carried)))
        results = tuple(self._fresh(n, self.types[n]) for n in forwarded)
        env.update(zip(forwarded, results, strict=True))
        return [While(inits, args, Block(tuple(before)), after_args, Block(tuple(after)), results, loop.loc)]


def _uses(op: Leaf | Alloca) -> list[str]:
    operands = op.operands if type(op) is Leaf else (op.count,)
    return [o.name for o in operands if type(o) is Value]


def _test_uses(test: Operand | ExitTest) -> Names:
    if isinstance(test, ExitTest):
        return frozenset({EXIT.name})
    return frozenset({test.name}) if isinstance(test, Value) else frozenset()


def _assigned(statements: tuple[Statement, ...]) -> Names:
    names: set[str] = set()
    for statement in statements:
        match statement:
            case Leaf(result=result) | Alloca(result=result):
                names |= {result.name} if result else set()
            case Move(targets):
                names |= {target.name for target in targets}
            case Choose(_, then, otherwise):
                names |= _assigned(then) | _assigned(otherwise)
            case Repeat(before=before, after=after):
                names |= _assigned(before) | _assigned(after)
    return frozenset(names)


def _collect_types(statements: tuple[Statement, ...], types: dict[str, Type]) -> None:
    for statement in statements:
        match statement:
            case Leaf(result=Value(name, type_)) | Alloca(result=Value(name, type_)):
                types[name] = type_
            case Move(targets):
                types.update((target.name, target.type) for target in targets)
            case Choose(_, then, otherwise):
                _collect_types(then, types)
                _collect_types(otherwise, types)
            case Repeat(before=before, after=after):
                _collect_types(before, types)
                _collect_types(after, types)
