"""Errors of compiling CUDA C++: each names the construct, its file and line, and a way around."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import some

from threadloom.cuda import build, clang, nvcc_options
from threadloom.errors import CompileError

UNSUPPORTED = {
    "cuda-source": """
__global__ void k(int* p) {
  *p = undeclared;  // here
}
""",
    "cuda-dynamic-parallelism": """
__global__ void child(int* p) { *p = 1; }
__global__ void parent(int* p) {
  child<<<1, 1>>>(p);  // here
}
""",
    "cuda-nvrtc": """
#include <cuda.h>
#include <nvrtc.h>  // here
__global__ void k(int* p) { *p = 1; }
""",
    "cuda-inline-asm": """
__global__ void k(unsigned* p) {
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(p[0]) : "r"(p[1]));  // here
}
""",
    "cuda-meeting-in-function": """
__device__ int sum(int* p, int n) {
  __syncthreads();  // here
  return n == 0 ? 0 : p[n] + sum(p, n - 1);
}
__global__ void k(int* p, int n) { *p = sum(p, n); }
""",
    "cuda-shared-in-function": """
__device__ int sum(int* p, int n) {
  __shared__ int tile[32];
  tile[n] = p[n];  // here
  return n == 0 ? 0 : tile[n] + sum(p, n - 1);
}
__global__ void k(int* p, int n) { *p = sum(p, n); }
""",
    "cuda-irreducible": """
__global__ void k(int* p, int n) {
  int i = 0;
  if (n > 5) goto middle;
again:
  p[i] = i * n;
middle:
  i += p[i + 7];  // here
  if (i < n) goto again;
  p[0] = i;
}
""",
    "cuda-undefined-device-function": """
__device__ int elsewhere(int x);
__global__ void k(int* p) {
  *p = elsewhere(3);  // here
}
""",
    "cuda-unsupported-instruction": """
__global__ void k(int* p, int n) {  // here
  void* labels[] = {&&zero, &&one};
  goto *labels[n];
zero:
  p[0] = 1;
one:
  p[1] = n;
}
""",
    "cuda-variadic-function": """
#include <stdarg.h>
__device__ int first(int n, ...) {
  va_list list;
  va_start(list, n);
  int value = va_arg(list, int);
  va_end(list);
  return value + n;
}
__global__ void k(int* p) { *p = first(1, 2); }
""",
}


def compile_text(text: str, tmp_path: Path, *flags: str) -> CompileError:
    path = tmp_path / "input.cu"
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        build.run(nvcc_options.parse([str(path), "-c", "-o", str(tmp_path / "out.o"), *flags]))
    return caught.value


QUICK = ["cuda-source", "cuda-inline-asm", "cuda-dynamic-parallelism", "cuda-undefined-device-function"]


@pytest.mark.parametrize("slug", some(UNSUPPORTED, QUICK))
def test_construct_is_named_with_its_place(slug: str, tmp_path: Path) -> None:
    text = UNSUPPORTED[slug]
    error = compile_text(text, tmp_path)
    assert error.slug == slug
    lines = [number for number, line in enumerate(text.split("\n"), 1) if "// here" in line]
    if lines:
        assert error.loc is not None
        assert (Path(error.loc.file).name, error.loc.line) == ("input.cu", lines[0])
    assert error.try_ or slug == "cuda-source"


def test_undefined_symbol_is_the_linkers_error(tmp_path: Path) -> None:
    path = tmp_path / "input.cu"
    path.write_text("void elsewhere(); int main() { elsewhere(); }")
    with pytest.raises(CompileError) as caught:
        build.run(nvcc_options.parse([str(path), "-o", str(tmp_path / "out")]))
    assert caught.value.slug == "cuda-link"
    assert "elsewhere" in str(caught.value)


def test_host_compilers_message_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "host.cpp"
    path.write_text("int main() { return nothing; }")
    with pytest.raises(CompileError) as caught:
        build.run(nvcc_options.parse([str(path), "-c", "-o", str(tmp_path / "out.o")]))
    assert caught.value.slug == "cuda-host-compiler"
    assert "nothing" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ([], "nvcc-no-input"),
        (["-c", "no-such-file.cu"], "nvcc-no-input"),
        (["-optix-ir", "a.cu"], "nvcc-option"),
        (["a.unknown"], "nvcc-option"),
    ],
)
def test_command_line(line: list[str], slug: str) -> None:
    with pytest.raises(CompileError) as caught:
        build.run(nvcc_options.parse(line))
    assert caught.value.slug == slug


@pytest.fixture
def fresh_search(monkeypatch: pytest.MonkeyPatch):
    clang.find.cache_clear()
    yield monkeypatch
    clang.find.cache_clear()


def test_loom_clang_must_run(fresh_search: pytest.MonkeyPatch) -> None:
    fresh_search.setenv("LOOM_CLANG", "/no/such/clang++")
    with pytest.raises(CompileError) as caught:
        clang.find()
    assert caught.value.slug == "cuda-bad-clang"


def test_loom_clang_must_not_be_too_new(fresh_search: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "clang++"
    script.write_text("#!/bin/sh\necho clang version 99.0.0\n")
    script.chmod(0o755)
    fresh_search.setenv("LOOM_CLANG", str(script))
    with pytest.raises(CompileError) as caught:
        clang.find()
    assert caught.value.slug == "cuda-bad-clang"
    assert "99" in str(caught.value)


def test_no_clang_at_all(fresh_search: pytest.MonkeyPatch) -> None:
    for name in ("_karellen", "_zig"):
        fresh_search.setattr(clang, name, lambda: None)
    fresh_search.setattr(clang, "_system", lambda: [])
    with pytest.raises(CompileError) as caught:
        clang.find()
    assert caught.value.slug == "cuda-no-clang"
