"""Random guards and clamps: the interpreter before and after narrowing, and after making vectors of what remains."""

from __future__ import annotations

import random

import numpy as np
import pytest

from threadloom.cuda.vectorize.narrow_threads import NarrowThreads
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.ops import Module
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module

KERNEL = """
define exported void @k(ptr noalias %in, ptr noalias %out, i32 %n, i32 %m, i32 %first) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    %slots = alloca worker i8, i64 64, align 64
    parallel threads (%y, %x) = (i32 0, i32 0) to (i32 4, i32 13) {{
      %row = mul i32 %y, 13
      %item = add i32 %row, %x
      %right = add nsw i32 %x, 1
      %high = icmp sgt i32 %right, %m
      %e = select i1 %high, i32 %m, i32 %right
      %left = sub nsw i32 %x, 1
      %w = call i32 @llvm.smax.i32(i32 %left, i32 0)
      {conditions}
      %r = if i1 %c {{
        {inner}
        %s = if i1 %d {{
          %p = getelementptr i32, ptr %in, i32 %e
          %v = load i32, ptr %p
          %pw = getelementptr i32, ptr %in, i32 %w
          %vw = load i32, ptr %pw
          %sum = add i32 %v, %vw
          %q = getelementptr i32, ptr %out, i32 %item
          store i32 %sum, ptr %q
          yield i8 1
        }} else {{
          yield i8 0
        }}
        yield i8 %s
      }} else {{
        {otherwise}
        yield i8 0
      }}
      %at = getelementptr i8, ptr %slots, i32 %item
      store i8 %r, ptr %at
    }}
    parallel threads (%y2, %x2) = (i32 0, i32 0) to (i32 4, i32 13) {{
      %row2 = mul i32 %y2, 13
      %item2 = add i32 %row2, %x2
      %at2 = getelementptr i8, ptr %slots, i32 %item2
      %r2 = load i8, ptr %at2
      %wide = sext i8 %r2 to i32
      %far = add i32 %item2, 64
      %q2 = getelementptr i32, ptr %out, i32 %far
      store i32 %wide, ptr %q2
    }}
  }}
  return
}}
declare i32 @llvm.smax.i32(i32, i32)
"""
VECTORS = VectorizeThreads(width=4, worth_it=1e9)


def _condition(rng: random.Random, name: str, depth: int = 2) -> list[str]:
    """Operations that leave a condition in %name."""
    if depth and rng.random() < 0.6:
        lines = [*_condition(rng, f"{name}l", depth - 1), *_condition(rng, f"{name}r", depth - 1)]
        a, b = f"i1 %{name}l", f"%{name}r"
        how = rng.choice([f"and {a}, {b}", f"or {a}, {b}", f"select {a}, i1 {b}, i1 false", f"xor {a}, true"])
        return [*lines, f"%{name} = {how}"]
    index, limit = rng.choice(("%x", "%y")), rng.choice(("%n", "%m", "3", "0", "%first"))
    predicate = rng.choice(("slt", "sle", "sgt", "sge", "eq", "ne", "ult", "uge"))
    sides = [f"%{name}i", limit]
    how = rng.choice(("add nsw i32 %first, {}", "sub nsw i32 {}, %first", "sub nsw i32 %n, {}", "add i32 {}, 0"))
    rng.shuffle(sides)
    return [f"%{name}i = {how.format(index)}", f"%{name} = icmp {predicate} i32 {sides[0]}, {sides[1]}"]


def _run(module: Module, values: tuple[int, int, int]) -> np.ndarray:
    out = np.full(128, -7, np.int32)
    interpret(module, "k", [np.arange(64, dtype=np.int32) * 3 + 1, out, *values])
    return out


_SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60))]


@pytest.mark.parametrize("seed", _SEEDS)
def test_ranges_do_what_guards_did(seed: int) -> None:
    rng = random.Random(seed)
    text = KERNEL.format(
        conditions="\n".join(_condition(rng, "c")),
        inner="\n".join(_condition(rng, "d", 1)),
        otherwise=rng.choice(("", "%o = getelementptr i32, ptr %out, i32 %item\n store i32 5, ptr %o")),
    )
    module = parse(text)
    narrow = NarrowThreads().apply(module)
    assert parse(print_module(narrow)) == narrow
    vectors = VECTORS.apply(narrow)
    for _ in range(2):
        values = rng.randint(-3, 16), rng.randint(0, 14), rng.randint(-5, 9)
        expected = _run(module, values)
        assert np.array_equal(_run(narrow, values), expected), values
        assert np.array_equal(_run(vectors, values), expected), values


def test_a_guard_becomes_a_range() -> None:
    text = KERNEL.format(conditions="%c = icmp slt i32 %x, %n", inner="%d = icmp sge i32 %y, 1", otherwise="")
    narrow = print_module(NarrowThreads().apply(parse(text)))
    assert "if i1 %c" not in narrow and "(i32 4, i32 %trunc)" in narrow


def test_a_large_program_is_left() -> None:
    module = parse(KERNEL.format(conditions="%c = icmp slt i32 %x, %n", inner="%d = icmp sge i32 %y, 1", otherwise=""))
    (step,) = run_passes(module, (NarrowThreads(most_ops_of_module=20),)).steps
    assert not step.changed and [one.reason for one in step.declined] == ["threads not narrowed"]


