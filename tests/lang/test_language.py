"""What the forms of the language mean: names, constants, helpers, promotion, carried variables."""

from __future__ import annotations

import math
import pickle

import ml_dtypes
import numpy as np
import pytest
from generators.kernel_text import kernel_from_text

import threadloom as tl
from threadloom.dtypes import ALL, Dtype, numpy_dtype
from threadloom.errors import CompileError
from threadloom.lang.dims import parse_dim
from threadloom.lang.kernel import Kernel
from threadloom.tile.ops import AxisKind, Cast, Dot, If, Load, Map, Stream
from threadloom.tile.promote import literal_dtype, promote
from threadloom.tile.uses import walk

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def body(text: str, result: str = "tl.f32", params: str = "", **names: object) -> Kernel:
    """A kernel over x[M, N] whose grid has the given body."""
    lines = "\n".join("        " + line for line in text.strip("\n").split("\n"))
    head = f'@tl.kernel\ndef k(x: tl.Tensor["M", "N", "T"]{params}) -> tl.Tensor["M", "N", {result}]:\n'
    return kernel_from_text(f'{head}    for m, n in tl.grid("M", "N"):\n{lines}\n', **names)


def run(text: str, x: np.ndarray = X, result: str = "tl.f32", **names: object) -> np.ndarray:
    return body(text, result, **names).interpret(x)


def expression(text: str, x: np.ndarray = X, result: str = "tl.f32", **names: object) -> np.ndarray:
    return run(f"v = x[m, n]\nout[m, n] = {text}", x, result, **names)


# ---------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("v * 2 + 1", X * 2 + 1),
        ("-v", -X),
        ("+v", X),
        ("v ** 2", X**2),
        ("v ** 5", X**5),
        ("tl.abs(v) ** 0.5", np.sqrt(np.abs(X))),
        ("tl.abs(v) ** -0.5", 1 / np.sqrt(np.abs(X))),
        ("v ** -1", 1 / X),
        ("abs(v)", np.abs(X)),
        ("min(v, 0.5, 1)", np.minimum(X, 0.5)),
        ("max(v, 0)", np.maximum(X, 0)),
        ("math.exp(v)", np.exp(X)),
        ("tl.where(0 < v, 1, 0)", (X > 0)),
        ("tl.where(-1 < v <= 0.5, v, 0)", np.where((X > -1) & (X <= 0.5), X, 0)),
        ("tl.where((v > 0) & ~(v > 1), 1.0, v)", np.where((X > 0) & ~(X > 1), 1, X)),
        ("m * 10 + n", np.add.outer(np.arange(4) * 10, np.arange(6))),
        ("tl.index(n) % 4 - 1", np.broadcast_to(np.arange(6) % 4 - 1, (4, 6))),
        ("m // 2", np.broadcast_to(np.arange(4)[:, None] // 2, (4, 6))),
        ("tl.dim('N') - n", np.broadcast_to(6 - np.arange(6), (4, 6))),
        ("v * math.pi if True else v", X * np.float32(math.pi)),
        ("v * len((1, 2, 3))", X * 3),
        ("v * sum([1, 2])", X * 3),
        ("v + {'a': 1}['a']", X + 1),
        ("v + (not False)", X + 1),
        ("(v, 0)[0]", X),
        ("tl.isnan(v)", np.isnan(X)),
        ("tl.gelu(v)", X * 0.5 * (1 + np.vectorize(math.erf)(X / math.sqrt(2)))),
        ("tl.silu(v)", X / (1 + np.exp(-X))),
        ("tl.softplus(v)", np.log1p(np.exp(X))),
        ("tl.identity(v)", X),
        ("tl.sqrt(4)", np.full((4, 6), 2)),
    ],
)
def test_expressions(text: str, want: np.ndarray):
    np.testing.assert_allclose(expression(text, math=math), want, rtol=2e-6, atol=1e-6)


