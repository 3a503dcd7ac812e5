"""The interpreter: values, memory checks, work-items between barriers."""

import numpy as np
import pytest

from threadloom.errors import CompileError, InternalError
from threadloom.par.builder import ModuleBuilder
from threadloom.par.interp import Rendezvous, interpret
from threadloom.par.ops import F32, I32, I64, PTR, Level, Space
from threadloom.par.text import parse


def run(body, *args, params="", result="void", **options):
    text = f"define {result} @f({params}) {{\n{body}\n}}\n"
    return interpret(parse(text, "case.par"), "f", args, **options)


def test_scale_changes_the_callers_array():
    m = ModuleBuilder()
    with m.function("scale", [("x", PTR), ("n", I64)]) as b:
        with b.parallel(Level.BLOCKS, [0], [b.args[1]]) as (i,):
            at = b.gep(F32, b.args[0], i)
            b.store(b.fmul(b.load(F32, at), 2.0), at)
        b.ret()
    x = np.arange(5, dtype=np.float32)
    outcome = interpret(m.build(), "scale", [x, 5])
    assert outcome.findings == () and np.array_equal(x, [0, 2, 4, 6, 8])


def test_negative_results_come_back_signed():
    assert run("%r = sub i32 %x, 5\n return i32 %r", 3, params="i32 %x", result="i32").value == -2


def block_sum(with_barrier, space=Space.SHARED):
    """Each block of 8 threads reverses its slice through shared memory."""
    m = ModuleBuilder()
    with m.function("reverse", [("x", PTR)]) as b:
        with b.parallel(Level.BLOCKS, [0], [3], ["block"]) as (block,):
            tile = b.alloca(I32, 8, space, name="tile")
            with b.parallel(Level.THREADS, [0], [8], ["t"]) as (t,):
                at = b.gep(I32, b.args[0], b.add(b.mul(block, 8), t))
                b.store(b.load(I32, at), b.gep(I32, tile, t))
                if with_barrier:
                    b.barrier()
                b.store(b.load(I32, b.gep(I32, tile, b.sub(7, t))), at)
        b.ret()
    return m.build()


def test_barriers_order_shared_memory():
    x = np.arange(24, dtype=np.int32)
    outcome = interpret(block_sum(True), "reverse", [x])
    assert outcome.findings == ()
    assert np.array_equal(x, np.arange(24).reshape(3, 8)[:, ::-1].ravel())


def test_a_missing_barrier_is_a_race_and_an_uninitialised_read():
    outcome = interpret(block_sum(False), "reverse", [np.arange(24, dtype=np.int32)])
    assert outcome.kinds() == {"race", "uninitialised"}
    race = next(finding for finding in outcome.findings if finding.kind == "race")
    assert "on tile+" in race.message and "store i32" in race.message


def test_blocks_race_with_each_other_on_global_memory():
    body = """
  parallel blocks (%b) = (i64 0) to (i64 2) {
    store i64 %b, ptr %x
  }
  return"""
    assert run(body, np.zeros(1, np.int64), params="ptr %x").kinds() == {"race"}


def test_atomics_do_not_race_but_a_plain_read_beside_them_does():
    atomic = "%old = atomicrmw add ptr %x, i64 1 monotonic, align 8"
    body = "parallel threads (%t) = (i64 0) to (i64 9) {{\n {} \n {} \n}}\n return"
    x = np.zeros(1, np.int64)
    assert run(body.format(atomic, ""), x, params="ptr %x").findings == () and x[0] == 9
    assert run(body.format(atomic, "%v = load i64, ptr %x"), x, params="ptr %x").kinds() == {"race"}


@pytest.mark.parametrize(("offset", "bytes_"), [(10, 4), (-1, 4), (9, 8)])
def test_out_of_bounds_names_the_allocation(offset, bytes_):
    body = f'%p = getelementptr i32, ptr %x, i64 {offset}\n %v = load i{bytes_ * 8}, ptr %p loc("k.cu":4:2)\n return'
    (finding,) = run(body, np.zeros(10, np.int32), params="ptr %x").findings
    assert finding.kind == "out-of-bounds" and f"offset {offset * 4} of argument (40 bytes)" in finding.message
    assert finding.locs[0].line == 4


