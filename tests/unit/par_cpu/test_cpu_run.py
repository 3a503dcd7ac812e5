"""par programs, built, emitted, compiled and run on this CPU."""

import ctypes

import numpy as np
import pytest

from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import F32, I8, I32, I64, PTR, Array, Level, Space
from threadloom.par.text import parse
from threadloom.targets.cpu import jit, openmp
from threadloom.targets.cpu.emit import EmitOptions, emit_llvm
from threadloom.targets.cpu.host import AARCH64_NEON, NEOVERSE_V1, SAPPHIRE_RAPIDS, X86_64_V2, X86_64_V3, X86_64_V4

POINTER, LONG, INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


@pytest.fixture(params=[1, 2, 3])
def workers(request):
    openmp.set_threads(request.param)
    yield request.param
    openmp.set_threads(0)


def grid(schedule, space):
    """out[i, j] = sum of a block-shared copy of 1..k, scaled by the block's number."""
    m = ModuleBuilder()
    with m.function("grid", [("out", PTR), ("rows", I64), ("cols", I64), ("k", I64)], exported=True) as b:
        out, rows, cols, k = b.args
        with b.parallel(Level.BLOCKS, [0, 0], [rows, cols], ["i", "j"], schedule) as (i, j):
            tile = b.alloca(I64, k, space, name="tile")
            with b.parallel(Level.THREADS, [0], [k], ["t"]) as (t,):
                b.store(b.add(t, 1), b.gep(I64, tile, t))
            with b.loop(0, k, 1, [b.const(I64, 0)], ["total"]) as loop:
                loop.yield_(b.add(loop.args[0], b.load(I64, b.gep(I64, tile, loop.iv))))
            block = b.add(b.mul(i, cols), j)
            b.store(b.mul(loop.results[0], block), b.gep(I64, out, block))
        b.ret()
    return m.build()


