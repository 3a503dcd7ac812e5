"""Random par programs that mean the same everywhere: no poison, no races, no NaN bits in integers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from threadloom.par.builder import Builder, ModuleBuilder
from threadloom.par.ops import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    Const,
    Float,
    Int,
    Level,
    Module,
    Operand,
    Space,
    Type,
    Value,
    Vector,
)
from threadloom.par.result_types import like, scalar_of

V4I32, V8I16, V4F32, V2F64 = Vector(4, I32), Vector(8, I16), Vector(4, F32), Vector(2, F64)
TYPES: tuple[Type, ...] = (I1, I8, I16, I32, I64, F32, F64, V4I32, V8I16, V4F32, V2F64)
CELLS = 16  # elements of 16 bytes that one work-item owns in `out`; and elements of 8 bytes in `source`
ITEMS = 6


@dataclass
class Program:
    """Builds one function `f(out, source, n, a, x)`; `size` bounds how much there is of everything."""

    rng: random.Random
    b: Builder
    out: Operand
    source: Operand
    pool: dict[Type, list[Operand]] = field(default_factory=dict)
    stores_floats: bool = True  # not where the bytes are read back as integers: the bits of a NaN are undefined

    def pick(self, type_: Type) -> Operand:
        """A value of the type: one of those in scope, or a constant."""
        known = self.pool.get(type_, [])
        if known and self.rng.random() < 0.85:
            return self.rng.choice(known)
        if isinstance(type_, Vector):
            return self.b.splat(self.pick(type_.element), type_.lanes)
        if isinstance(type_, Float):
            return self.b.const(type_, self.rng.choice([0.0, -0.0, 1.0, -2.5, 0.1, 1e30, 3e-39, -7e4]))
        return self.b.const(type_, self.rng.choice([0, 1, -1, 2, 3, 7, 100, -128, self.rng.getrandbits(40)]))

    def keep(self, value: Operand | None) -> None:
        if isinstance(value, Value) and value.type in TYPES:
            self.pool.setdefault(value.type, []).append(value)

    def index(self, cells: int) -> Operand:
        return self.b.and_(self.pick(I64), cells - 1)

    # ------------------------------------------------------------ one statement

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            choices = [self.convert, self.choose, self.lanes, self.read, self.write, self.function]
            choices += [self.arithmetic] * 3
            nested = [self.loop, self.branch, self.repeat, self.scratch, self.items]
            if depth > 0 and self.rng.random() < 0.3:
                self.rng.choice(nested)(depth - 1)
            else:
                self.rng.choice(choices)()

    def arithmetic(self) -> None:
        type_, b = self.rng.choice(TYPES), self.b
        x, y, scalar = self.pick(type_), self.pick(type_), scalar_of(type_)
        if isinstance(scalar, Float):
            opcode = self.rng.choice(["fadd", "fsub", "fmul", "fdiv"])
            self.keep(b.binary(opcode, x, y) if self.rng.random() < 0.9 else b.fneg(x))
            return
        opcode = self.rng.choice(
            ["add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "urem", "srem"]
        )
        if opcode in ("shl", "lshr", "ashr"):
            y = b.urem(y, scalar.bits) if scalar.bits > 1 else b.const(type_, 0)
        elif opcode in ("udiv", "urem", "srem"):
            if scalar.bits == 1:  # the only divisor is -1
                return
            y = b.or_(b.lshr(y, 1), 1)
        self.keep(b.binary(opcode, x, y))

    def convert(self) -> None:
        source, target = (self.rng.choice([t for t in TYPES if not isinstance(t, Vector)]) for _ in range(2))
        value, b = self.pick(source), self.b
        match source, target:
            case Int(wide), Int(narrow) if wide != narrow:
                self.keep(b.cast("trunc" if narrow < wide else self.rng.choice(["zext", "sext"]), value, target))
            case Int(), Float():
                self.keep(b.cast(self.rng.choice(["sitofp", "uitofp"]), value, target))
            case Float(), Float() if source != target:
                self.keep(b.cast("fptrunc" if source == F64 else "fpext", value, target))
            case Float(), Int(bits) if bits > 1:
                suffix = f"i{bits}.{'f64' if source == F64 else 'f32'}"
                self.keep(b.call(f"llvm.fpto{self.rng.choice('su')}i.sat.{suffix}", [value], target))

    def choose(self) -> None:
        type_, b = self.rng.choice(TYPES), self.b
        x, y = self.pick(type_), self.pick(type_)
        if isinstance(scalar_of(type_), Float):
            cond = b.fcmp(self.rng.choice(["oeq", "olt", "ole", "ogt", "une", "ult", "uge", "ord", "uno"]), x, y)
        else:
            cond = b.icmp(self.rng.choice(["eq", "ne", "ult", "uge", "slt", "sge", "sgt", "ule"]), x, y)
        if cond.type == I1:
            self.keep(cond)
        other = self.rng.choice([t for t in TYPES if like(t, I1) == cond.type])
        self.keep(b.select(cond, self.pick(other), self.pick(other)))

    def lanes(self) -> None:
        type_, b = self.rng.choice([t for t in TYPES if isinstance(t, Vector)]), self.b
        vector = self.pick(type_)
        if self.rng.random() < 0.4:
            lanes = [self.rng.randrange(2 * type_.lanes) for _ in range(type_.lanes)]
            self.keep(b.shuffle(vector, self.pick(type_), lanes))
        elif self.rng.random() < 0.5:
            self.keep(b.insert(vector, self.pick(type_.element), self.rng.randrange(type_.lanes)))
        else:
            self.keep(b.extract(vector, self.rng.randrange(type_.lanes)))

    def function(self) -> None:
        b, rng = self.b, self.rng
        type_ = rng.choice(TYPES[1:])
        scalar = scalar_of(type_)
        if isinstance(scalar, Float):
            name = rng.choice(["fma", "sqrt", "fabs", "floor", "ceil", "trunc", "roundeven", "copysign"])
            count = {"fma": 3, "copysign": 2}.get(name, 1)
            self.keep(b.intrinsic(name, [self.pick(type_) for _ in range(count)]))
            return
        name = rng.choice(
            ["smin", "smax", "umin", "umax", "ctpop", "ctlz", "cttz", "bitreverse", "fshl", "sadd.sat", "usub.sat"]
        )
        if isinstance(type_, Vector) and rng.random() < 0.4:
            self.keep(b.reduce(rng.choice(["add", "mul", "and", "or", "xor", "smin", "umax"]), self.pick(type_)))
            return
        count = {"ctpop": 1, "ctlz": 1, "cttz": 1, "bitreverse": 1, "fshl": 3}.get(name, 2)
        self.keep(b.intrinsic(name, [self.pick(type_) for _ in range(count)]))

    def read(self) -> None:
        type_, b = self.rng.choice(TYPES[1:5]), self.b
        if self.rng.random() < 0.3:
            mask = Const(Vector(4, I1), "<i1 true, i1 false, i1 true, i1 true>")
            self.keep(b.masked_load(V4I32, b.gep(I64, self.source, self.index(8)), mask, self.pick(V4I32)))
        else:
            self.keep(b.load(type_, b.gep(I64, self.source, self.index(CELLS)), 1))

    def write(self) -> None:
        allowed = [t for t in TYPES[1:] if self.stores_floats or not isinstance(scalar_of(t), Float)]
        type_, b = self.rng.choice(allowed), self.b
        at = b.gep(I64, self.out, b.mul(self.index(CELLS), 2))
        if self.rng.random() < 0.2:
            b.atomicrmw(self.rng.choice(["add", "xchg", "umax", "xor", "min"]), at, self.pick(I32))
        else:
            b.store(self.pick(type_), at, 1)

    # ------------------------------------------------------------ regions

    def carried(self) -> list[Operand]:
        return [self.pick(self.rng.choice(TYPES)) for _ in range(self.rng.randrange(3))]

    def _inside(self, count: int, depth: int, extra: list[Operand]) -> None:
        """Statements whose values do not leave the region; call `_leave` afterwards."""
        for value in extra:
            self.keep(value)
        self.statements(count, depth)

    def loop(self, depth: int) -> None:
        inits, outer = self.carried(), self._scope()
        low, step = self.rng.randrange(-2, 3), self.rng.randrange(1, 4)
        with self.b.loop(low, low + self.rng.randrange(5), step, inits) as loop:
            self._inside(3, depth, [loop.iv, *loop.args])
            loop.yield_(*(self.pick(value.type) for value in inits))
        self._leave(outer, loop.results)

    def branch(self, depth: int) -> None:
        types, outer = [self.rng.choice(TYPES) for _ in range(self.rng.randrange(3))], self._scope()
        with self.b.if_(self.pick(I1)) as branch:
            self._inside(3, depth, [])
            branch.yield_(*(self.pick(type_) for type_ in types))
            branch.otherwise()
            self.pool = {type_: list(values) for type_, values in outer.items()}
            self._inside(2, depth, [])
            branch.yield_(*(self.pick(type_) for type_ in types))
        self._leave(outer, branch.results)

    def repeat(self, depth: int) -> None:
        inits, outer, b = self.carried(), self._scope(), self.b
        with b.while_([b.const(I64, self.rng.randrange(4)), *inits]) as loop:
            self._inside(2, 0, list(loop.args))
            inside = loop.go_on(
                b.icmp("sgt", loop.args[0], 0), loop.args[0], *(self.pick(value.type) for value in inits)
            )
            self.pool = {type_: list(values) for type_, values in outer.items()}
            self._inside(2, depth, list(inside))
            loop.yield_(b.sub(inside[0], 1), *(self.pick(value.type) for value in inits))
        self._leave(outer, loop.results)

    def scratch(self, depth: int) -> None:
        """An array of our own, filled before it is read."""
        b, space = self.b, self.rng.choice([Space.PRIVATE, Space.PRIVATE, Space.SHARED])
        array = b.alloca(I32, 4, space, name="scratch")
        for at in range(4):
            b.store(self.pick(I32), b.gep(I32, array, at))
        self.statements(1, depth)
        self.keep(b.load(I32, b.gep(I32, array, self.index(4))))

    def items(self, depth: int) -> None:
        """Work-items that each own a slice of a fresh array, summed afterwards."""
        b, outer, out, floats = self.b, self._scope(), self.out, self.stores_floats
        array = b.alloca(I64, ITEMS * 2 * CELLS, name="items")
        with b.loop(0, ITEMS * 2 * CELLS, 1) as fill:
            b.store(b.const(I64, 0), b.gep(I64, array, fill.iv))
            fill.yield_()
        with b.parallel(Level.THREADS, [0, 0], [2, ITEMS // 2]) as (i, j):
            number = b.add(b.mul(i, ITEMS // 2), j)
            self.out, self.stores_floats = b.gep(I64, array, b.mul(number, 2 * CELLS)), False
            self._inside(3, min(depth, 1), [i, j])
            self.write()
        self.pool, self.out, self.stores_floats = outer, out, floats
        with b.loop(0, ITEMS * 2 * CELLS, 1, [b.const(I64, 0)]) as total:
            value = b.load(I64, b.gep(I64, array, total.iv))
            total.yield_(b.add(b.mul(total.args[0], 31), value))
        self.keep(total.results[0])

    def _scope(self) -> dict[Type, list[Operand]]:
        return {type_: list(values) for type_, values in self.pool.items()}

    def _leave(self, outer: dict[Type, list[Operand]], results: tuple[Value, ...]) -> None:
        self.pool = outer
        for value in results:
            self.keep(value)


def random_module(seed: int, size: int = 12) -> Module:
    """`f(out, source, n, a, x)`: blocks of work that write 16-byte cells of `out`, each its own slice."""
    rng, m = random.Random(seed), ModuleBuilder()
    params = [("out", PTR), ("source", PTR), ("n", I64), ("a", I32), ("x", F32)]
    with m.function("f", params, exported=True) as b:
        out, source, n, a, x = b.args
        schedule = rng.choice(["static", "dynamic"])
        with b.parallel(Level.BLOCKS, [0], [n], ["block"], schedule) as (block,):
            own = b.gep(I64, out, b.mul(block, 2 * CELLS))
            program = Program(rng, b, own, source)
            for value in (block, a, x):
                program.keep(value)
            program.statements(size, 2)
        b.ret()
    return m.build()
