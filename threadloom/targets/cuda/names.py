"""Identifiers of generated CUDA C++: which names are taken, and what a kernel or parameter of such a name is called."""

from __future__ import annotations

from functools import lru_cache

from threadloom.targets.cuda.nvrtc import functions_of

_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq".split()
)

# Functions that CUDA C++ declares without being asked; most of them again with an f at the end.
_LIBRARY = frozenset(
    "acos acosh asin asinh atan atan2 atanh brev cbrt ceil clock clock64 clz copysign cos cosh cospi "
    "cyl_bessel_i0 erf erfc erfcinv erfcx erfinv exit exp exp10 exp2 expm1 fabs fdim fdividef ffs floor fma fmax "
    "fmin fmod free frexp hypot ilogb isfinite isinf isnan j0 j1 jn labs ldexp lgamma llabs llmax llmin llrint "
    "llround log log10 log1p log2 logb lrint lround malloc max memcpy memset min modf nan nearbyint nextafter "
    "norm norm3d norm4d normcdf normcdfinv popc pow printf rcbrt remainder remquo rhypot rint rnorm rnorm3d "
    "rnorm4d round rsqrt saturate scalbln scalbn signbit sin sincos sincospi sinh sinpi sqrt tan tanh tanpi "
    "tgamma trap trunc ullmax ullmin umax umin y0 y1 yn abs abort assert main tex1D tex2D tex3D".split()
)

# Variables, macros and types of CUDA C++ and of our headers.
_BUILT_IN = frozenset(
    "threadIdx blockIdx blockDim gridDim warpSize NULL TensorMap Ring Clocks Bits AtomicChange".split()
)

# Variables and types that the generators write by these names, wherever they need them.
_WRITTEN = frozenset(
    "lane warp group warp_in_group tile tiles raw smem i r t e f k p q u8 u16 u32 u64 i8 i32 i64 min max abs exp "
    "log sin cos piece row column at_row at_column from_rows from_columns depth kk nothing valid before total "
    "other sum all digit step count rest worker round elected smem_scratch smem_converted smem_factors factor_bytes "
    "converted_bytes block_in_cluster element values value position first words clocks".split()
)

RESERVED = _KEYWORDS | _WRITTEN | _BUILT_IN | _LIBRARY | {name + "f" for name in _LIBRARY}

_AWAY_FROM_PARAMETERS = frozenset("f k q t".split())  # counters of loops in which no parameter occurs


@lru_cache(maxsize=4096)
def identifier(name: str) -> str:
    """What a kernel, or a tensor or scalar it takes, is called in generated code: its own name where that is free."""
    if name in _AWAY_FROM_PARAMETERS:
        return name
    base = name.rstrip("_") or name  # `i` and `i_` become `i_` and `i__`
    taken = base in RESERVED or any(base in functions_of(header) for header in ("sm90.cuh", "sm80.cuh"))
    return name + "_" if taken else name
