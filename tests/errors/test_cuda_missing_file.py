"""A CUDA file that is not there is one error of ours, whatever is to be done with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom import cuda
from threadloom.cuda import front
from threadloom.cuda.explain import explain
from threadloom.cuda.front import SourceOptions
from threadloom.errors import CompileError


def test_explain_of_a_missing_file():
    with pytest.raises(CompileError, match=r"nofile\.cu: no such file") as caught:
        explain("nofile.cu", SourceOptions())
    assert caught.value.slug == "nvcc-no-input"


def test_a_relative_path_is_looked_up_where_clang_runs(tmp_path):
    (tmp_path / "empty.cu").write_text("")
    assert front.compile_source("empty.cu", SourceOptions(cwd=str(tmp_path))).source == "empty.cu"


@pytest.mark.parametrize("source", ["nofile.cu", Path("nofile.cu"), Path(".")])
def test_calling_kernels_of_a_missing_file(source):
    with pytest.raises(CompileError, match="no such file") as caught:
        cuda.compile(source)
    assert caught.value.slug == "nvcc-no-input"
