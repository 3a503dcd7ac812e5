"""What users can do wrong with calls on the CPU."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from threadloom import env
from threadloom.bench.run import check_environment
from threadloom.errors import CompileError, InternalError
from threadloom.examples.copy_tiles import copy_tiles
from threadloom.targets.cpu import jit


def test_strides_between_elements():
    records = np.zeros(16, dtype=[("tag", "i1"), ("value", "f4")])
    column = records["value"].reshape(4, 4)
    assert column.strides[1] % 4
    with pytest.raises(CompileError, match="has strides of") as caught:
        copy_tiles(column)
    assert caught.value.slug == "odd-strides" and "copy()" in str(caught.value)


def test_masked_arrays():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with pytest.raises(CompileError, match="x is a masked array") as caught:
        copy_tiles(np.ma.masked_array(values, values > 3))
    assert caught.value.slug == "not-an-array" and "x.filled(0)" in str(caught.value)


def test_a_forced_blas_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    with pytest.raises(CompileError) as caught:
        check_environment()
    assert caught.value.slug == "forced-blas-core"


def test_bench_of_an_unknown_operator():
    done = subprocess.run([sys.executable, "-m", "threadloom", "bench", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2 and "matmul" in done.stderr


@pytest.fixture
def endless_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """LLVM that does not end before the test does."""
    ended = threading.Event()
    monkeypatch.setattr(jit, "compile_object", lambda *_: ended.wait(60))
    monkeypatch.setenv("LOOM_CACHE", "off")
    yield
    ended.set()


def test_a_compilation_without_end_is_given_up(endless_compiler, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOM_COMPILE_SECONDS", "0.3")
    array = np.zeros((5, 7), np.float16)
    out = np.full((5, 7), 3, np.float16)
    began = time.monotonic()
    with pytest.raises(CompileError) as caught:
        copy_tiles(array, out=out)
    assert time.monotonic() - began < 20
    assert caught.value.slug == "compile-limit" and caught.value.loc is not None
    assert "longer than 0.3 s" in str(caught.value) and "LOOM_COMPILE_SECONDS=600" in str(caught.value)
    assert (out == 3).all()


def test_after_that_the_call_works(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOM_COMPILE_SECONDS", "0")
    array = np.arange(35, dtype=np.float16).reshape(5, 7)
    assert (copy_tiles(array) == array).all()


def test_errors_of_the_compiler_are_the_calls(monkeypatch: pytest.MonkeyPatch):
    def failing(*_):
        raise InternalError("LLVM refuses")

    monkeypatch.setattr(jit, "compile_object", failing)
    monkeypatch.setenv("LOOM_CACHE", "off")
    with pytest.raises(InternalError, match="LLVM refuses"):
        copy_tiles(np.zeros((5, 9), np.float16))


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_limit_that_is_no_time(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setenv("LOOM_COMPILE_SECONDS", text)
    with pytest.raises(CompileError, match="LOOM_COMPILE_SECONDS") as caught:
        env.compile_seconds()
    assert caught.value.slug == "bad-variable"
