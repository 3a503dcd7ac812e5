"""Markers `gpu` and `torch` skip a test, with the reason, where the machine has no such thing."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache

import pytest


@cache
def _missing(marker: str) -> str:
    """Why a test marked `marker` cannot run here; "" if it can."""
    if marker == "torch":
        return "" if importlib.util.find_spec("torch") else "PyTorch is not installed"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver"
    count = ctypes.c_int()
    has_gpu = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    return "" if has_gpu else "no NVIDIA GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in ("gpu", "torch"):
            if item.get_closest_marker(marker) and (reason := _missing(marker)):
                item.add_marker(pytest.mark.skip(reason=reason))
