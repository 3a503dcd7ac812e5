"""What the `llvm.*` functions are called and what they do to memory."""

from __future__ import annotations

from functools import cache

from threadloom.errors import InternalError
from threadloom.par.constants import int_value
from threadloom.par.opcodes import OPCODES, Effect
from threadloom.par.ops import Float, Int, Leaf, Ptr, Type, Vector

_FLOAT_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "x86_fp80": "f80", "fp128": "f128"}


def mangled(base: str, overloads: tuple[Type, ...]) -> str:
    """`llvm.fma` over <8 x float> is `llvm.fma.v8f32`."""
    return ".".join((base, *(_suffix(type_) for type_ in overloads)))


def _suffix(type_: Type) -> str:
    match type_:
        case Int(bits):
            return f"i{bits}"
        case Float(kind):
            return _FLOAT_SUFFIX[kind]
        case Ptr():
            return "p0"
        case Vector(lanes, element):
            return f"v{lanes}{_suffix(element)}"
    raise InternalError(f"no intrinsic is overloaded on {type_!r}")


# Longest prefix wins; intrinsics that are not listed are Effect.CALL.
_EFFECTS: dict[str, Effect] = {
    "llvm.masked.load": Effect.READ,
    "llvm.masked.gather": Effect.READ,
    "llvm.masked.expandload": Effect.READ,
    "llvm.masked.store": Effect.WRITE,
    "llvm.masked.scatter": Effect.WRITE,
    "llvm.masked.compressstore": Effect.WRITE,
    "llvm.memset": Effect.WRITE,
    "llvm.vector.reduce": Effect.NONE,
    "llvm.expect": Effect.NONE,
    "llvm.is.constant": Effect.NONE,
}
_PURE_MATH = (
    "fma", "fmuladd", "sqrt", "fabs", "exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow",
    "powi",
    "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "copysign", "minnum", "maxnum", "minimum",
    "maximum", "minimumnum", "maximumnum", "ldexp", "is.fpclass", "canonicalize",
    "smin", "smax", "umin", "umax", "abs", "ctpop", "ctlz", "cttz", "bswap", "bitreverse", "fshl", "fshr",
    "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat", "sshl.sat", "ushl.sat", "fptosi.sat", "fptoui.sat",
    "sadd.with.overflow", "uadd.with.overflow", "ssub.with.overflow", "usub.with.overflow", "smul.with.overflow",
    "umul.with.overflow", "lrint", "llrint", "lround", "llround", "sinh", "cosh", "tanh", "asin", "acos", "atan",
    "atan2", "frexp", "modf", "sincos", "ucmp", "scmp",
)  # fmt: skip
_EFFECTS |= {f"llvm.{name}.": Effect.NONE for name in _PURE_MATH}
# These tell the optimiser something and do nothing.
IGNORED = ("llvm.assume", "llvm.lifetime.", "llvm.dbg.", "llvm.donothing", "llvm.experimental.noalias.scope.decl",
           "llvm.prefetch", "llvm.invariant.", "llvm.var.annotation", "llvm.pseudoprobe")  # fmt: skip


def effect_of(leaf: Leaf) -> Effect:
    """What `leaf` may do to memory; a call of an unknown function is Effect.CALL."""
    if leaf.opcode != "call":
        return OPCODES[leaf.opcode].effect
    return _effect_of_call(leaf.attrs.callee)


@cache
def _effect_of_call(callee: str) -> Effect:
    if not callee.startswith("llvm."):
        return Effect.CALL
    found = [prefix for prefix in _EFFECTS if callee.startswith(prefix)]
    return _EFFECTS[max(found, key=len)] if found else Effect.CALL


def is_ignored(callee: str) -> bool:
    """Whether calls of `callee` have no meaning for the interpreter."""
    return callee.startswith(IGNORED)


def is_speculatable(leaf: Leaf) -> bool:
    """Whether `leaf` may run where the program would not have run it: no trap, no memory access."""
    if leaf.opcode == "call":
        return effect_of(leaf) is Effect.NONE
    if leaf.opcode in ("udiv", "sdiv", "urem", "srem"):
        return int_value(leaf.operands[1]) not in (None, 0, -1)
    return OPCODES[leaf.opcode].speculatable
