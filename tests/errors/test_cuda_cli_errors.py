"""What `loom cc` says about sources and machines it cannot use: one message with its name, status 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom import cli
from threadloom.cuda import clang


def cc(tmp_path: Path, text: str, *flags: str, name: str = "x.cu") -> int:
    (tmp_path / name).write_text(text)
    return cli.main(["cc", str(tmp_path / name), "-o", str(tmp_path / "x"), *flags])


CALLED = """
#include <cstdio>
{before}
__global__ void k(int *out, int n) {{
{body}
}}
int main() {{ k<<<1, 32>>>(nullptr, 1); return 0; }}
"""


@pytest.mark.clang
@pytest.mark.parametrize(
    ("slug", "before", "body"),
    [
        ("cuda-source", "", "out[0] = undeclared;"),
        ("cuda-inline-asm", "", 'asm volatile("mov.u32 %0, %%laneid;" : "=r"(out[0]));'),
        (
            "cuda-meeting-in-function",
            "__device__ __noinline__ int f(int n) { __syncthreads(); return n ? f(n - 1) : 0; }",
            "out[0] = f(n);",
        ),
        ("cuda-variadic-function", "__device__ int f(int n, ...) { return n ? f(n - 1, n) : 0; }", "out[0] = f(n, n);"),
        (
            "cuda-unsupported-instruction",
            "",
            "static const void *const to[] = {&&a, &&b}; goto *to[n]; a: out[0] = 1; return; b: out[0] = 2;",
        ),
        (
            "cuda-shared-in-function",
            "__device__ int f(int n) { __shared__ int s[4]; s[n & 3] = n; return n ? f(n - 1) + s[0] : 0; }",
            "out[0] = f(n);",
        ),
    ],
)
def test_sources(tmp_path, capsys, slug, before, body):
    assert cc(tmp_path, CALLED.format(before=before, body=body)) == 1
    said = capsys.readouterr().err
    assert f"error[{slug}]" in said
    assert "x.cu" in said or slug == "cuda-unsupported-instruction"  # clang gives no line for a computed goto


@pytest.mark.clang
def test_host_file_that_does_not_compile(tmp_path, capsys):
    assert cc(tmp_path, "int main() { return nothing; }\n", name="x.cpp") == 1
    assert "error[cuda-host-compiler]" in capsys.readouterr().err


@pytest.mark.clang
def test_program_that_does_not_link(tmp_path, capsys):
    assert cc(tmp_path, "void elsewhere(); int main() { elsewhere(); return 0; }\n") == 1
    said = capsys.readouterr().err
    assert "error[cuda-link]" in said and "elsewhere" in said


@pytest.mark.parametrize("args", [["-O2"], ["missing.cu", "-o", "x"]])
def test_no_input(capsys, args):
    assert cli.main(["cc", *args]) == 1
    assert "error[nvcc-no-input]" in capsys.readouterr().err


@pytest.fixture
def forgotten():
    """Forget which clang was found, before and after."""
    clang.find.cache_clear()
    yield
    clang.find.cache_clear()


@pytest.mark.parametrize(
    ("answer", "said"), [("exit 3", "does not run or is no clang"), ("echo clang version 99.0", "is clang 99")]
)
def test_clang_that_cannot_be_used(tmp_path, capsys, monkeypatch, forgotten, answer, said):
    fake = tmp_path / "clang++"
    fake.write_text(f"#!/bin/sh\n{answer}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("LOOM_CLANG", str(fake))
    assert cc(tmp_path, "int main() {}\n") == 1
    shown = capsys.readouterr().err
    assert "error[cuda-bad-clang]" in shown and said in shown


def test_no_clang_at_all(tmp_path, capsys, monkeypatch, forgotten):
    monkeypatch.delenv("LOOM_CLANG", raising=False)
    for search in ("_karellen", "_zig"):
        monkeypatch.setattr(clang, search, lambda: None)
    monkeypatch.setattr(clang, "_system", list)
    assert cc(tmp_path, "int main() {}\n") == 1
    shown = capsys.readouterr().err
    assert "error[cuda-no-clang]" in shown and "threadloom[cuda-on-cpu]" in shown
