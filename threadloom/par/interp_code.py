"""par operations -> Python closures, once per function, so that the interpreter does not look at nodes again.

`run(env, item)` does one operation: `env` maps value names to interpreter values, `item` is the work-item that runs.
A block that may wait (a barrier or a rendezvous somewhere inside) becomes a generator function instead: it yields
`Waiting` and goes on when its scheduler resumes it with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.interp_leaf_code import Env, Get, LeafCode, Run
from threadloom.par.interp_leaves import signed
from threadloom.par.interp_values import (
    InterpValue,
)
from threadloom.par.ops import (
    Alloca,
    Barrier,
    Block,
    Condition,
    For,
    If,
    Int,
    Leaf,
    Op,
    Operand,
    Parallel,
    Return,
    Value,
    While,
    Yield,
)
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import walk

if TYPE_CHECKING:
    from threadloom.par.interp_parallel import Item

Pausing = Generator["Waiting", InterpValue, None]
RunPausing = Callable[[Env, "Item"], Pausing]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a work-item stopped: at a barrier, or at a rendezvous with the arguments it brings."""

    at: Barrier | Leaf
    args: tuple[InterpValue, ...] = ()


class Returned(Exception):
    """Carries a function's value out of its body."""

    def __init__(self, value: InterpValue):
        self.value = value


@dataclass(frozen=True, slots=True)
class _WhileParts:
    """What a while does to its environment between its two regions."""

    op: While
    code: Code
    inits: Callable[[Env], list[InterpValue]]
    cond: Get
    forwarded: Callable[[Env], list[InterpValue]]
    yielded: Callable[[Env], list[InterpValue]]

    def start(self, env: Env) -> None:
        self._bind(env, self.op.args, self.inits(env))

    def goes_on(self, env: Env) -> bool:
        """After the test region: bind the forwarded values, for the body or as results."""
        going = bool(self.code.defined(self.cond(env), self.op))
        self._bind(env, self.op.after_args if going else self.op.results, self.forwarded(env))
        return going

    def again(self, env: Env) -> None:
        self._bind(env, self.op.args, self.yielded(env))

    @staticmethod
    def _bind(env: Env, names: tuple[Value, ...], values: list[InterpValue]) -> None:
        for name, value in zip(names, values, strict=True):
            env[name.name] = value


