"""Loops that threads leave early, at random: the interpreter before and after each pass on exits, and compiled."""

from __future__ import annotations

import random

import numpy as np
import pytest

from threadloom.cuda.vectorize.hoist_guarded import HoistGuarded
from threadloom.cuda.vectorize.prune_exits import PruneExits
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.ops import Module
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module
from threadloom.targets.cpu.jit import compile_module

THREADS, LENGTH = 13, 24

KERNEL = """
define exported void @k(ptr noalias %sums, ptr noalias %wanted, ptr noalias %out, ptr noalias %seen, i32 %n) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%t) = (i32 0) to (i32 {threads}) {{
      %at, %kept = while (%x = i32 {start}, %sum = i32 {sum}) {{
        %in = icmp {below} i32 %x, %n
        %exit, %y, %s = if i1 %in {{
          %p = getelementptr i32, ptr %sums, i32 %x
          %v = load i32, ptr %p
          %q = getelementptr i32, ptr %wanted, i32 %t
          %w = load i32, ptr %q
          %found = icmp {compare} i32 %v, %w
          {effect}
          %more = add i32 %sum, {added}
          %exit.1, %y.1, %s.1 = if i1 %found {{
            yield i32 {first}, i32 {left}, i32 %sum
          }} else {{
            %next = add nsw i32 %x, {step}
            {second}
            yield i32 {goes_on}, i32 %next, i32 %more
          }}
          yield i32 %exit.1, i32 %y.1, i32 %s.1
        }} else {{
          yield i32 0, i32 {missed}, i32 %sum
        }}
        {observed}
        %goes = icmp {test}
        condition i1 %goes, i32 %y, i32 %s
      }} do (%z, %s.2) {{
        yield i32 %z, i32 %s.2
      }}
      {used}
      %r = getelementptr i32, ptr %out, i32 %t
      store i32 %both, ptr %r
    }}
  }}
  return
}}
"""
STORE = """%e = getelementptr i32, ptr {to}, i32 %t
          store i32 %x, ptr %e"""


def make(seed: int) -> Module:
    chosen = random.Random(seed)
    large = chosen.random() < 0.3  # a second way out behind the first
    text = KERNEL.format(
        threads=THREADS,
        start=chosen.choice([0, 0, 3]),
        sum=chosen.choice(["0", "7", "%t"]),
        below=chosen.choice(["slt", "ult"]),
        compare=chosen.choice(["sge", "sgt", "eq"]),
        effect=chosen.choice(["", "", STORE.format(to="%seen"), STORE.format(to="%wanted")]),
        added=chosen.choice(["%v", "%w", "1"]),
        first=chosen.choice([0, 0, 2]),
        left=chosen.choice(["%x", "%v", "5"]),
        step=chosen.choice([1, 1, 2]),
        second="%big = icmp sgt i32 %more, 40\n            %out.of = select i1 %big, i32 0, i32 1" if large else "",
        goes_on="%out.of" if large else "1",
        missed=chosen.choice(["-1", "%x"]),
        observed=chosen.choice(["", "", "%o = getelementptr i32, ptr %seen, i32 %t\n        store i32 %y, ptr %o"]),
        test="eq i32 %exit, 1",
        used=chosen.choice(["%both = xor i32 %at, %kept", "%both = add i32 %at, 0", "%both = add i32 %kept, 1"]),
    )
    return parse(text)


def arguments(seed: int) -> tuple[list[np.ndarray], int]:
    chosen = random.Random(seed)
    sums = np.sort(np.array([chosen.randint(0, 30) for _ in range(LENGTH)], np.int32))
    wanted = np.array([chosen.randint(0, 33) for _ in range(THREADS)], np.int32)
    return [sums, wanted, np.full(THREADS, -7, np.int32), np.full(THREADS, -7, np.int32)], chosen.choice([0, 1, 9, 24])


def interpreted(module: Module, seed: int) -> list[np.ndarray]:
    arrays, n = arguments(seed)
    interpret(module, "k", [*arrays, n])
    return arrays


def compiled(module: Module, seed: int) -> list[np.ndarray]:
    import ctypes

    arrays, n = arguments(seed)
    kernel = compile_module(module).function("k", None, *[ctypes.c_void_p] * 4, ctypes.c_int)
    kernel(*[one.ctypes.data for one in arrays], n)
    return arrays


@pytest.mark.parametrize("seed", range(60))
def test_results_stay(seed: int) -> None:
    module = make(seed)
    expected = interpreted(module, seed)
    for step in (
        PruneExits(),
        HoistGuarded(),
        VectorizeThreads(width=4, worth_it=1e9, two_versions_ops=200 * (seed % 2)),
    ):
        module = run_passes(module, [step]).module
        for one, other in zip(interpreted(module, seed), expected, strict=True):
            assert np.array_equal(one, other), f"{step.name} changes seed {seed}\n{print_module(module)}"
    if seed % 4 == 0:
        for one, other in zip(compiled(module, seed), expected, strict=True):
            assert np.array_equal(one, other), print_module(module)


def test_most_of_them_are_pruned_and_hoisted() -> None:
    pruned = hoisted = 0
    for seed in range(60):
        first, second = run_passes(make(seed), [PruneExits(), HoistGuarded()]).steps
        pruned, hoisted = pruned + first.changed, hoisted + second.changed
    assert pruned == 60
    assert 30 <= hoisted < 60  # not where the loop writes what it loads


def test_selectors_that_nothing_decides_are_left() -> None:
    text = print_module(make(0))
    text = text.replace("yield i32 0, i32", "yield i32 %n, i32").replace("yield i32 1, i32", "yield i32 %t, i32")
    (step,) = run_passes(parse(text), [PruneExits()]).steps
    assert not step.changed
    assert step.declined[0].reason == "exit of a loop not pruned"


def test_load_stays_behind_a_guard_that_must_be_loaded() -> None:
    text = print_module(run_passes(make(0), [PruneExits()]).module)
    text = text.replace("%in = icmp", "%first.v = load i32, ptr %sums\n%in.v = icmp", 1).replace(
        "i32 %x, %n", "i32 %first.v, %n", 1).replace("if i1 %in {", "if i1 %in.v {", 1)  # fmt: skip
    module = parse(text.replace("ptr noalias %sums", "ptr %sums").replace("ptr noalias %out", "ptr %out"))
    (step,) = run_passes(module, [HoistGuarded()]).steps
    assert any(one.reason == "load stays in a loop" for one in step.declined)
