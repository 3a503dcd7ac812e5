"""System headers that a file starts with are compiled once; what follows means what it meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom.cuda import clang, front, precompiled
from threadloom.errors import CompileError

SOURCE = """
#include <vector>
#include <cuda_runtime.h>
#define TWICE(x) (2 * (x))
#include <string>
__global__ void twice(float *x) { x[threadIdx.x] = TWICE(x[threadIdx.x]); }
std::vector<std::string> launch(float *x) {
  twice<<<1, 32>>>(x);
  return {"a", "b"};
}
"""


def test_leading_headers_end_at_the_first_line_of_the_user() -> None:
    text = (
        b'# 1 "mine.cu"\n\n# 1 "/ours/prelude.h" 1\nint ours;\n# 2 "mine.cu" 2\n\n# 1 "/torch/all.h" 1 3\nint torch;\n'
        b'# 3 "mine.cu" 2\n\nint mine;\n# 1 "/torch/more.h" 1 3\nint more;\n# 5 "mine.cu" 2\nint last;\n'
    )
    headers, rest = precompiled.leading_headers(text, b"/ours")
    assert headers == b'# 1 "/ours/prelude.h" 1\nint ours;\n# 1 "/torch/all.h" 1 3\nint torch;\n'
    assert rest.startswith(b'# 3 "mine.cu"\n\nint mine;\n# 1 "/torch/more.h" 1 3\n') and rest.endswith(b"int last;\n")


def test_returns_from_files_that_were_entered_before_are_none() -> None:
    """A header of the user's that includes a system header first is open when the leading headers end."""
    text = (
        b'# 1 "mine.cu"\n\n# 1 "mine.h" 1\n\n# 1 "/torch/all.h" 1 3\nint torch;\n# 2 "mine.h" 2\nint mine;\n'
        b'# 1 "/torch/more.h" 1 3\nint more;\n# 3 "mine.h" 2\nint last;\n# 2 "mine.cu" 2\nint own;\n'
    )
    headers, rest = precompiled.leading_headers(text, b"/ours")
    assert headers == b'# 1 "/torch/all.h" 1 3\nint torch;\n'
    assert rest == (
        b'# 2 "mine.h"\nint mine;\n# 1 "/torch/more.h" 1 3\nint more;\n'
        b'# 3 "mine.h" 2\nint last;\n# 2 "mine.cu"\nint own;\n'
    )


@pytest.mark.parametrize("text", [b"int x;\n", b'# 1 "mine.cu"\nint x;\n# 1 "/torch/all.h" 1 3\nint torch;\n'])
def test_text_that_starts_with_the_users_own_has_no_headers(text: bytes) -> None:
    headers, rest = precompiled.leading_headers(text, b"/ours")
    assert headers == b"" and rest == text


def _code(ir: str) -> list[str]:
    """LLVM assembly without debug information, which names the temporary file."""
    lines = [line.partition(", !dbg")[0].partition(" !dbg")[0] for line in ir.splitlines()]
    return [line for line in lines if not line.startswith(("!", "source_filename", "; ModuleID"))]


@pytest.mark.slow
@pytest.mark.clang
def test_code_is_the_same_with_precompiled_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang.find()
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "mine.cu"
    source.write_text(SOURCE)
    options = front.SourceOptions(user_text=lambda text: text)
    whole = front.compile_source(str(source), options)
    assert not (tmp_path / "cache" / "precompiled-headers").exists()  # these are small
    monkeypatch.setattr(precompiled, "_LARGE_BYTES", 1000)
    for _ in range(2):  # made, then found
        short = front.compile_source(str(source), options)
        assert _code(short.host) == _code(whole.host) and _code(short.device) == _code(whole.device)
        assert len(list((tmp_path / "cache" / "precompiled-headers").glob("*.pch"))) == 2  # host and device
    source.write_text(SOURCE + "\nint broken = nothing;\n")
    with pytest.raises(CompileError, match="nothing") as caught:
        front.compile_source(str(source), options)
    assert str(caught.value.loc) == f"{source}:{SOURCE.count(chr(10)) + 2}:14"


def test_headers_that_do_not_compile_alone_leave_nothing_behind(tmp_path: Path) -> None:
    """clang removes what it could not write whole; the file is then compiled with its headers and says why not."""
    made = tmp_path / "headers" / "one.pch"
    assert not precompiled._compile(clang.find(), ["-x", "c++-cpp-output"], b"#error no\n" + b"int x = ;\n", made)
    assert [path.name for path in made.parent.iterdir()] == ["one.headers"]
