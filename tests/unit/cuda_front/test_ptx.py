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
        ("addc.u32 $0, $1, $2;", I32),
        ("madc.lo.cc.u32 $0, $1, $2, $2;", I32),
        ("add.cc.f32 $0, $1, $2;", F32),
        ("set.lt.u32.s32 $0, $1, $2;", I32),
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


def test_addresses_of_32_bits_are_refused() -> None:
    with pytest.raises(CompileError) as caught:
        _leaves("st.shared.u32 [$0+4], $1;", None, I32, I32)
    assert caught.value.slug == "cuda-inline-asm" and "32 bits" in str(caught.value)


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


def test_words_are_packed_and_taken_apart() -> None:
    """`{lo, hi}`, which clang writes `$($0, $1$)`, in a scope and without one."""
    program = cuda.compile("""
__global__ void parts(unsigned *out, unsigned long long *wide, double *d, unsigned long long x, unsigned short *h) {
    unsigned lo, hi;
    asm("mov.b64 {%0, %1}, %2;" : "=r"(lo), "=r"(hi) : "l"(x));
    out[0] = lo, out[1] = hi;
    asm volatile("mov.b64 {%0,%1}, %2;" : "=r"(lo), "=r"(hi) : "d"(d[0]));
    asm volatile("mov.b64 %0, {%1,%2};" : "=d"(d[1]) : "r"(lo), "r"(hi));
    asm("{\\n\\t.reg .b32 lo, hi;\\n\\tmov.b64 {lo, hi}, %1;\\n\\tmov.b64 %0, {hi, lo};\\n\\t}"
        : "=l"(wide[0]) : "l"(x));
    asm("mov.b64 %0, {%1, %2, %3, %4};" : "=l"(wide[1]) : "h"(h[0]), "h"(h[1]), "h"(h[2]), "h"(h[3]));
    asm("{mov.b32 {%0, %1}, %2;}" : "=h"(h[0]), "=h"(h[1]) : "r"(out[0]));
}
""")
    out, wide, d = np.zeros(2, np.uint32), np.zeros(2, np.uint64), np.array([-1.25e300, 0])
    h = np.array([1, 2, 3, 0xFFFF], np.uint16)
    program["parts"](1, 1, out, wide, d, 0x0123456789ABCDEF, h)
    assert out.tolist() == [0x89ABCDEF, 0x01234567] and d[1] == d[0]
    assert wide.tolist() == [0x89ABCDEF01234567, 0xFFFF000300020001] and h.tolist() == [0xCDEF, 0x89AB, 3, 0xFFFF]


def test_carries_predicates_and_bytes() -> None:
    """Numbers of 128 bits added, subtracted and multiplied; comparisons; bytes chosen; shifts of two words."""
    program = cuda.compile("""
typedef unsigned long long u64;
__global__ void wide(u64 *out, const u64 *a, const u64 *b) {
    int i = threadIdx.x;
    u64 x = a[2 * i], y = a[2 * i + 1], p = b[2 * i], q = b[2 * i + 1], low, high, *r = out + 6 * i;
    asm("add.cc.u64 %0, %2, %4; addc.u64 %1, %3, %5;" : "=&l"(low), "=l"(high) : "l"(x), "l"(y), "l"(p), "l"(q));
    r[0] = low, r[1] = high;
    asm("sub.cc.u64 %0, %2, %4; subc.u64 %1, %3, %5;" : "=&l"(low), "=l"(high) : "l"(x), "l"(y), "l"(p), "l"(q));
    r[2] = low, r[3] = high;
    asm("mad.lo.cc.u64 %0, %2, %3, %4; madc.hi.u64 %1, %2, %3, %5;"
        : "=&l"(low), "=l"(high) : "l"(x), "l"(p), "l"(y), "l"(q));
    r[4] = low, r[5] = high;
}
__global__ void others(unsigned *out, unsigned a, unsigned b, float f) {
    asm("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.u32 %0, 3, 4, p; }" : "=r"(out[0]) : "r"(a), "r"(b));
    asm("{ .reg .pred p; setp.lt.u32 p, %1, %2; selp.u32 %0, 3, 4, p; }" : "=r"(out[1]) : "r"(a), "r"(b));
    asm("{ .reg .pred p; setp.geu.f32 p, %1, 0f3f800000; selp.u32 %0, 3, 4, p; }" : "=r"(out[2]) : "f"(f));
    asm("prmt.b32 %0, %1, %2, 0xb174;" : "=r"(out[3]) : "r"(a), "r"(b));
    asm("shf.l.wrap.b32 %0, %1, %2, 36;" : "=r"(out[4]) : "r"(a), "r"(b));
    asm("shf.r.clamp.b32 %0, %1, %2, 36;" : "=r"(out[5]) : "r"(a), "r"(b));
    asm("shf.r.wrap.b32 %0, %1, %2, 4;" : "=r"(out[6]) : "r"(a), "r"(b));
}
""")
    top = 2**64 - 1
    a, b = ([(top, 0), (5, 7), (0, 0)], [(1, 0), (9, 6), (1, top)])
    out = np.zeros(18, np.uint64)
    program["wide"](1, 3, out, np.array(a, np.uint64).ravel(), np.array(b, np.uint64).ravel())
    for i, ((x, y), (p, q)) in enumerate(zip(a, b, strict=True)):
        first, second = x + (y << 64), p + (q << 64)
        wanted = [first + second, first - second, x * p + y + (q << 64)]
        words = [word for total in wanted for word in (total & top, total >> 64 & top)]
        assert out[6 * i : 6 * i + 6].tolist() == words, i
    out = np.zeros(7, np.uint32)
    program["others"](1, 1, out, 0x8022AA33, 0x11C45566, float("nan"))
    assert [hex(word) for word in out] == [hex(w) for w in (
        3, 4, 3, 0xFFAA1166, 0x1C455668, 0x11C45566, 0x68022AA3)]  # fmt: skip
