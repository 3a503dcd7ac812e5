"""The wheel is pure Python and carries its headers and licences."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    for name in ("pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY_NOTICES"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "threadloom", source / "threadloom", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"from setuptools import build_meta; print(build_meta.build_wheel({str(out)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_is_pure_python(wheel):
    assert wheel.filename.endswith("-py3-none-any.whl")


def test_has_every_tracked_file(wheel):
    """A new kind of data file must be named in pyproject.toml's package-data."""
    done = subprocess.run(["git", "ls-files", "threadloom"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}
    assert len(tracked) > 20
    assert tracked - set(wheel.namelist()) == set()


def test_has_licences_and_commands(wheel):
    names = {n.rpartition("/")[2] for n in wheel.namelist() if ".dist-info/" in n}
    assert {"LICENSE", "THIRD_PARTY_NOTICES", "entry_points.txt"} <= names
    entry_points = next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    assert b"loom = threadloom.cli:main" in wheel.read(entry_points)


def test_has_the_examples(wheel):
    files = (ROOT / "examples").rglob("*.[pc][yu]")
    examples = {f"threadloom/examples/{p.relative_to(ROOT / 'examples')}" for p in files}
    assert len(examples) > 10
    assert examples - set(wheel.namelist()) == set()
