"""What all tests share.

Markers `gpu`, `torch` and `clang` skip a test, with the reason, where the machine has no such thing; without a GPU
`device` is left out as a whole. `--update-golden` makes tests that compare with a stored text (fixture `golden`) store
the new one instead: read the diff before you commit it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Tests keep compiled code in a folder of their own, and know no tuned plans. The processes that they start keep
    byte code: without, each compiles our sources anew, which takes a second. (In a folder of its own that of installed
    packages would be made anew, too: 19 seconds for each process that starts with the first.)"""
    gc.disable()  # until all tests are collected
    folder = config.rootpath / ".pytest_cache" / "loom"
    os.environ["LOOM_CACHE"] = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for file in folder.glob("store.sqlite*"):
            file.unlink()


def pytest_collection_finish() -> None:
    """Thousands of tests lie in memory to the end: with the usual limits, the collector going through them again and
    again took a quarter of the time of tests that plan."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store new golden texts instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """golden(path, text) fails where the file `path` does not hold `text`."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        stored = path.read_text(encoding="utf-8") if path.exists() else "(no such file)"
        assert stored == text, f"{path.name} is out of date: pytest --update-golden, then read the diff"

    return compare


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Tests of a device import PyTorch, which takes seconds in every worker."""
    return True if collection_path.name == "device" and _missing("gpu") else None


@cache
def _missing(marker: str) -> str:
    """Why a test marked `marker` cannot run here; "" if it can."""
    if marker == "torch":
        return "" if importlib.util.find_spec("torch") else "PyTorch is not installed"
    if marker == "clang":
        return _missing_clang()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver"
    count = ctypes.c_int()
    has_gpu = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    return "" if has_gpu else "no NVIDIA GPU"


def _missing_clang() -> str:
    from threadloom.cuda import clang
    from threadloom.errors import CompileError

    try:
        clang.find()
    except CompileError as error:
        return error.what
    return "" if shutil.which("g++") or importlib.util.find_spec("ziglang") else "no C++ headers"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in ("gpu", "torch", "clang"):
            if item.get_closest_marker(marker) and (reason := _missing(marker)):
                item.add_marker(pytest.mark.skip(reason=reason))
