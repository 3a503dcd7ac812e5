"""Errors that users of par text, environment variables and OpenMP settings can meet."""

import pytest

from threadloom import env
from threadloom.errors import CompileError, InternalError
from threadloom.par.text import parse
from threadloom.targets.cpu import openmp


def slug_of(call, *args):
    with pytest.raises(CompileError) as caught:
        call(*args)
    return caught.value.slug, str(caught.value)


def test_par_syntax_shows_the_line_of_a_file(tmp_path):
    path = tmp_path / "broken.par"
    path.write_text("define void @f() {\n  %x = addd i32 1, 2\n  return\n}\n")
    slug, text = slug_of(parse, path.read_text(), str(path))
    assert slug == "par-syntax"
    assert f"{path}:2:8" in text and "%x = addd i32 1, 2" in text and "did you mean add?" in text


def test_par_syntax_shows_the_line_of_a_string_too():
    slug, text = slug_of(parse, "define void @f() {\n  retrun\n}\n")
    assert slug == "par-syntax" and "   2 |   retrun\n" in text and "^^^^^^" in text


def test_unknown_variable(monkeypatch):
    monkeypatch.setenv("LOOM_THREDS", "2")
    slug, text = slug_of(env.threads)
    assert slug == "unknown-variable" and "LOOM_THREDS" in text and "LOOM_THREADS" in text


@pytest.mark.parametrize("value", ["two", "-1", "4097", "1.5"])
def test_bad_variable(monkeypatch, value):
    monkeypatch.setenv("LOOM_THREADS", value)
    slug, text = slug_of(env.threads)
    assert slug == "bad-variable" and repr(value) in text


def test_reading_a_variable_that_is_not_registered_is_our_bug():
    with pytest.raises(InternalError):
        env.read("LOOM_NO_SUCH_THING")


@pytest.mark.parametrize("library", ["/no/such/library.so", "libm.so.6"])
def test_openmp_not_loadable(monkeypatch, library):
    monkeypatch.setenv("LOOM_OPENMP", library)
    openmp.runtime.cache_clear()
    try:
        slug, text = slug_of(openmp.runtime)
    finally:
        openmp.runtime.cache_clear()
    assert slug == "openmp-not-loadable" and library in text
