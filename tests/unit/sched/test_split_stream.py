"""Splitting a kernel's reduction: which ones combine, and that the two kernels mean what the one does."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from threadloom import dtypes
from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import choose
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.sched.combinable import Fold, NotCombinable, Weighed
from threadloom.sched.split_stream import SplitKernels, split_kernels, splittable
from threadloom.tile.interp import interpret
from threadloom.tile.ops import Access, AxisKind, Kernel
from threadloom.tile.text import parse_text, print_kernel
from threadloom.tile.verify import verify

# example, shape, settings: tails everywhere; the causal one has parts that see nothing but masked scores
SPLIT = {
    "matmul": ({"M": 5, "N": 19, "K": 71}, {}),
    "chunk_state": ({"B": 1, "C": 2, "L": 21, "H": 2, "P": 5, "N": 7, "G": 1}, {}),
    "conv2d": ({"B": 1, "H": 5, "W": 6, "C": 23, "F": 5, "R": 2, "S": 3}, {}),
    "w4_matmul": ({"M": 3, "K": 640, "N": 5}, {}),
    "block_sparse_matmul": ({"M": 40, "K": 200, "N": 13}, {}),
    "mla_decode": ({"B": 2, "H": 5, "S": 37, "D": 12, "R": 4}, {}),
    "flash_attention": ({"B": 1, "H": 4, "HKV": 2, "SQ": 25, "SK": 41, "D": 8}, {}),
    "flash_attention causal": ({"B": 1, "H": 2, "HKV": 1, "SQ": 40, "SK": 40, "D": 8}, {"causal": True}),
    "flash_attention rows without keys": ({"B": 1, "H": 1, "HKV": 1, "SQ": 40, "SK": 17, "D": 8}, {"causal": True}),
}  # fmt: skip
REFUSED = {
    "layernorm": "carries a value",
    "retention": "norm",
    "flash_attention_varlen": "grid",
}


@lru_cache
def bound(name: str) -> Call:
    shape, settings = SPLIT[name]
    chosen = choose(name.split()[0], {})
    chosen.settings.update(settings)
    return bound_call(chosen, make_inputs(chosen, "f32", shape))


def extents(kernel: Kernel, dims: dict[str, int]) -> dict[str, int]:
    return {a.name: a.dim if isinstance(a.dim, int) else dims[a.dim] for a in kernel.axes}


def run(kernel: Kernel, arrays: dict[str, np.ndarray], call: Call, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tiles = {a.name: int(rng.integers(1, 14)) for a in kernel.axes if a.kind is AxisKind.TILE}
    interpret(kernel, arrays, call.scalars, call.dims, tiles, exact=True)


def run_both(split: SplitKernels, call: Call, seed: int) -> dict[str, np.ndarray]:
    arrays = logical_arrays(call, exact=True)
    for tensor in split.parts.tensors:
        if tensor.access is Access.OUT:
            shape = tuple(d if isinstance(d, int) else call.dims[d] for d in tensor.dims)
            arrays[tensor.name] = np.full(shape, np.nan)
    run(split.parts, arrays, call, seed)
    run(split.combine, arrays, call, seed + 1)
    return arrays


@pytest.mark.parametrize("parts", [2, 7])
@pytest.mark.parametrize("name", SPLIT)
def test_the_two_kernels_mean_what_the_one_does(name, parts):
    call = bound(name)
    split = split_kernels(splittable(call.kernel, extents(call.kernel, call.dims)), parts, 4)
    for kernel in (split.parts, split.combine):
        verify(kernel)
        assert parse_text(print_kernel(kernel)) == parse_text(print_kernel(parse_text(print_kernel(kernel))))
    wanted = logical_arrays(call, exact=True)
    run(call.kernel, wanted, call, seed=parts)
    found = run_both(split, call, seed=10 + parts)
    for tensor in call.kernel.tensors:
        if tensor.access is Access.OUT:
            np.testing.assert_allclose(found[tensor.name], wanted[tensor.name], rtol=1e-9, atol=1e-12)


def test_the_rules_that_are_found():
    def rules(name: str) -> tuple[object, ...]:
        call = bound(name)
        return splittable(call.kernel, extents(call.kernel, call.dims)).rules

    assert rules("matmul") == (Fold("add"),)
    assert rules("block_sparse_matmul") == (Fold("add"),)  # under a condition
    weighed = Weighed(2, "exp2", 1.0)
    assert rules("flash_attention causal") == (weighed, weighed, Fold("maximum"))
    assert rules("mla_decode") == (weighed, weighed, Fold("maximum"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_says_why(name):
    chosen = choose(name, {})
    call = bound_call(chosen, make_inputs(chosen, "f32", dict(chosen.module.SHAPES[0])))
    with pytest.raises(NotCombinable, match=REFUSED[name]):
        splittable(call.kernel, extents(call.kernel, call.dims))


HEAD = """kernel sums(x: [M, K] f32 in, w: [K] f32 in, out: [M] f32 out) {
  axes m: M tile, k: K tile
  grid m {
    %zero: [] f32 = const 0.0
    %low: [] f32 = const -inf
    %c: [] f32 = const 0.5
    %acc: [m] f32 = full %zero
    %top: [m] f32 = full %low
"""
ONE = """    stream k carry (%a: [m] f32 = %acc) -> (%r) {
      %x: [m, k] f32 = load x[m, k]
      %sum: [m] f32 = reduce sum %x over k
@
      yield %n
    }
    store out[m] = %r
  }
}
"""
TWO = """    stream k carry (%a: [m] f32 = %acc, %t: [m] f32 = %top) -> (%r, %s) {
      %x: [m, k] f32 = load x[m, k]
      %max: [m] f32 = reduce max %x over k
      %u: [m] f32 = maximum %t, %max
@
      yield %n, %u
    }
    %q: [m] f32 = add %r, %s
    store out[m] = %q
  }
}
"""
LINES = {
    "a recurrence": (ONE, "%h: [m] f32 = mul %a, %c\n%n: [m] f32 = add %h, %sum"),
    "a square of the sum": (ONE, "%h: [m] f32 = mul %a, %a\n%n: [m] f32 = add %h, %sum"),
    "what is added looks at the sum": (ONE, "%h: [m] f32 = mul %sum, %a\n%n: [m] f32 = add %a, %h"),
    "a difference from the sum": (ONE, "%n: [m] f32 = sub %sum, %a"),
    "a weight with the wrong sign": (
        TWO,
        "%d: [m] f32 = sub %u, %t\n%w: [m] f32 = exp %d\n%y: [m, k] f32 = sub %x, %u\n%p: [m, k] f32 = exp %y\n"
        "%l: [m] f32 = reduce sum %p over k\n%h: [m] f32 = mul %a, %w\n%n: [m] f32 = add %h, %l",
    ),
    "added at the old reference": (
        TWO,
        "%d: [m] f32 = sub %t, %u\n%w: [m] f32 = exp %d\n%y: [m, k] f32 = sub %x, %t\n%p: [m, k] f32 = exp %y\n"
        "%l: [m] f32 = reduce sum %p over k\n%h: [m] f32 = mul %a, %w\n%n: [m] f32 = add %h, %l",
    ),
    "two bases": (
        TWO,
        "%d: [m] f32 = sub %t, %u\n%w: [m] f32 = exp %d\n%y: [m, k] f32 = sub %x, %u\n%p: [m, k] f32 = exp2 %y\n"
        "%l: [m] f32 = reduce sum %p over k\n%h: [m] f32 = mul %a, %w\n%n: [m] f32 = add %h, %l",
    ),
    "added without a weight": (
        TWO,
        "%d: [m] f32 = sub %t, %u\n%w: [m] f32 = exp %d\n%l: [m] f32 = reduce sum %x over k\n"
        "%h: [m] f32 = mul %a, %w\n%n: [m] f32 = add %h, %l",
    ),
    "another temperature": (
        TWO,
        "%e: [m] f32 = sub %t, %u\n%d: [m] f32 = mul %e, %c\n%w: [m] f32 = exp %d\n%y: [m, k] f32 = sub %x, %u\n"
        "%p: [m, k] f32 = exp %y\n%l: [m] f32 = reduce sum %p over k\n%h: [m] f32 = mul %a, %w\n"
        "%n: [m] f32 = add %h, %l",
    ),
}  # fmt: skip


def kernel_of(form: str, lines: str) -> Kernel:
    return parse_text(HEAD + form.replace("@", "\n".join("      " + line for line in lines.split("\n"))))


@pytest.mark.parametrize("what", LINES)
def test_sums_that_do_not_combine_are_refused(what):
    kernel = kernel_of(*LINES[what])
    verify(kernel)
    with pytest.raises(NotCombinable):
        splittable(kernel, {"m": 8, "k": 64})


def test_a_temperature_on_both_sides_is_followed():
    lines = (
        "%e: [m] f32 = sub %t, %u\n%d: [m] f32 = mul %e, %c\n%w: [m] f32 = exp %d\n%y: [m, k] f32 = sub %x, %u\n"
        "%z: [m, k] f32 = mul %y, %c\n%p: [m, k] f32 = exp %z\n%v: [k] f32 = load w[k]\n%o: [m, k] f32 = mul %p, %v\n"
        "%l: [m] f32 = reduce sum %o over k\n%h: [m] f32 = mul %w, %a\n%n: [m] f32 = add %l, %h"
    )
    kernel = kernel_of(TWO, lines)
    of = splittable(kernel, {"m": 8, "k": 64})
    assert of.rules == (Weighed(1, "exp", 0.5), Fold("maximum"))
    split = split_kernels(of, 3, 8)
    rng = np.random.default_rng(5)
    dims = {"M": 6, "K": 61}
    arrays = {"x": rng.standard_normal((6, 61)), "w": rng.standard_normal(61), "out": np.zeros(6)}
    found = {**arrays, **{t.name: np.full((3, 6), np.nan) for t in split.parts.tensors if t.access is Access.OUT}}
    found["out"] = np.zeros(6)
    interpret(kernel, arrays, {}, dims, {"m": 4, "k": 7}, exact=True)
    for one in (split.parts, split.combine):
        interpret(one, found, {}, dims, {"m": 4, "k": 7}, exact=True)
    np.testing.assert_allclose(found["out"], arrays["out"], rtol=1e-12)


@pytest.mark.parametrize(("fn", "dtype"), [("maximum", "i32"), ("minimum", "f32"), ("mul", "f64"), ("and", "i32"),
                                           ("xor", "u8"), ("maximum", "bf16")])  # fmt: skip
def test_every_fold_begins_with_what_changes_nothing(fn, dtype):
    reduce_ = {"maximum": "max", "minimum": "min", "mul": "prod"}.get(fn)
    text = f"""kernel folds(x: [M, K] {dtype} in, first: [M] {dtype} in, out: [M] {dtype} out) {{
  axes m: M tile, k: K {"tile" if reduce_ else "each"}
  grid m {{
    %acc: [m] {dtype} = load first[m]
    stream k carry (%a: [m] {dtype} = %acc) -> (%r) {{
""" + (f"""      %x: [m, k] {dtype} = load x[m, k]
      %s: [m] {dtype} = reduce {reduce_} %x over k
""" if reduce_ else f"""      %s: [m] {dtype} = load x[m, k]
""") + f"""      %n: [m] {dtype} = {fn} %s, %a
      yield %n
    }}
    store out[m] = %r
  }}
}}
"""
    kernel = parse_text(text)
    split = split_kernels(splittable(kernel, {"m": 3, "k": 10}), 12, 1)  # some parts are empty
    kind = dtypes.numpy_dtype(dtypes.ALL[dtype])
    rng = np.random.default_rng(1)
    x = rng.integers(1, 50, (3, 10)).astype(kind)
    first, dims = rng.integers(1, 50, 3).astype(kind), {"M": 3, "K": 10}
    wanted = {"x": x, "first": first, "out": np.zeros(3, kind)}
    found = {**wanted, "out": np.zeros(3, kind)}
    found |= {t.name: np.zeros((12, 3), kind) for t in split.parts.tensors if t.access is Access.OUT}
    interpret(kernel, wanted, {}, dims, {"k": 3})
    interpret(split.parts, found, {}, dims, {"k": 3})
    interpret(split.combine, found, {}, dims)
    assert (found["out"] == wanted["out"]).all()


def test_axes_and_tensors_get_identifiers_as_names():
    """Beside values that are called like them."""
    lines = (
        "%part: [m] f32 = add %sum, %sum\n%of_part: [m] f32 = add %part, %sum\n%r_part: [m] f32 = add %of_part, %sum\n"
        "%n: [m] f32 = add %a, %r_part"
    )
    split = split_kernels(splittable(kernel_of(ONE, lines), {"m": 8, "k": 64}), 2, 8)
    names = [split.part_axis, *split.between, *(a.name for k in (split.parts, split.combine) for a in k.axes)]
    assert split.part_axis == "part_1" and split.between == ("r_part_1",)
    assert all(name.isidentifier() for name in names)