PREDICATES = ("slt", "sle", "sgt", "sge", "eq", "ne", "ult", "ule", "ugt", "uge")
ONE_GUARD = """
    parallel threads (%y{k}, %x{k}) = (i32 0, i32 0) to (i32 2, i32 6) {{
      %row{k} = mul i32 %y{k}, 6
      %item{k} = add i32 %row{k}, %x{k}
      %at{k} = add i32 %item{k}, {place}
      %i{k} = {index}
      %c{k} = icmp {predicate} i32 {sides}
      if i1 %c{k} {{
        %q{k} = getelementptr i32, ptr %out, i32 %at{k}
        store i32 %item{k}, ptr %q{k}
        yield
      }} else {{
        yield
      }}
    }}
"""


def test_every_comparison() -> None:
    loops = []
    for predicate in PREDICATES:
        for index in ("add nsw i32 %first, %x{k}", "sub nsw i32 %first, %y{k}", "add i32 %x{k}, 0"):
            for order in (0, 1):
                k = len(loops)
                name = f"%x{k}" if index.startswith("add i32") else f"%i{k}"
                sides = ", ".join((name, "%n") if order else ("%n", name))
                loops.append(ONE_GUARD.format(k=k, place=12 * k, index=index.format(k=k), predicate=predicate,
                                              sides=sides))  # fmt: skip
    module = parse("define exported void @k(ptr noalias %out, i32 %n, i32 %first) {\n  parallel blocks (%b) = (i32 0) "
                   "to (i32 1) {" + "".join(loops) + "  }\n  return\n}\n")  # fmt: skip
    narrow = NarrowThreads().apply(module)
    assert print_module(narrow).count("smin.i64") > 30
    for n, first in ((3, 0), (-1, -2), (2, 7), (9, 4)):
        results = []
        for one in (module, narrow):
            results.append(np.full(12 * len(loops), -7, np.int32))
            interpret(one, "k", [results[-1], n, first])
        assert np.array_equal(*results), (n, first)


WIDE_GUARD = """
define exported void @k(ptr noalias %out, i64 %n, i32 %first) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%x) = (i32 0) to (i32 13) {{
      %i = add nsw i32 %first, %x
      %wide = {extension} i32 {index} to i64
      %c = icmp {predicate} i64 %wide, %n
      if i1 %c {{
        %p = getelementptr i32, ptr %out, i32 %x
        store i32 %i, ptr %p
        yield
      }} else {{
        yield
      }}
    }}
  }}
  return
}}
"""


@pytest.mark.parametrize("predicate", PREDICATES)
def test_limits_of_64_bits_saturate(predicate: str) -> None:
    unsigned = predicate.startswith("u")
    extension, index = ("zext nneg", "%x") if unsigned else ("sext", "%i")
    module = parse(WIDE_GUARD.format(predicate=predicate, extension=extension, index=index))
    narrow = NarrowThreads().apply(module)
    assert predicate == "ne" or "if i1 %c" not in print_module(narrow)
    least, most = -(1 << 63), (1 << 63) - 1
    for n in (least, least + 3, -4, 0, 5, 12, 13, most - 3, most):
        for first in (-(1 << 31), -3, 0, 9, (1 << 31) - 14):
            results = [np.full(13, -7, np.int32) for _ in range(2)]
            for one, out in zip((module, narrow), results, strict=True):
                interpret(one, "k", [out, n, first])
            assert np.array_equal(*results), (n, first)


GLOBAL_INDEX = """
define exported void @k(ptr noalias %out, {type} %n, i32 %first) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%x) = (i32 0) to (i32 13) {{
      %i = add nuw nsw i32 %first, %x
      %u = add nuw nsw i32 %i, 2
      %w = {wide}
      %c = icmp {predicate} {type} {sides}
      if i1 %c {{
        %p = getelementptr i32, ptr %out, i32 %x
        store i32 %i, ptr %p
        yield
      }} else {{
        yield
      }}
    }}
  }}
  return
}}
"""


@pytest.mark.parametrize("predicate", ["ult", "ule", "ugt", "uge"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("turned", [False, True])
def test_unsigned_sums_that_do_not_wrap(predicate: str, bits: int, turned: bool) -> None:
    sides = "%n, %w" if turned else "%w, %n"
    wide = "zext i32 %u to i64" if bits == 64 else "add nuw nsw i32 %u, 1"
    module = parse(GLOBAL_INDEX.format(type=f"i{bits}", predicate=predicate, wide=wide, sides=sides))
    narrow = NarrowThreads().apply(module)
    assert "if i1 %c" not in print_module(narrow)
    limits = [0, 3, 7, 12, 40, (1 << 31) - 2, -1, -8, *([(1 << 63) - 1, -(1 << 63)] if bits == 64 else [])]
    for n in limits:
        for first in (0, 5, 29, (1 << 31) - 20):
            results = [np.full(13, -7, np.int32) for _ in range(2)]
            for one, out in zip((module, narrow), results, strict=True):
                interpret(one, "k", [out, n, first])
            assert np.array_equal(*results), (n, first)
