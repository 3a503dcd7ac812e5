"""Programs link with what every Linux machine has, whichever clang compiled them."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom.cuda.clang import Compiler
from threadloom.cuda.runtime_library import link_flags


@pytest.mark.parametrize("origin", ["karellen", "system", "LOOM_CLANG"])
def test_the_unwinder_is_gccs(origin: str, tmp_path: Path):
    assert link_flags(Compiler((str(tmp_path / "clang++"),), 22, origin)) == ["-rtlib=libgcc", "-unwindlib=libgcc"]


def test_a_linker_beside_clang_is_its_own(tmp_path: Path):
    for name in ("clang++", "ld.lld"):
        (tmp_path / name).touch(mode=0o755)
    assert "-fuse-ld=lld" in link_flags(Compiler((str(tmp_path / "clang++"),), 22, "LOOM_CLANG"))
    assert link_flags(Compiler((str(tmp_path / "clang++"), "clang"), 22, "zig")) == []
