"""How many threads become the lanes of one vector, and how many loops of a large program."""

from __future__ import annotations

import re

import pytest

from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads, default_width
from threadloom.par.ops import Leaf, Module, While
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module
from threadloom.par.walk import walk

KERNEL = """
define void @k(ptr noalias %x, ptr noalias %y, i32 %n, i32 %rows) {{
  parallel blocks (%b) = (i32 0) to (i32 4) {{
    parallel threads (%t) = (i32 0) to (i32 %n) {{
      %left, %sum = while (%r = i32 0, %s = float 0.0) {{
        %more = icmp slt i32 %r, %rows
        condition i1 %more, i32 %r, float %s
      }} do (%r.in, %s.in) {{
        %start = mul i32 %r.in, %n
        %at = add i32 %start, {column}
        %p = getelementptr float, ptr %x, i32 %at
        %v = load float, ptr %p
        %q = getelementptr float, ptr %x, i32 %start
        %u = load float, ptr %q
        %d = fsub float %v, %u
        %s.next = fadd float %s.in, %d
        {also}
        %r.next = add i32 %r.in, 1
        yield i32 %r.next, float %s.next
      }}
      %o = getelementptr float, ptr %y, i32 %t
      store float %sum, ptr %o
    }}
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("column", "also", "times"),
    [
        ("%t", "", 4),  # rows of neighbours
        ("0", "", 1),  # one element for all
        ("%t", "store float %d, ptr %p", 1),  # more than a sum
    ],
)
def test_sums_of_rows_are_wide(column: str, also: str, times: int) -> None:
    module = VectorizeThreads(worth_it=1e9).apply(parse(KERNEL.format(column=column, also=also)))
    widths = {int(lanes) for lanes in re.findall(r"<(\d+) x float>", print_module(module))}
    assert widths == {times * default_width()}


def test_a_large_program_has_its_usual_launches_vectorised_first() -> None:
    text = KERNEL.format(column="%t", also="")
    module = parse(text.replace("@k(", "@k.general(") + text.replace("@k(", "@k.apart("))
    kernel = module.functions[0]
    size = sum(1 for op in walk(kernel.body) if isinstance(op, Leaf | While)) + 5  # fewer than two loops over threads
    (step,) = run_passes(module, (VectorizeThreads(worth_it=1e9, most_ops_of_module=size),), verify_each=False).steps
    assert [one.reason for one in step.declined] == ["loop over threads not vectorised here"]
    changed = VectorizeThreads(worth_it=1e9, most_ops_of_module=size).apply(module)
    vectors = {one.name: "x float>" in print_module(Module((one,))) for one in changed.functions if one.body}
    assert vectors == {"k.general": False, "k.apart": True}


GRID_STRIDE = """
define void @k(ptr noalias %x, i64 %n, i64 %step) {
  parallel blocks (%b) = (i32 0) to (i32 4) {
    parallel threads (%t) = (i32 0) to (i32 256) {
      %first = zext i32 %t to i64
      %end = while (%k = i64 %first) {
        %more = icmp ult i64 %k, %n
        condition i1 %more, i64 %k
      } do (%k.in) {
        %high = lshr i64 %k.in, 20
        %v = trunc i64 %high to i8
        %p = getelementptr i8, ptr %x, i64 %k.in
        store i8 %v, ptr %p
        %next = add i64 %k.in, %step
        yield i64 %next
      }
    }
  }
  return
}
"""


def test_bytes_that_threads_reach_side_by_side_in_a_loop_are_vectors() -> None:
    """A thread alone would walk down a column of memory, a cache line for each byte."""
    assert "x i64>" in print_module(VectorizeThreads().apply(parse(GRID_STRIDE)))
