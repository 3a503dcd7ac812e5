"""Vector math over the par builder: exp, log, tanh, erf, sin and cos on scalars and vectors of f32 and f64.

Polynomials are near-minimax fits (weighted least squares on Chebyshev nodes) for f32 and Taylor series for f64; the
largest errors measured against float64 are asserted in tests/unit/cpu/test_cpu_math.py:

    f32  exp, exp2 2.5 ulp; log, log2 2 ulp; tanh 3 ulp; erf, sin, cos 3 ulp (|x| < 1e5)
    f64  exp2, exp, log, log2 3 ulp; tanh, erf, sin, cos are libm's, lane by lane

Results below the smallest normal number of exp and exp2 may be flushed to zero. NaN gives NaN, infinities what NumPy
gives. Each function costs what `Cost` of tile/functions.py says, so nothing here branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import Number, const, float_text, vector_const
from threadloom.par.ops import F32, F64, I32, I64, Attrs, Const, Float, Int, Operand, Type, Vector


@dataclass(frozen=True, slots=True)
class Format:
    """The bits of a float type."""

    type: Float
    bits: Int
    mantissa: int
    bias: int

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer and leaves it in the low bits."""
        return 1.5 * 2.0**self.mantissa


FORMATS = {F32: Format(F32, I32, 23, 127), F64: Format(F64, I64, 52, 1023)}

LOG2_E = 1.4426950408889634
LOG2_E_LOW = LOG2_E - 1.44269502162933349609375  # what f32 leaves of it
LN_2 = 0.6931471805599453
# ln 2 in two parts: the first has so few bits that n * part is exact for every exponent n.
LN_2_HIGH = {F32: 0.693145751953125, F64: 0.6931471803691238}
LN_2_LOW = {F32: 1.428606820309417e-06, F64: 1.9082149292705877e-10}

# e**x is a normal number between these (rounded inwards: at the upper end 2**128 * e**r must stay below 2**128).
EXP_RANGE = {F32: (-87.33654022216797, 88.72283172607422), F64: (-708.3964185322641, 709.782712893384)}

# 2**r - 1 on [-0.5, 0.5], from r: relative error 9.1e-8
EXP2_F32 = (0.6931470036506653, 0.24022242426872253, 0.05550733581185341, 0.009671512991189957, 0.0013264723820611835)
# 2**f - 1 on [0, 1), from f: relative error 8.2e-8
EXP2_FRACTION_F32 = (
    0.6931512951850891, 0.24016444385051727, 0.05579991266131401, 0.009017028845846653, 0.001867130515165627,
)  # fmt: skip
REDUCE_BY_FLOOR, CURRENT_ROUNDING = 0x09, 4  # operands of AVX-512 intrinsics: x - floor(x); rounding as the CPU is set
# 2**r - 1 on [-1/16, 1/16], from r: relative error 2.7e-8; the same of e**r - 1 on [-ln 2 / 16, ln 2 / 16]
EXP2_EIGHTH_F32 = (0.6931472420692444, 0.2402576357126236, 0.0554962232708931)
EXP_EIGHTH_F32 = (1.0, 0.5000647902488708, 0.16664297878742218)
# Bits of 2**(j / 8), less j << 20: adding (8 k + j) << 20 gives those of 2**(k + j / 8).
EIGHTHS = (
    0x3F800000, 0x3F8B95C2 - (1 << 20), 0x3F9837F0 - (2 << 20), 0x3FA5FED7 - (3 << 20),
    0x3FB504F3 - (4 << 20), 0x3FC5672A - (5 << 20), 0x3FD744FD - (6 << 20), 0x3FEAC0C7 - (7 << 20),
)  # fmt: skip
# e**r - 1 on [-ln 2 / 2, ln 2 / 2], from r: the polynomial of 2**r in another unit
EXP_F32 = tuple(coefficient / LN_2 ** (power + 1) for power, coefficient in enumerate(EXP2_F32))
# (log(1 + f) - f + f**2 / 2) / f**3 on [sqrt 1/2 - 1, sqrt 2 - 1]: relative error of the log 3.1e-8
LOG_F32 = (0.3333391, -0.25001338, 0.19963062, -0.16577587, 0.14914787, -0.14267476, 0.087003596)
# (tanh x - x) / x**3 in x**2 on [0, 0.625]: relative error 4.4e-9
TANH_F32 = (-0.3333328, 0.13331442, -0.053739715, 0.02063909, -0.0057049906)
TANH_SMALL = 0.625
# erf x / x in x**2 on [0, 0.9]: relative error 1.2e-8
ERF_SMALL_F32 = (1.1283791, -0.37612525, 0.112821415, -0.02677893, 0.00501199, -0.00060904823)
# log(1 - erf x) on [0.85, 4]: absolute error of erf 1.0e-10
ERF_LARGE_F32 = (
    0.00015629543, -1.1294249, -0.6335318, -0.108073555, 0.02498407, -0.004119042, 0.0004236126, -2.0148003e-05,
)  # fmt: skip
ERF_SMALL, ERF_ONE = 0.875, 4.0
# On [-pi/4, pi/4], in x**2: (sin x - x) / x**3 relative error 3.8e-9; (cos x - 1) / x**2 absolute error 5.4e-11
SIN_F32 = (-0.16666654536746617, 0.00833215605972304, -0.0001951463256810747)
COS_F32 = (-0.49999999722913757, 0.041666623065157386, -0.0013886755338522422, 2.438963541906611e-05)