class Code(LeafCode):
    """Compiles the operations of one interpreter's module."""

    # ------------------------------------------------------------ blocks

    def may_wait(self, block: Block) -> bool:
        return any(self.waits(op) for op in walk(block))

    def waits(self, op: Op) -> bool:
        return isinstance(op, Barrier) or (
            isinstance(op, Leaf) and op.opcode == "call" and op.attrs.callee in self.interpreter.rendezvous
        )

    def block(self, block: Block) -> Run:
        steps = [self.op(op) for op in block.ops if not isinstance(op, Yield | Condition)]
        tick = self.interpreter.tick

        def run(env: Env, item: Item) -> None:
            tick(len(steps))
            for step in steps:
                step(env, item)

        return run

    def pausing_block(self, block: Block) -> RunPausing:
        steps: list[tuple[Run | None, RunPausing | None]] = []
        for op in block.ops:
            if isinstance(op, Yield | Condition):
                continue
            waits = any(self.waits(inner) for inner in walk(Block((op,))))
            steps.append((None, self.pausing_op(op)) if waits else (self.op(op), None))
        tick = self.interpreter.tick

        def run(env: Env, item: Item) -> Pausing:
            tick(len(steps))
            for plain, pausing in steps:
                if plain is not None:
                    plain(env, item)
                elif pausing is not None:
                    yield from pausing(env, item)

        return run

    def last(self, block: Block) -> Callable[[Env], list[InterpValue]]:
        op = block.ops[-1] if block.ops else None
        return self.gets(op.values) if isinstance(op, Yield | Condition) else (lambda env: [])

    # ------------------------------------------------------------ operations that do not wait

    def op(self, op: Op) -> Run:
        match op:
            case Leaf():
                return self.leaf(op)
            case For():
                return self._drive(self._for(op), self.block(op.body))
            case While():
                return self._while(op)
            case If():
                return self._if(op)
            case Parallel():
                return self.interpreter.parallel(op)
            case Alloca():
                return self._alloca(op)
            case Return(value):
                return self._return(value)
        raise InternalError(f"the interpreter cannot run {op!r} here")

    def _return(self, value: Operand | None) -> Run:
        get = self.get(value) if value is not None else (lambda env: 0)

        def run(env: Env, item: Item) -> None:
            raise Returned(get(env))

        return run

    def _for(self, op: For) -> Callable[[Env], Generator[None, None, None]]:
        """Sets up the environment of each iteration, then of the results."""
        lower, upper, step = (self.get(bound) for bound in (op.lower, op.upper, op.step))
        inits, yielded = self.gets(op.inits), self.last(op.body)
        args, results = [arg.name for arg in op.args], [result.name for result in op.results]
        bits = op.iv.type.bits if isinstance(op.iv.type, Int) else 64
        mask, name = (1 << bits) - 1, op.iv.name

        def iterations(env: Env) -> Generator[None, None, None]:
            carried = inits(env)
            bounds = [self.defined(bound(env), op) for bound in (lower, upper, step)]
            first, end, stride = (signed(bound, bits) for bound in bounds)
            if stride <= 0:
                raise InternalError(f"step {stride} of loop %{name}")
            for index in range(first, end, stride):
                env[name] = index & mask
                env.update(zip(args, carried, strict=True))
                yield
                carried = yielded(env)
            env.update(zip(results, carried, strict=True))

        return iterations

    @staticmethod
    def _drive(iterations: Callable[[Env], Generator[None, None, None]], body: Run) -> Run:
        def run(env: Env, item: Item) -> None:
            for _ in iterations(env):
                body(env, item)

        return run

    def _while(self, op: While) -> Run:
        before, after, parts = self.block(op.before), self.block(op.after), self._while_parts(op)

        def run(env: Env, item: Item) -> None:
            parts.start(env)
            before(env, item)
            while parts.goes_on(env):
                after(env, item)
                parts.again(env)
                before(env, item)

        return run

    def _while_parts(self, op: While) -> _WhileParts:
        condition = op.before.ops[-1]
        assert isinstance(condition, Condition)
        return _WhileParts(
            op, self, self.gets(op.inits), self.get(condition.cond), self.gets(condition.values), self.last(op.after)
        )

    def _if(self, op: If) -> Run:
        cond, results = self.get(op.cond), [result.name for result in op.results]
        sides = [(self.block(block), self.last(block)) for block in (op.otherwise, op.then)]

        def run(env: Env, item: Item) -> None:
            side, values = sides[self.defined(cond(env), op) & 1]
            side(env, item)
            env.update(zip(results, values(env), strict=True))

        return run

    def _alloca(self, op: Alloca) -> Run:
        count, element, memory = self.get(op.count), size_bytes(op.element), self.interpreter.memory
        name, space, lifetime = op.result.name, op.space, self.interpreter.lifetime

        def run(env: Env, item: Item) -> None:
            address = memory.allocate(name, element * self.defined(count(env), op), space)
            lifetime(address)
            env[name] = address

        return run

    # ------------------------------------------------------------ operations that may wait

    def pausing_op(self, op: Op) -> RunPausing:
        match op:
            case Barrier():
                return self._barrier(op)
            case Leaf():
                return self._rendezvous(op)
            case For():
                return self._pausing_for(op)
            case While():
                return self._pausing_while(op)
            case If():
                return self._pausing_if(op)
            case Parallel():
                return self.interpreter.pausing_parallel(op)
        raise InternalError(f"the interpreter cannot pause in {op!r}")

    @staticmethod
    def _barrier(op: Barrier) -> RunPausing:
        def run(env: Env, item: Item) -> Pausing:
            yield Waiting(op)

        return run

    def _rendezvous(self, leaf: Leaf) -> RunPausing:
        args, name = self.gets(leaf.operands), leaf.result.name if leaf.result else ""

        def run(env: Env, item: Item) -> Pausing:
            answer = yield Waiting(leaf, tuple(args(env)))
            if name:
                env[name] = answer

        return run

    def _pausing_for(self, op: For) -> RunPausing:
        body, iterations = self.pausing_block(op.body), self._for(op)

        def run(env: Env, item: Item) -> Pausing:
            for _ in iterations(env):
                yield from body(env, item)

        return run

    def _pausing_while(self, op: While) -> RunPausing:
        before, after, parts = self.pausing_block(op.before), self.pausing_block(op.after), self._while_parts(op)

        def run(env: Env, item: Item) -> Pausing:
            parts.start(env)
            yield from before(env, item)
            while parts.goes_on(env):
                yield from after(env, item)
                parts.again(env)
                yield from before(env, item)

        return run

    def _pausing_if(self, op: If) -> RunPausing:
        cond, results = self.get(op.cond), [result.name for result in op.results]
        sides = [(self.pausing_block(block), self.last(block)) for block in (op.otherwise, op.then)]

        def run(env: Env, item: Item) -> Pausing:
            side, values = sides[self.defined(cond(env), op) & 1]
            yield from side(env, item)
            env.update(zip(results, values(env), strict=True))

        return run
