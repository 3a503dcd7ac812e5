"""KERNEL and --shape."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from threadloom.cli import UsageError
from threadloom.cli.inputs import make_inputs, planning_problem
from threadloom.cli.kernel_argument import choose, example_names, parse_shape

DOUBLE = """
import threadloom as tl

@tl.kernel
def double(x: tl.Tensor["M", "N", "T"], i: tl.Tensor["M", tl.i32], s: tl.f32, twice: tl.Const[bool] = True) -> \
tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = tl.cast(x[m, n] * s * 2.0, x.dtype)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(DOUBLE)
    return path


@pytest.mark.parametrize(
    ("text", "shape"), [("M=4,N=5", {"M": 4, "N": 5}), ("", {}), ("M=0", {"M": 0}), (" M=1, N=2", {"M": 1, "N": 2})]
)
def test_shape(text, shape):
    assert parse_shape(text) == shape


@pytest.mark.parametrize("text", ["M", "M=", "=4", "M=-1", "M=4x", "M=1.5", "2=3", "M=1,M=2"])
def test_bad_shape(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_shape(text)


@pytest.mark.parametrize("name", example_names())
def test_every_example_is_found(name):
    chosen = choose(name, {})
    assert chosen.name == name
    assert chosen.shape == chosen.module.SHAPE


def test_file_with_one_kernel_needs_no_function(file):
    assert choose(str(file), {"M": 3}).name == choose(f"{file}:double", {}).name == "double"
    assert choose(str(file), {"M": 3}).shape == {"M": 3}


def test_a_file_may_import_its_neighbour(tmp_path, monkeypatch):
    (tmp_path / "neighbour_of_mine.py").write_text(DOUBLE)
    (tmp_path / "mine.py").write_text("from neighbour_of_mine import double\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert choose(f"{tmp_path / 'mine.py'}:double", {}).name == "double"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sofmax", "did you mean softmax"),
        ("zzz", "one of:"),
        ("nothing.py", "no such file"),
        ("softmax:nothing", "has no kernel 'nothing'; it has: softmax"),
    ],
)
def test_unknown_kernels(text, said):
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        choose(text, {})


def test_unknown_dimension_of_an_example():
    with pytest.raises(UsageError, match="softmax has no dimension Q"):
        choose("softmax", {"Q": 3})


def test_file_without_a_kernel(tmp_path):
    (tmp_path / "none.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="0 kernels"):
        choose(str(tmp_path / "none.py"), {})


def test_inputs_from_the_signature(file):
    made = make_inputs(choose(str(file), {"M": 3, "N": 5}), "f16")
    assert {k: getattr(v, "shape", v) for k, v in made.items()} == {"x": (3, 5), "i": (3,), "s": 1.0}
    assert made["x"].dtype == "float16"


def test_missing_extents_are_named(file):
    with pytest.raises(UsageError, match="--shape N=64"):
        make_inputs(choose(str(file), {"M": 3}))


def test_planning_needs_no_data_of_that_size():
    problem = planning_problem(choose("softmax", {"M": 1 << 40}), None, "f32")
    assert problem.dims["M"] == 1 << 40


@pytest.mark.parametrize(
    ("shape", "said"),
    [({}, "M=64,N=64"), ({"M": 3}, "needs extents: --shape N=64"), ({"M": 3, "N": 4, "Q": 5}, "no dimension Q")],
)
def test_a_shape_names_every_dimension_and_no_other(file, shape, said):
    """Also where only a plan is wanted, and no data."""
    for use in (make_inputs, lambda chosen: planning_problem(chosen, None, "f32")):
        with pytest.raises(UsageError, match=said):
            use(choose(str(file), shape))


def test_formulas_are_no_extents_to_give(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(DOUBLE.replace('i: tl.Tensor["M", tl.i32]', 'i: tl.Tensor["M + P", tl.i32]'))
    assert make_inputs(choose(str(path), {"M": 3, "N": 4, "P": 5}))["i"].shape == (8,)
    with pytest.raises(UsageError, match="needs extents: --shape P=64"):
        make_inputs(choose(str(path), {"M": 3, "N": 4}))
