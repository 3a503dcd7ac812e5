"""Flags over barriers are computed again: the interpreter before and after, and what must stay as it is."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from threadloom.cuda.lower.split import Split
from threadloom.cuda.optimize.rematerialize import Rematerialize
from threadloom.par.interp import interpret
from threadloom.par.ops import Level, Module
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify

FILE = Path(__file__).parents[2] / "files" / "cuda_optimize" / "rematerialize.par"


def _run(module: Module, n: int) -> np.ndarray:
    x = np.full(64, -1, np.int32)
    interpret(module, "steps", [x, n])
    return x


def _one_block() -> str:
    return FILE.read_text().replace("to (i32 2)", "to (i32 1)")


@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_the_flag_of_the_last_step(n: int) -> None:
    module = parse(_one_block())
    changed = Rematerialize().apply(module)
    verify(changed, "rematerialize")
    assert np.array_equal(_run(changed, n), _run(module, n))
    assert np.array_equal(_run(Split(Level.THREADS).apply(changed), n), _run(module, n))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("icmp sge i32 %t, %i\n", "icmp sge i32 %held, %i\n"),  # a load is not computed again
        ("while (%done = i8 undef", "while (%done = i8 1"),  # not always the expression
        ("%more = icmp slt i32 %next, %n", "%more = icmp slt i32 %next, %t"),  # threads leave one by one
    ],
)
def test_other_values_stay(old: str, new: str) -> None:
    text = _one_block().replace(old, new)
    if "%held" in new:
        text = text.replace("%low = icmp", "%held = load i32, ptr %own\n        %low = icmp")
    assert text != _one_block()
    assert "i8 undef" in text or "i8 1" in text
    changed = print_module(Rematerialize().apply(parse(text)))
    assert "%left.done, %left.i = while" in changed


def test_too_many_shared_operands_decline() -> None:
    text = _one_block().replace("%low = icmp sge i32 %t, %i\n", """%m1 = load i32, ptr %x
        %m2 = load i32, ptr %x
        %one = add i32 %m1, %t
        %two = mul i32 %m2, %one
        %low = icmp sge i32 %two, %i
""")  # fmt: skip
    (step,) = run_passes(parse(text), (Rematerialize(),)).steps
    assert "kept, not computed again" in {one.reason for one in step.declined}


NESTED = """
define exported void @steps(ptr noalias %x, i32 %n) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%t) = (i32 0) to (i32 24) {{
      %low = icmp {low}
      %r, %s = if i1 %low {{
        %k = add i32 %t, {k}
        %high = icmp {high}
        %p = if i1 %high {{
          %most = icmp {most}
          %q = if i1 %most {{ yield i8 {a} }} else {{ yield i8 {b} }}
          yield i8 %q
        }} else {{
          yield i8 {c}
        }}
        yield i8 %p, i32 %k
      }} else {{
        yield i8 {d}, i32 7
      }}
      barrier threads
      %px = getelementptr i32, ptr %x, i32 %t
      %flag = trunc i8 %r to i1
      if i1 %flag {{
        %wide = zext i8 %r to i32
        %v = add i32 %wide, %s
        store i32 %v, ptr %px
        yield
      }}
    }}
  }}
  return
}}
"""


@pytest.mark.parametrize("seed", range(10))
def test_random_nested_ifs(seed: int) -> None:
    rng = random.Random(seed)

    def compare(*left: str) -> str:
        predicate = rng.choice(("slt", "sge", "eq", "ne"))
        return f"{predicate} i32 {rng.choice(left)}, {rng.choice(('%n', '3', '11'))}"

    sides = {side: rng.choice((0, 1)) for side in "abcd"}
    text = NESTED.format(low=compare("%t"), high=compare("%t", "%k"), most=compare("%t", "%k"), k=seed - 4, **sides)
    module = parse(text)
    changed = Rematerialize().apply(module)
    verify(changed, "rematerialize")
    split = Split(Level.THREADS).apply(changed)
    assert "i8" not in print_module(split).split("parallel blocks")[1].split("parallel threads")[0]  # no slot of bytes
    for n in (-1, 4, 12, 30):
        expected = _run(module, n)
        assert np.array_equal(_run(changed, n), expected) and np.array_equal(_run(split, n), expected)
