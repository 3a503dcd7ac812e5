"""Canonical form: what goes, what moves, and that doing it again changes nothing."""

from __future__ import annotations

import textwrap

import pytest

from threadloom.tile.canonicalize import canonicalize
from threadloom.tile.text import parse_text, print_kernel
from threadloom.tile.verify import verify

HEAD = """\
kernel k(x: [M, K] f32 in, y: [M] f32 out, s: i64, c: bool) {
  axes m: M tile, k: K tile, e: K each
  grid m {
"""


def canonical(body: str) -> str:
    """The grid's body in canonical form, without indentation of the kernel around it."""
    kernel = parse_text(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n  }\n}\n")
    verify(kernel)
    simple = canonicalize(kernel)
    verify(simple)
    assert canonicalize(simple) == simple
    lines = print_kernel(simple).split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("  grid"))
    return textwrap.dedent("\n".join(lines[start + 1 : -3])) + "\n"


CASES = {
    "dead code and unused carried values go": (
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        %b: [m] f32 = full %z
        stream k carry (%a.1: [m] f32 = %a, %b.1: [m] f32 = %b) -> (%a.2, %b.2) {
          %x: [m, k] f32 = load x[m, k]
          %u: [m] f32 = reduce sum %x over k
          %v: [m] f32 = reduce max %x over k
          %a.3: [m] f32 = add %a.1, %u
          %b.3: [m] f32 = maximum %b.1, %v
          yield %a.3, %b.3
        }
        store y[m] = %a.2
        """,
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        stream k carry (%a.1: [m] f32 = %a) -> (%a.2) {
          %x: [m, k] f32 = load x[m, k]
          %u: [m] f32 = reduce sum %x over k
          %a.3: [m] f32 = add %a.1, %u
          yield %a.3
        }
        store y[m] = %a.2
        """,
    ),
    "invariant loads move out, equal ones are one, bounds that bound nothing go": (
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        %n: [] i64 = dim K
        %o: [] i64 = const 0
        stream k in %o..%n carry (%a.1: [m] f32 = %a) -> (%a.2) {
          %p: [m] f32 = load x[m, 3]
          %q: [m] f32 = load x[m, 3]
          %r: [m] f32 = mul %p, %q
          %x: [m, k] f32 = load x[m, k]
          %u: [m] f32 = reduce sum %x over k
          %v: [m] f32 = mul %u, %r
          %a.3: [m] f32 = add %a.1, %v
          yield %a.3
        }
        store y[m] = %a.2
        """,
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        %p: [m] f32 = load x[m, 3]
        %r: [m] f32 = mul %p, %p
        stream k carry (%a.1: [m] f32 = %a) -> (%a.2) {
          %x: [m, k] f32 = load x[m, k]
          %u: [m] f32 = reduce sum %x over k
          %v: [m] f32 = mul %u, %r
          %a.3: [m] f32 = add %a.1, %v
          yield %a.3
        }
        store y[m] = %a.2
        """,
    ),
    "what is indexed by the indices of an axis is indexed by the axis": (
        """
        %i: [m] i64 = index m
        %u: [m] f32 = load x[m, %i + m + 1]
        %v: [m] f32 = load x[2*m, m - %i]
        %w: [m] f32 = add %u, %v
        store y[%i] = %w
        """,
        """
        %u: [m] f32 = load x[m, 2*m + 1]
        %v: [m] f32 = load x[2*m, 0]
        %w: [m] f32 = add %u, %v
        store y[m] = %w
        """,
    ),
    "a carried value that never changes is its initial value": (
        """
        %z: [] f32 = const 2.0
        %a: [m] f32 = full %z
        %b: [m] f32 = load x[m, 0]
        stream e carry (%a.1: [m] f32 = %a, %b.1: [m] f32 = %b) -> (%a.2, %b.2) {
          %x: [m] f32 = load x[m, e]
          %b.3: [m] f32 = mul %b.1, %a.1
          %b.4: [m] f32 = add %b.3, %x
          yield %a.1, %b.4
        }
        %r: [m] f32 = add %a.2, %b.2
        store y[m] = %r
        """,
        """
        %z: [] f32 = const 2.0
        %a: [m] f32 = full %z
        %b: [m] f32 = load x[m, 0]
        stream e carry (%b.1: [m] f32 = %b) -> (%b.2) {
          %x: [m] f32 = load x[m, e]
          %b.3: [m] f32 = mul %b.1, %a
          %b.4: [m] f32 = add %b.3, %x
          yield %b.4
        }
        %r: [m] f32 = add %a, %b.2
        store y[m] = %r
        """,
    ),
    "carried values get places of their own": (
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        stream e carry (%p: [m] f32 = %a, %q: [m] f32 = %a) -> (%p.1, %q.1) {
          %x: [m] f32 = load x[m, e]
          yield %q, %x
        }
        %r: [m] f32 = add %p.1, %a
        store y[m] = %r
        """,
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        %a.1: [m] f32 = full %z
        %a.2: [m] f32 = full %z
        stream e carry (%p: [m] f32 = %a.1, %q: [m] f32 = %a.2) -> (%p.1, %q.1) {
          %x: [m] f32 = load x[m, e]
          %q.2: [m] f32 = cast %q
          yield %q.2, %x
        }
        %r: [m] f32 = add %p.1, %a
        store y[m] = %r
        """,
    ),
    "results of a condition that nothing needs go, code in it stays there": (
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        %a.1: [m] f32 = full %z
        if %c -> (%p: [m] f32, %q: [m] f32) {
          %x: [m] f32 = load x[m, 0]
          %w: [m] f32 = load x[m, 1]
          yield %x, %w
        } else {
          yield %a, %a.1
        }
        store y[m] = %p
        """,
        """
        %z: [] f32 = const 0.0
        %a: [m] f32 = full %z
        if %c -> (%p: [m] f32) {
          %x: [m] f32 = load x[m, 0]
          yield %x
        } else {
          yield %a
        }
        store y[m] = %p
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_canonical_form(name: str):
    before, after = CASES[name]
    assert canonical(before) == textwrap.dedent(after).lstrip("\n")


def test_axes_of_code_that_is_gone_go_too():
    kernel = parse_text(HEAD + "    %x: [m] f32 = load x[m, 0]\n    store y[m] = %x\n  }\n}\n")
    assert [a.name for a in canonicalize(kernel).axes] == ["m"]
