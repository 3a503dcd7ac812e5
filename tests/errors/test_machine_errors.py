"""What is said where the machine lacks something."""

from __future__ import annotations

import ctypes
import sys

import pytest

from threadloom.bench.run import FORCED_BLAS, check_environment
from threadloom.errors import CompileError
from threadloom.targets.cuda import driver, nvrtc


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="there is an NVIDIA driver")
def test_no_gpu():
    with pytest.raises(CompileError) as caught:
        driver.context(0)
    assert caught.value.slug == driver.NO_GPU


def test_no_nvrtc(monkeypatch):
    for name in [m for m in sys.modules if m == "cuda" or m.startswith("cuda.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    nvrtc.version.cache_clear()
    with pytest.raises(CompileError) as caught:
        nvrtc.version()
    assert caught.value.slug == nvrtc.NO_NVRTC and "threadloom[gpu]" in caught.value.try_


def test_forced_blas_core(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    with pytest.raises(CompileError) as caught:
        check_environment()
    assert caught.value.slug == FORCED_BLAS
