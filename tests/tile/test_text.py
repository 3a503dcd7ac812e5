"""The text of tile kernels parses back to the same kernel, and says where it is wrong."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path

import numpy as np
import pytest

from threadloom.errors import CompileError
from threadloom.tile.canonicalize import canonicalize
from threadloom.tile.ops import Kernel
from threadloom.tile.text import parse_text, print_kernel
from threadloom.tile.verify import verify

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


def kernel_of(name: str) -> Kernel:
    module = importlib.import_module(f"threadloom.examples.{name}")
    return getattr(module, name).bind(**module.inputs(np.random.default_rng(0), **module.SHAPES[0])).kernel


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str):
    for kernel in (kernel_of(name), canonicalize(kernel_of(name))):
        assert parse_text(print_kernel(kernel, locations=True)) == kernel
        text = print_kernel(kernel)
        assert print_kernel(parse_text(text)) == text
        verify(parse_text(text))


ODD = """
kernel odd(x: [M, 4] bf16 in, i: [M] i32 in, y: [M] f32 out, total: [] f64 inout, s: bool) {
  axes m: M tile, e: 4 each, m.1: M whole
  grid m {
    %c: [] f32 = const -inf
    %c.1: [] i64 = const -3
    %c.2: [] bool = const False
    %b: [] i64 = bound m.stop
    %d: [] i64 = dim 4
    %n: [m] i64 = index m
    stream e in %c.1..%d carry (%a.1: [] f32 = %c) -> (%a.2) {
      %i: [m] i32 = load i[m]
      %x: [m] bf16 = load x[%i - 2*m + 7, -e + 3]
      %x.1: [m] f32 = cast %x
      %q: [m] f32 = scan max %x.1 along m reverse
      %z: [] f32 = reduce max %q over m
      if %s -> (%r: [] f32) {
        yield %z
      } else {
        yield %a.1
      }
      yield %r
    }
    stream e.9 in ..%b {
      yield
    }
    %f: [m] f32 = full %a.2
    store y[m] = %f
    %g: [] f64 = cast %a.2
    atomic_add total[] = %g
  }
}
"""


def test_every_form_of_the_text():
    text = ODD.replace("e: 4 each,", "e: 4 each, e.9: 4 each,").lstrip()
    kernel = parse_text(text)
    assert print_kernel(kernel) == text
    verify(kernel)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reduce max", "reduce maxi", "reduce knows no maxi"),
        ("%z: [] f32", "%z: [m] f32", "drops the axis it reduces"),
        ("full %a.2", "full %nothing", "%nothing has no value here"),
        ("scan max", "scanmax", "scanmax is not an operation"),
        ("store y[m]", "store y[m, m]", "y has 1 dimensions, 2 subscripts"),
        ("if %s", "if %z", "condition %z is not a bool scalar"),
        ("store y[m] = %f", "store x[m, m] = %f", "store of x, which is in"),
        ("bf16 in", "bf17 in", "bf17 is not a dtype"),
    ],
)
def test_wrong_text_is_explained(old: str, new: str, message: str):
    text = ODD.replace("e: 4 each,", "e: 4 each, e.9: 4 each,").lstrip()
    assert old in text
    with pytest.raises(CompileError) as error:
        verify(parse_text(text.replace(old, new, 1)))
    assert error.value.slug == "invalid-tile-ir" and message in str(error.value)


def test_every_broken_rule_is_named_at_once():
    text = textwrap.dedent("""
        kernel k(x: [M] f32 in, y: [M] f32 out) {
          axes m: M tile
          grid m {
            %x: [m] f16 = load x[m]
            %e: [m] f32 = exp %x
            store x[m] = %e
          }
        }
    """)
    with pytest.raises(CompileError) as error:
        verify(parse_text(text))
    assert all(part in str(error.value) for part in ("%x is f16", "exp of f16 does not give f32", "store of x"))
