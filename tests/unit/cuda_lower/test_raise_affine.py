"""Loops raised to `for` run as often as before and leave the same counters behind; the others say why they stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from threadloom.cuda.optimize.raise_affine import RaiseAffine
from threadloom.par.interp import interpret
from threadloom.par.ops import For, Module, While
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse
from threadloom.par.verify import verify
from threadloom.par.walk import walk

LOOP = """
define exported void @count(ptr %out, i32 %low, i32 %high) {
  %i.out, %s.out = while (%i = i32 %low, %s = i32 0) {
    %spare = mul i32 %i, 2
    %go = icmp TEST
    condition i1 %go, i32 %i, i32 %s
  } do (%j, %t) {
    %square = mul i32 %j, %j
    %sum = add i32 %t, %square
    %next = add nsw i32 %j, STEP
    yield i32 %next, i32 %sum
  }
  %at = getelementptr i32, ptr %out, i32 1
  store i32 %i.out, ptr %out
  store i32 %s.out, ptr %at
  return
}
"""


def _run(module: Module, low: int, high: int) -> list[int]:
    out = np.zeros(2, np.int32)
    interpret(module, "count", [out, low, high])
    return out.tolist()


@pytest.mark.parametrize("test", ["slt i32 %i, %high", "sle i32 %i, %high", "sgt i32 %high, %i", "sge i32 %high, %i"])
@pytest.mark.parametrize("step", [1, 3])
def test_same_iterations(test: str, step: int) -> None:
    module = parse(LOOP.replace("TEST", test).replace("STEP", str(step)))
    raised = RaiseAffine().apply(module)
    verify(raised)
    assert any(isinstance(op, For) for op in walk(raised.functions[0].body))
    assert not any(isinstance(op, While) for op in walk(raised.functions[0].body))
    for low, high in ((0, 5), (0, 6), (-4, -1), (3, 3), (4, 3), (7, -7)):
        assert _run(raised, low, high) == _run(module, low, high), (low, high)


def test_a_bound_that_the_test_computes() -> None:
    text = LOOP.replace("%spare = mul i32 %i, 2", "%bound = sub i32 %high, 1").replace("TEST", "sle i32 %i, %bound")
    module = parse(text.replace("STEP", "2"))
    raised = RaiseAffine().apply(module)
    verify(raised)
    assert not any(isinstance(op, While) for op in walk(raised.functions[0].body))
    assert all(_run(raised, 1, high) == _run(module, 1, high) for high in (-1, 1, 2, 6, 7))


def test_reasons() -> None:
    source = Path(__file__).parents[2] / "files/cuda_optimize/raise_affine.par"
    with collected_declines() as declined:
        RaiseAffine().apply(parse(source.read_text()))
    assert sorted(one.detail for one in declined) == [
        "it does more than test before each iteration",
        "its bound changes",
        "its counter falls",
        "its counter may wrap",
        "its test is no comparison",
        "its test is not < or <= between signed numbers",
        "its test is not < or <= between signed numbers",
    ]
