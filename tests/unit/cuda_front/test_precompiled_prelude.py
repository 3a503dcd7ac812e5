"""The precompiled prelude changes nothing but the time: same IR, same messages, and never a header it must not hide."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from quick import some

from threadloom.cuda import front
from threadloom.cuda.front import SourceOptions, compile_source
from threadloom.cuda.standard_headers import standard_headers
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


WITH_VECTOR = """
#include "own.h"
__global__ void k(int *x) { x[threadIdx.x] += 1; }
int sum(const std::vector<int> &v) { return std::accumulate(v.begin(), v.end(), 0); }
"""


@pytest.mark.slow  # four precompiled headers
def test_headers_of_the_library_are_compiled_with_it_from_the_second_time_on(tmp_path: Path, cache: Path, monkeypatch):
    (tmp_path / "k.cu").write_text(WITH_VECTOR)
    (tmp_path / "own.h").write_text("#include <vector>\n#include <numeric>\n")
    file = str(tmp_path / "k.cu")
    monkeypatch.setenv("LOOM_CACHE", "off")
    plain = compile_source(file, SourceOptions())
    monkeypatch.setenv("LOOM_CACHE", str(cache.parent))
    made = []
    for _ in range(3):
        ir = compile_source(file, SourceOptions())
        assert (ir.host, ir.device) == (plain.host, plain.device)
        made.append(len(list(cache.glob("*.pch"))))
    assert made == [2, 4, 4]
    calls = _commands(monkeypatch)
    compile_source(file, SourceOptions())
    wide = {path.with_suffix("").name for path in cache.glob("*.h")}
    assert len(calls) == 2 and all(any(name in word for word in call for name in wide) for call in calls)


def test_which_headers_a_source_asks_for(tmp_path: Path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "far.h").write_text("#include <map>\n#include <cassert>\n")
    (tmp_path / "near.h").write_text("# include  <vector>\n#include \"k.cu\"\n")
    source = tmp_path / "k.cu"
    source.write_text("#include \"near.h\"\n#include <far.h>\n#include <nowhere.h>\n// #include <set>\n")
    assert standard_headers(source, [tmp_path / "include"]) == ("map", "vector")
    assert standard_headers(source, []) == ("vector",)
    (tmp_path / "near.h").write_text("#define _GLIBCXX_DEBUG\n#include <vector>\n")
    assert standard_headers(source, []) == ()
    assert standard_headers(tmp_path / "missing.cu", []) == ()
