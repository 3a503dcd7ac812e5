"""`loom doctor`."""

from __future__ import annotations

import json

from threadloom.doctor import Finding, examine


def test_every_piece_says_what_it_enables():
    findings = examine()
    assert {"LLVM", "OpenMP", "clang", "GPU and driver", "NVRTC", "torch", "store"} <= {f.name for f in findings}
    assert all(f.enables and f.detail for f in findings)
    assert all(f.get for f in findings if not f.found)


def test_json(loom, tmp_path):
    done = loom("doctor", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.doctor/1"
    assert record["healthy"] is True
    fields = set(Finding.__dataclass_fields__)
    assert all(set(f) == fields for f in record["findings"])


def test_missing_llvm_fails_and_says_how_to_get_it(loom_process, tmp_path):
    (tmp_path / "llvmlite.py").write_text("raise ImportError('blocked')\n")
    done = loom_process("doctor", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "pip install llvmlite" in done.stdout


def test_a_clang_that_does_not_run_is_not_found(loom_process):
    done = loom_process("doctor", "--json", "-", env={"LOOM_CLANG": "/nonexistent/clang++"})
    clang = next(f for f in json.loads(done.stdout)["findings"] if f["name"] == "clang")
    assert clang["found"] is False


def test_names_of_files_are_not_markup(loom, tmp_path):
    folder = tmp_path / "[red]cache"
    done = loom("doctor", env={"LOOM_CACHE": str(folder)})
    assert str(folder) in done.stdout


def test_a_cache_that_is_a_file_is_no_store(monkeypatch, tmp_path):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "taken"))
    store = next(f for f in examine() if f.name == "store")
    assert not store.found and "is no folder" in store.detail
