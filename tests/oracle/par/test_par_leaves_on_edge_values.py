"""Every leaf and scalar intrinsic on values at the edges: interpreter and compiled code agree.

One module holds one loop per case, over all pairs of edge values; it is compiled once.
"""

import ctypes
import itertools
import math

import numpy as np
import pytest

from threadloom.par.builder import Builder, ModuleBuilder
from threadloom.par.interp import interpret
from threadloom.par.opcodes import ATOMIC_OPERATIONS, FLOAT_PREDICATES, INTEGER_PREDICATES, OPCODES
from threadloom.par.ops import F16, F32, F64, I8, I16, I32, I64, PTR, Attrs, Float, Int, Module, Operand, Type
from threadloom.targets.cpu import jit

INTEGERS = (I8, I16, I32, I64)
FLOATS = (F32, F64)
NUMPY = {I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64, F16: np.float16, F32: np.float32, F64: np.float64}
POINTER, LONG = ctypes.c_void_p, ctypes.c_int64
ONE_FLOAT = (
    "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "exp", "exp2", "log", "log2",
    "log10", "sin", "cos", "canonicalize",
)  # fmt: skip
SAFE_DIVISOR = ("udiv", "urem", "sdiv", "srem")


def edge_values(type_: Type) -> np.ndarray:
    if isinstance(type_, Int):
        low, high = -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
        return np.array([0, 1, -1, 2, 7, 100, -100, low, high, low + 1], NUMPY[type_])
    kind = np.finfo(NUMPY[type_])
    values = [0.0, -0.0, 1.0, -1.5, 2.5, 0.5, 1e-3, -7.25, 3.0, 1e6 + 0.5, math.inf, -math.inf, math.nan]
    values += [kind.max, kind.tiny, kind.smallest_subnormal]
    with np.errstate(over="ignore"):
        return np.array(values).astype(NUMPY[type_])


class Case:
    """`compute` builds one result from two operands of `type_`."""

    def __init__(self, name, type_, result, compute):
        self.name, self.type, self.result, self.compute = name, type_, result, compute
        values = edge_values(type_)
        pairs = list(itertools.product(range(len(values)), repeat=2))
        self.left, self.right = (np.ascontiguousarray(values[[pair[side] for pair in pairs]]) for side in (0, 1))
        self.out = np.zeros(len(pairs), NUMPY[result])

    def build(self, m: ModuleBuilder) -> None:
        params = [("left", PTR), ("right", PTR), ("out", PTR), ("n", I64)]
        with m.function(self.name, params, exported=True) as b:
            left, right, out, n = b.args
            with b.loop(0, n, 1) as loop:
                x, y = (b.load(self.type, b.gep(self.type, side, loop.iv)) for side in (left, right))
                b.store(self.compute(b, x, y), b.gep(self.result, out, loop.iv))
                loop.yield_()
            b.ret()


def integer_binary(opcode: str):
    def compute(b: Builder, x: Operand, y: Operand) -> Operand:
        bits = x.type.bits
        if opcode in ("shl", "lshr", "ashr"):
            y = b.urem(y, bits)
        elif opcode in SAFE_DIVISOR:  # positive: no zero, no overflow
            y = b.or_(b.lshr(y, 1), 1)
        return b.binary(opcode, x, y)

    return compute


def as_byte(compute):
    return lambda b, x, y: b.cast("zext", compute(b, x, y), I8)


def field_of(base: str, field: int):
    def compute(b: Builder, x: Operand, y: Operand) -> Operand:
        from threadloom.par.ops import I1, Struct

        name = f"llvm.{base}.i{x.type.bits}"
        pair = b.leaf("call", (x, y), Struct((x.type, I1)), Attrs(callee=name))
        value = b.extractvalue(pair, field)
        return b.cast("zext", value, I8) if field else value

    return compute


def saturating(base: str, target: Type):
    return lambda b, x, y: b.call(f"llvm.{base}.i{target.bits}.{'f32' if x.type == F32 else 'f64'}", [x], target)


def rounded(name: str):
    return lambda b, x, y: b.intrinsic(name, [x])


