"""`loom` as a script sees it: an exit status, standard output and standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from threadloom import cli

Loom = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def loom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Loom:
    """Runs `loom ARGS` in this process (quick), in `tmp_path` with a store of its own; `env` sets more variables."""

    def call(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name in [n for n in os.environ if n.startswith("LOOM_")]:
                patch.delenv(name)
            for name, value in {"LOOM_CACHE": str(tmp_path / "cache"), **(env or {})}.items():
                patch.setenv(name, value)
            capfd.readouterr()
            status = cli.main(list(args))
            out, err = capfd.readouterr()
        return subprocess.CompletedProcess(args, status, out, err)

    return call


@pytest.fixture
def loom_process(tmp_path: Path) -> Loom:
    """The same in a process of its own, for what is found once in a process or happens at its start and end."""

    def call(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LOOM_")}
        return subprocess.run(
            [sys.executable, "-m", "threadloom", *args],
            cwd=tmp_path,
            env=clean | {"LOOM_CACHE": str(tmp_path / "cache")} | (env or {}),
            capture_output=True,
            text=True,
            timeout=300,
        )

    return call