@pytest.mark.parametrize("schedule", ["static", "dynamic"])
@pytest.mark.parametrize("space", list(Space))
def test_every_block_runs_once_on_any_number_of_workers(schedule, space, workers):
    code = jit.compile_module(grid(schedule, space))
    run = code.function("grid", None, POINTER, LONG, LONG, LONG)
    for rows, cols, k in [(1, 1, 1), (3, 5, 100), (7, 1, 9000), (211, 3, 2), (0, 4, 3), (-2, 4, 3)]:
        out = np.full((max(rows, 0), cols), -1, np.int64)
        run(out.ctypes.data, rows, cols, k)
        expected = np.arange(out.size).reshape(out.shape) * (k * (k + 1) // 2)
        assert np.array_equal(out, expected)


def test_code_that_llvm_refuses_is_one_error_and_leaves_llvm_usable():
    """Its module is closed before its context, whatever the collector does afterwards."""
    import gc

    from threadloom.errors import InternalError

    refused = ["define void @f() { ret i32 0 }", "define i32 @f() {\n  %x = add i32 %y, 1\n  ret i32 %x\n}",
               "define void @f() {\na:\n  br label %a\nb:\n  %x = phi i32 [ 0, %a ]\n  br label %b\n}"]  # fmt: skip
    kept = []
    for text in refused * 3:
        with pytest.raises(InternalError, match="LLVM refuses") as caught:
            jit.compile_object(text, X86_64_V2)
        kept.append(caught)
    del kept, caught
    gc.collect()
    assert jit.compile_object("define void @f() { ret void }", X86_64_V2)


@pytest.mark.parametrize("options", [jit.EXPLICIT, jit.OPTIMIZED])
def test_private_arrays_of_parallel_iterations_stay_private(options):
    """Each work-item fills its own array; marking those accesses as independent would let LLVM mix them up."""
    m = ModuleBuilder()
    with m.function("own", [("out", PTR), ("n", I64)], exported=True) as b:
        out, n = b.args
        with b.parallel(Level.THREADS, [0], [n], ["t"]) as (t,):
            own = b.alloca(I32, 8, name="own")
            small = b.cast("trunc", t, I32)
            with b.loop(0, 8, 1) as fill:
                b.store(b.add(small, b.cast("trunc", fill.iv, I32)), b.gep(I32, own, fill.iv))
                fill.yield_()
            b.store(b.load(I32, b.gep(I32, own, b.and_(t, 7))), b.gep(I32, out, t))
        b.ret()
    code = jit.compile_module(m.build(), options)
    out = np.zeros(1000, np.int32)
    code.function("own", None, POINTER, LONG)(out.ctypes.data, out.size)
    assert np.array_equal(out, np.arange(1000) + np.arange(1000) % 8)


def test_run_time_sized_private_arrays_do_not_grow_the_stack():
    m = ModuleBuilder()
    with m.function("many", [("n", I64), ("size", I64)], I64, exported=True) as b:
        n, size = b.args
        with b.loop(0, n, 1, [b.const(I64, 0)], ["total"]) as loop:
            with b.if_(b.icmp("sge", loop.iv, 0)) as always:
                slot = b.alloca(I64, size, name="slot")
                b.store(loop.iv, slot)
                always.yield_(b.load(I64, slot))
                always.otherwise()
                always.yield_(loop.iv)
            loop.yield_(b.add(loop.args[0], always.results[0]))
        b.ret(loop.results[0])
    run = jit.compile_module(m.build()).function("many", LONG, LONG, LONG)
    assert run(100_000, 1000) == 100_000 * 99_999 // 2  # 800 MB if it grew


def test_while_finds_the_collatz_length():
    source = """
define exported i64 @collatz(i64 %start) {
  %n.out, %steps.out = while (%n = i64 %start, %steps = i64 0) {
    %more = icmp ne i64 %n, 1
    condition i1 %more, i64 %n, i64 %steps
  } do (%m, %s) {
    %odd = and i64 %m, 1
    %is.odd = trunc i64 %odd to i1
    %next = if i1 %is.odd {
      %triple = mul i64 %m, 3
      %up = add i64 %triple, 1
      yield i64 %up
    } else {
      %half = lshr i64 %m, 1
      yield i64 %half
    }
    %s1 = add i64 %s, 1
    yield i64 %next, i64 %s1
  }
  return i64 %steps.out
}
"""
    assert jit.compile_module(parse(source)).function("collatz", LONG, LONG)(27) == 111


def test_shared_memory_in_serial_code_comes_from_an_arena():
    source = """
define exported i32 @f(i64 %n, i32 %x) {
  %tile = alloca shared i32, i64 %n
  %last = sub i64 %n, 1
  %p = getelementptr i32, ptr %tile, i64 %last
  store i32 %x, ptr %p
  %y = load i32, ptr %p
  return i32 %y
}
"""
    run = jit.compile_module(parse(source)).function("f", INT, LONG, INT)
    assert run(1 << 20, 7) == 7 and run(3, 8) == 8


def test_a_nested_grid_runs_inside_its_worker(workers):
    m = ModuleBuilder()
    with m.function("nested", [("out", PTR)], exported=True) as b:
        with b.parallel(Level.BLOCKS, [2], [6], ["i"]) as (i,), b.parallel(Level.BLOCKS, [0], [8], ["j"]) as (j,):
            at = b.add(b.mul(b.sub(i, 2), 8), j)
            b.store(at, b.gep(I64, b.args[0], at))
        b.ret()
    out = np.zeros(32, np.int64)
    jit.compile_module(m.build()).function("nested", None, POINTER)(out.ctypes.data)
    assert np.array_equal(out, np.arange(32))


def test_variadic_calls_reach_the_c_library():
    m = ModuleBuilder()
    text = m.global_("text", Array(6, I8), 'c"%d-%d\\00"', constant=True)
    with m.function("join", [("out", PTR), ("x", I32)], exported=True) as b:
        out, x = b.args
        b.call("snprintf", [out, b.const(I64, 32), text, x, x], I32, variadic_after=3)
        b.ret()
    buffer = ctypes.create_string_buffer(32)
    jit.compile_module(m.build()).function("join", None, POINTER, INT)(ctypes.addressof(buffer), 42)
    assert buffer.value == b"42-42"


@pytest.mark.parametrize("target", [X86_64_V2, X86_64_V3, X86_64_V4, SAPPHIRE_RAPIDS, AARCH64_NEON, NEOVERSE_V1])
def test_objects_and_assembly_for_other_machines(target):
    text = emit_llvm(grid("dynamic", Space.SHARED), EmitOptions(standalone=True))
    assert jit.compile_object(text, target)[:4] == b"\x7fELF"
    assembly = jit.compile_assembly(text, target, jit.OPTIMIZED)
    assert "GOMP_parallel" in assembly and "loom.arenas" in assembly


def test_without_threads_nothing_is_forked():
    text = emit_llvm(grid("static", Space.SHARED), EmitOptions(threads=False))
    assert "GOMP" not in text and "omp_get" not in text


def test_nontemporal_stores_are_emitted_as_such():
    m = ModuleBuilder()
    with m.function("stream", [("x", PTR)], exported=True) as b:
        vector = b.splat(b.load(F32, b.args[0]), 8)
        b.store(vector, b.args[0], 32, nontemporal=True)
        b.ret()
    assert "movntps" in jit.compile_assembly(emit_llvm(m.build()), X86_64_V3)


SAXPY = """
define exported void @saxpy(ptr %x, ptr %y, float %a, i32 %blocks, i32 %size) nounwind WIDTH {
  parallel blocks (%b) = (i32 0) to (i32 %blocks) schedule(static) {
    parallel threads (%z, %t) = (i32 0, i32 0) to (i32 1, i32 %size) {
      %first = mul nsw i32 %b, %size
      %i = add nsw i32 %first, %t
      %i64 = sext i32 %i to i64
      %p = getelementptr inbounds float, ptr %x, i64 %i64
      %q = getelementptr inbounds float, ptr %y, i64 %i64
      %v = load float, ptr %p, align 4
      %w = load float, ptr %q, align 4
      %s = call float @llvm.fmuladd.f32(float %a, float %v, float %w)
      store float %s, ptr %q, align 4
    }
  }
  return
}
"""


@pytest.mark.parametrize(("width", "register"), [("", "%ymm"), ('"prefer-vector-width"="512"', "%zmm")])
def test_parallel_threads_become_vectors_although_pointers_may_overlap(width, register):
    assembly = jit.compile_assembly(emit_llvm(parse(SAXPY.replace("WIDTH", width))), SAPPHIRE_RAPIDS, jit.OPTIMIZED)
    assert any("vfmadd" in line and register in line for line in assembly.splitlines())
