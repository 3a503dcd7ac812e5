"""Launch stubs of the host IR tell how C++ arguments become LLVM parameters."""

from __future__ import annotations

from pathlib import Path

from threadloom.cuda import front, relocatable
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
    assert kernel_name("_ZN2v218__device_stub__x4yEPi") == "_ZN2v23x4yEPi"
    assert kernel_name("_ZN12_GLOBAL__N_120__device_stub__plainEPi") == "_ZN12_GLOBAL__N_15plainEPi"
    assert kernel_name("_ZN1aL17__device_stub__k2IiEEvPT_") == "_ZN1aL2k2IiEEvPT_"


def test_variables_of_one_file_are_told_by_their_names() -> None:
    """Two files may each have such a variable of the same name, also in namespaces."""
    for name in ("_ZL1v", "_ZZ4mainE1v", "_ZN12_GLOBAL__N_11vE", "_ZN2nsL1vE", "_ZN2ns5inner12_GLOBAL__N_11vE"):
        assert relocatable._is_static(name), name
    for name in ("counter", "_ZN2ns1vE", "_ZN4Last1LE", "_Z8per_typeIiE"):
        assert not relocatable._is_static(name), name
