"""The disk cache of compiled objects loses entries gracefully."""

import os
import stat
import warnings

import pytest

from threadloom.par.text import parse
from threadloom.targets.cpu import jit, object_cache
from threadloom.targets.cpu.object_cache import ObjectCache, key

SOURCE = "define exported i32 @f(i32 %x) {\n  %r = mul i32 %x, 3\n  return i32 %r\n}\n"


def run(x=5):
    import ctypes

    return jit.compile_module(parse(SOURCE)).function("f", ctypes.c_int32, ctypes.c_int32)(x)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "store"))
    return tmp_path / "store" / "objects"


def test_what_is_stored_is_loaded(tmp_path):
    cache = ObjectCache(tmp_path / "new" / "folder")
    cache.store("a", b"machine code")
    assert cache.load("a") == b"machine code" and cache.load("b") is None
    assert stat.S_IMODE((tmp_path / "new" / "folder").stat().st_mode) == 0o700


def test_the_second_compilation_reads_the_disk(folder, monkeypatch):
    assert run() == 15
    (entry,) = folder.glob("*.object")
    monkeypatch.setattr(jit, "compile_object", None)  # would fail if called
    assert run() == 15 and entry.exists()


@pytest.mark.parametrize(
    "damage", [lambda old: old[:-3], lambda old: b"", lambda old: old[:-1] + b"x", lambda old: b"no" + old]
)
def test_damaged_entries_are_compiled_again(folder, damage):
    run()
    (entry,) = folder.glob("*.object")
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert run() == 15 and entry.read_bytes() == whole


def test_the_key_depends_on_all_that_matters():
    keys = {key("a", "b"), key("ab"), key("b", "a"), key("a", "b", "")}
    assert len(keys) == 4


def test_other_options_are_another_entry(folder):
    jit.object_for_host("define i32 @f() {\n ret i32 1\n}\n", jit.EXPLICIT)
    jit.object_for_host("define i32 @f() {\n ret i32 1\n}\n", jit.OPTIMIZED)
    assert len(list(folder.glob("*.object"))) == 2


def test_a_full_disk_costs_one_warning_and_nothing_else(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(object_cache.os, "replace", full)
    monkeypatch.setattr(object_cache, "_caches", {})
    with pytest.warns(RuntimeWarning, match="No space left") as caught:
        assert run() == 15 and run(6) == 18
    assert len(caught) == 1 and not list(folder.iterdir())


def test_a_folder_that_others_may_write_is_not_trusted(tmp_path):
    cache = ObjectCache(tmp_path / "open")
    cache.store("a", b"code")
    (tmp_path / "open").chmod(0o777)
    assert cache.load("a") is None
    with pytest.warns(RuntimeWarning, match="open to others"):
        cache.store("b", b"code")


def test_switched_off(monkeypatch):
    monkeypatch.setenv("LOOM_CACHE", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run() == 15 and object_cache.default_cache().folder is None


def test_two_writers_leave_a_whole_entry(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    cache = ObjectCache(tmp_path / "shared")
    payloads = [bytes([number]) * 50_000 for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda payload: cache.store("same", payload), payloads * 4))
    assert cache.load("same") in payloads
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["same.object"]


def test_old_entries_make_room(tmp_path):
    cache = ObjectCache(tmp_path)
    for number, name in enumerate("abc"):
        cache.store(name, bytes(1000))
        os.utime(tmp_path / f"{name}.object", (number, number))
    cache.load("a")  # used: no longer the oldest
    (tmp_path / ".writing-torn").write_bytes(b"half")
    os.utime(tmp_path / ".writing-torn", (0, 0))
    cache.prune(most_bytes=2500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.object", "c.object"]
