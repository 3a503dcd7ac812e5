"""The par text form prints what it parses and parses what it prints."""

import pytest

from threadloom.errors import CompileError
from threadloom.par.ops import I64, For, Leaf, Parallel, Value
from threadloom.par.text import parse, print_module

EVERYTHING = """\
%struct.S = type { i32, ptr }
@table = internal constant [2 x i32] [i32 1, i32 2], align 16
@ext = external global i32
@word = private unnamed_addr constant [3 x i8] c"hi\\00", align 1

declare i32 @printf(ptr noundef %format, ...) nounwind

define exported void @all(ptr noalias align 64 %x, i64 %n, ptr %"a b") nounwind "k"="v" {
  parallel blocks (%b, %c) = (i64 0, i64 0) to (i64 %n, i64 3) schedule(dynamic) loc("a.cu":1:2) {
    %s = for %i = i64 0 to %n step 1 carry (%acc = float 0.0) loc("a.cu":1:2-9) {
      %p = getelementptr inbounds float, ptr %x, i64 %i
      %v = load nontemporal float, ptr %p, align 4, !alias.scope !3
      %a = fadd reassoc nsz float %acc, %v
      %sel = select i1 true, float %a, float 0x7FF8000000000000
      yield float %sel
    }
    %sh = alloca shared float, i64 64, align 64
    %own = alloca private { i32, ptr }, i64 1
    parallel threads (%t) = (i64 0) to (i64 32) {
      store volatile float %s, ptr %sh loc("x y":2:3)
      barrier threads
      %r, %r2 = while (%k = i64 %t) {
        %cc = icmp slt i64 %k, 5
        condition i1 %cc, i64 %k, i64 %k
      } do (%k1, %k2) {
        %kn = add nuw nsw i64 %k1, 1
        yield i64 %kn
      }
      %c2 = fcmp nnan oeq float %s, %s
      %z = if i1 %c2 {
        %q = call fast <8 x float> @llvm.sqrt.v8f32(<8 x float> splat (float 1.0))
        %m = tail call i32 @printf(ptr noundef @table, i32 noundef 5) nounwind
        %o = atomicrmw add ptr %x, i32 5 syncscope("agent") seq_cst, align 4
        %cx = cmpxchg weak ptr %x, i32 5, i32 6 acq_rel monotonic, align 4
        %c0 = extractvalue { i32, i1 } %cx, 0
        fence seq_cst
        %in = call i32 %x(i32 5)
        %sv = shufflevector <8 x float> %q, <8 x float> poison, <2 x i32> <i32 0, i32 poison>
        %e = extractelement <2 x float> %sv, i64 0
        %ld = load atomic i32, ptr %x seq_cst, align 4
        store atomic i32 %ld, ptr getelementptr inbounds (i8, ptr @table, i64 4) release, align 4
        %w = sext i32 %ld to i64
        yield i64 %w
      } else {
        yield i64 %r2
      }
    }
  }
  return
}

!3 = distinct !{!3, !4}
!4 = distinct !{!4}
"""


def test_text_round_trips_exactly():
    assert print_module(parse(EVERYTHING), locs=True) == EVERYTHING


def test_module_round_trips_exactly():
    module = parse(EVERYTHING)
    assert parse(print_module(module, locs=True)) == module


def test_locations_are_left_out_unless_asked_for():
    assert "loc(" not in print_module(parse(EVERYTHING))


def test_parsed_operations_have_their_fields():
    module = parse(EVERYTHING)
    (outer,) = [op for op in module.functions[1].body.ops if isinstance(op, Parallel)]
    loop = outer.body.ops[0]
    assert isinstance(loop, For) and loop.iv == Value("i", I64) and loop.loc.end_column == 9
    load = loop.body.ops[1]
    assert (
        isinstance(load, Leaf)
        and load.attrs.flags == ("nontemporal",)
        and load.attrs.metadata == (("alias.scope", "!3"),)
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%y = add i32 %n, 1", "another type"),
        ("%y = add i64 %m, 1", "not defined above"),
        ("%n = add i64 %n, 1", "defined twice"),
        ("%y = addd i64 %n, 1", "did you mean add?"),
        ("%y = icmp lt i64 %n, 1", "one of: eq ne"),
        ("%y, %z = add i64 %n, 1", "2 names for 1 results"),
        ("for %i = i64 0 to %n step 1 {", "never closed"),
        ("%y = load floot, ptr null", "expected a type"),
        ("parallel blocks (%i) = (i64 0) to (i64 1, i64 2) {", "as many"),
        ("call i64 @f()", "needs a name"),
        ("add i64 %n, 1", "needs a name"),
        ("barrier thread", "one of: blocks threads"),
        ("return § ", "unexpected character"),
    ],
)
def test_mistakes_are_located(body, message):
    with pytest.raises(CompileError) as caught:
        parse(f"define void @f(i64 %n) {{\n  {body}\n  return\n}}", "mine.par")
    assert caught.value.slug == "par-syntax"
    assert message in str(caught.value)
    assert caught.value.loc.file == "mine.par" and caught.value.loc.line in (1, 2)
