"""Inline PTX: what would change the result and is not translated is refused; acquire and release order other accesses;
registers wider than the instruction's type get the sign."""

import numpy as np
import pytest

from threadloom import cuda
from threadloom.cuda.ptx import translate
from threadloom.errors import CompileError
from threadloom.par.ops import F32, I32, PTR, Leaf, Type, Value


def _leaves(text: str, result: Type | None, *types: Type) -> list[Leaf]:
    operands = tuple(Value(f"%x{i}", type_) for i, type_ in enumerate(types))
    constraints = ",".join([*(["=r"] if result else []), *("r" for _ in types)])
    return translate(text, constraints, operands, result and Value("%r", result), "%asm", None)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("add.rz.f32 $0, $1, $2;", F32),
        ("mul.sat.f32 $0, $1, $2;", F32),
        ("fma.rm.f32 $0, $1, $2, $2;", F32),
        ("min.xorsign.abs.f32 $0, $1, $2;", F32),
        ("add.cc.u32 $0, $1, $2;", I32),
        ("mad.lo.cc.u32 $0, $1, $2, $2;", I32),
        ("cvt.sat.s8.s32 $0, $1;", I32),
        ("cvt.rz.f32.f64 $0, $1;", F32),
    ],
)
def test_modifiers_that_change_the_result_are_refused(text: str, type_: Type) -> None:
    with pytest.raises(CompileError) as caught:
        _leaves(text, type_, type_, type_)
    assert caught.value.slug == "cuda-inline-asm" and text.split(" ")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "result", "opcodes"),
    [
        ("ld.acquire.gpu.global.u32 $0, [$1];", I32, ["load", "fence", "bitcast"]),
        ("ld.relaxed.gpu.global.u32 $0, [$1];", I32, ["load", "bitcast"]),
        ("st.release.gpu.global.u32 [$0], $1;", None, ["fence", "store"]),
        ("st.relaxed.gpu.global.u32 [$0], $1;", None, ["store"]),
    ],
)
def test_acquire_and_release_are_fences(text: str, result: Type | None, opcodes: list[str]) -> None:
    leaves = _leaves(text, result, PTR, I32)
    assert [leaf.opcode for leaf in leaves] == opcodes


def test_conversions_fill_the_register() -> None:
    assert [leaf.opcode for leaf in _leaves("cvt.s8.s32 $0, $1;", I32, I32)] == ["trunc", "sext", "bitcast"]
    assert [leaf.opcode for leaf in _leaves("cvt.u8.u32 $0, $1;", I32, I32)] == ["trunc", "zext", "bitcast"]


def test_floats_round_to_whole_floats() -> None:
    call, _ = _leaves("cvt.rmi.f32.f32 $0, $1;", F32, F32)
    assert call.attrs.callee == "llvm.floor.f32"


def test_extremes_are_nan_where_either_is_asked_for() -> None:
    program = cuda.compile("""
__global__ void extremes(float *out, float a, float b) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(out[0]) : "f"(a), "f"(b));
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(out[1]) : "f"(a), "f"(b));
    asm("max.f32 %0, %1, %2;" : "=f"(out[2]) : "f"(a), "f"(b));
}
""")
    out = np.zeros(3, np.float32)
    program["extremes"](1, 1, out, 2.0, -3.0)
    assert out.tolist() == [2, -3, 2]
    for a, b in ((np.nan, 1.0), (1.0, np.nan)):
        program["extremes"](1, 1, out, a, b)
        assert np.isnan(out[:2]).all() and out[2] == 1
