"""Guards between things that all threads do: the interpreter before and after, whole rows around the guarded part."""

from __future__ import annotations

import random

import numpy as np
import pytest

from threadloom.cuda.vectorize.narrow_threads import NarrowThreads, heaviest
from threadloom.cuda.vectorize.split_guard import split_guard
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.ops import Module, Parallel
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module

KERNEL = """
define exported void @k(ptr noalias %in, ptr noalias %out, i32 %n, i32 %first) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%y, %x) = (i32 0, i32 0) to (i32 3, i32 13) {{
      %row = mul i32 %y, 13
      %item = add i32 %row, %x
      %p = getelementptr i32, ptr %in, i32 %item
      %v = load i32, ptr %p
      %q = getelementptr i32, ptr %out, i32 %item
      {before}
      %i = add nsw i32 %first, {index}
      %c = icmp {predicate} i32 %i, %n
      {guard} {{
        %far = add i32 %item, 64
        %qf = getelementptr i32, ptr %out, i32 %far
        {guarded}
        yield {yes}
      }} else {{
        yield {no}
      }}
      {behind}
    }}
  }}
  return
}}
"""
STORE = "store i32 %v, ptr %q"
NEXT = ["%item2 = add i32 %item, 128", "%q2 = getelementptr i32, ptr %out, i32 %item2"]


def make(seed: int) -> str:
    rng = random.Random(seed)
    value = rng.random() < 0.3  # the guard gives a value to what is behind
    guarded = rng.choice(
        [
            ["%w = mul i32 %item, 3", "store i32 %w, ptr %qf"],
            ["%w = mul i32 %v, 3", "store i32 %w, ptr %qf"],  # needs what was loaded before
            ["%w = load i32, ptr %q", "store i32 %w, ptr %qf"],  # sees what was stored before
            ["%w = load i32, ptr %q", "%w3 = mul i32 %w, 3", "store i32 %w3, ptr %q"],
        ]
    )
    behind = rng.choice(
        [
            [],
            [*NEXT, "store i32 %row, ptr %q2"],
            [*NEXT, "store i32 %v, ptr %q2"],
            [*NEXT, "%u = load i32, ptr %q", "store i32 %u, ptr %q2"],
        ]
    )
    if value:
        behind = [*NEXT, "store i32 %r, ptr %q2"]
    return KERNEL.format(
        before=rng.choice(["", STORE, STORE]),
        index=rng.choice(["%x", "%x", "%y"]),
        predicate=rng.choice(["slt", "eq", "sge", "ne"]),
        guard="%r = if i1 %c" if value else "if i1 %c",
        guarded="\n".join(guarded),
        yes="i32 %w" if value else "",
        no="i32 9" if value else "",
        behind="\n".join(behind),
    )


def _run(module: Module, values: tuple[int, int]) -> np.ndarray:
    out = np.full(192, -7, np.int32)
    interpret(module, "k", [np.arange(64, dtype=np.int32) * 3 + 1, out, *values])
    return out


@pytest.mark.parametrize("seed", range(40))
def test_results_stay(seed: int) -> None:
    module = parse(make(seed))
    narrow = run_passes(module, [NarrowThreads()]).module
    vectors = run_passes(narrow, [VectorizeThreads(width=4, worth_it=1e9)]).module
    rng = random.Random(seed)
    for _ in range(2):
        values = rng.randint(-3, 16), rng.randint(-5, 9)
        expected = _run(module, values)
        assert np.array_equal(_run(narrow, values), expected), print_module(narrow)
        assert np.array_equal(_run(vectors, values), expected), print_module(vectors)


def _case(**parts: str) -> str:
    usual = {"before": STORE, "index": "%x", "predicate": "eq", "guard": "if i1 %c", "yes": "", "no": "", "behind": ""}
    return KERNEL.format(**usual | {"guarded": "store i32 %item, ptr %qf"} | parts)


def _parts(text: str):
    blocks = parse(text).functions[0].body.ops[0]
    loop = next(op for op in blocks.body.ops if isinstance(op, Parallel))
    return split_guard(loop, heaviest(loop.body))


def test_the_row_before_stays_whole() -> None:
    text = print_module(NarrowThreads().apply(parse(_case(behind="\n".join([*NEXT, "store i32 %row, ptr %q2"])))))
    assert text.count("to (i32 3, i32 13)") == 2, text  # and not 12 of its threads, then one


def test_what_the_guard_needs_from_before() -> None:
    assert _parts(_case()) is not None
    assert _parts(_case(guarded="store i32 %v, ptr %qf")) is None  # a loaded value
    given = {"guard": "%r = if i1 %c", "yes": "i32 1", "no": "i32 2"}
    assert _parts(_case(**given, behind="\n".join([*NEXT, "store i32 %r, ptr %q2"]))) is None
