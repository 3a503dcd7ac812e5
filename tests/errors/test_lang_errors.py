"""One test for each way in which a kernel's text is refused: the slug, the place, and that the advice is there."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import math
import textwrap
from pathlib import Path

import numpy as np
import pytest
from generators.kernel_text import kernel_from_text

import threadloom as tl
from threadloom.errors import CompileError

HEAD = """
@tl.kernel
def k(x: tl.Tensor["M", "N", tl.f32], i: tl.Tensor["M", tl.i32], s: tl.f32, c: tl.Const[bool] = True) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
"""  # noqa: E501


def refused(text: str, **names: object) -> CompileError:
    with pytest.raises(CompileError) as error:
        kernel_from_text(text, **names).tile()
    return error.value


# slug, the grid's body, the words under the caret, words in the message
BODIES = [
    ("unknown-name", "out[m, n] = xx[m, n]", "xx", "did you mean x?"),
    ("unknown-name", "out[m, n] = scal * x[m, n]", "scal", "assign it before"),
    ("unknown-name", "out[m, n] = x[m, n] * M", "M", 'tl.grid(..., "M"), or M = tl.axis("M")'),
    ("unknown-name", "out[m, n] = tl.exq(x[m, n])", "tl.exq", "did you mean tl.exp?"),
    ("unknown-name", "out[m, n] = tl.mean(x[m, n], n)", "tl.mean", "tl.sum(x, n) / tl.dim"),
    ("unknown-name", "out[m, n] = tl.arange(0, 4)", "tl.arange", "indices of its tile"),
    ("unknown-name", "for j in tl.stream('Q'):\n    pass", "tl.stream('Q')", "dimensions are M, N"),
    ("unknown-name", "t = x[m, n] + tl.dim('Q + M')", "tl.dim('Q + M')", "'Q' is no dimension"),
    ("unknown-name", "for j in tl.stream('N'):\n    t = x[m, j]\nout[m, n] = t", "t", "first assigned inside"),
    ("unknown-name", "if i[0] > 0:\n    t = s\nout[m, n] = t", "t", "only one branch"),
    ("unknown-name", "t = s\nfor q in tl.grid(4):\n    t = t + 1", "t", "iterations are independent"),
    ("unknown-name", "t = s\nfor q in tl.grid(4):\n    t = 1.0\nout[m, n] = t", "t", "tl.stream carries"),
    ("unknown-name", "t = (s, s)\nfor j in tl.stream('N'):\n    t = (t[0], s)", "t", "each in a variable of its own"),
    ("unknown-name", "t = (s, s)\nfor j in tl.stream('N'):\n    t = s\nout[m, n] = t", "t", "a variable of its own"),
    (
        "unknown-name",
        "t = tl.zeros(m)\nfor j in tl.stream('N'):\n    t = tl.sum(x[m, j], j)\nout[m, n] = t",
        "t",
        "overwrites it with what it makes of its own tile",
    ),
    (
        "unknown-name",
        "t = tl.zeros(m)\nfor j in tl.stream('N'):\n    t = tl.zeros(m)\n    for q in tl.stream(4):\n"
        "        t += tl.sum(x[m, j], j)\nout[m, n] = t",
        "t",
        "t = t + ..., say, puts them together",
    ),
    ("unknown-name", "j = s\nfor j in tl.stream('N'): pass\nout[m, n] = j", "j", "variable of the loop of line 5"),
    ("unsupported-python", "while c: pass", "while c: pass", "tl.stream"),
    ("unsupported-python", "try: pass\nexcept: pass", "try: pass", "no exceptions"),
    ("unsupported-python", "with c: pass", "with c: pass", "nothing to enter"),
    ("unsupported-python", "raise ValueError", "raise ValueError", "before the call"),
    ("unsupported-python", "assert c", "assert c", "before the call"),
    ("unsupported-python", "del s", "del s", "simply stay"),
    ("unsupported-python", "import math", "import math", "module level"),
    ("unsupported-python", "def f(): pass", "def f(): pass", "module level"),
    ("unsupported-python", "for j in tl.stream('N'):\n    break", "break", "narrow the loop's bounds"),
    ("unsupported-python", "for j in tl.stream('N'):\n    continue", "continue", "`if` around"),
    ("unsupported-python", "t: tl.f32 = s", "t: tl.f32 = s", "tl.cast"),
    ("unsupported-python", "t = [a for a in x]", "[a for a in x]", "whole tiles"),
    ("unsupported-python", "t = lambda: 1", "lambda: 1", "module level"),
    ("unsupported-python", "t = f'{s}'", "f'{s}'", "no strings"),
    ("unsupported-python", "if (t := s) > 0: pass", "t := s", "line of its own"),
    ("unsupported-python", "return s", "return s", "stores a result"),
    ("unsupported-python", "x[m, n]", "x[m, n]", "assign it"),
    ("unsupported-python", "x[m, n] = 0", "x[m, n]", "an output"),
    ("unsupported-python", "out[m, n] += 1", "out[m, n] += 1", "tl.atomic_add"),
    ("unsupported-python", "t = x[m, n]\nt[0] = 1", "t[0]", "tl.where"),
    ("unsupported-python", "t = x[m, n]\nout[m, n] = t[0]", "t[0]", "from the tensor"),
    ("unsupported-python", "out[m, n] = x.T[n, m]", "x.T", "axes have names"),
    ("unsupported-python", "out[m, n] = x[m, n].sum()", "x[m, n].sum", "functions of tl"),
    ("unsupported-python", "out[m, n] = x[0:4, n]", "0:4", "tl.span"),
    ("unsupported-python", "out[m, n] = x[m, n] ** s", "x[m, n] ** s", "tl.exp2"),
    ("unsupported-python", "out[m, n] = x[m, n] ** x[m, n]", "x[m, n] **", "exponent a tile [m, n] of f32"),
    ("unsupported-python", "out[m, n] = not s", "not s", "~x"),
    ("unsupported-python", "if s > 0 and c: pass", "s > 0", "(a) & (b)"),
    ("unsupported-python", "print(x[m, n])", "print(x[m, n])", "kernel.interpret"),
    ("unsupported-python", "out[m, n] = np.median(x[m, n])", "np.median(x[m, n])", "a function of tl"),
    ("unsupported-python", "out[m, n] = np.maximum(x[m, n], 0)", "np.maximum(x[m, n], 0)", "try: tl.maximum"),
    ("unsupported-python", "for j in range(tl.dim('N')): pass", "range(tl.dim('N'))", "tl.stream"),
    ("unsupported-python", "out[m, n] = 1 / 0", "1 / 0", "ZeroDivisionError"),
    ("unsupported-python", "t = tl.each('N')", "t = tl.each('N')", "for m in"),
    ("unsupported-python", "a, b = s", "a, b = s", "as many values"),
    ("unsupported-python", "tl.atomic_add(s, s)", "tl.atomic_add(s, s)", "tl.atomic_add(out[m, n], value)"),
    ("unsupported-python", "tl.atomic_add(x[m, n], s)", "tl.atomic_add(x[m, n], s)", "output"),
    ("unsupported-python", "out[m, n] = m.size", "m.size", "m.start"),
    ("tile-condition", "if x[m, n] > 0:\n    out[m, n] = s", "x[m, n] > 0", "tl.where"),
    ("tile-condition", "out[m, n] = s if x[m, n] > 0 else 0", "x[m, n] > 0", "tl.where"),
    ("subscripts", "out[m, n] = x[m]", "x[m]", "[M, N]"),
    ("subscripts", "out[m, n] = x[m, s]", "s", "a scalar f32"),
    ("subscripts", "out[m, n] = x[m, -1]", "-1", "tl.dim('N') - 1"),
    ("unsupported-python", "out[m, n] = x[m, n].T", "x[m, n].T", "axes have names"),
    ("subscripts", "out[m, n] = x + 1", "x + 1", "without subscripts"),
    ("axis-dimension", "out[m, n] = x[n, m]", "n", "n runs over N"),
    ("axis-dimension", "out[m, n] = i[n]", "n", "tl.index(n)"),
    ("repeated-whole-axis", "t = sq[:, :]", ":", "tl.axis"),
    ("reads-output", "out[m, n] = out[m, n] + 1", "out[m, n]", "cannot be pipelined"),
    ("stored-axes", "out[m, 0] = x[m, n]", "out[m, 0]", "no place for n"),
    ("stored-axes", "for j in tl.stream('N'):\n    out[m, n] = x[m, j]", "out[m, n]", "no place for j"),
    ("store-overwrites", "for j in tl.stream('N'):\n    out[m, n] = s", "out[m, n]", "not indexed by j"),
    ("store-overwrites", "out[m, 0] = s", "out[m, 0]", "not indexed by n"),
    ("tile-dependent", "out[m, n] = x[m, n] - tl.max(x[m, n], n)", "tl.max(x[m, n], n)", "the size of the tiles of n"),
    ("tile-dependent", "out[m, n] = tl.cumsum(x[m, n], n)", "tl.cumsum(x[m, n], n)", "the size of the tiles of n"),
    (
        "tile-dependent",
        "out[m, n] = tl.sum(tl.dot(x[m, n], sq[tl.index(n), :]), 'Q')",
        "tl.dot(x[m, n], sq[tl.index(n), :])",
        "over=...",
    ),
    ("tile-dependent", "out[tl.argmax(x[m, n], m), n] = s", "tl.argmax(x[m, n], m)", "the size of the tiles of m"),
    (
        "tile-dependent",
        "t = tl.zeros(m)\nu = tl.zeros(m)\nfor j in tl.stream('N'):\n    u = u + t\n    t = t + tl.sum(x[m, n], n)\n"
        "out[m, n] = u",
        "tl.sum(x[m, n], n)",
        "stored to out",
    ),
    (
        "tile-dependent",
        "t = tl.zeros(m)\nif i[0] > 0:\n    t = tl.max(x[m, n], n)\nout[m, n] = t",
        "tl.max(x[m, n], n)",
        "stored to out",
    ),
    ("carried-type", "a = 0.0\nfor j in tl.stream('N'):\n    a = a + x[m, j]\nout[m, n] = a", "a = a +", "tl.zeros"),
    ("carried-type", "a = tl.zeros(m)\nfor j in tl.stream('N'):\n    a = tl.cast(a, tl.f64) + 1", "a = tl.cast", "f64"),
    (
        "carried-type",
        "a = tl.zeros(m)\nfor j in tl.stream('N'):\n    if s > 0:\n        a = tl.cast(a, tl.f64)",
        "a = tl.cast",
        "the branches of the `if` in line 6 make it a tile [m] of f64 and a tile [m] of f32",
    ),
    ("loop-form", "for j in x: pass", "x", "tl.stream"),
    ("loop-form", "for m in tl.stream('N'): pass", "m", "a name of its own"),
    ("operand-dtype", "for j in tl.stream(tl.span('N', n)): pass", "tl.span", "m.start"),
    ("unsupported-python", "out[m, n] = x[m, n] * np.random.rand()", "np.random.rand()", "pass its results"),
    ("unsupported-python", "out[m, n] = x[m, n] * np.random.default_rng(0).random()", "np.random", "as a tensor"),
    ("loop-form", "for a, b in tl.stream('N'): pass", "a, b", "1 axes and 2 variables"),
    ("one-grid", "for j in tl.stream('N'):\n    for q in tl.grid('M'): pass", "for q", "inside a stream"),
    ("one-grid", "for j in tl.stream('N'):\n    t = grid_inside(s)", "for _q in tl.grid", "inside a stream"),
    ("operand-dtype", "out[m, n] = x[m, n] & 1", "x[m, n] & 1", "& does not take f32"),
    ("operand-dtype", "out[m, n] = tl.where(x[m, n], 1, 0)", "tl.where(x[m, n], 1, 0)", "not bool"),
    ("operand-dtype", "for j in tl.stream(tl.span('N', 0, s)): pass", "tl.span('N', 0, s)", "not an integer"),
    ("not-a-tile", "out[m, n] = x[m, n] + 'a'", "x[m, n] + 'a'", "a str"),
    ("not-a-tile", "out[m, n] = x[m, n] * tl.f32", "x[m, n] * tl.f32", "dtype f32"),
    ("literal-out-of-range", "out[m, n] = i[m] + 2**40", "i[m] + 2**40", "does not fit i32"),
    ("literal-out-of-range", "out[m, n] = x[m, n] * 10**400", "x[m, n] * 10**400", "does not fit f32"),
    ("literal-out-of-range", "out[m, n] = x[m, n] * 1e39", "x[m, n] * 1e39", "does not fit f32"),
    ("literal-out-of-range", "t = tl.cast(s, tl.f16) - 1e6", "tl.cast(s, tl.f16) - 1e6", "does not fit f16"),
    ("literal-out-of-range", "t = tl.full(500.0, m, dtype=tl.f8e4m3)", "tl.full", "does not fit f8e4m3"),
    ("bad-call", "t = tl.sum(x[m, n], n, n)", "tl.sum(x[m, n], n, n)", "twice"),
    ("bad-call", "out[m, n] = tl.exp(s, s)", "tl.exp(s, s)", "takes 1 arguments, 2 given"),
    ("bad-call", "out[m, n] = tl.sum(x[m, n])", "tl.sum(x[m, n])", "at least one axis"),
    ("bad-call", "out[m, n] = tl.sum(x[m, n], axis=1)", "tl.sum(x[m, n], axis=1)", "it takes (x, *axes)"),
    ("bad-call", "out[m, n] = tl.dot(s)", "tl.dot(s)", "missing"),
    ("bad-call", "t = tl.cumsum(x[m, n], n, reverse=s > 0)", "tl.cumsum", "reverse is no bool"),
    ("dot-without-common-axis", "t = tl.dot(a=x[m, n], b=s)", "tl.dot", "share no axis"),
    ("subscripts", "t = tl.dot(a=x, b=x[m, n])", "tl.dot", "without subscripts"),
    ("unsupported-python", "out[m, n] = max(x[m, n])", "max(x[m, n])", "tl.max(x, k)"),
    ("bad-call", "out[m, n] = tl.zeros(m, m)", "tl.zeros(m, m)", "twice"),
    ("not-an-axis", "out[m, n] = tl.sum(x[m, n], 1)", "tl.sum(x[m, n], 1)", "not an axis"),
    ("not-an-axis", "out[m, n] = tl.zeros((m, n))", "tl.zeros((m, n))", "a tuple is not an axis"),
    ("not-an-axis", "t = tl.zeros(m, tl.axis('N'))", "tl.zeros(m, tl.axis('N'))", "tl.axis('N') without a name"),
    ("not-an-axis", "out[m, n] = tl.sum(i[m], n)", "tl.sum(i[m], n)", "has no axis n"),
    ("dot-without-common-axis", "out[m, n] = tl.dot(i[m], x[0, n])", "tl.dot(i[m], x[0, n])", "share no axis"),
    ("dot-dtypes", "out[m, n] = tl.dot(i[m], x[m, n])", "tl.dot(i[m], x[m, n])", "i32 and f32"),
    ("dot-dtypes", "a = tl.cast(i[m], tl.i8)\nt = tl.dot(a, tl.cast(i[m], tl.u8))", "tl.dot(a", "tl.cast(x, tl.i32)"),
    ("recursion", "out[m, n] = forever(s)", "forever(s)", "without end"),
    ("helper-result", "out[m, n] = nothing(s)", "nothing(s)", "return value"),
    ("output-not-stored", "pass", "def", "never stored"),
]


def forever(x: object) -> object:
    return forever(x)


def nothing(x: object) -> None:
    pass


def grid_inside(x: object) -> object:
    for _q in tl.grid(4):
        pass
    return x


@pytest.mark.parametrize(("slug", "body", "caret", "message"), BODIES)
def test_refused(slug: str, body: str, caret: str, message: str):
    head = HEAD.replace("s: tl.f32", 's: tl.f32, sq: tl.Tensor["Q", "Q", tl.f32]') if "sq" in body else HEAD
    text = head + "\n".join("        " + line for line in body.split("\n")) + "\n"
    names = {"np": np, "forever": forever, "nothing": nothing, "grid_inside": grid_inside}
    error = refused(text, **names)
    assert error.slug == slug
    assert message in str(error)
    if slug == "recursion":
        return  # reported where the innermost call stands
    in_helper = error.loc.file == __file__
    lines = Path(__file__).read_text().split("\n") if in_helper else text.lstrip("\n").split("\n")
    marked = lines[error.loc.line - 1][error.loc.column - 1 :]
    assert marked.startswith(caret), f"{marked!r} at {error.loc}"


# whole kernels: what no body can show
KERNELS = [
    ("signature", "@tl.kernel\ndef k(x) -> tl.Tensor['M', tl.f32]: pass", "parameter x has no annotation"),
    ("signature", "@tl.kernel\ndef k(x: int) -> tl.Tensor['M', tl.f32]: pass", "has annotation int"),
    ("signature", "@tl.kernel\ndef k(x: tl.Tensor['M', tl.f32]): pass", "does not say what it returns"),
    ("signature", "@tl.kernel\ndef k(x: tl.Tensor['M', tl.f32]) -> tuple[int, int]: pass", "no tensors, but tuple"),
    (
        "signature",
        "@tl.kernel\ndef k(x: tl.Tensor['M', 'K'], y: tl.Tensor['K', tl.f32]) -> tl.Tensor['M', tl.f32]: pass",
        "'K' is the dtype of x and a dimension of y",
    ),
    *(
        (
            "operand-dtype",
            f"@tl.kernel\ndef k(i: tl.Tensor['M', tl.i32]) -> tl.Tensor['M', tl.{dtype}]:\n"
            "    for m in tl.grid('M'):\n        tl.atomic_add(out[i[m]], 1)\n",
            "an output of i32",
        )
        for dtype in ("bool_", "u4")
    ),
    ("signature", "@tl.kernel\ndef k(*x: tl.f32) -> tl.Tensor['M', tl.f32]: pass", "variadic"),
    ("signature", "@tl.kernel\ndef k(out: tl.f32) -> tl.Tensor['M', tl.f32]: pass", "the name of a parameter"),
    ("signature", "@tl.kernel\ndef k(x: tl.Tensor['M']) -> tl.Tensor[1.5, tl.f32]: pass", "1.5 is not a dimension"),
    ("signature", "@tl.kernel\ndef k(x: tl.Tensor[4, 4]) -> tl.Tensor['M', tl.f32]: pass", "not a dtype"),
    ("dimension-formula", "@tl.kernel\ndef k(x: tl.Tensor['M & 1', tl.f32]) -> tl.Tensor['M', tl.f32]: pass", "names"),
    (
        "one-grid",
        "@tl.kernel\ndef k(s: tl.f32) -> tl.Tensor[4, tl.f32]:\n"
        "    for m in tl.grid(4):\n        out[m] = s\n    for n in tl.grid(4):\n        out[n] = s\n",
        "two grids",
    ),
    (
        "outside-grid",
        "@tl.kernel\ndef k(s: tl.f32) -> tl.Tensor[4, tl.f32]:\n"
        "    out[0] = s\n    for n in tl.grid(4):\n        out[n] = s\n",
        "outside the kernel's grid",
    ),
    ("undetermined", "@tl.kernel\ndef k(x: tl.Tensor['M', 'T']) -> tl.Tensor['M', 'T']: pass", "needs T"),
]


# What may look at a tile of the grid: partial sums, conditions, bounds, and what the program puts together itself.
OF_A_TILE = [
    "tl.atomic_add(out[m, 0], tl.sum(x[m, n], n))",
    "if tl.max(tl.max(x[m, n], n), m) > 0:\n    out[m, n] = x[m, n]",
    "t = tl.zeros(m)\nfor j in tl.stream(tl.span('N', 0, tl.max(i[m], m))):\n    t += tl.sum(x[m, j], j)\n"
    "out[m, n] = t",
    "t = tl.zeros(m)\nfor j in tl.stream(tl.span('N', 0, n.start)):\n    t += tl.sum(x[m, j], j)\n"
    "out[m, n] = t + tl.cumsum(x[m, n], n)",
]


@pytest.mark.parametrize("body", OF_A_TILE)
def test_what_may_look_at_a_tile_of_the_grid(body: str):
    kernel_from_text(HEAD + textwrap.indent(body, " " * 8)).tile()


@pytest.mark.parametrize(("slug", "text", "message"), KERNELS)
def test_kernel_refused(slug: str, text: str, message: str):
    error = refused(text)
    assert error.slug == slug and message in str(error)


def test_postponed_annotations():
    """Under `from __future__ import annotations`, as in this file."""
    inner = tl.f32

    @tl.kernel
    def hidden(x: tl.Tensor["M", inner]) -> tl.Tensor["M", tl.f32]:
        pass

    @tl.kernel
    def misspelt(
        s: tl.f32,
        x: tl.Tensor["M", tl.f33],
    ) -> tl.Tensor["M", tl.f32]:
        pass

    with pytest.raises(CompileError, match=r"(?s)annotation of x: name 'inner' .* at the top of the file"):
        hidden.tile()
    with pytest.raises(CompileError, match=r"annotation of x: .*'f33'") as error:
        misspelt.tile()
    line = Path(__file__).read_text().split("\n")[error.value.loc.line - 1]
    assert line[error.value.loc.column - 1 :].startswith('tl.Tensor["M", tl.f33]')


def test_without_source():
    scope = {"tl": tl}
    with pytest.raises(CompileError) as error:
        exec("@tl.kernel\ndef k(s: tl.f32) -> tl.Tensor[tl.f32]:\n    out[()] = s", scope)
    assert error.value.slug == "no-source"


def test_a_file_that_changed_since_it_was_imported(tmp_path: Path):
    """The text is that of the definition; a helper's, read later, must still look like the helper."""
    file = tmp_path / "edited_kernel.py"
    kernel = '@tl.kernel\ndef k(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:\n    for m in tl.grid("M"):\n'
    file.write_text(f"import threadloom as tl\n{kernel}        out[m] = helper(x[m])\n\ndef helper(a):\n    return a\n")
    spec = importlib.util.spec_from_file_location("edited_kernel", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    linecache.clearcache()
    file.write_text(file.read_text().replace("out[m]", "nonsense[m]").replace("helper(a)", "helper(a, b)"))
    with pytest.raises(CompileError) as error:
        module.k.tile()
    assert error.value.slug == "no-source" and "helper" in str(error.value)


@pytest.mark.parametrize("call", [lambda: tl.exp(1.0), lambda: tl.grid("M"), lambda: tl.atomic_add(1, 2)])
def test_outside_a_kernel(call):
    with pytest.raises(CompileError) as error:
        call()
    assert error.value.slug == "outside-kernel"


def test_carried_type_names_both_types():
    text = HEAD + "        a = tl.zeros(m)\n        for j in tl.stream('N'):\n            a = a + x[m, j]\n"
    error = refused(text)
    assert "[m] of f32 before the loop" in str(error) and "[m, j] of f32 at the end" in str(error)


def test_positions_count_characters_and_survive_earlier_lines():
    text = f"# größe\n\n\n{HEAD.strip()}\n        é = s; out[m, n] = yy\n"
    error = refused(text)
    assert (error.loc.line, error.loc.column) == (7, 28) and error.loc.end_column == 30
    assert "é = s; out[m, n] = yy\n" in error.render()


CALL = """
@tl.kernel
def k(x: tl.Tensor["M", "K", "T"], y: tl.Tensor["K", 4, "T"], w: tl.Tensor["K", tl.u4], i: tl.i32, f: tl.f32 = 1.0, n: tl.Const[int] = 1) -> tl.Tensor["M", 4, "T"]:
    for m, j in tl.grid("M", 4):
        acc = tl.zeros(m, j)
        for k in tl.stream("K"):
            acc += tl.dot(x[m, k], y[k, j])
        out[m, j] = acc * f + i + n + tl.sum(w[:], tl.axis("K")) * 0
"""  # noqa: E501
CALL = CALL.replace(' + tl.sum(w[:], tl.axis("K")) * 0', "")


def arguments() -> dict[str, object]:
    zeros = np.zeros
    return {"x": zeros((3, 6), "f4"), "y": zeros((6, 4), "f4"), "w": zeros(3, "u1"), "i": 1}


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"x": np.zeros((3, 5), "f4")}, ["dimension 0 of y is 6, but K is 5 (dimension 1 of x)"]),
        ({"x": np.zeros(3, "f4")}, ["call of k: x has 1 dimension, not 2 [M, K]"]),
        ({"y": np.zeros((6, 5), "f4"), "w": np.zeros(3, "i1")}, ["y is 5, not 4", "w has dtype i8, not u4"]),
        ({"y": np.zeros((6, 4), "f8")}, ["y has dtype f64, but T is f32 already"]),
        ({"i": 1.5, "f": "a"}, ["i is 1.5, not a scalar i32", "f is 'a'"]),
        ({"i": 2**40}, ["does not fit i32"]),
        ({"n": 1.5}, ["n is 1.5, not of type int"]),
        ({"out": np.zeros((3, 3), "f4")}, ["dimension 1 of out is 3, not 4"]),
        ({"z": 1}, ["unexpected keyword argument 'z'", "tl.Tensor['M', 'K', 'T']"]),
        ({"outt": None}, ["unexpected keyword argument 'outt'", "did you mean out?"]),
        ({"w": np.zeros(9, "u1")}, ["dimension 0 of w is 18, but K is 6"]),
    ],
)
def test_arguments_refused(changes: dict[str, object], messages: list[str]):
    with pytest.raises(CompileError) as error:
        kernel_from_text(CALL)(**{**arguments(), **changes})
    assert error.value.slug == "arguments"
    assert all(message in str(error.value) for message in messages), str(error.value)


