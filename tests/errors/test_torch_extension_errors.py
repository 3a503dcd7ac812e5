"""Errors of building PyTorch extensions; none of these compiles PyTorch's headers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from threadloom.errors import CompileError
from threadloom.torch import extension, load, load_inline


def test_sycl_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        load_inline("x", "", sycl_sources="int f();")
    assert caught.value.slug == "torch-extension-option"


@pytest.mark.torch
@pytest.mark.clang
def test_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no such file") as caught:
        load("x", [str(tmp_path / "gone.cu")])
    assert caught.value.slug == "nvcc-no-input"


@pytest.mark.torch
@pytest.mark.clang
def test_linker_errors_name_the_extension(tmp_path: Path) -> None:
    made = extension._Extension("mine", (), ldflags=("-lno_such_library_anywhere",))
    with pytest.raises(CompileError, match="linking mine failed") as caught:
        extension._link(made, [], tmp_path / "mine.so")
    assert caught.value.slug == "torch-extension-link"


@pytest.mark.torch
@pytest.mark.clang
def test_libraries_of_cuda_are_asked_for_out_of_habit(tmp_path: Path) -> None:
    made = extension._Extension("mine", (), ldflags=("-lcudart -lcublas", "-lcurand", "-lc10_cuda", "-ltorch_cuda"))
    extension._link(made, [], tmp_path / "mine.so")
    assert (tmp_path / "mine.so").exists()


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CompileError, match="threadloom\\[torch\\]") as caught:
        extension._system_includes()
    assert caught.value.slug == "torch-not-installed"
