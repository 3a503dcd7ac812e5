"""Launch stubs of the host IR tell how C++ arguments become LLVM parameters."""

from __future__ import annotations

from pathlib import Path

from threadloom.cuda import front
from threadloom.cuda.host_stubs import ParamSource, find_stubs, kernel_name
from threadloom.par.ops import I8, I64, PTR, Float, Vector

SOURCE = """
struct Three { float a, b, c; };
struct Large { double m[6]; int n; };
struct Mixed { char c; int i; double d; };
struct Empty {};
template <class T> __global__ void kernel(T* out, Three t, Large l, Empty e, Mixed m, bool flag) {}
int main() { kernel<float><<<1, 1>>>(nullptr, Three(), Large(), Empty(), Mixed(), true); }
"""


def test_every_way_of_passing(tmp_path: Path) -> None:
    path = tmp_path / "stubs.cu"
    path.write_text(SOURCE)
    (stub,) = find_stubs(front.compile_source(str(path), front.SourceOptions()).host)
    assert stub.kernel.startswith("_Z6kernelIfEv")
    assert stub.argument_bytes == (8, 12, 56, 1, 16, 1)
    assert stub.params == (
        ParamSource(0, 0, PTR),
        ParamSource(1, 0, Vector(2, Float("float"))),
        ParamSource(1, 8, Float("float")),
        ParamSource(2, 0, PTR, by_pointer=True),
        ParamSource(4, 0, I64),
        ParamSource(4, 8, Float("double")),
        ParamSource(5, 0, I8),
    )


def test_names() -> None:
    assert kernel_name("_Z18__device_stub__addPf") == "_Z3addPf"
    assert kernel_name("__device_stub__plain") == "plain"
    assert kernel_name("_ZN2ns16__device_stub__kEv") == "_ZN2ns1kEv"
