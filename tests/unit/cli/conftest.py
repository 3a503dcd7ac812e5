"""`loom` as a script sees it: a process with an exit status, standard output and standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Loom = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def loom(tmp_path: Path) -> Loom:
    """Runs `loom ARGS` in `tmp_path` with a store of its own; `env` adds to the environment."""

    def call(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LOOM_")}
        return subprocess.run(
            [sys.executable, "-m", "threadloom", *args],
            cwd=tmp_path,
            env=clean | {"LOOM_CACHE": str(tmp_path / "cache")} | (env or {}),
            capture_output=True,
            text=True,
            timeout=120,
        )

    return call
