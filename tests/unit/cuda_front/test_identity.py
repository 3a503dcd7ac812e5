"""Code that is kept on disk is not used by another CPU, compiler or version of ours."""

from dataclasses import replace

import pytest

from threadloom.cuda import identity
from threadloom.targets.cpu import host


@pytest.fixture
def fresh():
    identity.code_generator.cache_clear()
    yield identity.code_generator.__wrapped__
    identity.code_generator.cache_clear()


def test_another_cpu_or_clang_is_another_identity(fresh, monkeypatch):
    here = fresh()
    assert fresh() == here
    monkeypatch.setenv("LOOM_CLANG", "another-clang++")
    assert fresh() != here
    monkeypatch.delenv("LOOM_CLANG")
    other = replace(host.host_cpu(), target=replace(host.host_cpu().target, cpu="another"))
    monkeypatch.setattr(host, "target_cpu", lambda: other)
    assert fresh() != here


def test_every_part_is_there_and_counts(fresh, monkeypatch):
    here = fresh()
    for part in identity.PARTS:
        monkeypatch.setattr(identity, "PARTS", tuple(p for p in identity.PARTS if p != part))
        assert fresh() != here
        monkeypatch.undo()
