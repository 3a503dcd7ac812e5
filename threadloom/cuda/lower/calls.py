"""What a call does to memory: from intrinsics.py, from the C library's names, or from its declaration's attributes."""

from __future__ import annotations

from threadloom.cuda.kernel import COLLECTIVES, DEBUG_CALLS, THREAD_LOCAL_CALLS
from threadloom.cuda.lower.runtime_calls import DIVERGENT_BARRIER, is_check_call
from threadloom.par.intrinsics import effect_of, is_ignored
from threadloom.par.opcodes import Effect
from threadloom.par.ops import Function, Leaf

# Math functions of the C library; errno is never read on the device.
_MATH = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf",
    "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "ilogb",
    "ldexp", "lgamma", "log", "log10", "log1p", "log2", "logb", "nearbyint", "nextafter", "pow", "rint", "round",
    "scalbn", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "j0", "j1", "jn", "y0", "y1", "yn", "abs",
    "labs", "llabs", *(f"__loom_{name}" for name in ("j0", "j1", "jn", "y0", "y1", "yn")),
)  # fmt: skip
MATH = frozenset(_MATH) | frozenset(f"{name}f" for name in _MATH)

# These do something, but nothing that a load or store of the kernel could see (printf reads what its arguments name).
# Collectives order memory; whoever moves accesses asks for them by name (separators.collective_scope).
_NO_USER_MEMORY = frozenset({DIVERGENT_BARRIER, *THREAD_LOCAL_CALLS, *COLLECTIVES, "malloc", *DEBUG_CALLS})
READERS = frozenset({"printf", "vprintf", "puts", "putchar", "fflush"})


def touches_no_user_memory(callee: str) -> bool:
    return callee in _NO_USER_MEMORY or is_check_call(callee)


def is_marker(op: Leaf) -> bool:
    """A call that tells the optimiser something and does nothing: a pass may drop it."""
    return op.opcode == "call" and op.result is None and is_ignored(op.attrs.callee)


def call_effect(op: Leaf, callee: Function | None = None) -> Effect:
    name = op.attrs.callee
    if is_ignored(name) or (name in MATH and op.result is not None):
        return Effect.NONE
    if name.startswith("llvm."):
        return effect_of(op)
    if name in READERS:
        return Effect.READ
    attrs = () if callee is None or callee.body is not None else callee.attrs
    if any(attr in ("readnone", "memory(none)") for attr in attrs):
        return Effect.NONE
    if any(attr == "readonly" or attr.startswith("memory(read") for attr in attrs):
        return Effect.READ
    return Effect.CALL
