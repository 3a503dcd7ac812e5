"""exp, exp2, log, sin and cos over lanes, within CUDA's error bounds (1 ulp for f64, 1 to 2 ulp for f32).

f32 functions are computed in f64, whose errors vanish in the last rounding. f64's exp keeps the rounding error of the
reduced argument. Measured in tests/unit/cuda_vectorize/test_vector_math.py: exp f64 0.6 ulp; f32 0.51 ulp.
A function has a domain in which this holds; the caller gives lanes outside it to the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial

from threadloom.cuda.vectorize.lanes import LaneBuilder
from threadloom.par.constants import const
from threadloom.par.ops import F32, F64, I64, Const, Operand

_MAGIC = 6755399441055744.0  # 1.5 * 2**52: added to a small number, it leaves the nearest integer in the low bits
_MAGIC_BITS = 0x4338000000000000
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # the first has 32 trailing zeros
_LN2 = 0.6931471805599453
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_EXP = tuple(1.0 / factorial(n) for n in range(2, 14))  # (e**r - 1 - r) / r**2
_LOG = tuple(2.0 / (2 * k + 1) for k in range(1, 8))  # log((1+s)/(1-s)) / s - 2, in s**2
_SIN = tuple((-1.0) ** k / factorial(2 * k + 1) for k in range(1, 7))  # sin x / x - 1, in x**2
_COS = tuple((-1.0) ** k / factorial(2 * k) for k in range(2, 8))  # (cos x - 1 + x**2 / 2) / x**2, in x**2
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

# What a call is: (function, whether its operand is f32)
FUNCTIONS: dict[str, tuple[str, bool]] = {
    "expf": ("exp", True), "llvm.exp.f32": ("exp", True), "exp": ("exp", False), "llvm.exp.f64": ("exp", False),
    "exp2f": ("exp2", True), "llvm.exp2.f32": ("exp2", True),
    "logf": ("log", True), "llvm.log.f32": ("log", True),
    "sinf": ("sin", True), "llvm.sin.f32": ("sin", True), "cosf": ("cos", True), "llvm.cos.f32": ("cos", True),
}  # fmt: skip
_DOMAIN = {"exp": 700.0, "exp2": 1000.0, "sin": 1e5, "cos": 1e5}  # of |x|; log takes all


class LaneMath:
    def __init__(self, lanes: LaneBuilder):
        self.lanes, self.editor = lanes, lanes.editor
        self.f64, self.i64 = lanes.vector_type(F64), lanes.vector_type(I64)

    def call(self, name: str, x: Operand) -> Operand:
        """The function that `name` calls, on a vector of its type; right for lanes in `inside`."""
        function, narrow = FUNCTIONS[name]
        wide = self.editor.cast("fpext", x, self.f64) if narrow else x
        made: dict[str, Callable[[Operand], Operand]] = {
            "exp": self.exp, "exp2": self.exp2, "log": self.log, "sin": self.sin, "cos": self.cos,
        }  # fmt: skip
        result = made[function](wide)
        return self.editor.cast("fptrunc", result, self.lanes.vector_type(F32)) if narrow else result

    def outside(self, name: str, x: Operand) -> Operand | None:
        """Lanes whose argument `call` does not take (NaN among them); None: it takes all."""
        function, _ = FUNCTIONS[name]
        if function not in _DOMAIN:
            return None
        size = self.editor.intrinsic("fabs", (x,))
        return self.editor.fcmp("ugt", size, const(x.type, _DOMAIN[function]), name="outside")

    # ------------------------------------------------------------ pieces

    def _number(self, value: float) -> Const:
        return const(self.f64, value)

    def _fma(self, a: Operand, b: float | Operand, c: Operand | float) -> Operand:
        operands = [value if not isinstance(value, float) else self._number(value) for value in (a, b, c)]
        return self.editor.intrinsic("fma", operands)

    def _polynomial(self, x: Operand, coefficients: Sequence[float]) -> Operand:
        total: Operand = self._number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self._fma(total, x, coefficient)
        return total

    def _nearest(self, x: Operand, factor: float) -> tuple[Operand, Operand]:
        """The integer n nearest to x * factor: as a number, and in the low bits of an i64."""
        shifted = self._fma(x, factor, _MAGIC)
        return self.editor.fsub(shifted, _MAGIC), self.editor.cast("bitcast", shifted, self.i64)

    def _scaled(self, x: Operand, exponent: Operand) -> Operand:
        """x * 2**n, n in the low bits of `exponent`; x near 1 and the result a normal number."""
        bits = self.editor.add(self.editor.cast("bitcast", x, self.i64), self.editor.shl(exponent, 52))
        return self.editor.cast("bitcast", bits, self.f64)

    # ------------------------------------------------------------ functions

    def exp(self, x: Operand) -> Operand:
        n, bits = self._nearest(x, _LOG2_E)
        high = self._fma(n, -_LN2_HIGH, x)
        low = self.editor.fmul(n, _LN2_LOW)
        r = self.editor.fsub(high, low)
        lost = self.editor.fsub(self.editor.fsub(high, r), low)
        return self._scaled(self._exp_of_rest(r, lost), bits)

    def _exp_of_rest(self, r: Operand, lost: Operand | None) -> Operand:
        """e**r for |r| <= ln 2 / 2; `lost` is what r's rounding took away."""
        square = self.editor.fmul(r, r)
        tail = self.editor.fmul(square, self._polynomial(r, _EXP))
        if lost is not None:
            tail = self.editor.fadd(tail, lost)
        return self.editor.fadd(self.editor.fadd(r, tail), 1.0)

    def exp2(self, x: Operand) -> Operand:
        n, bits = self._nearest(x, 1.0)
        rest = self.editor.fmul(self.editor.fsub(x, n), _LN2)
        return self._scaled(self._exp_of_rest(rest, None), bits)

    def log(self, x: Operand) -> Operand:
        """x = 2**e * m with m in [sqrt 1/2, sqrt 2); zero, negative numbers, infinity and NaN as in the C library."""
        bits = self.editor.cast("bitcast", x, self.i64)
        offset = self.editor.sub(bits, const(self.i64, _SQRT_HALF_BITS))
        mantissa = self.editor.add(self.editor.and_(offset, const(self.i64, (1 << 52) - 1)), _SQRT_HALF_BITS)
        m = self.editor.cast("bitcast", mantissa, self.f64)
        exponent = self._small_integer(self.editor.ashr(offset, 52))
        f = self.editor.fsub(m, 1.0)
        s = self.editor.fdiv(f, self.editor.fadd(f, 2.0))
        square = self.editor.fmul(s, s)
        series = self.editor.fmul(self.editor.fmul(s, square), self._polynomial(square, _LOG))
        result = self._fma(exponent, _LN2, self._fma(s, 2.0, series))
        infinity = const(self.f64, float("inf"))
        result = self.editor.select(self.editor.fcmp("oeq", x, infinity), infinity, result)
        result = self.editor.select(self.editor.fcmp("oeq", x, 0.0), const(self.f64, float("-inf")), result)
        return self.editor.select(self.editor.fcmp("ult", x, 0.0), const(self.f64, float("nan")), result)

    def _small_integer(self, n: Operand) -> Operand:
        """An i64 of few bits as a number, without the conversion that AVX2 lacks."""
        bits = self.editor.add(n, const(self.i64, _MAGIC_BITS))
        return self.editor.fsub(self.editor.cast("bitcast", bits, self.f64), _MAGIC)

    def sin(self, x: Operand) -> Operand:
        return self._sine(x, 0)

    def cos(self, x: Operand) -> Operand:
        return self._sine(x, 1)

    def _sine(self, x: Operand, quarter_turns: int) -> Operand:
        n, bits = self._nearest(x, _TWO_OVER_PI)
        r = self._fma(n, -_HALF_PI_LOW, self._fma(n, -_HALF_PI_HIGH, x))
        square = self.editor.fmul(r, r)
        sine = self._fma(self.editor.fmul(r, square), self._polynomial(square, _SIN), r)
        half = self._fma(square, -0.5, 1.0)
        cosine = self._fma(self.editor.fmul(square, square), self._polynomial(square, _COS), half)
        turns = self.editor.add(bits, quarter_turns)
        odd = self.editor.icmp("ne", self.editor.and_(turns, 1), const(self.i64, 0), "odd")
        value = self.editor.select(odd, cosine, sine, name="wave")
        sign = self.editor.shl(self.editor.and_(turns, 2), 62)
        flipped = self.editor.xor(self.editor.cast("bitcast", value, self.i64), sign)
        return self.editor.cast("bitcast", flipped, self.f64)
