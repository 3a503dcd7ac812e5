"""Threads that pass a remainder: the interpreter before and after, for moduli and offsets of every sign."""

from __future__ import annotations

import random

import numpy as np
import pytest

from threadloom.cuda.vectorize.narrow_threads import NarrowThreads
from threadloom.cuda.vectorize.stride_threads import StrideThreads
from threadloom.par.interp import interpret
from threadloom.par.ops import Module
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module

KERNEL = """
define exported void @k(ptr noalias %out, i32 %m, i32 %n, i32 %first) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    %zero = icmp eq i32 %m, 0
    %minus = icmp eq i32 %m, -1
    parallel threads (%y, %x) = (i32 0, i32 {low}) to (i32 2, i32 29) {{
      %a = {dividend}
      %least = icmp eq i32 %a, -2147483648
      %overflow = and i1 %minus, %least
      %unsafe = or i1 %zero, %overflow
      %divisor = select i1 %unsafe, i32 1, i32 %m
      %quotient = {opcode} i32 %a, %divisor
      %r = select i1 %zero, i32 %a, i32 %quotient
      %every = icmp {predicate} i32 %r, 0
      %in = icmp slt i32 %x, %n
      %odd = and i32 %y, 1
      %isodd = icmp eq i32 %odd, 1
      %more = {more}
      %c = {both}
      {store}
      if i1 %c {{
        {then}
        yield
      }} else {{
        {otherwise}
        yield
      }}
    }}
  }}
  return
}}
"""
HIT = """%row = mul i32 %y, 29
        %item = add i32 %row, %x
        %p = getelementptr i32, ptr %out, i32 %item
        %old = load i32, ptr %p
        %new = add i32 %old, %a
        store i32 %new, ptr %p"""


def _run(module: Module, values: tuple[int, int, int]) -> np.ndarray:
    out = np.full(64, -7, np.int32)
    interpret(module, "k", [out, *values])
    return out


def _kernel(**parts: str) -> str:
    usual = {
        "low": "0",
        "dividend": "add nsw i32 %x, 1",
        "opcode": "srem",
        "predicate": "eq",
        "more": "icmp eq i32 0, 0",
        "both": "and i1 %every, %more",
        "store": "",
        "then": HIT,
        "otherwise": "",
    }
    return KERNEL.format(**usual | parts)


@pytest.mark.parametrize("seed", range(12))
def test_strides_do_what_remainders_did(seed: int) -> None:
    rng = random.Random(seed)
    opcode = rng.choice(("srem", "srem", "urem"))
    dividend = rng.choice(
        ("add nsw i32 %y, 1", "add nsw i32 %x, 1", "add nsw i32 %x, 0", "add nsw i32 %first, %x", "sub nsw i32 %x, 5")
    )
    turned = rng.random() < 0.3
    text = _kernel(
        low=rng.choice(("0", "3")),
        opcode=opcode,
        dividend=dividend if opcode == "srem" else "add nsw i32 %x, 3",
        predicate="ne" if turned else "eq",
        more=rng.choice(("icmp eq i32 0, 0", "select i1 %in, i1 true, i1 false", "xor i1 %isodd, true")),
        both=rng.choice(("and i1 %every, %more", "select i1 %more, i1 %every, i1 false")),
        then="" if turned else HIT,
        otherwise=HIT if turned else "",
    )
    module = parse(text)
    ranged = NarrowThreads().apply(module)
    strided = StrideThreads().apply(ranged)
    assert parse(print_module(strided)) == strided
    for m in (-3, -1, 0, 1, 2, 3, 7, 40):
        values = m, rng.randint(-2, 31), rng.randint(-9, 9)
        expected = _run(module, values)
        assert np.array_equal(_run(strided, values), expected), values


@pytest.mark.parametrize(
    ("parts", "strides"),
    [
        ({}, True),
        ({"opcode": "urem"}, True),
        ({"dividend": "add nsw i32 %first, %y"}, True),  # rows, whole
        ({"opcode": "urem", "dividend": "sub nsw i32 %x, 5"}, False),  # read as a large number where it is negative
        ({"opcode": "srem", "dividend": "add i32 %x, %first"}, False),  # may wrap
        ({"both": "or i1 %every, %more"}, False),
        ({"store": "store i32 1, ptr %out"}, False),  # all threads have something to do
        ({"dividend": "mul nsw i32 %x, 3"}, False),
    ],
)
def test_only_what_surely_steps(parts: dict[str, str], strides: bool) -> None:
    text = print_module(StrideThreads().apply(parse(_kernel(**parts))))
    assert ("%step" in text) == strides


def test_a_store_alone_is_left() -> None:
    (step,) = run_passes(parse(_kernel(then="store i32 1, ptr %out")), (StrideThreads(),)).steps
    assert not step.changed and [one.reason for one in step.declined] == ["threads not strided"]
