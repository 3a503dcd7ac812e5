"""The one table of leaf opcodes: name, arity, how it is written, its result type, its effects, its attributes.

Everybody who must know what an opcode is reads it here: text form, builder, verifier, interpreter, emission and
every pass. Calls of `llvm.*` intrinsics are one opcode; what each intrinsic does to memory is in `intrinsics.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What a leaf may do to memory, from harmless to anything."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"  # reads and writes indivisibly, or orders other accesses
    CALL = "call"  # whatever the callee does


class Form(StrEnum):
    """How the leaf is spelt after its opcode; one printer and one parser function per form."""

    UNARY = "T a"
    BINARY = "T a, b"
    COMPARE = "predicate T a, b"
    CAST = "T a to R"
    LOAD = "R, ptr p"
    STORE = "T a, ptr p"
    GEP = "S, ptr p, T i ..."
    TYPED = "T a, U b ..."
    SHUFFLE = "T a, T b, mask"
    INDEXED = "T a, ... , 0, 1"
    CALL = "R @f(T a, ...)"
    ATOMICRMW = "predicate ptr p, T a ordering"
    CMPXCHG = "ptr p, T expected, T new ordering"
    FENCE = "ordering"
    BARE = ""


class ResultRule(StrEnum):
    """How the result's type follows from the operands'."""

    SAME = "the type of operand 0"
    SECOND = "the type of operand 1"
    BOOL = "i1, or a vector of i1 as wide as operand 0"
    FREE = "written in the leaf"
    POINTER = "ptr, or a vector of ptr if an operand is a vector"
    ELEMENT = "the element type of operand 0"
    SHUFFLE = "operand 0's element, as many lanes as the mask has"
    FIELD = "the field of operand 0 that the indices name"
    CMPXCHG = "{ type of operand 1, i1 }"
    NONE = "no result"


INTEGER_FLAGS = ("nuw", "nsw")
CASTS = (
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint", "inttoptr",
    "bitcast",
)  # fmt: skip
FAST_MATH_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "fast")
CALL_FLAGS = ("tail", "musttail", "notail", *FAST_MATH_FLAGS)
MEMORY_ATTRS = ("align_bytes", "ordering", "volatile")


@dataclass(frozen=True, slots=True)
class Opcode:
    name: str
    form: Form
    operands: int  # -1: any number
    rule: ResultRule
    effect: Effect = Effect.NONE
    flags: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()  # fields of Attrs, beside flags and metadata, that it reads
    speculatable: bool = True  # may run where the program would not have run it


def _integer_binaries() -> Iterator[Opcode]:
    for name in ("add", "sub", "mul", "shl"):
        yield Opcode(name, Form.BINARY, 2, ResultRule.SAME, flags=INTEGER_FLAGS)
    for name in ("lshr", "ashr"):
        yield Opcode(name, Form.BINARY, 2, ResultRule.SAME, flags=("exact",))
    for name in ("udiv", "sdiv"):  # divide by zero traps
        yield Opcode(name, Form.BINARY, 2, ResultRule.SAME, flags=("exact",), speculatable=False)
    for name in ("urem", "srem"):
        yield Opcode(name, Form.BINARY, 2, ResultRule.SAME, speculatable=False)
    for name in ("and", "xor"):
        yield Opcode(name, Form.BINARY, 2, ResultRule.SAME)
    yield Opcode("or", Form.BINARY, 2, ResultRule.SAME, flags=("disjoint",))


def _float_operations() -> Iterator[Opcode]:
    for name in ("fadd", "fsub", "fmul", "fdiv", "frem"):
        yield Opcode(name, Form.BINARY, 2, ResultRule.SAME, flags=FAST_MATH_FLAGS)
    yield Opcode("fneg", Form.UNARY, 1, ResultRule.SAME, flags=FAST_MATH_FLAGS)


def _casts() -> Iterator[Opcode]:
    flags = {"trunc": INTEGER_FLAGS, "zext": ("nneg",), "uitofp": ("nneg",), "fptrunc": FAST_MATH_FLAGS,
             "fpext": FAST_MATH_FLAGS}  # fmt: skip
    for name in CASTS:
        yield Opcode(name, Form.CAST, 1, ResultRule.FREE, flags=flags.get(name, ()))


def _memory() -> Iterator[Opcode]:
    yield Opcode("load", Form.LOAD, 1, ResultRule.FREE, Effect.READ, ("nontemporal",), MEMORY_ATTRS, False)
    yield Opcode("store", Form.STORE, 2, ResultRule.NONE, Effect.WRITE, ("nontemporal",), MEMORY_ATTRS, False)
    yield Opcode("getelementptr", Form.GEP, -1, ResultRule.POINTER, flags=("inbounds", "nusw", "nuw"),
                 attrs=("source_type",))  # fmt: skip
    atomic_attrs = ("predicate", *MEMORY_ATTRS)
    yield Opcode("atomicrmw", Form.ATOMICRMW, 2, ResultRule.SECOND, Effect.ATOMIC, (), atomic_attrs, False)
    yield Opcode("cmpxchg", Form.CMPXCHG, 3, ResultRule.CMPXCHG, Effect.ATOMIC, ("weak",), MEMORY_ATTRS, False)
    yield Opcode("fence", Form.FENCE, 0, ResultRule.NONE, Effect.ATOMIC, (), ("ordering",), False)


def _others() -> Iterator[Opcode]:
    yield Opcode("icmp", Form.COMPARE, 2, ResultRule.BOOL, flags=("samesign",), attrs=("predicate",))
    yield Opcode("fcmp", Form.COMPARE, 2, ResultRule.BOOL, flags=FAST_MATH_FLAGS, attrs=("predicate",))
    yield Opcode("select", Form.TYPED, 3, ResultRule.SECOND, flags=FAST_MATH_FLAGS)
    yield Opcode("freeze", Form.UNARY, 1, ResultRule.SAME)
    yield Opcode("extractelement", Form.TYPED, 2, ResultRule.ELEMENT)
    yield Opcode("insertelement", Form.TYPED, 3, ResultRule.SAME)
    yield Opcode("shufflevector", Form.SHUFFLE, 2, ResultRule.SHUFFLE, attrs=("indices",))
    yield Opcode("extractvalue", Form.INDEXED, 1, ResultRule.FIELD, attrs=("indices",))
    yield Opcode("insertvalue", Form.INDEXED, 2, ResultRule.SAME, attrs=("indices",))
    yield Opcode("call", Form.CALL, -1, ResultRule.FREE, Effect.CALL, CALL_FLAGS, ("callee", "arg_attrs"), False)
    yield Opcode("unreachable", Form.BARE, 0, ResultRule.NONE, Effect.CALL, speculatable=False)


OPCODES: dict[str, Opcode] = {
    opcode.name: opcode
    for group in (_integer_binaries, _float_operations, _casts, _memory, _others)
    for opcode in group()
}

INTEGER_PREDICATES = ("eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle")
FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
ATOMIC_OPERATIONS = (
    "xchg", "add", "sub", "and", "nand", "or", "xor", "max", "min", "umax", "umin", "fadd", "fsub", "fmax", "fmin",
    "uinc_wrap", "udec_wrap",
)  # fmt: skip
ORDERINGS = ("unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst")