def test_all_requirements_are_named_at_once_and_repairing_them_is_enough():
    kernel = kernel_from_text(CALL)
    wrong = {**arguments(), "x": np.zeros((3, 20), "f4"), "y": np.zeros((6, 5), "f4"), "w": np.zeros(2, "f4")}
    with pytest.raises(CompileError) as error:
        kernel(**wrong)
    text = str(error.value)
    assert all(part in text for part in ("dimension 0 of y is 6, but K is 20", "y is 5, not 4", "w has dtype f32"))
    kernel(**{**wrong, "y": np.zeros((20, 4), "f4"), "w": np.zeros(10, "u1")})


@pytest.mark.parametrize("thing", [None, [1, 2], "text", np.array(["a"]), np.zeros(2, "c8")])
def test_not_an_array(thing: object):
    with pytest.raises(CompileError) as error:
        kernel_from_text(CALL)(**{**arguments(), "x": thing})
    assert error.value.slug == "not-an-array"


def test_constants_are_shown_as_they_are_written():
    assert repr(tl.Const[bool]) == "tl.Const[bool]"


def test_elements_in_the_other_byte_order():
    with pytest.raises(CompileError) as error:
        kernel_from_text(CALL)(**{**arguments(), "x": np.zeros((3, 6), ">f4")})
    assert ">f4" in str(error.value) and error.value.try_ == 'x.astype("float32")'