def test_integer_operators_follow_numpy():
    x = np.array([[-7, -1, 0, 3, 7, 100]], np.int32)
    for text, want in {
        "v // 3": x // 3, "v % 3": x % 3, "v // -3": x // -3, "v % -3": x % -3, "v << 2": x << 2, "v >> 1": x >> 1,
        "v & 6": x & 6, "v | 8": x | 8, "v ^ 5": x ^ 5, "~v": ~x, "-v": -x, "v // 0": x * 0, "v % 0": x * 0,
        "v << 40": x * 0, "v >> 40": np.where(x < 0, -1, 0), "v << -1": x * 0,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(expression(text, x, "tl.i32"), want, err_msg=text)


# ---------------------------------------------------------------- promotion

PLAIN = [t for t in ALL.values() if t.name not in ("u4", "tf32", "f8e4m3", "f8e5m2", "bf16")]


@pytest.mark.parametrize("a", PLAIN, ids=lambda t: t.name)
@pytest.mark.parametrize("b", PLAIN, ids=lambda t: t.name)
def test_promotion_is_numpys_but_for_integers_with_floats(a: Dtype, b: Dtype):
    ours = promote(a, b)
    assert ours is promote(b, a)
    theirs = np.promote_types(numpy_dtype(a), numpy_dtype(b))
    if a.is_float is b.is_float and theirs != np.int16:
        assert numpy_dtype(ours) == theirs
    elif a.is_float is not b.is_float:
        assert ours is (a if a.is_float else b)  # NumPy widens: i32 with f32 is f64 there


def test_storage_dtypes_compute_wider():
    assert promote(tl.u4, tl.u4) is tl.i32 and promote(tl.f8e4m3, tl.f16) is tl.f32
    assert promote(tl.f16, tl.bf16) is tl.f32 and promote(tl.tf32, tl.tf32) is tl.f32


def test_literals_are_weak():
    assert literal_dtype(2, tl.f16) is tl.f16 and literal_dtype(2.0, tl.f16) is tl.f16
    assert literal_dtype(2.0, tl.i32) is tl.f32 and literal_dtype(2, tl.i8) is tl.i8
    assert literal_dtype(2, None) is tl.i64 and literal_dtype(2.0, None) is tl.f32
    (product,) = [op for op in walk(body("out[m, n] = x[m, n] * 2.5").tile(T=tl.bf16).body) if isinstance(op, Map)]
    assert product.result.type.dtype is tl.bf16


def test_division_of_integers_and_functions_give_floats():
    x = np.array([[1, 2, 3]], np.int32)
    np.testing.assert_array_equal(expression("v / 2", x), x / 2)
    np.testing.assert_allclose(expression("tl.exp(v)", x), np.exp(x), rtol=1e-6)


def test_storing_casts():
    assert expression("v", X, "tl.f16").dtype == np.float16
    np.testing.assert_array_equal(expression("v * 3", X, "tl.i32"), np.trunc(X * 3))
    np.testing.assert_array_equal(expression("v > 0", X, "tl.bool_"), X > 0)
    assert expression("v", X, "tl.bf16").dtype == ml_dtypes.bfloat16


# ---------------------------------------------------------------- names, constants, helpers

GLOBAL = 3


def twice(tile: object) -> object:
    """A helper with a docstring, a constant from its module and a condition on a constant."""
    if GLOBAL > 2:
        result = tile * 2
    else:
        result = tile
    return result


def outer_helper(tile: object, factor: object = 1, *, shift: object = 0) -> object:
    first, second = pair(tile, factor)
    return first + second + shift


def pair(a: object, b: object) -> tuple[object, object]:
    return twice(a), a * b


@tl.kernel
def with_helpers(x: tl.Tensor["M", "N", tl.f32], act: tl.Function = twice) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = outer_helper(act(x[m, n]), GLOBAL, shift=1)


def test_helpers_are_inlined():
    np.testing.assert_allclose(with_helpers(X), X * 2 * 2 + X * 2 * 3 + 1, rtol=1e-6)
    np.testing.assert_allclose(with_helpers(X, tl.relu), np.maximum(X, 0) * 5 + 1, rtol=1e-6)
    np.testing.assert_allclose(with_helpers(X, lambda t: t + 1), (X + 1) * 5 + 1, rtol=1e-5)


def test_closures():
    def make(power: int) -> Kernel:
        @tl.kernel
        def k(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:
            for m in tl.grid("M"):
                out[m] = x[m] ** power

        return k

    x = np.arange(5, dtype=np.float32)
    assert make(2)(x).tolist() == [0, 1, 4, 9, 16] and make(3)(x).tolist() == [0, 1, 8, 27, 64]


@tl.kernel
def chosen(
    x: tl.Tensor["M", "N", tl.f32], mode: tl.Const[str] = "sum", powers: tl.Const[tuple] = (1, 2)
) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        total = tl.zeros(m)
        for power in powers:
            if mode == "sum":
                total += tl.sum(x[m, n] ** power, n)
            elif mode == "max":
                total = tl.maximum(total, tl.max(x[m, n] ** power, n))
            else:
                total += mode
        out[m] = total


def test_constants_choose_code():
    np.testing.assert_allclose(chosen(X), (X + X * X).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(chosen(X, "max", (1,)), np.maximum(X.max(axis=1), 0), rtol=1e-6)
    with pytest.raises(tl.CompileError, match="a str cannot be used as a number"):
        chosen(X, "mean")
    assert not any(isinstance(op, If) for op in walk(chosen.tile().body))


def test_a_kernel_is_parsed_once_for_each_choice():
    assert chosen.tile() is chosen.tile(mode="sum") and chosen.tile() is not chosen.tile(mode="max")
    assert body("out[m, n] = x[m, n]").tile(T=tl.f16).tensors[0].dtype is tl.f16


def test_what_print_shows_is_the_text_of_the_level():
    from threadloom.sched.search import plan
    from threadloom.sched.text import print_program
    from threadloom.task.text import print_graph
    from threadloom.tile.text import parse_text

    kernel = body("out[m, n] = x[m, n] * 2").tile(T=tl.f32)
    assert str(kernel).startswith("kernel k(") and str(parse_text(str(kernel))) == str(kernel)
    program = plan(kernel, {"M": 64, "N": 64}, "cpu").best
    assert (str(program), str(program.graph)) == (print_program(program), print_graph(program.graph))


def test_extents_from_constants():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["N * size", tl.f32], size: tl.Const[int]) -> tl.Tensor["N", "size", tl.f32]:
            for n in tl.grid("N"):
                j = tl.axis("size")
                out[n, j] = x[n * size + j]
    """)
    for given in ({}, {"out": np.zeros((3, 2), np.float32)}):
        assert kernel(np.arange(6, dtype=np.float32), 2, **given).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(CompileError, match=r"N cannot be told from N \* 2 = 7 \(dimension 0 of x\)"):
        kernel(np.arange(7, dtype=np.float32), 2)


@pytest.mark.parametrize(
    ("text", "extent", "solved"),
    [
        ("P * 2", 6, {"P": 3}),
        ("2 * (P + Q) - 1", 9, {"P": 2}),
        ("Q - P", 1, {"P": 2}),
        ("P * P", 4, {}),
        ("(P + 7) // 8", 1, {}),  # several extents give it
        ("P * 2", 7, {}),
        ("P + 4", 3, {}),
        ("P - P", 0, {}),
    ],
)
def test_formulas_are_solved_for_an_unknown_name(text: str, extent: int, solved: dict[str, int]):
    formula = parse_dim(text, {})
    assert formula.solve({"Q": 3}, extent) == solved


def test_operator_for_products_and_batches():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(a: tl.Tensor["B", "M", tl.f32], b: tl.Tensor["B", "M", "N", tl.f32]) -> tl.Tensor["B", "N", tl.f32]:
            for n in tl.grid("N"):
                i, j = tl.axis("B"), tl.axis("M")
                out[i, n] = tl.dot(a[i, j], b[i, j, n], over=j) + 0 * (a[i, j] @ b[i, j, n])
    """)
    a, b = X, np.ones((4, 6, 3), np.float32)
    np.testing.assert_allclose(kernel(a, b), np.einsum("bm,bmn->bn", a, b), rtol=1e-5)
    dots = [op for op in walk(kernel.tile().body) if isinstance(op, Dot)]
    assert [len(d.over) for d in dots] == [1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_products_row_by_row_are_sums(dtype: type):
    @tl.kernel
    def rowwise(
        a: tl.Tensor["M", "J", "K", "T"], b: tl.Tensor["M", "J", "K", "T"]
    ) -> tl.outputs(one=tl.Tensor["M", "J", tl.f64], both=tl.Tensor["M", tl.f64]):
        for m in tl.grid("M"):
            j, k = tl.axis("J"), tl.axis("K")
            one[m, j] = tl.dot(a[m, j, k], b[m, j, k], over=k)
            both[m] = tl.dot(a[m, j, k], b[m, j, k], over=(j, k))

    a, b = (np.random.default_rng(seed).integers(-100, 100, (3, 5, 70)).astype(dtype) for seed in (1, 2))
    one, both = rowwise(a, b)
    products = a.astype(np.float64) * b
    np.testing.assert_allclose(one, products.sum(axis=2), rtol=1e-5, atol=1)
    np.testing.assert_allclose(both, products.sum(axis=(1, 2)), rtol=1e-5, atol=1)
    assert not any(isinstance(op, Dot) for op in walk(rowwise.bind(a, b).kernel.body))


def test_ellipsis_and_whole_axes():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["A", "B", "C", tl.f32]) -> tl.Tensor["A", "B", "C", tl.f32]:
            for a in tl.grid(tl.each("A")):
                out[a, ...] = x[a, :, :] * 2
    """)
    x = np.ones((2, 3, 4), np.float32)
    np.testing.assert_array_equal(kernel(x), x * 2)
    assert {a.name for a in kernel.tile().axes if a.kind is AxisKind.WHOLE} == {"B", "C"}


def test_loop_variables_may_have_names_of_whole_axes():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
            for M, in_ in tl.grid("M", "N"):
                N = tl.sum(x[M, :], "N")
                out[M, in_] = x[M, in_] + N
    """)
    np.testing.assert_allclose(kernel(X), X + X.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- variables and loops


def test_a_variable_used_again_for_another_shape_is_not_carried():
    out = run("""
t = x[m, n]
for j in tl.stream("N"):
    t = x[m, j]
out[m, n] = x[m, n]
""")
    np.testing.assert_array_equal(out, X)


def test_numbers_become_carried_values():
    out = run("""
count, total = 0, 0.0
for j in tl.stream(tl.each("N")):
    count += j
    total += 0.5
out[m, n] = count + total
""")
    assert (out == 15 + 3).all()


def test_an_unchanged_variable_is_not_carried():
    kernel = body("""
a = tl.zeros(m)
b = tl.full(2.0, m)
for j in tl.stream("N"):
    if False:
        b = b * 2
    a += tl.sum(x[m, j], j)
out[m, n] = a * b
""")
    from threadloom.tile.canonicalize import canonicalize

    (stream,) = [op for op in walk(canonicalize(kernel.tile(T=tl.f32)).body) if isinstance(op, Stream)]
    assert len(stream.args) == 1
    np.testing.assert_allclose(kernel.interpret(X), np.broadcast_to(2 * X.sum(axis=1)[:, None], X.shape), rtol=1e-5)


def test_axes_in_another_order_are_put_back():
    out = run("""
acc = tl.zeros(m, n)
for j in tl.stream(tl.each("N")):
    acc = tl.cast(n, tl.f32) * 0 + acc * 1.0 + tl.zeros(n, m)
out[m, n] = acc + x[m, n]
""")
    np.testing.assert_array_equal(out, X)


def test_run_time_conditions_join_their_branches():
    kernel = body("""
if limit > 0:
    v = x[m, n] * 2
    w = 1
else:
    v = x[m, n]
    w = 2.5
out[m, n] = v + w
""", params=", limit: tl.i32 = 0")  # fmt: skip
    np.testing.assert_array_equal(kernel.interpret(X, 1), X * 2 + 1)
    np.testing.assert_array_equal(kernel.interpret(X, 0), X + np.float32(2.5))


def test_bounds_are_cut_to_the_dimension():
    out = run("""
total = 0.0
for j in tl.stream(tl.each("N", -3, tl.dim("N") + 5)):
    total += 1.0
for j in tl.stream(tl.each("N", 4, 2)):
    total += 100.0
out[m, n] = total
""")
    assert (out == 6).all()


def test_a_kernel_without_a_grid():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["N", tl.f32]) -> tl.outputs(total=tl.Tensor[tl.f32], first=tl.Tensor[1, tl.f32]):
            acc = 0.0
            for n in tl.stream("N"):
                acc += tl.sum(x[n], n)
            total[()] = acc
            first[0] = x[0]
    """)
    total, first = kernel.interpret(np.arange(5, dtype=np.float32))
    assert total.shape == () and total == 10 and first.tolist() == [0]


def test_atomic_adds_start_at_zero():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["N", tl.f32]:
            for m, n in tl.grid("M", "N"):
                tl.atomic_add(out[n], tl.sum(x[m, n], m))
    """)
    out = np.full(6, 7, np.float32)
    kernel.interpret(X, out=out, tiles={"m": 1})
    np.testing.assert_allclose(out, X.sum(axis=0), rtol=1e-5, atol=1e-6)