def _factorial(n: int) -> float:
    product = 1.0
    for factor in range(2, n + 1):
        product *= factor
    return product


EXP_F64 = tuple(1.0 / _factorial(n) for n in range(2, 15))  # Taylor: next term 2e-19 of the result
LOG_F64 = tuple(2.0 / (2 * k + 1) for k in range(12))  # log((1+s)/(1-s)) / s in s**2, |s| < 0.1716


class VectorMath:
    """Builds one function's arithmetic on operands of one type, scalar or vector. `extension`: instructions of x86 that
    exponentials may use: "avx512" on vectors of 16 floats, "avx2" on vectors of 8. `at_most_zero`: the argument is
    known to be that (or NaN)."""

    def __init__(self, builder: Builder, type_: Type, extension: str = "", at_most_zero: bool = False):
        self.b, self.type, self.at_most_zero = builder, type_, at_most_zero
        scalar = type_.element if isinstance(type_, Vector) else type_
        if not isinstance(scalar, Float) or scalar not in FORMATS:
            raise InternalError(f"no vector math on {type_!r}")
        self.format = FORMATS[scalar]
        self.int_type = _with_element(type_, self.format.bits)
        lanes = type_.lanes if isinstance(type_, Vector) and scalar == F32 else 1
        # there are instructions that split off fractions and scale by powers of two; one that looks up words
        self.scales, self.looks_up = (extension, lanes) == ("avx512", 16), (extension, lanes) == ("avx2", 8)

    # ------------------------------------------------------------ pieces

    def number(self, value: Number) -> Const:
        return const(self.type, value)

    def infinity(self, sign: int = 1) -> Const:
        text = float_text(sign * float("inf"), self.format.type.kind)
        name = self.format.type.kind
        return Const(self.type, f"splat ({name} {text})" if isinstance(self.type, Vector) else text)

    def nan(self) -> Const:
        name, text = self.format.type.kind, "0x7FF8000000000000"
        return Const(self.type, f"splat ({name} {text})" if isinstance(self.type, Vector) else text)

    def polynomial(self, x: Operand, coefficients: Sequence[float]) -> Operand:
        """c0 + x (c1 + x (c2 + ...)): independent lanes and unrolled copies hide the latency of the chain."""
        result: Operand = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.b.fma(result, x, self.number(coefficient))
        return result

    def at_least(self, x: Operand, low: float) -> Operand:
        """max(x, low); NaN stays NaN (the operand order of x86's max)."""
        bound = self.number(low)
        return self.b.select(self.b.fcmp("ogt", bound, x), bound, x)

    def at_most(self, x: Operand, high: float) -> Operand:
        bound = self.number(high)
        return self.b.select(self.b.fcmp("olt", bound, x), bound, x)

    def round_to_int(self, x: Operand) -> tuple[Operand, Operand]:
        """(nearest integer as a float, the same in the low bits of an integer)."""
        shifted = self.b.fadd(x, self.number(self.format.magic))
        return self.b.fsub(shifted, self.number(self.format.magic)), self.b.cast("bitcast", shifted, self.int_type)

    def times_power_of_two(self, x: Operand, exponent_bits: Operand) -> Operand:
        """x * 2**n for n in the low bits, by adding to the exponent field."""
        shifted = self.b.shl(exponent_bits, self.format.mantissa)
        return self.b.cast("bitcast", self.b.add(self.b.cast("bitcast", x, self.int_type), shifted), self.type)

    def clamped_exponent(self, x: Operand) -> Operand:
        """x limited to the range of exponent fields: 2**x is then exactly infinity above and zero below, because the
        polynomial gives exactly 1 there and the sum of the fields is theirs."""
        x = self.at_least(x, -self.format.bias)
        return x if self.at_most_zero else self.at_most(x, self.format.bias + 1)

    # ------------------------------------------------------------ exponentials

    def exp2(self, x: Operand) -> Operand:
        if self.scales:
            return self._exp2_by_scale(x)
        if self.looks_up:
            return self._exp2_by_table(x)
        x = self.clamped_exponent(x)
        whole, bits = self.round_to_int(x)
        part = self.b.fsub(x, whole)
        if self.format.type == F32:
            power = self.polynomial(part, (1.0, *EXP2_F32))
        else:
            power = self._exp_polynomial(self.b.fmul(part, self.number(LN_2)))
        return self.times_power_of_two(power, bits)

    def _exp2_by_scale(self, x: Operand) -> Operand:
        """AVX-512 splits off the fraction (0 for infinities) and scales by 2**floor(x) in one instruction each."""
        reduce = "llvm.x86.avx512.mask.reduce.ps.512"
        fraction = self._x86(reduce, (x, const(I32, REDUCE_BY_FLOOR), *self._all_lanes()))
        power = self.polynomial(fraction, (1.0, *EXP2_FRACTION_F32))
        return self._x86("llvm.x86.avx512.mask.scalef.ps.512", (power, x, *self._all_lanes()))

    def _exp_by_scale(self, x: Operand) -> Operand:
        """2**t with t = x log2 e: the rounding error of t goes to its fraction; finite bounds keep the error finite."""
        limit = (self.format.bias + 30) * LN_2
        x = self.at_most(self.at_least(x, -limit), limit)
        t = self.b.fmul(x, self.number(LOG2_E))
        error = self.b.fma(x, LOG2_E, self.b.fneg(t))
        error = self.b.fma(x, LOG2_E_LOW, error)
        reduce = "llvm.x86.avx512.mask.reduce.ps.512"
        fraction = self._x86(reduce, (t, const(I32, REDUCE_BY_FLOOR), *self._all_lanes()))
        power = self.polynomial(self.b.fadd(fraction, error), (1.0, *EXP2_FRACTION_F32))
        return self._x86("llvm.x86.avx512.mask.scalef.ps.512", (power, t, *self._all_lanes()))

    def _exp2_by_table(self, x: Operand) -> Operand:
        """2**(n / 8) * 2**r with n = round(8 x), r = x - n / 8: so small an r needs a polynomial of degree 3 only."""
        x = self.at_least(x, self._least_exponent())
        x = x if self.at_most_zero else self.at_most(x, self.format.bias + 1)
        magic = self.number(self.format.magic / 8)
        shifted = self.b.fadd(x, magic)
        part = self.b.fsub(x, self.b.fsub(shifted, magic))
        return self._times_eighths(part, EXP2_EIGHTH_F32, shifted)

    def _exp_by_table(self, x: Operand) -> Operand:
        """e**x likewise, n = round(8 x / ln 2); at the bounds of x the result is 0 and infinity."""
        x = self.at_least(x, self._least_exponent() * LN_2)
        x = x if self.at_most_zero else self.at_most(x, EXP_RANGE[F32][1] + 0.01)
        magic = self.number(self.format.magic)
        shifted = self.b.fma(x, 8 * LOG2_E, magic)
        whole = self.b.fsub(shifted, magic)
        part = self.b.fma(whole, -LN_2_HIGH[F32] / 8, x)
        part = self.b.fma(whole, -LN_2_LOW[F32] / 8, part)
        return self._times_eighths(part, EXP_EIGHTH_F32, shifted)

    def _least_exponent(self) -> float:
        """Where the factor of `_times_eighths` is 0."""
        return -self.format.bias if self.at_most_zero else 1 - self.format.bias

    def _times_eighths(self, part: Operand, coefficients: Sequence[float], shifted: Operand) -> Operand:
        """The polynomial times 2**(n / 8), n in the low bits of `shifted`. What may be beyond 2**127 is made of factors
        2**(n / 8 - 1) and 2, so that none is out of range; then results below 2**-125, else those below 2**-126, err by
        up to the smallest normal number."""
        halves = 0 if self.at_most_zero else 1
        table = [bits - (halves << self.format.mantissa) for bits in EIGHTHS]
        bits = self.b.cast("bitcast", shifted, self.int_type)
        found = self._x86("llvm.x86.avx2.permd", (vector_const(I32, table), bits), self.int_type)
        factor = self.b.add(found, self.b.shl(bits, self.format.mantissa - 3))
        power = self.polynomial(part, [c * 2.0**halves for c in (1.0, *coefficients)])
        return self.b.fmul(power, self.b.cast("bitcast", factor, self.type))

    def _all_lanes(self) -> tuple[Operand, ...]:
        """The pass-through value, the mask and the rounding mode of an AVX-512 intrinsic that does every lane."""
        lanes = self.type.lanes if isinstance(self.type, Vector) else 1
        return Const(self.type, "poison"), const(Int(lanes), -1), const(I32, CURRENT_ROUNDING)

    def _x86(self, name: str, operands: tuple[Operand, ...], type_: Type | None = None) -> Operand:
        made = self.b.leaf("call", operands, type_ or self.type, Attrs(callee=name), "part")
        if made is None:
            raise InternalError(f"{name} has no result")
        return made

    def exp(self, x: Operand) -> Operand:
        """e**x as 2**n * e**r with n = round(x / ln 2), r = x - n ln 2 in two parts; what that gives out of range is
        replaced afterwards."""
        if self.scales:
            return self._exp_by_scale(x)
        if self.looks_up:
            return self._exp_by_table(x)
        b, form = self.b, self.format
        shifted = b.fma(x, LOG2_E, self.number(form.magic))
        whole = b.fsub(shifted, self.number(form.magic))
        part = b.fma(whole, -LN_2_HIGH[form.type], x)
        part = b.fma(whole, -LN_2_LOW[form.type], part)
        result = self.times_power_of_two(self._exp_polynomial(part), b.cast("bitcast", shifted, self.int_type))
        low, high = EXP_RANGE[form.type]
        if not self.at_most_zero:
            result = b.select(b.fcmp("ogt", x, self.number(high)), self.infinity(), result)
        return b.select(b.fcmp("olt", x, self.number(low)), self.number(0.0), result)

    def _exp_polynomial(self, part: Operand) -> Operand:
        """e**part, |part| <= ln 2 / 2."""
        if self.format.type == F32:
            return self.polynomial(part, (1.0, *EXP_F32))
        tail = self.polynomial(part, EXP_F64)
        square = self.b.fmul(part, part)
        return self.b.fadd(self.b.fma(tail, square, part), self.number(1.0))

    # ------------------------------------------------------------ logarithms

    def log(self, x: Operand) -> Operand:
        return self._log(x, LN_2_HIGH[self.format.type], LN_2_LOW[self.format.type], 1.0)

    def log2(self, x: Operand) -> Operand:
        return self._log(x, 1.0, 0.0, LOG2_E)

    def _log(self, x: Operand, unit_high: float, unit_low: float, factor: float) -> Operand:
        """log of x = 2**e (1 + f) as e * unit + factor * log(1 + f), 1 + f in [sqrt 1/2, sqrt 2)."""
        b, form = self.b, self.format
        small = b.fcmp("olt", x, self.number(2.0 ** (1 - form.bias)))
        lifted = b.select(small, b.fmul(x, self.number(2.0**form.mantissa)), x)
        bits = b.cast("bitcast", lifted, self.int_type)
        half_root = _bits_of_sqrt_half(form)
        offset = b.sub(bits, const(self.int_type, half_root))
        exponent = b.ashr(offset, form.mantissa)
        one_plus_f = b.sub(bits, b.shl(exponent, form.mantissa))
        f = b.fsub(b.cast("bitcast", one_plus_f, self.type), self.number(1.0))
        lift = b.select(small, const(self.int_type, form.mantissa), const(self.int_type, 0))
        e = b.cast("sitofp", b.sub(exponent, lift), self.type)
        log1p = self._log1p(f)
        if factor != 1.0:
            log1p = b.fmul(log1p, self.number(factor))
        result = b.fma(e, unit_high, b.fma(e, unit_low, log1p) if unit_low else log1p)
        return self._log_special(x, result)

    def _log1p(self, f: Operand) -> Operand:
        b = self.b
        if self.format.type == F32:
            square = b.fmul(f, f)
            cubic = b.fmul(b.fmul(square, f), self.polynomial(f, LOG_F32))
            return b.fadd(f, b.fma(square, -0.5, cubic))
        s = b.fdiv(f, b.fadd(f, self.number(2.0)))
        return b.fmul(s, self.polynomial(b.fmul(s, s), LOG_F64))

    def _log_special(self, x: Operand, result: Operand) -> Operand:
        b = self.b
        result = b.select(b.fcmp("oeq", x, self.infinity()), self.infinity(), result)
        result = b.select(b.fcmp("oeq", x, self.number(0.0)), self.infinity(-1), result)
        return b.select(b.fcmp("ult", x, self.number(0.0)), self.nan(), result)

    # ------------------------------------------------------------ others

    def tanh(self, x: Operand) -> Operand:
        """Odd polynomial near 0, else 1 - 2 / (e**2|x| + 1)."""
        if self.format.type == F64:
            return self.by_lane("tanh", x)
        b = self.b
        magnitude = b.intrinsic("fabs", (x,))
        square = b.fmul(x, x)
        near = b.fma(b.fmul(self.polynomial(square, TANH_F32), square), x, x)
        grown = b.fadd(self.exp(b.fadd(magnitude, magnitude)), self.number(1.0))
        far = b.fsub(self.number(1.0), b.fdiv(self.number(2.0), grown))
        far = b.intrinsic("copysign", (far, x))
        return b.select(b.fcmp("olt", magnitude, self.number(TANH_SMALL)), near, far)

    def erf(self, x: Operand) -> Operand:
        """Odd polynomial near 0, else 1 - e**q(|x|); 1 from 4 on."""
        if self.format.type == F64:
            return self.by_lane("erf", x)
        b = self.b
        magnitude = b.intrinsic("fabs", (x,))
        near = b.fmul(x, self.polynomial(b.fmul(x, x), ERF_SMALL_F32))
        exponent = self.polynomial(self.at_most(magnitude, ERF_ONE), ERF_LARGE_F32)
        far = b.fsub(self.number(1.0), self.exp(exponent))
        far = b.intrinsic("copysign", (far, x))
        return b.select(b.fcmp("olt", magnitude, self.number(ERF_SMALL)), near, far)

    def sin(self, x: Operand) -> Operand:
        return self.by_lane("sin", x) if self.format.type == F64 else self._sine(x, 0)

    def cos(self, x: Operand) -> Operand:
        return self.by_lane("cos", x) if self.format.type == F64 else self._sine(x, 1)

    def _sine(self, x: Operand, quarter_turns: int) -> Operand:
        """f32 through f64: x - n pi/2 keeps 24 bits for |x| < 2**30; quadrants choose polynomial and sign."""
        b = self.b
        wide = VectorMath(b, _with_element(self.type, F64))
        exact = b.cast("fpext", x, wide.type)
        whole, bits = wide.round_to_int(b.fmul(exact, wide.number(0.6366197723675814)))
        r = b.fma(whole, -1.5707963267948966, exact)
        r = b.fma(whole, -6.123233995736766e-17, r)
        narrow = b.cast("fptrunc", r, self.type)
        square = b.fmul(narrow, narrow)
        sine = b.fma(b.fmul(self.polynomial(square, SIN_F32), square), narrow, narrow)
        cosine = self.polynomial(square, (1.0, *COS_F32))
        quadrant = b.cast("trunc", bits, self.int_type)
        if quarter_turns:
            quadrant = b.add(quadrant, const(self.int_type, quarter_turns))
        odd = b.icmp("ne", b.and_(quadrant, const(self.int_type, 1)), const(self.int_type, 0))
        sign = b.shl(b.and_(quadrant, const(self.int_type, 2)), 30)
        chosen = b.cast("bitcast", b.select(odd, cosine, sine), self.int_type)
        return b.cast("bitcast", b.xor(chosen, sign), self.type)

    def by_lane(self, function: str, x: Operand) -> Operand:
        """libm's function on every lane."""
        name = function + ("f" if self.format.type == F32 else "")
        if not isinstance(self.type, Vector):
            return _called(self.b, name, x)
        result: Operand = Const(self.type, "poison")
        for lane in range(self.type.lanes):
            result = self.b.insert(result, _called(self.b, name, self.b.extract(x, lane)), lane)
        return result


