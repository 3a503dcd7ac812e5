"""nvcc reads `Caster<T>::cast<3>(x)` in a template without `template`; so does `loom cc`, in headers, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom.cuda import front

HEADER = """\
template <class T> struct Caster {
  T v;
  template <int n> __device__ static T cast(T x) { return x + n; }
  template <int n> __device__ T add() { return v + n; }
};
template <class T> __device__ T both(T x) {
  Caster<T> c{x};
  return Caster<T>::cast<3>(x) +
         c.add<4>();
}
"""
SOURCE = """\
#include "caster.cuh"
__global__ void kernel(int *out) { out[threadIdx.x] = both(10); }
"""


def test_only_the_named_lines_change() -> None:
    text = (
        b'# 1 "a.cu"\nx = C<T>::cast<3>(y);\n# 1 "b.h" 1\ny = c.cast<3>();\nz = c->cast <3>();\n# 3 "a.cu" 2\n'
        b"c.cast<1>();\n"
    )
    error = "b.h:2:5: error: missing 'template' keyword prior to dependent template name 'cast'\n"
    changed = front._with_template_keywords(text, error + error.replace("b.h:2", "a.cu:3"))
    assert changed == text.replace(b"c->cast <3>", b"c->template cast <3>").replace(b"c.cast<1>", b"c.template cast<1>")


@pytest.mark.slow
@pytest.mark.clang
def test_a_header_without_the_keyword_compiles(tmp_path: Path) -> None:
    (tmp_path / "caster.cuh").write_text(HEADER)
    (tmp_path / "source.cu").write_text(SOURCE)
    ir = front.compile_source(str(tmp_path / "source.cu"), front.SourceOptions())
    assert "define" in ir.device and "caster.cuh" in ir.device  # lines are those of the header