@pytest.mark.parametrize("given", ["float64", "float16"])
def test_another_dtype_than_the_signatures(given: str):
    text = HEAD + "        out[m, n] = x[m, n]"
    with pytest.raises(CompileError) as error:
        kernel_from_text(text)(np.zeros((2, 3), given), np.zeros(2, "i4"), 1.0)
    assert "x has dtype" in str(error.value) and error.value.try_ == 'x.astype("float32")'


def test_output_that_shares_memory_with_an_input():
    kernel = kernel_from_text(
        """
        @tl.kernel
        def k(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:
            for m in tl.grid("M"):
                out[m] = -x[m]
        """
    )
    memory = np.zeros(10, "f4")
    for out in (memory[2:7], memory[:5]):
        with pytest.raises(CompileError, match="shares memory with x"):
            kernel(memory[:5], out=out)
    kernel(memory[:5], out=memory[5:])
    kernel(memory[::2], out=memory[1::2])
    memory.flags.writeable = False
    with pytest.raises(CompileError, match="read-only"):
        kernel(np.zeros(5, "f4"), out=memory[:5])


def test_a_misspelt_argument_is_named_before_the_one_it_leaves_out():
    given = arguments()
    given["xx"] = given.pop("x")
    with pytest.raises(CompileError, match="unexpected keyword argument 'xx'") as error:
        kernel_from_text(CALL)(**given)
    assert "did you mean x?" in str(error.value)