def test_null_and_freed_memory():
    assert "at null" in str(run("store i32 1, ptr null\n return").findings[0])
    body = """
  %p = call ptr @malloc(i64 4)
  call void @free(ptr %p)
  store i32 1, ptr %p
  return"""
    module = parse("declare ptr @malloc(i64)\ndeclare void @free(ptr)\ndefine void @f() {" + body + "\n}\n")
    assert "which is freed" in str(interpret(module, "f", []).findings[0])


def test_read_only_arrays_and_constants_refuse_writes():
    x = np.zeros(1, np.int32)
    x.flags.writeable = False
    assert "read-only" in str(run("store i32 1, ptr %x\n return", x, params="ptr %x").findings[0])
    body = "store i32 1, ptr @c\n %v = load i32, ptr @c\n return i32 %v"
    module = parse("@c = internal constant i32 7\ndefine i32 @f() {\n" + body + "\n}\n")
    outcome = interpret(module, "f", [])
    assert outcome.value == 7 and outcome.kinds() == {"out-of-bounds"}


DIVERGENT = """
  parallel threads (%t) = (i64 0) to (i64 4) {
    %c = icmp slt i64 %t, 2
    if i1 %c {
      barrier threads loc("k.cu":3:1)
      yield
    } else {
      OTHER
      yield
    }
  }
  return"""


def test_different_barriers_diverge():
    outcome = run(DIVERGENT.replace("OTHER", 'barrier threads loc("k.cu":5:1)'))
    assert outcome.kinds() == {"divergent-barrier"}
    assert [loc.line for loc in outcome.findings[0].locs] == [3, 5]


def test_a_barrier_does_not_wait_for_those_that_ended():
    assert run(DIVERGENT.replace("OTHER", "")).findings == ()


def test_a_grid_barrier_waits_for_all_blocks():
    body = """
  parallel blocks (%b) = (i64 0) to (i64 3) {
    parallel threads (%t) = (i64 0) to (i64 2) {
      %n = mul i64 %b, 2
      %at = add i64 %n, %t
      %p = getelementptr i64, ptr %x, i64 %at
      store i64 %at, ptr %p
      barrier blocks
      %other = sub i64 5, %at
      %q = getelementptr i64, ptr %x, i64 %other
      %v = load i64, ptr %q
      barrier blocks
      store i64 %v, ptr %p
    }
  }
  return"""
    x = np.zeros(6, np.int64)
    assert run(body, x, params="ptr %x").findings == () and list(x) == [5, 4, 3, 2, 1, 0]


def test_while_loops_with_barriers_inside():
    body = """
  %tile = alloca shared i64, i64 8
  parallel threads (%t) = (i64 0) to (i64 8) {
    %mine = getelementptr i64, ptr %tile, i64 %t
    store i64 %t, ptr %mine
    %last = while (%half = i64 4) {
      barrier threads
      %more = icmp sgt i64 %half, 0
      condition i1 %more, i64 %half
    } do (%h) {
      %low = icmp slt i64 %t, %h
      if i1 %low {
        %far = add i64 %t, %h
        %p = getelementptr i64, ptr %tile, i64 %far
        %a = load i64, ptr %p
        %b = load i64, ptr %mine
        %s = add i64 %a, %b
        store i64 %s, ptr %mine
        yield
      } else {
        yield
      }
      %next = lshr i64 %h, 1
      yield i64 %next
    }
  }
  %total = load i64, ptr %tile
  return i64 %total"""
    outcome = run(body, result="i64")
    assert outcome.value == 28 and outcome.findings == ()


