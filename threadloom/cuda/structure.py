"""Control flow of one function as a tree of choices and loops.

    before:  entry: br %c, a, b    a: br m    b: br m    m: br %d, entry2, exit ...      (blocks and gotos)
    after:   Choose(c, [a], [b]); Repeat([...], test, [...])                             (nested, no gotos)

Method. Blocks are nested along the dominator tree: a block with one forward predecessor stands where it is branched
to, a merge point follows the construct of its immediate dominator (Ramsey, "Beyond Relooper", ICFP 2022), and what
a loop leaves to follows the loop. Where a construct can be left towards more than one place, the variable EXIT
holds which, and what follows is guarded by a test of it; so no code is duplicated (the exit predicates of Bahmann
et al., "Perfect Reconstructability of Control Flow from Demand Dependence Graphs", TACO 2015). EXIT is assigned at
every jump; those that nobody tests vanish when SSA form is rebuilt (rebuild_ssa.py).

Needs: reducible control flow (flow.analyze raises otherwise). Phis become parallel moves into variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from threadloom.cuda.cfg.flow import Flow, analyze
from threadloom.cuda.cfg.ops import Branch, Function, Jump, Ret
from threadloom.cuda.kernel import THREAD_LOCAL_CALLS
from threadloom.par.ops import I32, VOID, Alloca, Barrier, Const, Leaf, Operand, Type, Value
from threadloom.source import Loc

EXIT = Value("exit", I32)
RESULT = "return.value"


@dataclass(frozen=True, slots=True)
class Move:
    """Assign variables, all at once."""

    targets: tuple[Value, ...]
    sources: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    cond: Operand | ExitTest
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    then_exits: frozenset[str] = frozenset()  # where control goes after `then`
    otherwise_exits: frozenset[str] = frozenset()
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """before; while (test) { after; before }"""

    before: tuple[Statement, ...]
    test: Operand | ExitTest
    negated: bool
    after: tuple[Statement, ...]
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class ExitTest:
    """EXIT == number"""

    number: int


Statement = Leaf | Alloca | Barrier | Move | Choose | Repeat

RETURN = "<return>"


@dataclass(frozen=True, slots=True)
class _Code:
    statements: tuple[Statement, ...]
    exits: frozenset[str]  # where control goes next: block names or RETURN; empty: nowhere


def structure(function: Function) -> tuple[Statement, ...]:
    """The body of `function`; its result, if any, ends in the variable RESULT."""
    return _Structurer(analyze(function), function.result).function()


@dataclass
class _Structurer:
    flow: Flow
    result: Type
    numbers: dict[str, int] = field(default_factory=dict)
    followers: dict[str, list[str]] = field(default_factory=dict)  # block or loop header -> what follows its construct
    inlined: set[str] = field(default_factory=set)

    def function(self) -> tuple[Statement, ...]:
        self._place()
        return self._node(self.flow.order[0]).statements

    def _place(self) -> None:
        """Decide for every block where it stands: at its one jump, after its dominator, or after a loop."""
        for name in self.flow.order[1:]:
            parent = self.flow.idom[name]
            loop = self.flow.outermost_left(parent, name)
            if loop is not None:
                self.followers.setdefault("loop " + loop, []).append(name)
            elif len(self.flow.forward_preds[name]) == 1:
                self.inlined.add(name)
            else:
                self.followers.setdefault(parent, []).append(name)

    def _number(self, target: str) -> int:
        return self.numbers.setdefault(target, len(self.numbers))

    def _node(self, name: str) -> _Code:
        if name not in self.flow.loops:
            return self._with_followers(self._block(name), name)
        body = self._with_followers(self._block(name), name)
        return self._with_followers(self._loop(name, body), "loop " + name)

    def _with_followers(self, code: _Code, owner: str) -> _Code:
        for name in self.followers.get(owner, ()):  # in reverse postorder
            if name not in code.exits:
                continue
            follower = self._node(name)
            if code.exits == {name}:
                code = _Code(code.statements + follower.statements, follower.exits)
            else:
                others = code.exits - {name}
                test = ExitTest(self._number(name))
                guarded = Choose(test, follower.statements, (), follower.exits, others)
                code = _Code((*code.statements, guarded), others | follower.exits)
        return code

    def _block(self, name: str) -> _Code:
        block = self.flow.blocks[name]
        match block.end:
            case Jump(target):
                rest = self._jump(name, target)
                return _Code(block.body + rest.statements, rest.exits)
            case Branch(cond, then, otherwise, loc):
                yes, no = self._jump(name, then), self._jump(name, otherwise)
                choice = Choose(cond, yes.statements, no.statements, yes.exits, no.exits, loc)
                return _Code((*block.body, choice), yes.exits | no.exits)
            case Ret(value):
                moves = Move((EXIT,), (self._exit_const(RETURN),))
                if value is not None and self.result != VOID:
                    moves = Move((EXIT, Value(RESULT, value.type)), (self._exit_const(RETURN), value))
                return _Code((*block.body, moves), frozenset({RETURN}))
        return self._stop(block.body)

    def _stop(self, body: tuple[Statement, ...]) -> _Code:
        """A failed assert or a trap ends the thread; any other `unreachable` is never reached."""
        last = body[-1] if body else None
        if isinstance(last, Leaf) and last.attrs.callee in THREAD_LOCAL_CALLS:
            return _Code((*body, Move((EXIT,), (self._exit_const(RETURN),))), frozenset({RETURN}))
        return _Code(body, frozenset())

    def _exit_const(self, target: str) -> Const:
        return Const(I32, str(self._number(target)))

    def _jump(self, source: str, target: str) -> _Code:
        phis = self.flow.blocks[target].phis
        targets = tuple(phi.result for phi in phis)
        sources = tuple(dict(phi.incoming)[source] for phi in phis)
        if target in self.inlined and self.flow.forward_preds[target] == (source,):
            rest = self._node(target)
            moves = (Move(targets, sources),) if phis else ()
            return _Code(moves + rest.statements, rest.exits)
        move = Move((*targets, EXIT), (*sources, self._exit_const(target)))
        return _Code((move,), frozenset({target}))

    def _loop(self, header: str, body: _Code) -> _Code:
        """Where the body ends with a choice between "again" and "leave", that choice is the loop's test."""
        exits = body.exits - {header}
        loc = self.flow.blocks[header].end.loc
        *before, last = body.statements or (None,)
        if isinstance(last, Choose):
            again, leave = last.then_exits, last.otherwise_exits
            if again == {header} and header not in leave:
                return _Code((Repeat(tuple(before), last.cond, False, last.then, loc), *last.otherwise), exits)
            if leave == {header} and header not in again:
                return _Code((Repeat(tuple(before), last.cond, True, last.otherwise, loc), *last.then), exits)
        test = ExitTest(self._number(header))
        return _Code((Repeat(body.statements, test, False, (), loc),), exits)


def taken_names(statements: tuple[Statement, ...]) -> set[str]:
    """Names of the values that leaves define; phis and variables get theirs later."""
    names: set[str] = set()
    for statement in statements:
        match statement:
            case Leaf(result=Value(name)) | Alloca(result=Value(name)):
                names.add(name)
            case Choose(then=then, otherwise=otherwise):
                names |= taken_names(then) | taken_names(otherwise)
            case Repeat(before=before, after=after):
                names |= taken_names(before) | taken_names(after)
    return names
