"""`import threadloom` is quick and needs none of the optional packages."""

from __future__ import annotations

import statistics
import subprocess
import sys

BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
import threadloom, threadloom.cli
"""

HEAVY = ("llvmlite", "torch", "ortools", "islpy", "networkx", "rich", "cuda", "ml_dtypes")


def _seconds_to_import() -> float:
    code = "import time; t = time.perf_counter(); import threadloom; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_import_takes_less_than_300_ms():
    assert statistics.median(_seconds_to_import() for _ in range(7)) < 0.3


def test_import_works_without_optional_packages():
    code = BLOCK.format(blocked=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_import_loads_nothing_heavy():
    code = f"import sys, threadloom, threadloom.cli; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
