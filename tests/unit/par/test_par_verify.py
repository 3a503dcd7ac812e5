"""One malformed module per rule of the verifier."""

import pytest

from threadloom.errors import InternalError
from threadloom.par.ops import (
    F32,
    I1,
    I32,
    I64,
    PTR,
    VOID,
    Alloca,
    Attrs,
    Barrier,
    Block,
    Condition,
    Const,
    For,
    Function,
    If,
    Leaf,
    Level,
    Module,
    Parallel,
    Param,
    Return,
    Value,
    Vector,
    While,
    Yield,
)
from threadloom.par.text import parse
from threadloom.par.verify import problems, verify
from threadloom.source import Loc

N, X, P, C = Value("n", I64), Value("x", F32), Value("p", PTR), Value("c", I1)
V = Value("v", Vector(4, F32))
END = Yield()
ZERO, ONE = Const(I64, "0"), Const(I64, "1")


def module(*ops, result=VOID):
    params = tuple(Param(value) for value in (N, X, P, C, V))
    ops = ops if ops and isinstance(ops[-1], Return) else (*ops, Return())
    return Module((Function("f", params, result, Block(ops)),))


def leaf(opcode, *operands, result=None, **attrs):
    return Leaf(opcode, operands, Value("r", result) if result else None, Attrs(**attrs))


def loop(upper=N, step=ONE, inits=(), args=(), results=(), body=(END,)):
    return For(Value("i", I64), ZERO, upper, step, inits, args, Block(body), results)


A, R = Value("a", F32), Value("r", F32)
INVALID = [
    (leaf("bogus", N), "no opcode"),
    (leaf("add", N, result=I64), "takes 2 operands"),
    (leaf("add", X, X, result=F32), "works on integers"),
    (leaf("fadd", N, N, result=I64), "works on floats"),
    (leaf("add", N, Const(I32, "1"), result=I64), "one type"),
    (leaf("add", N, N, result=I32), "does not follow"),
    (leaf("add", N, N), "does not follow"),
    (leaf("add", N, N, result=I64, flags=("exact",)), "does not take the flag exact"),
    (leaf("icmp", X, X, result=I1, predicate="eq"), "compares integers"),
    (leaf("icmp", N, N, result=I1, predicate="oeq"), "unknown predicate"),
    (leaf("fcmp", X, X, result=I1, predicate="eq"), "unknown predicate"),
    (leaf("fcmp", N, N, result=I1, predicate="oeq"), "compares floats"),
    (leaf("trunc", N, result=Vector(2, I32)), "cannot convert"),
    (leaf("zext", N, result=I32), "cannot convert"),
    (leaf("bitcast", N, result=F32), "cannot convert"),
    (leaf("bitcast", N, result=PTR), "cannot convert"),
    (leaf("load", N, result=F32), "loads through a ptr"),
    (leaf("load", P), "needs a result"),
    (leaf("load", P, result=F32, align_bytes=3), "power of two"),
    (leaf("store", P, X), "stores through a ptr"),
    (leaf("atomicrmw", P, N, result=I64, predicate="mul", ordering="monotonic"), "unknown atomic operation"),
    (leaf("atomicrmw", P, N, result=I64, predicate="add"), "orderings"),
    (leaf("cmpxchg", P, N, X, result=I64, ordering="seq_cst seq_cst"), "expected and new value"),
    (leaf("getelementptr", P, N, result=PTR), "source type"),
    (leaf("getelementptr", N, N, result=PTR, source_type=F32), "starts from a ptr"),
    (leaf("getelementptr", P, X, result=PTR, source_type=F32), "indices must be integers"),
    (leaf("select", N, X, X, result=F32), "needs an i1"),
    (leaf("extractelement", N, N, result=I64), "needs a vector"),
    (leaf("insertelement", V, N, N, result=V.type), "needs a vector"),
    (leaf("shufflevector", V, V, result=Vector(1, F32), indices=(8,)), "lanes must be"),
    (leaf("extractvalue", N, result=I64, indices=(0,)), "no such field"),
    (leaf("call", X), "needs a callee"),
    (leaf("call", X, callee="g"), "neither defined nor declared"),
    (leaf("call", X, callee="f"), "do not fit @f"),
    (leaf("add", Value("y", I64), N, result=I64), "not defined"),
    (leaf("add", Value("x", I64), N, result=I64), "is used as i64, but it is float"),
    (Leaf("add", (N, N), N), "defined twice"),
    (Barrier(Level.THREADS), "must stand inside a parallel threads"),
    (Alloca(Value("s", PTR), F32, X), "counts with an integer"),
    (Alloca(Value("s", PTR), F32, ONE, align_bytes=3), "power of two"),
    (loop(upper=Const(I32, "1")), "one integer type"),
    (loop(step=Const(I64, "-1")), "must be positive"),
    (loop(inits=(X,)), "must agree in number"),
    (loop(body=()), "must end with yield"),
    (loop(inits=(X,), args=(A,), results=(R,)), "the region gives () but the carried values are (float)"),
    (loop(body=(Return(), Yield())), "return stands where its region does not end"),
    (If(N, Block((Yield(),)), Block((Yield(),))), "must be an i1"),
    (If(C, Block((Yield((X,)),)), Block((Yield(),)), (R,)), "the region gives ()"),
    (While((), (), Block((Yield(),)), (), Block((Yield(),))), "must end with condition"),
    (While((X,), (), Block((Condition(C),)), (), Block((Yield(),))), "inits and carried values of a while"),
    (While((), (), Block((Condition(C),)), (A,), Block((Yield(),))), "forwarded values and results"),
    (Parallel(Level.BLOCKS, (Value("i", I64),), (ZERO,), (), Block(())), "as many lower and upper"),
    (Parallel(Level.BLOCKS, (Value("i", I32),), (ZERO,), (N,), Block(())), "one integer type"),
    (Parallel(Level.BLOCKS, (Value("i", I64),), (ZERO,), (N,), Block(()), "guided"), "static or dynamic"),
    (Parallel(Level.BLOCKS, (Value("i", I64),), (ZERO,), (N,), Block((Yield(),))), "yield stands"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "message"), INVALID)
def test_each_rule_catches_its_mistake(op, message):
    assert any(message in problem.message for problem in problems(module(op))), problems(module(op))


def test_values_do_not_leave_their_region():
    inner = If(C, Block((leaf("add", N, N, result=I64), Yield())), Block((Yield(),)))
    use = Leaf("add", (Value("r", I64), N), Value("late", I64))
    assert "not defined" in problems(module(inner, use))[0].message


def test_return_must_fit_the_declaration():
    assert "returns float, declared as i64" in problems(module(Return(X), result=I64))[0].message


def test_a_barrier_inside_its_parallel_is_fine():
    inner = Block((Barrier(Level.THREADS),))
    assert not problems(module(Parallel(Level.THREADS, (Value("t", I64),), (ZERO,), (N,), inner)))


def test_the_error_names_pass_place_and_text():
    bad = Leaf("add", (X, X), Value("r", F32), loc=Loc("a.cu", 3, 7))
    with pytest.raises(
        InternalError, match=r"after fold:\n  a.cu:3:7: f: add: works on integers\n    %r = add float %x, %x"
    ):
        verify(module(bad), "fold")


def test_two_functions_of_one_name():
    twice = parse("declare void @f()\ndeclare void @f()\n")
    assert "twice" in problems(twice)[0].message
