"""The builder gives clean, named, foldable par."""

import pytest

from threadloom.errors import InternalError
from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import F32, I1, I32, I64, PTR, Const, Level, Space, Vector
from threadloom.par.text import parse, print_module


def test_sum_of_squares_reads_like_it_was_written():
    m = ModuleBuilder()
    with m.function("sum_squares", [("x", PTR, "noalias readonly"), ("n", I64)], F32, exported=True) as b:
        x, n = b.args
        with b.loop(0, n, 1, [b.const(F32, 0.0)], ["acc"]) as loop:
            value = b.load(F32, b.gep(F32, x, loop.iv), name="value")
            loop.yield_(b.fma(value, value, loop.args[0], name="next"))
        b.ret(loop.results[0])
    assert (
        print_module(m.build())
        == """\
define exported float @sum_squares(ptr noalias readonly %x, i64 %n) nounwind {
  %acc.out = for %i = i64 0 to %n step 1 carry (%acc = float 0.000000e+00) {
    %x.at = getelementptr inbounds float, ptr %x, i64 %i
    %value = load float, ptr %x.at, align 4
    %next = call float @llvm.fma.f32(float %value, float %value, float %acc)
    yield float %next
  }
  return float %acc.out
}
"""
    )


def test_integer_arithmetic_on_constants_folds():
    m = ModuleBuilder()
    with m.function("f", [("n", I64), ("x", PTR)], I64) as b:
        n, x = b.args
        assert b.add(n, 0) == n and b.mul(1, n) == n and b.mul(n, 0) == Const(I64, "0")
        assert b.add(Const(I64, "3"), 4) == Const(I64, "7")
        assert b.udiv(Const(I64, "-1"), 2) == Const(I64, str(2**63 - 1))
        assert b.icmp("ult", Const(I64, "-1"), 2).text == "false"
        assert b.icmp("slt", Const(I64, "-1"), 2).text == "true"
        assert b.select(Const(I1, "true"), n, 5) == n
        assert b.gep(F32, x, 0) == x
        assert b.cast("zext", Const(I32, "-1"), I64) == Const(I64, "4294967295")
        assert b.cast("sext", Const(I32, "-1"), I64) == Const(I64, "-1")
        assert b.udiv(n, 0) != n  # traps: left as it is
        b.ret(n)
    assert [op.opcode for op in m.build().functions[0].body.ops[:-1]] == ["udiv"]


def test_while_if_parallel_allocas_and_externals_round_trip():
    m = ModuleBuilder()
    table = m.global_("table", I64, constant=True, init="7")
    with m.function("f", [("x", PTR), ("n", I64)], exported=True) as b:
        x, n = b.args
        with b.parallel(Level.BLOCKS, [0, 0], [n, 4], ["row", "col"], "dynamic") as (row, col):
            shared = b.alloca(F32, 64, Space.SHARED, 64, "tile")
            with b.parallel(Level.THREADS, [0], [32], ["t"]) as (t,):
                with b.while_([t], ["k"]) as w:
                    (k,) = w.go_on(b.icmp("slt", w.args[0], row), w.args[0])
                    w.yield_(b.add(k, col))
                with b.if_(b.icmp("eq", w.results[0], 3)) as branch:
                    branch.yield_(t)
                    branch.otherwise()
                    branch.yield_(w.results[0])
                b.barrier()
                b.call("printf", [table, branch.results[0]], I32, variadic_after=1)
                b.masked_store(b.const(Vector(8, F32), 1.5), shared, b.const(Vector(8, I1), 1))
                b.prefetch(b.gep(F32, x, t))
        b.ret()
    module = m.build()
    assert parse(print_module(module, locs=True)) == module
    assert "declare i32 @printf(ptr %arg0, ...)" in print_module(module)


def test_carried_values_must_be_yielded():
    m = ModuleBuilder()
    with (
        pytest.raises(InternalError, match="1 carried values but yield_ got 0"),
        m.function("f", [("n", I64)]) as b,
        b.loop(0, b.args[0], inits=[b.const(F32, 0)]),
    ):
        pass


def test_names_stay_unique_even_against_numbered_hints():
    m = ModuleBuilder()
    with m.function("f", [("a.1", I64), ("a", I64)], I64) as b:
        total = b.add(b.args[0], b.args[1], name="a")
        again = b.add(total, total, name="a")
        b.ret(again)
    assert {total.name, again.name} == {"a.2", "a.3"}