def integer_cases():
    for type_ in INTEGERS:
        tag = f"i{type_.bits}"
        for opcode in ("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor"):
            yield Case(f"{opcode}.{tag}", type_, type_, integer_binary(opcode))
        for predicate in INTEGER_PREDICATES:
            yield Case(f"icmp.{predicate}.{tag}", type_, I8, as_byte(lambda b, x, y, p=predicate: b.icmp(p, x, y)))
        for name in ("smin", "smax", "umin", "umax", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat"):
            yield Case(f"{name}.{tag}", type_, type_, lambda b, x, y, n=name: b.intrinsic(n, [x, y]))
        for name in ("ctpop", "ctlz", "cttz", "abs", "bitreverse", *(("bswap",) if type_ != I8 else ())):
            yield Case(f"{name}.{tag}", type_, type_, rounded(name))
        for name in ("fshl", "fshr"):
            yield Case(f"{name}.{tag}", type_, type_, lambda b, x, y, n=name: b.intrinsic(n, [x, y, y]))
        for name in ("sadd", "uadd", "ssub", "usub", "smul", "umul"):
            for field, result in ((0, type_), (1, I8)):
                compute = field_of(f"{name}.with.overflow", field)
                yield Case(f"{name}.overflow.{field}.{tag}", type_, result, compute)
        for float_ in FLOATS:
            for cast in ("sitofp", "uitofp"):
                compute = lambda b, x, y, c=cast, f=float_: b.cast(c, x, f)  # noqa: E731
                yield Case(f"{cast}.{tag}.{float_.kind}", type_, float_, compute)


def float_cases():
    for type_ in FLOATS:
        tag = type_.kind
        for opcode in ("fadd", "fsub", "fmul", "fdiv", "frem"):
            yield Case(f"{opcode}.{tag}", type_, type_, lambda b, x, y, o=opcode: b.binary(o, x, y))
        yield Case(f"fneg.{tag}", type_, type_, lambda b, x, y: b.fneg(x))
        for predicate in FLOAT_PREDICATES:
            yield Case(f"fcmp.{predicate}.{tag}", type_, I8, as_byte(lambda b, x, y, p=predicate: b.fcmp(p, x, y)))
        for name in ONE_FLOAT:
            yield Case(f"{name}.{tag}", type_, type_, rounded(name))
        for name in ("copysign", "minimum", "maximum", "pow"):
            yield Case(f"{name}.{tag}", type_, type_, lambda b, x, y, n=name: b.intrinsic(n, [x, y]))
        yield Case(f"fma.{tag}", type_, type_, lambda b, x, y: b.fma(x, y, x))
        for target in INTEGERS:
            for base in ("fptosi.sat", "fptoui.sat"):
                yield Case(f"{base}.{tag}.i{target.bits}", type_, target, saturating(base, target))
        other, cast = (F64, "fpext") if type_ == F32 else (F32, "fptrunc")
        yield Case(f"{cast}.{tag}", type_, other, lambda b, x, y, c=cast, o=other: b.cast(c, x, o))
    yield Case("half.product", F32, F32, lambda b, x, y: b.cast(
        "fpext", b.fmul(b.cast("fptrunc", x, F16), b.cast("fptrunc", y, F16)), F32))  # fmt: skip


CASES = [*integer_cases(), *float_cases()]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    m = ModuleBuilder()
    for case in CASES:
        case.build(m)
    module = m.build()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield module, jit.compile_module(module)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpreter_agrees_with_the_machine(case, compiled):
    module, code = compiled
    run = code.function(case.name, None, POINTER, POINTER, POINTER, LONG)
    run(case.left.ctypes.data, case.right.ctypes.data, case.out.ctypes.data, case.out.size)
    expected = np.zeros_like(case.out)
    outcome = interpret(module, case.name, [case.left, case.right, expected, expected.size])
    assert outcome.findings == ()
    assert np.array_equal(same_nan(expected), same_nan(case.out)), differences(case, expected)


def same_nan(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind != "f":
        return values
    values = np.where(np.isnan(values), np.nan, values).astype(values.dtype)
    return values.view(np.int32 if values.dtype == np.float32 else np.int64)  # -0 is not +0


def differences(case: Case, expected: np.ndarray) -> str:
    wrong = np.nonzero(same_nan(expected) != same_nan(case.out))[0][:5]
    return "; ".join(f"({case.left[i]}, {case.right[i]}): {expected[i]} and {case.out[i]}" for i in wrong)


def test_every_arithmetic_opcode_has_a_case():
    names = {case.name.split(".")[0] for case in CASES}
    exempt = {"load", "store", "getelementptr", "atomicrmw", "cmpxchg", "fence", "select", "freeze", "extractelement",
              "insertelement", "shufflevector", "extractvalue", "insertvalue", "call", "unreachable", "trunc", "zext",
              "sext", "fptoui", "fptosi", "ptrtoint", "inttoptr", "bitcast"}  # fmt: skip
    assert set(OPCODES) - exempt <= names


def atomic_module(type_: Type, operations: list[str]) -> Module:
    m = ModuleBuilder()
    for operation in operations:
        with m.function(operation, [("cell", PTR), ("x", type_)], type_, exported=True) as b:
            b.ret(b.atomicrmw(operation, b.args[0], b.args[1], "seq_cst"))
    return m.build()


@pytest.mark.parametrize("type_", [I32, I64, F32])
def test_atomics_agree_with_the_machine(type_):
    is_float = isinstance(type_, Float)
    floats = ("xchg", "fadd", "fsub", "fmax", "fmin")
    operations = [op for op in ATOMIC_OPERATIONS if (op in floats if is_float else not op.startswith("f"))]
    module = atomic_module(type_, operations)
    code = jit.compile_module(module)
    c_type = {I32: ctypes.c_int32, I64: ctypes.c_int64, F32: ctypes.c_float}[type_]
    values = edge_values(type_)[: 7 if is_float else None]
    for operation in operations:
        run = code.function(operation, c_type, POINTER, c_type)
        for cell, x in itertools.product(values, repeat=2):
            mine, theirs = np.array([cell]), np.array([cell])
            old = interpret(module, operation, [mine, x.item()]).value
            assert run(theirs.ctypes.data, x.item()) == old == cell
            assert same_nan(mine) == same_nan(theirs), (operation, cell, x, mine, theirs)
