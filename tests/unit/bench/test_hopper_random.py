"""The script that runs random programs on a GPU: here only that it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "hopper_random.py"


def test_it_takes_its_processes_with_it():
    """Processes that it left behind held its output open: who read that waited until its own limit."""
    command = [sys.executable, str(SCRIPT), "--seeds", "6850430664", "--seconds", "1", "--processes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "0 are wrong" in done.stdout, done.stdout + done.stderr
