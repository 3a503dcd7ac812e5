"""Level `par`: structured parallel code, shared by both front doors.

The whole IR stands on this page. Control flow is structured (Parallel, For, While, If); leaves are LLVM
operations as typed records (`Leaf`, whose opcodes are listed in `opcodes.py`), so that nothing clang says is
lost and emission is a printer. Values are SSA and local to a function; names are unique within a function.
All nodes are immutable: a pass builds new nodes.

Memory: pointers are untyped (`ptr`); `Alloca.space` says who shares the memory. A `Barrier` has *memory*
semantics: it waits for every work-item of its scope that has not exited, and orders their accesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from threadloom.source import Loc

# ---------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class Int:
    bits: int


@dataclass(frozen=True, slots=True)
class Float:
    kind: str  # half bfloat float double x86_fp80 fp128


@dataclass(frozen=True, slots=True)
class Ptr:
    pass


@dataclass(frozen=True, slots=True)
class Void:
    pass


@dataclass(frozen=True, slots=True)
class Vector:
    lanes: int
    element: Int | Float | Ptr


@dataclass(frozen=True, slots=True)
class Array:
    length: int
    element: Type


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Type, ...]
    packed: bool = False


Type = Int | Float | Ptr | Void | Vector | Array | Struct

I1, I8, I16, I32, I64 = Int(1), Int(8), Int(16), Int(32), Int(64)
F16, BF16, F32, F64 = Float("half"), Float("bfloat"), Float("float"), Float("double")
PTR, VOID = Ptr(), Void()

# ---------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value; `name` is unique in its function and keeps the user's name where there is one."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Const:
    """A constant in LLVM's own spelling: `Const(I32, "5")`, `Const(PTR, "@table")`, `Const(t, "poison")`."""

    type: Type
    text: str


Operand = Value | Const

# ---------------------------------------------------------------- leaves


@dataclass(frozen=True, slots=True)
class Attrs:
    """What an opcode needs beside its operands; unused fields keep their defaults."""

    flags: tuple[str, ...] = ()  # nsw nuw exact disjoint inbounds, fast-math flags, nontemporal, tail ...
    predicate: str = ""  # icmp and fcmp: eq ult olt ...; atomicrmw: add umax xchg ...
    source_type: Type | None = None  # getelementptr's element type
    align_bytes: int = 0  # load store alloca; 0: the type's natural alignment
    ordering: str = ""  # atomics: monotonic acquire release acq_rel seq_cst
    volatile: bool = False
    callee: str = ""  # call: "llvm.fma.v8f32" (without @); an indirect call has the pointer as operand 0
    indices: tuple[int, ...] = ()  # extractvalue insertvalue shufflevector (-1: poison lane)
    metadata: tuple[tuple[str, str], ...] = ()  # ("alias.scope", "!3") ...; the nodes are in Module.metadata
    arg_attrs: tuple[str, ...] = ()  # call: LLVM attributes of each argument ("noundef signext", ""); () for none


NO_ATTRS = Attrs()


@dataclass(frozen=True, slots=True)
class Leaf:
    """One LLVM instruction. `result` is None for stores, fences and void calls."""

    opcode: str
    operands: tuple[Operand, ...]
    result: Value | None = None
    attrs: Attrs = NO_ATTRS
    loc: Loc | None = None


# ---------------------------------------------------------------- structured operations


class Level(StrEnum):
    """What the iterations of a `Parallel` are."""

    BLOCKS = "blocks"  # thread blocks, or tiles of a grid: independent, spread over cores
    THREADS = "threads"  # work-items of one block: may meet at Barrier("threads")
    WARPS = "warps"  # warps of one block, each a loop over lanes inside
    LANES = "lanes"  # lanes of one warp: may meet at Barrier("lanes")


class Space(StrEnum):
    """Who shares an allocation."""

    PRIVATE = "private"  # one work-item (or plain serial code)
    SHARED = "shared"  # all work-items of the enclosing blocks-iteration
    WORKER = "worker"  # one CPU worker: storage is reused by its next blocks-iteration, contents undefined


@dataclass(frozen=True, slots=True)
class Block:
    """A straight list of operations; a region's last one is Yield, Condition or Return as its owner says."""

    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """`ivs[d]` runs over [lowers[d], uppers[d]) with step 1, all iterations in parallel. Body ends without Yield.

    Blocks start in index order (last iv fastest). `schedule` of BLOCKS: "static" (contiguous, even) or "dynamic" (the
    next free worker takes the next iteration). "turns", of any level: iterations are taken one at a time, and where one
    waits for another, the worker goes on with those behind it (cuda/runtime/turns.cpp). `grain`: where there are very
    many iterations, static shares begin at multiples of it (a power of two).
    """

    level: Level
    ivs: tuple[Value, ...]
    lowers: tuple[Operand, ...]
    uppers: tuple[Operand, ...]
    body: Block
    schedule: str = "static"
    loc: Loc | None = None
    grain: int = 1


@dataclass(frozen=True, slots=True)
class For:
    """for iv in range(lower, upper, step), signed, step > 0; `args` are the carried values inside the body, started
    from `inits`, advanced by the body's Yield, and left in `results`."""

    iv: Value
    lower: Operand
    upper: Operand
    step: Operand
    inits: tuple[Operand, ...]
    args: tuple[Value, ...]
    body: Block
    results: tuple[Value, ...] = ()
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class While:
    """`before` (over `args`) ends with Condition(cond, forwarded); while true, `after` (over `after_args`, bound to the
    forwarded values) runs and its Yield gives the next `args`. `results` are the forwarded values at exit."""

    inits: tuple[Operand, ...]
    args: tuple[Value, ...]
    before: Block
    after_args: tuple[Value, ...]
    after: Block
    results: tuple[Value, ...] = ()
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Both blocks end with Yield of `results`' arity."""

    cond: Operand
    then: Block
    otherwise: Block
    results: tuple[Value, ...] = ()
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait for, and order the memory of, all work-items of the innermost Parallel of this level that still run."""

    scope: Level
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Alloca:
    """`count` elements of `element`; `result` is the pointer. Uninitialised."""

    result: Value
    element: Type
    count: Operand
    space: Space = Space.PRIVATE
    align_bytes: int = 0
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Yield:
    values: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    cond: Operand
    values: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Return:
    value: Operand | None = None


Op = Leaf | Parallel | For | While | If | Barrier | Alloca | Yield | Condition | Return

# ---------------------------------------------------------------- functions


@dataclass(frozen=True, slots=True)
class Param:
    value: Value
    attrs: tuple[str, ...] = ()  # LLVM spelling: noalias readonly "align 64" ...


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    params: tuple[Param, ...]
    result: Type
    body: Block | None  # None: a declaration
    exported: bool = False
    attrs: tuple[str, ...] = ()  # noinline nounwind alwaysinline ...
    variadic: bool = False
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Global:
    """A module-level variable or constant; `init` is LLVM text ("zeroinitializer", "[2 x i32] [...]" without type)."""

    name: str
    type: Type
    init: str | None
    constant: bool = False
    align_bytes: int = 0
    linkage: str = "internal"


@dataclass(frozen=True, slots=True)
class Module:
    functions: tuple[Function, ...]
    globals: tuple[Global, ...] = ()
    named_types: tuple[tuple[str, str], ...] = ()  # ("%struct.S", "{ i32, ptr }"), kept for readability
    metadata: tuple[tuple[str, str], ...] = ()  # ("!3", "distinct !{!3, !4}"): alias scopes and the like