def _called(b: Builder, name: str, x: Operand) -> Operand:
    value = b.call(name, (x,), x.type)
    if value is None:
        raise InternalError(f"{name} has no result")
    return value


def _with_element(type_: Type, element: Int | Float) -> Type:
    return Vector(type_.lanes, element) if isinstance(type_, Vector) else element


def _bits_of_sqrt_half(form: Format) -> int:
    return 0x3F3504F3 if form.type == F32 else 0x3FE6A09E667F3BCD


FUNCTIONS: dict[str, Callable[[VectorMath, Operand], Operand]] = {
    "exp": VectorMath.exp,
    "exp2": VectorMath.exp2,
    "log": VectorMath.log,
    "log2": VectorMath.log2,
    "tanh": VectorMath.tanh,
    "erf": VectorMath.erf,
    "sin": VectorMath.sin,
    "cos": VectorMath.cos,
}


def math_function(b: Builder, name: str, x: Operand, extension: str = "", at_most_zero: bool = False) -> Operand:
    """`name` (a key of FUNCTIONS) of a scalar or vector of f32 or f64. `at_most_zero`: x is known to be that, or NaN;
    only exp and exp2 make use of it."""
    return FUNCTIONS[name](VectorMath(b, x.type, extension, at_most_zero and name in ("exp", "exp2")), x)
