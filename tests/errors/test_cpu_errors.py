"""What users can do wrong with calls on the CPU."""

import subprocess
import sys

import numpy as np
import pytest

from threadloom.bench.run import check_environment
from threadloom.errors import CompileError
from threadloom.examples.copy_tiles import copy_tiles


def test_strides_between_elements():
    records = np.zeros(16, dtype=[("tag", "i1"), ("value", "f4")])
    column = records["value"].reshape(4, 4)
    assert column.strides[1] % 4
    with pytest.raises(CompileError, match="has strides of") as caught:
        copy_tiles(column)
    assert caught.value.slug == "odd-strides" and "copy()" in str(caught.value)


def test_a_forced_blas_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    with pytest.raises(CompileError) as caught:
        check_environment()
    assert caught.value.slug == "forced-blas-core"


def test_bench_of_an_unknown_operator():
    done = subprocess.run([sys.executable, "-m", "threadloom", "bench", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2 and "matmul" in done.stderr
