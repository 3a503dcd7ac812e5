"""Random race-free kernels with barriers, for the property tests of barrier lowering.

A kernel works on i32s: `x` (input, read only, one per thread and block), `same` (input, equal for all threads of a
block, so that conditions computed from it are uniform without being provably so) and `out` (one per thread). Shared
memory is used in phases: between two barriers either every thread touches its own element only, or all read.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from threadloom.cuda.kernel import BLOCK_INDEX, GEOMETRY, THREAD_INDEX
from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import I32, PTR, Const, Level, Module, Operand, Space, Value


def _names(index: tuple[Value, ...]) -> list[str]:
    return [value.name for value in reversed(index)]


SHARED_ELEMS = 128  # at least the threads of a block


@dataclass
class Phase:
    """How the shared array may be used until the next barrier: free, own (elements), all (reads), shut."""

    mode: str = "free"


@dataclass
class Scope:
    varying: list[Operand]
    uniform: list[Operand]
    private: list[Operand] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(list(self.varying), list(self.uniform), list(self.private))


class KernelMaker:
    def __init__(self, seed: int, warps: bool = False):
        self.random = random.Random(seed)
        self.warps = warps
        self.module = ModuleBuilder()
        self.budget = self.random.randint(6, 26)
        self.phase = Phase()
        self.depth = 0
        self.divergence = 0  # nested ifs and loops in which lanes may stand aside
        self.all_here = True  # no thread has exited or stands aside: shuffles are defined in every lane

    def make(self) -> Module:
        noalias = "noalias" if self.random.random() < 0.5 else ""
        params = [("x", PTR, noalias), ("same", PTR, noalias), ("out", PTR, noalias), ("m", I32),
                  *((value.name, value.type) for value in GEOMETRY)]  # fmt: skip
        with self.module.function("k", params, exported=True) as b:
            self.b = b
            self.x, self.same, self.out, m, gx, gy, gz, bx, by, bz, _ = b.args
            with b.parallel(Level.BLOCKS, [0, 0, 0], [gz, gy, gx], _names(BLOCK_INDEX), type_=I32) as (*_, block):
                self.shared = b.alloca(I32, SHARED_ELEMS, Space.SHARED, name="tile")
                with b.parallel(Level.THREADS, [0, 0, 0], [bz, by, bx], _names(THREAD_INDEX), type_=I32) as (_, ty, tx):
                    self.n = b.mul(by, bx, name="n")
                    self.t = b.add(b.mul(ty, bx), tx, name="t")
                    self.g = b.add(b.mul(block, self.n), self.t, name="g")
                    own = b.load(I32, b.gep(I32, self.x, self.g), name="own")
                    scope = Scope([self.t, tx, own], [m, block, self.n])
                    private = b.alloca(I32, 4, name="private")
                    for index in range(4):
                        b.store(own if index % 2 else self.t, b.gep(I32, private, index))
                    scope.private.append(private)
                    b.store(own, b.gep(I32, self.shared, self.t))
                    self.phase.mode = "own"
                    self.statements(scope, may_exit=True)
            b.ret()
        return self.module.build()

    # ------------------------------------------------------------ values

    def pick(self, scope: Scope) -> Operand:
        return self.random.choice(scope.varying + scope.uniform)

    def value(self, scope: Scope) -> Operand:
        """A new varying value."""
        operation = self.random.choice(["add", "sub", "mul", "xor", "and", "or"])
        result = self.b.binary(operation, self.pick(scope), self.random.choice(scope.varying))
        scope.varying.append(result)
        return result

    def uniform(self, scope: Scope) -> Operand:
        """A value that is the same in all threads: provably, by a uniform load, or only in fact."""
        b, kind = self.b, self.random.randrange(3)
        if kind == 0:
            result = b.add(self.random.choice(scope.uniform), self.random.randint(1, 5), name="u")
        elif kind == 1:
            index = b.and_(self.random.choice(scope.uniform), 7)
            result = b.load(I32, b.gep(I32, self.same, index), name="u")
        else:
            index = b.and_(self.random.choice(scope.varying), 7)
            result = b.load(I32, b.gep(I32, self.same, b.add(index, 8)), name="fact")
        scope.uniform.append(result)
        return result

    def cond(self, value: Operand) -> Operand:
        return self.b.icmp("eq", self.b.and_(value, self.random.choice([1, 3])), 0, "c")

    # ------------------------------------------------------------ statements

    def statements(self, scope: Scope, may_exit: bool, barriers: bool = True) -> None:
        """Some statements; the last one stores what has been computed where `may_exit` says this is the end."""
        self.depth += 1
        for _ in range(self.random.randint(2, 6)):
            if self.budget <= 0:
                break
            self.budget -= 1
            if may_exit and self.random.random() < 0.12 and self.depth < 4:
                self.exit_guard(scope)
                self.depth -= 1
                return
            self.statement(scope, barriers)
        if may_exit:
            self.finish(scope)
        self.depth -= 1

    def finish(self, scope: Scope) -> None:
        b, total = self.b, self.pick(scope)
        for value in scope.varying[-5:] + scope.uniform[-3:]:
            total = b.add(b.mul(total, 31), value)
        for private in scope.private:
            total = b.add(total, b.load(I32, b.gep(I32, private, 1)))
        b.store(total, b.gep(I32, self.out, self.g))

    def exit_guard(self, scope: Scope) -> None:
        """`if (c) return;` in front of the rest."""
        b, self.all_here = self.b, False
        with b.if_(self.cond(self.pick(scope))) as branch:
            self.statements(scope.inner(), may_exit=True)
            branch.yield_()
            branch.otherwise()
            b.store(self.pick(scope), b.gep(I32, self.out, self.g))

    def statement(self, scope: Scope, barriers: bool) -> None:
        simple = [self.value, self.uniform, self.own_store, self.own_load, self.read_all, self.private_access]
        meeting = [self.barrier, self.barrier, self.uniform_if, self.uniform_for, self.uniform_while, self.vote]
        nested = [self.divergent_if, self.divergent_for]
        if self.warps and self.divergence < 2:
            simple += [self.shuffle, self.ballot] * 2
        choices = simple + (nested if self.depth < 4 else [])
        if barriers:
            choices += meeting if self.depth < 4 else meeting[:1]
        self.random.choice(choices)(scope)

    # ------------------------------------------------------------ memory

    def barrier(self, scope: Scope | None = None) -> None:
        self.b.barrier(Level.THREADS)
        self.phase.mode = "free"

    def enter(self, mode: str) -> bool:
        if self.phase.mode not in ("free", mode):
            return False
        self.phase.mode = mode
        return True

    def own_store(self, scope: Scope) -> None:
        if self.enter("own"):
            self.b.store(self.pick(scope), self.b.gep(I32, self.shared, self.t))

    def own_load(self, scope: Scope) -> None:
        if self.enter("own"):
            scope.varying.append(self.b.load(I32, self.b.gep(I32, self.shared, self.t), name="mine"))

    def read_all(self, scope: Scope) -> None:
        if not self.enter("all"):
            return
        b = self.b
        other = b.urem(b.add(self.t, self.random.randint(1, 3)), self.n)
        scope.varying.append(b.load(I32, b.gep(I32, self.shared, other), name="other"))

    def private_access(self, scope: Scope) -> None:
        b, private = self.b, self.random.choice(scope.private)
        place = b.gep(I32, private, b.and_(self.pick(scope), 3))
        if self.random.random() < 0.5:
            b.store(self.pick(scope), place)
        else:
            scope.varying.append(b.load(I32, place, name="kept"))

    # ------------------------------------------------------------ control flow

    def region(self, scope: Scope, barriers: bool, divergent: bool = False) -> None:
        if barriers:
            self.barrier()
        here, self.all_here = self.all_here, self.all_here and not divergent
        self.divergence += divergent
        self.statements(scope, may_exit=False, barriers=barriers)
        self.divergence -= divergent
        self.all_here = here

    def shut(self) -> None:
        """What ran before depends on the path: only a barrier makes memory usable again."""
        self.phase.mode = "shut"

    def uniform_if(self, scope: Scope) -> None:
        b, cond = self.b, self.cond(self.uniform(scope))
        with b.if_(cond) as branch:
            then = scope.inner()
            self.region(then, True)
            branch.yield_(self.pick(then), self.pick(then))
            branch.otherwise()
            otherwise = scope.inner()
            with_barrier = self.random.random() < 0.4
            self.shut()
            self.region(otherwise, with_barrier)
            branch.yield_(self.pick(otherwise), self.pick(otherwise))
        scope.varying += branch.results
        self.shut()

    def uniform_for(self, scope: Scope) -> None:
        b = self.b
        trips = b.and_(self.uniform(scope), 3, "trips")
        with b.loop(0, trips, 1, [self.pick(scope), self.pick(scope)], type_=I32) as loop:
            inner = scope.inner()
            inner.varying += loop.args
            inner.uniform.append(loop.iv)
            self.region(inner, True)
            loop.yield_(self.pick(inner), self.pick(inner))
        scope.varying += loop.results
        self.shut()

    def uniform_while(self, scope: Scope) -> None:
        b = self.b
        trips = b.and_(self.uniform(scope), 3, "trips")
        zero = Const(I32, "0")
        with b.while_([zero, self.pick(scope)], ["k", "w"]) as loop:
            k, carried = loop.args
            before = scope.inner()
            before.varying.append(carried)
            if self.random.random() < 0.3:
                self.region(before, True)
            else:
                self.shut()
                self.region(before, False)
            leaving = self.pick(before)
            k_in, w_in = loop.go_on(b.icmp("slt", k, trips, "more"), k, leaving)
            inner = scope.inner()
            inner.varying.append(w_in)
            inner.uniform.append(k_in)
            self.region(inner, True)
            loop.yield_(b.add(k_in, 1, name="next"), self.pick(inner))
        scope.varying += loop.results[1:]
        scope.uniform.append(loop.results[0])
        self.shut()

    def divergent_if(self, scope: Scope) -> None:
        b = self.b
        before = self.phase.mode
        with b.if_(self.cond(self.random.choice(scope.varying))) as branch:
            then = scope.inner()
            self.region(then, False, divergent=True)
            branch.yield_(self.pick(then))
            branch.otherwise()
            otherwise = scope.inner()
            if self.random.random() < 0.5:
                self.phase.mode = before if self.phase.mode == before else self.phase.mode
                self.region(otherwise, False, divergent=True)
            branch.yield_(self.pick(otherwise))
        scope.varying += branch.results
        self.reconverge()

    def reconverge(self) -> None:
        """Without this the hardware may leave the lanes apart, and the next collective would not be defined."""
        if self.warps and self.divergence == 0:
            self.b.call("loom.syncwarp", [self.b.const(I32, -1)])

    def divergent_for(self, scope: Scope) -> None:
        b = self.b
        trips = b.and_(self.pick(scope), 3, "own.trips")
        with b.loop(0, trips, 1, [self.pick(scope)], type_=I32) as loop:
            inner = scope.inner()
            inner.varying += [*loop.args, loop.iv]
            self.region(inner, False, divergent=True)
            loop.yield_(self.pick(inner))
        scope.varying += loop.results
        self.reconverge()

    # ------------------------------------------------------------ collectives

    def vote(self, scope: Scope) -> None:
        kind = self.random.choice(["count", "and", "or"])
        predicate = self.b.and_(self.pick(scope), self.random.choice([1, 3, 255]))
        scope.uniform.append(self.b.call(f"loom.syncthreads.{kind}", [predicate], I32, name=kind))
        self.phase.mode = "free"

    def shuffle(self, scope: Scope) -> None:
        if not self.all_here:
            return
        b, kind = self.b, self.random.choice(["idx", "up", "down", "xor"])
        width = self.random.choice([32, 16, 8])
        by = b.and_(self.pick(scope), 7) if self.random.random() < 0.3 else b.const(I32, self.random.choice([1, 2, 5]))
        operands = [b.const(I32, -1), self.pick(scope), by, b.const(I32, width)]
        scope.varying.append(b.call(f"loom.shfl.sync.{kind}.i32", operands, I32, name=kind))

    def ballot(self, scope: Scope) -> None:
        """Among all lanes, or among those that are here where others may stand aside."""
        b = self.b
        mask = b.const(I32, -1) if self.divergence == 0 else b.call("loom.activemask", [], I32, name="active")
        kind = self.random.choice(["vote.sync.ballot", "vote.sync.any", "vote.sync.all", "vote.sync.uni", "activemask",
                                   "match.sync.any.i32", "match.sync.all.i32", "reduce.sync.add.i32",
                                   "reduce.sync.max.i32", "reduce.sync.xor.i32", "syncwarp"])  # fmt: skip
        if kind == "syncwarp":
            b.call("loom.syncwarp", [mask])
        elif kind == "activemask":
            scope.varying.append(mask)
        else:
            value = b.and_(self.pick(scope), 3)
            scope.varying.append(b.call(f"loom.{kind}", [mask, value], I32, name="warp"))


def make_kernel(seed: int, warps: bool = False) -> Module:
    return KernelMaker(seed, warps).make()
