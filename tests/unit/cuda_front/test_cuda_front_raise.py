"""Control flow of every shape becomes structured par that computes the same: LLVM runs the cfg, the JIT the par."""

from __future__ import annotations

import ctypes

import pytest

from threadloom.cuda.cfg import parsing
from threadloom.cuda.rebuild_ssa import SsaRebuilder
from threadloom.cuda.structure import RESULT, Repeat, structure
from threadloom.errors import CompileError
from threadloom.par.ops import I1, I32, Attrs, Block, Const, Function, Leaf, Module, Return, Value, While

SHAPES = {
    "diamond": """
entry:
  %c = icmp slt i32 %n, 5
  br i1 %c, label %a, label %b
a:
  %x = add i32 %n, 10
  br label %m
b:
  %y = mul i32 %n, 3
  br label %m
m:
  %r = phi i32 [ %x, %a ], [ %y, %b ]
  ret i32 %r
""",
    "short_circuit": """
entry:
  %c = icmp sgt i32 %n, 2
  br i1 %c, label %second, label %no
second:
  %d = icmp slt i32 %n, 7
  br i1 %d, label %yes, label %no
yes:
  br label %m
no:
  %w = phi i32 [ 5, %entry ], [ 6, %second ]
  br label %m
m:
  %r = phi i32 [ 1, %yes ], [ %w, %no ]
  ret i32 %r
""",
    "while": """
entry:
  br label %head
head:
  %i = phi i32 [ 0, %entry ], [ %i1, %body ]
  %s = phi i32 [ 1, %entry ], [ %s1, %body ]
  %c = icmp slt i32 %i, %n
  br i1 %c, label %body, label %done
body:
  %s1 = mul i32 %s, 3
  %i1 = add i32 %i, 1
  br label %head
done:
  ret i32 %s
""",
    "do_while_with_swap": """
entry:
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %i1, %body ]
  %a = phi i32 [ 3, %entry ], [ %b, %body ]
  %b = phi i32 [ 4, %entry ], [ %a, %body ]
  %i1 = add i32 %i, 1
  %c = icmp slt i32 %i1, %n
  br i1 %c, label %body, label %done
done:
  ret i32 %a
""",
    "break_and_continue": """
entry:
  br label %head
head:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ], [ %i2, %skip ]
  %s = phi i32 [ 0, %entry ], [ %s1, %next ], [ %s, %skip ]
  %c = icmp slt i32 %i, 20
  br i1 %c, label %body, label %done
body:
  %bit = and i32 %i, 1
  %odd = icmp eq i32 %bit, 1
  br i1 %odd, label %skip, label %work
skip:
  %i2 = add i32 %i, 1
  br label %head
work:
  %s1 = add i32 %s, %i
  %big = icmp sgt i32 %s1, %n
  br i1 %big, label %found, label %next
next:
  %i1 = add i32 %i, 1
  br label %head
found:
  %f = mul i32 %s1, 100
  br label %done
done:
  %r = phi i32 [ %s, %head ], [ %f, %found ]
  ret i32 %r
""",
    "return_from_nested_loops": """
entry:
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %i1, %outer.next ]
  %c = icmp slt i32 %i, 9
  br i1 %c, label %inner, label %after
inner:
  %j = phi i32 [ 0, %outer ], [ %j1, %inner.next ]
  %p = mul i32 %i, %j
  %hit = icmp eq i32 %p, %n
  br i1 %hit, label %early, label %inner.next
inner.next:
  %j1 = add i32 %j, 1
  %d = icmp slt i32 %j1, 9
  br i1 %d, label %inner, label %outer.next
outer.next:
  %i1 = add i32 %i, 1
  br label %outer
after:
  ret i32 -1
early:
  %x = mul i32 %i, 10
  %r = add i32 %x, %j
  ret i32 %r
""",
    "switch_with_fallthrough": """
entry:
  %is0 = icmp eq i32 %n, 0
  br i1 %is0, label %zero, label %test1
test1:
  %is1 = icmp eq i32 %n, 1
  br i1 %is1, label %one, label %test2
test2:
  %is2 = icmp eq i32 %n, 2
  br i1 %is2, label %two, label %default
zero:
  br label %one
one:
  %a = phi i32 [ 7, %zero ], [ 1, %test1 ]
  br label %two
two:
  %b = phi i32 [ %a, %one ], [ 2, %test2 ]
  br label %end
default:
  br label %end
end:
  %r = phi i32 [ %b, %two ], [ 99, %default ]
  ret i32 %r
""",
}


def llvm_text(body: str) -> str:
    return f"define i32 @f(i32 %n) {{\n{body.strip()}\n}}\n"


def raised(body: str) -> Module:
    (function,) = parsing.parse(llvm_text(body)).functions
    (param,) = function.params
    statements = structure(function)
    taken = {op.result.name for block in function.blocks for op in block.body if op.result} | {"n"}
    ops, env = SsaRebuilder({"n": param.value}, taken).body(statements, (RESULT,))
    block = Block((*ops, Return(env[RESULT])))
    return Module((Function("f", function.params, I32, block, exported=True),))


def native(body: str):
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(llvm_text(body)), machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(engine.get_function_address("f"))
    function.engine = engine
    return function


@pytest.mark.parametrize("shape", SHAPES)
def test_raised_code_computes_the_same(shape: str) -> None:
    from threadloom.targets.cpu.jit import compile_module

    function = compile_module(raised(SHAPES[shape])).function("f", ctypes.c_int32, ctypes.c_int32)
    expected = native(SHAPES[shape])
    assert [function(n) for n in range(-2, 40)] == [expected(n) for n in range(-2, 40)]


def test_a_top_tested_loop_keeps_its_shape() -> None:
    (function,) = raised(SHAPES["while"]).functions
    (loop,) = (op for op in function.body.ops if isinstance(op, While))
    assert len(loop.before.ops) == 2  # the compare, the condition
    assert len(loop.after.ops) == 3


def test_one_exit_needs_no_selector() -> None:
    (function,) = parsing.parse(llvm_text(SHAPES["while"])).functions
    (loop,) = (s for s in structure(function) if isinstance(s, Repeat))
    assert loop.test.name == "c"


def test_a_loop_with_two_entries_is_an_error() -> None:
    (function,) = parsing.parse(
        llvm_text("""
entry:
  %c = icmp slt i32 %n, 5
  br i1 %c, label %a, label %b
a:
  br label %b
b:
  %d = icmp slt i32 %n, 6
  br i1 %d, label %a, label %end
end:
  ret i32 0
""")
    ).functions
    with pytest.raises(CompileError) as caught:
        structure(function)
    assert caught.value.slug == "cuda-irreducible"


def test_liveness_of_nested_loops_takes_no_exponential_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loop is gone through a few times for each time that the one around it is, not from the beginning."""
    i, one = Value("i", I32), Const(I32, "1")

    def nested(depth: int) -> Repeat:
        test = Value(f"c{depth}", I1)
        inside = (nested(depth - 1),) if depth else (Leaf("add", (i, one), Value("s", I32)),)
        return Repeat((Leaf("icmp", (i, one), test, Attrs(predicate="slt")),), test, False, inside)

    calls = []
    live = SsaRebuilder._live
    monkeypatch.setattr(SsaRebuilder, "_live", lambda *args: calls.append(1) or live(*args))
    counts = []
    for depth in (2, 4, 8):
        calls.clear()
        SsaRebuilder({"i": i}, {"i", "s"}).body((nested(depth),), ("s",))
        counts.append(len(calls))
    assert counts[2] < 8 * counts[1] and counts[2] < 1000
