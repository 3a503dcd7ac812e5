"""`loom cache` shows and clears what is ours, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    (folder / "objects").mkdir(parents=True, mode=0o700)
    (folder / "objects" / "a.object").write_bytes(b"x" * 100)
    (folder / "store.sqlite").write_bytes(b"y" * 50)
    (folder / "cuda-home" / "k" / "bin").mkdir(parents=True)
    (folder / "cuda-home" / "k" / "bin" / "nvcc").write_bytes(b"z" * 7)
    (folder / "cuda-home" / "k" / "include").symlink_to(Path(__file__).parent)
    (folder / "letter.txt").write_text("not ours")
    return folder


def test_show(loom, stored):
    done = loom("cache", "--json", "-")
    record = json.loads(done.stdout)
    assert (done.returncode, record["schema"], record["folder"]) == (0, "threadloom.cache/1", str(stored))
    stored_ = [(r["kind"], r["entries"], r["bytes"]) for r in record["stored"]]
    assert stored_ == [("code", 1, 100), ("plans", 1, 50), ("cuda", 1, 7)]
    assert (stored / "objects" / "a.object").exists()


def test_clear_removes_only_what_is_ours(loom, stored):
    assert loom("cache", "clear").returncode == 0
    assert [p.name for p in stored.rglob("*") if p.is_file()] == ["letter.txt"]
    assert Path(__file__).exists()  # a link's target is not ours


def test_clear_one_kind(loom, stored):
    assert loom("cache", "clear", "--kind", "code").returncode == 0
    assert (stored / "store.sqlite").exists() and not (stored / "objects" / "a.object").exists()


def test_no_folder_and_switched_off(loom):
    assert "not made yet" in loom("cache").stdout
    assert "off" in loom("cache", env={"LOOM_CACHE": "off"}).stdout


def test_usage(loom):
    assert loom("cache", "shred").returncode == 2


def test_the_folder_is_closed_to_others(loom, tmp_path):
    """Whoever makes it: the code of a compiled kernel, or the store."""
    assert loom("run", "softmax", "--shape", "M=2,N=3", "--repeat", "1").returncode == 0
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert json.loads(loom("cache", "--json", "-").stdout)["mode"] == "0700"
