"""Values that are computed twice are computed once, within the scope of the first, and mean the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from property.par.par_programs import CELLS, random_module

from threadloom.par.canonicalize import without_unused
from threadloom.par.interp import interpret
from threadloom.par.passes import map_functions
from threadloom.par.reuse_values import reuse_values
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify


def _reused(module):
    module = map_functions(module, lambda one: replace(one, body=without_unused(reuse_values(one.body))))
    verify(module)
    return module


def _text(body: str) -> str:
    return print_module(_reused(parse(f"define void @f(ptr %p, i32 %n, i1 %c) {{\n{body}\n  return\n}}")))


def test_a_value_stands_for_the_same_value_in_and_behind_its_region():
    text = _text("""
  %a = add i32 %n, 1
  %b = add i32 %n, 1
  if i1 %c {
    %d = add i32 %n, 1
    %e = mul i32 %d, %b
    store i32 %e, ptr %p
    yield
  } else {
    %g = mul i32 %n, 3
    store i32 %g, ptr %p
    yield
  }
  %h = mul i32 %n, 3
  store i32 %h, ptr %p""")
    assert text.count("add i32") == 1
    assert "mul i32 %a, %a" in text
    assert text.count("mul i32 %n, 3") == 2  # the first is not there behind its region


def test_flags_must_be_equal_loads_are_kept_and_numbers_folded():
    text = _text("""
  %a = add nsw i32 %n, 1
  %b = add i32 %n, 1
  %x = load i32, ptr %p
  store i32 %a, ptr %p
  %y = load i32, ptr %p
  %s = select i1 true, i32 %x, i32 %y
  %t = add i32 %s, %b
  store i32 %t, ptr %p""")
    assert "add nsw i32 %n, 1" in text and "add i32 %n, 1" in text
    assert text.count("load i32") == 1  # the second is not used any more
    assert "add i32 %x, %b" in text


def test_a_loop_over_threads_begins_anew():
    text = _text("""
  %a = mul i32 %n, 3
  store i32 %a, ptr %p
  parallel threads (%t) = (i32 0) to (i32 %n) {
    %b = mul i32 %n, 3
    %d = mul i32 %n, 3
    %e = add i32 %b, %d
    store i32 %e, ptr %p
  }""")
    assert text.count("mul i32 %n, 3") == 2


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_the_same(seed):
    module = random_module(seed, 16)
    results = []
    for one in (module, _reused(module)):
        source = np.random.default_rng(seed).integers(-(2**62), 2**62, CELLS + 8)
        out = np.zeros((2, 2 * CELLS), np.int64)
        assert interpret(one, "f", [out, source, 2, 77, 1.5]).findings == ()
        results.append(out)
    assert np.array_equal(*results)