def test_four_bit_results():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["M", "N", tl.u4]) -> tl.Tensor["M", "N", tl.u4]:
            for m, n in tl.grid("M", "N"):
                out[m, n] = x[m, n] + 1
    """)
    x = np.array([[0x10, 0xF2], [0x43, 0x65]], np.uint8)
    assert kernel(x).tolist() == [[0x21, 0x03], [0x54, 0x76]]


@pytest.mark.parametrize("dtype", ["u4", "u8", "i8"])
def test_products_of_small_integers(dtype: str):
    kernel = kernel_from_text(f"""
        @tl.kernel
        def k(a: tl.Tensor["M", "K", tl.{dtype}], b: tl.Tensor["N", "K", tl.{dtype}]) -> tl.Tensor["M", "N", tl.i32]:
            for m, n in tl.grid("M", "N"):
                k = tl.axis("K")
                out[m, n] = tl.dot(a[m, k], b[n, k])
    """)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 100, (n, 4)).astype(np.int8 if dtype == "i8" else np.uint8) for n in (3, 5))
    wide = (lambda x: np.stack([x & 15, x >> 4], -1).reshape(len(x), -1)) if dtype == "u4" else lambda x: x
    want = wide(a).astype(np.int32) @ wide(b).astype(np.int32).T
    np.testing.assert_array_equal(kernel(a, b), want)
    np.testing.assert_array_equal(kernel.interpret(a, b, tiles=1), want)


@pytest.mark.parametrize(
    ("a", "b", "fits"), [(8, 8, True), (7, 7, True), (8, 7, False), (7, 8, False), (6, 6, False), (9, 9, False)]
)
def test_the_last_byte_of_nibbles_may_be_half_full_if_all_others_say_so(a: int, b: int, fits: bool):
    kernel = kernel_from_text("""
        @tl.kernel
        def k(
            w: tl.Tensor["N", tl.u4], a: tl.Tensor["N", tl.i32], b: tl.Tensor["N", tl.i32]
        ) -> tl.Tensor["N", tl.i32]:
            for n in tl.grid("N"):
                out[n] = w[n] + a[n] + b[n]
    """)
    arguments = np.full(4, 0x21, np.uint8), np.zeros(a, np.int32), np.zeros(b, np.int32)
    if fits:
        assert kernel.interpret(*arguments).tolist() == [1, 2, 1, 2, 1, 2, 1, 2][:a]
    else:
        with pytest.raises(CompileError, match=f"is {'8, but N is' if a == b else f'{b}, but N is {a}'}"):
            kernel.interpret(*arguments)


def test_annotations_as_text_and_as_objects_are_the_same():
    text = '@tl.kernel\ndef k(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:\n    for m in tl.grid("M"):\n'
    text += "        out[m] = x[m]\n"
    plain, future = (kernel_from_text(head + text) for head in ("", "from __future__ import annotations\n"))
    assert plain.tile().tensors == future.tile().tensors


@pytest.mark.parametrize(
    "text",
    [
        "a = b = x[m, n] * 2\nout[m, n] = a + b",
        "a, b = twin(x[m, n] * 2)\nout[m, n] = a + b",
        "t = (x[m, n] * 2,)\nq = t[0] + 0\nr = t[0]\nout[m, n] = q + r",
        "t = (x[m, n] * 2,)\nr = t[0]\nout[m, n] = t[0] + r",
        "t = (tl.cast(m, tl.i64) * 0,)\nr = t[0]\nout[m, n] = x[t[0] + m, n] * 4 + r",
    ],
)
def test_one_value_under_several_names(text: str):
    np.testing.assert_array_equal(run(text, twin=_twin), 4 * X)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("w = x[m, n]\nfor k in tl.stream('N'):\n    w = x[m, n] * 2\nout[m, n] = w", 2 * X),
        (
            "t = tl.zeros(m)\ns = t\nfor k in tl.stream('N'):\n    t = tl.sum(x[m, k], k)\n    s += t\nout[m, n] = s",
            np.repeat(X.sum(1, keepdims=True), 6, 1),
        ),
        ("t = tl.zeros(m)\nfor k in tl.stream(tl.each('N')):\n    t = x[m, k]\nout[m, n] = t", X[:, [-1] * 6]),
    ],
    ids=["by nothing of its tile", "and not read behind the loop", "one index at a time"],
)
def test_a_variable_that_a_loop_overwrites(text: str, result: np.ndarray):
    """What the last tile leaves is refused (test_lang_errors.py); what does not depend on it is not."""
    np.testing.assert_allclose(body(text).interpret(X, tiles={"N": 4, "n": 3, "m": 2, "k": 4}), result, rtol=1e-5)


def test_globals_are_read_when_the_kernel_is_first_used():
    kernel = body("out[m, n] = x[m, n] * factor[0]", factor=[2.0])
    scope = kernel.function.__globals__
    np.testing.assert_array_equal(kernel.interpret(X), 2 * X)
    scope["factor"] = [3.0]
    np.testing.assert_array_equal(kernel.interpret(X), 2 * X)
    np.testing.assert_array_equal(kernel.interpret(X.astype(np.float64)), 3 * X)  # other dtypes: another first use


def _twin(value: object) -> object:
    return value, value


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(with_helpers)) is with_helpers


def test_random_tile_sizes_by_seed():
    want = np.maximum(X, 0) * 5 + 1
    for seed in range(3):
        np.testing.assert_allclose(with_helpers.interpret(X, tl.relu, tiles=seed), want, rtol=1e-6)


def test_every_operation_knows_its_place():
    kernel = body("a = x[m, n]\nb = a * 2\nout[m, n] = tl.gelu(b)").tile(T=tl.f32)
    lines = {type(op): op.loc.line for op in walk(kernel.body) if getattr(op, "loc", None)}
    assert lines[Load] == 4 and lines[Map] == 6  # what library functions emit stands at their call
    assert not any(isinstance(op, Cast) for op in walk(kernel.body))