def test_a_rendezvous_exchanges_values_between_work_items():
    """A warp shuffle: item t gets the value of item t^1 of its pair; groups do not wait for each other."""
    swap = Rendezvous(
        "swap", Level.THREADS, lambda item, args: frozenset({item, item ^ 1}),
        lambda args: {item: args.get(item ^ 1, args[item])[0] for item in args},
    )  # fmt: skip
    module = parse("""
declare i32 @swap(i32)
define void @f(ptr %x) {
  parallel threads (%t) = (i64 0) to (i64 5) {
    %p = getelementptr i32, ptr %x, i64 %t
    %v = load i32, ptr %p
    %w = call i32 @swap(i32 %v)
    store i32 %w, ptr %p
  }
  return
}
""")
    x = np.arange(5, dtype=np.int32)
    assert interpret(module, "f", [x], rendezvous=[swap]).findings == ()
    assert list(x) == [1, 0, 3, 2, 4]


def test_poison_is_harmless_until_it_decides():
    harmless = "%big = add nsw i8 %x, 100\n %r = select i1 true, i8 %x, i8 %big\n return i8 %r"
    assert run(harmless, 100, params="i8 %x", result="i8").findings == ()
    deciding = "%big = add nsw i8 %x, 100\n %c = icmp slt i8 %big, 0\n if i1 %c {\n yield\n} else {\n yield\n}\n return"
    assert run(deciding, 100, params="i8 %x").kinds() == {"undefined"}


def test_division_by_zero_is_reported():
    outcome = run("%r = sdiv i32 1, %x\n return i32 %r", 0, params="i32 %x", result="i32")
    assert outcome.kinds() == {"undefined"} and "division by zero" in str(outcome.findings[0])


def test_printf_and_globals():
    module = parse("""
@text = internal constant [16 x i8] c"%d %5.2f %s|%c\\0A\\00"
@word = internal constant [3 x i8] c"hi\\00"
declare i32 @printf(ptr, ...)
define void @f(i32 %x) {
  %n = call i32 @printf(ptr @text, i32 %x, double 2.5, ptr @word, i32 33)
  return
}
""")
    assert interpret(module, "f", [-3]).output == "-3  2.50 hi|!\n"


def test_recursion_and_function_pointers():
    module = parse("""
@table = internal constant [1 x ptr] [ptr @fib]
define i64 @fib(i64 %n) {
  %small = icmp slt i64 %n, 2
  %r = if i1 %small {
    yield i64 %n
  } else {
    %a = sub i64 %n, 1
    %b = sub i64 %n, 2
    %x = call i64 @fib(i64 %a)
    %f = load ptr, ptr @table
    %y = call i64 %f(i64 %b)
    %s = add i64 %x, %y
    yield i64 %s
  }
  return i64 %r
}
""")
    assert interpret(module, "fib", [12]).value == 144


def test_endless_loops_stop():
    body = "while () {\n condition i1 true\n} do () {\n yield\n}\n return"
    with pytest.raises(InternalError, match="endless"):
        run(body, most_steps=1000)


def test_externals_are_called():
    module = parse(
        "declare i32 @twice(i32)\ndefine i32 @f(i32 %x) {\n %r = call i32 @twice(i32 %x)\n return i32 %r\n}\n"
    )
    assert interpret(module, "f", [21], externals={"twice": lambda x: 2 * x}).value == 42
    with pytest.raises(InternalError, match="give it in externals"):
        interpret(module, "f", [21])


def test_strings_must_have_the_length_of_their_type():
    module = parse('@text = internal constant [3 x i8] c"four"\ndefine void @f() {\n return\n}\n')
    with pytest.raises(CompileError, match="has 4 bytes"):
        interpret(module, "f", [])


def test_neighbouring_bytes_of_a_word_do_not_race_but_the_whole_word_does():
    body = """
  parallel threads (%t) = (i64 0) to (i64 4) {
    %p = getelementptr i8, ptr %x, i64 %t
    store i8 1, ptr %p
    WORD
  }
  return"""
    assert run(body.replace("WORD", ""), np.zeros(4, np.uint8), params="ptr %x").findings == ()
    whole = run(body.replace("WORD", "%v = load i32, ptr %x"), np.zeros(4, np.uint8), params="ptr %x")
    assert whole.kinds() == {"race"}
    unaligned = run(body.replace("store i8 1, ptr %p", "store i16 1, ptr %p").replace("WORD", ""),
                    np.zeros(8, np.uint8), params="ptr %x")  # fmt: skip
    assert unaligned.kinds() == {"race"}
