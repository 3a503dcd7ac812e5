"""The precompiled prelude changes nothing but the time: same IR, same messages, and never a header it must not hide."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from quick import some

from threadloom.cuda import front
from threadloom.cuda.front import SourceOptions, compile_source
from threadloom.errors import CompileError

pytestmark = pytest.mark.clang

SOURCE = """
#include <cmath>
#ifndef VALUE
#define VALUE 2
#endif
__global__ void k(float *x) { x[threadIdx.x] = std::sqrt(x[threadIdx.x]) * VALUE; }
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "k.cu").write_text(SOURCE)
    return str(tmp_path / "k.cu")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "precompiled-headers"


def _commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What clang is called with from now on."""
    calls: list[list[str]] = []
    compiler = front.clang.find()
    original = type(compiler).run

    def run(self, arguments, cwd=None):
        calls.append(arguments)
        return original(self, arguments, cwd)

    monkeypatch.setattr(type(compiler), "run", run)
    return calls


def test_the_ir_is_the_same_and_the_prelude_is_compiled_once(file: str, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOM_CACHE", "off")
    plain = compile_source(file, SourceOptions(defines=("-DVALUE=3",)))
    monkeypatch.setenv("LOOM_CACHE", str(cache.parent))
    first = compile_source(file, SourceOptions(defines=("-DVALUE=3",)))
    assert (first.host, first.device) == (plain.host, plain.device)
    assert len(list(cache.glob("*.pch"))) == 2  # host and device
    calls = _commands(monkeypatch)
    again = compile_source(file, SourceOptions(defines=("-DVALUE=4",)))  # another macro of the user's
    assert [("-include-pch" in call, "-emit-pch" in call) for call in calls] == [(True, False)] * 2
    assert again.device != plain.device


@pytest.mark.parametrize("name", some(["math.h", "cmath", "bits"], ["math.h"]))
def test_headers_of_the_user_are_not_hidden(name: str, file: str, cache: Path, tmp_path: Path, monkeypatch):
    folder = tmp_path / "own"
    folder.mkdir()
    if name == "bits":
        (folder / name).mkdir()
    else:
        (folder / name).write_text(f"#include_next <{name}>\n#define VALUE 7\n")
    compile_source(file, SourceOptions())
    calls = _commands(monkeypatch)
    ir = compile_source(file, SourceOptions(includes=(str(folder),)))
    assert not any("-include-pch" in call for call in calls)
    assert ("7.0" in ir.device) == (name != "bits")


@pytest.mark.slow
def test_macros_that_headers_ask_for_have_their_own(file: str, cache: Path):
    compile_source(file, SourceOptions())
    compile_source(file, SourceOptions(defines=("-DNDEBUG",)))
    compile_source(file, SourceOptions(defines=("-DOWN",)))
    assert len(list(cache.glob("*.pch"))) == 4


@pytest.mark.slow
def test_a_stale_one_is_not_used_and_goes(file: str, cache: Path):
    right = compile_source(file, SourceOptions())
    for made in cache.glob("*.pch"):
        made.write_bytes(made.read_bytes()[:1000])
    assert compile_source(file, SourceOptions()) == right
    assert not list(cache.glob("*.pch"))


@pytest.mark.slow
def test_a_clang_that_cannot_precompile_is_asked_once(file: str, cache: Path, monkeypatch: pytest.MonkeyPatch):
    compiler = type(front.clang.find())
    original = compiler.run

    def run(self, arguments, cwd=None):
        return original(self, [*arguments, "-no-such-flag"] if "-emit-pch" in arguments else arguments, cwd)

    monkeypatch.setattr(compiler, "run", run)
    compile_source(file, SourceOptions())
    calls = _commands(monkeypatch)
    compile_source(file, SourceOptions())
    assert len(calls) == 2 and not any("-include-pch" in call or "-emit-pch" in call for call in calls)


@pytest.mark.slow
def test_mistakes_are_told_as_ever(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bad.cu").write_text("__global__ void k(float *x) { x[0] = y; }\n")
    texts = []
    for folder in ("off", str(cache.parent)):
        monkeypatch.setenv("LOOM_CACHE", folder)
        with pytest.raises(CompileError, match="undeclared identifier 'y'") as caught:
            compile_source(str(tmp_path / "bad.cu"), SourceOptions())
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert os.listdir(cache)


@pytest.mark.slow
def test_what_another_process_is_making_is_not_made_twice(file: str, cache: Path, monkeypatch: pytest.MonkeyPatch):
    compile_source(file, SourceOptions())
    locks, made = sorted(cache.glob("*.lock")), sorted(cache.glob("*.pch"))
    assert len(locks) == len(made) == 2
    for path in (*made, *cache.glob("*.names")):
        path.unlink()
    held = [path.open("w") for path in locks]
    for lock in held:
        fcntl.flock(lock, fcntl.LOCK_EX)
    calls = _commands(monkeypatch)
    compile_source(file, SourceOptions())
    assert [("-include-pch" in call, "-emit-pch" in call) for call in calls] == [(False, False)] * 2
    for lock in held:
        lock.close()