@pytest.mark.parametrize(
    ("strides", "fits"), [((0, 4), False), ((16, 0), False), ((4, 4), False), ((12, 8), True), ((4, 12), True)]
)
def test_output_whose_elements_share_memory(strides: tuple[int, int], fits: bool):
    kernel = kernel_from_text(
        """
        @tl.kernel
        def k(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
            for m, n in tl.grid("M", "N"):
                out[m, n] = x[m, n]
        """
    )
    x = np.arange(6, dtype="f4").reshape(3, 2)
    out = np.lib.stride_tricks.as_strided(np.zeros(99, "f4"), (3, 2), strides)
    if fits:
        assert (kernel(x, out=out) == x).all()
        return
    with pytest.raises(CompileError, match="share memory with each other") as error:
        kernel(x, out=out)
    assert error.value.slug == "arguments"


def test_decorators():
    @tl.kernel
    @tl.kernel
    def twice(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:
        for m in tl.grid("M"):
            out[m] = 2 * x[m]

    assert twice(np.ones(3, "f4")).tolist() == [2, 2, 2]

    @functools.wraps(arguments)
    def wrapped(*args: object) -> object:
        return args

    for thing, said in ((wrapped, "another decorator"), (None, "NoneType"), (3, "int"), (math.sqrt, "builtin")):
        with pytest.raises(CompileError, match=said) as error:
            tl.kernel(thing)
        assert error.value.slug == "not-a-function" and "without parentheses" in str(error.value)
    with pytest.raises(CompileError, match="NoneType"):
        tl.kernel()


def test_too_few_dimensions_are_known():
    kernel = kernel_from_text(
        """
        @tl.kernel
        def k(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", "N", "P * Q", tl.f32]:
            for m, n, p in tl.grid("M", "N", "P * Q"):
                out[m, n, p] = x[m]
        """
    )
    with pytest.raises(CompileError, match=r"N is given by no argument") as error:
        kernel(np.zeros(3, "f4"))
    assert "needs P, Q" in str(error.value)
    assert kernel(np.zeros(3, "f4"), out=np.zeros((3, 2, 5), "f4")).shape == (3, 2, 5)


def test_every_slug_of_the_language_is_tested():
    from importlib import import_module

    from threadloom.errors import SLUGS

    for name in ("lang.kernel", "lang.torch_op", "task.propagate", "task.text", "task.verify"):
        import_module(f"threadloom.{name}")

    tested = {b[0] for b in BODIES} | {k[0] for k in KERNELS}
    tested |= {"no-source", "outside-kernel", "arguments", "not-a-function"}
    tested |= {
        "not-an-array",
        "invalid-tile-ir",
        "no-tile-extent",
        "bad-task-text",
        "invalid-task-graph",
    }  # in tests/tile, tests/task
    tested |= {"two-devices", "no-operator"}  # in tests/unit/cuda_target
    ours = {slug for slug, where in _registered().items() if where.startswith(("lang", "tile", "task", "arrays"))}
    assert ours <= SLUGS.keys() and not ours - tested, ours - tested


def _registered() -> dict[str, str]:
    """slug -> the file below threadloom/ that registers it."""
    import re
    from pathlib import Path

    root = Path(tl.__file__).parent
    found = {}
    for folder in ("lang", "tile", "task", "arrays.py"):
        files = (root / folder).rglob("*.py") if (root / folder).is_dir() else [root / folder]
        for file in files:
            for name in re.findall(r'slug\("([\w-]+)"', file.read_text()):
                found[name] = str(file.relative_to(root))
    return found
