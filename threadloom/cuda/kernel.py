"""How a raised CUDA kernel looks at level `par`: the agreement between front, raise, barrier lowering and runtime.

A kernel `k(T0 a0, T1 a1)` is one `par.Function` of the kernel's (mangled) name:

    func @k(a0, a1, %grid.x, %grid.y, %grid.z, %block.x, %block.y, %block.z, %shared.bytes) -> void   # GEOMETRY: i32
      parallel blocks (%blockIdx.z, %blockIdx.y, %blockIdx.x) in [0, grid.z) x [0, grid.y) x [0, grid.x)
        %tile = alloca [256 x float], space shared          # one per static __shared__ variable used
        %shared.dynamic = alloca i8 x %shared.bytes, space shared   # only where `extern __shared__` is used
        parallel threads (%threadIdx.z, %threadIdx.y, %threadIdx.x) in [0, block.z) x [0, block.y) x [0, block.x)
          ... structured body: if, for, while, leaves, private allocas ...
          barrier threads                                     # __syncthreads()
      return

* All induction variables and geometry are i32, lower bounds the constant 0. Linear thread number =
  (threadIdx.z * block.y + threadIdx.y) * block.x + threadIdx.x; warp = linear / 32, lane = linear % 32.
* There is exactly one THREADS parallel directly in the BLOCKS body, after the shared allocas. Its body has no
  Return: a thread that returns early is guarded by `If`, so "the rest is empty" means "has exited". Threads that
  leave a loop by `return` carry an i32 *exit selector* (name starts with `exit.`) out of the loop; see
  `raise_cfg_to_par.py`.
* Warp and block collectives are `Leaf("call", ...)` whose `attrs.callee` is one of `COLLECTIVES` below; none has
  a definition. Barrier lowering removes every one of them (and every `Barrier` of scope THREADS or LANES).
  `__syncthreads()` itself is `Barrier(Level.THREADS)`, never a call.
* Volatile accesses keep `attrs.volatile` (policy for legacy warp-synchronous code: see barrier lowering).
* `loom.*` calls that are *not* collectives (`THREAD_LOCAL_CALLS`) concern one thread only and lower to runtime calls.
* Functions that could not be inlined (recursion, function pointers, virtual) take as first parameter `CONTEXT`: a
  pointer to a `CONTEXT_TYPE` record of the calling thread. They contain no barriers and no collectives (that is a
  located error in the front). A kernel that calls one has a private alloca of that record, filled at its start.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.ops import I32, I64, PTR, VOID, Function, Int, Struct, Type, Value

# ---------------------------------------------------------------- parameters and induction variables

GRID = tuple(Value(f"grid.{axis}", I32) for axis in "xyz")
BLOCK = tuple(Value(f"block.{axis}", I32) for axis in "xyz")
SHARED_BYTES = Value("shared.bytes", I32)
GEOMETRY = (*GRID, *BLOCK, SHARED_BYTES)  # appended to the kernel's own parameters, in this order
SHARED_DYNAMIC = "shared.dynamic"  # the Alloca of `extern __shared__` memory, SHARED_ALIGN_BYTES aligned
SHARED_ALIGN_BYTES = 128

BLOCK_INDEX = tuple(Value(f"blockIdx.{axis}", I32) for axis in "xyz")  # ivs of BLOCKS are these reversed (z, y, x)
THREAD_INDEX = tuple(Value(f"threadIdx.{axis}", I32) for axis in "xyz")  # ivs of THREADS are these reversed

WARP_LANES = 32
MOST_BLOCK_THREADS = 1024

# Suffixes of a kernel's versions: for the launches that the host code fixes, for separate arrays, for all others.
LAUNCHED, APART, GENERAL = ".launched", ".apart", ".general"
INSTANCES = ".instances"  # of what several kernels have in common (lower/merge_instances.py)


def is_kernel(function: Function) -> bool:
    """Whether `function` is a kernel or a version of one."""
    return tuple(param.value for param in function.params[-len(GEOMETRY) :]) == GEOMETRY


# ---------------------------------------------------------------- collectives: what lowering must remove


@dataclass(frozen=True, slots=True)
class Collective:
    """A named operation that several work-items do together; `scope` is "warp", "block" or "grid"."""

    callee: str
    scope: str
    result: Type
    params: tuple[Type, ...]
    meaning: str


def _shuffles() -> tuple[Collective, ...]:
    meaning = {
        "idx": "value of lane seg*width + (src mod width)",
        "up": "value of lane - delta, own value where that leaves the segment of `width` lanes",
        "down": "value of lane + delta, own value where that leaves the segment",
        "xor": "value of lane ^ mask, own value where that lane lies beyond the segment's end",
    }
    return tuple(
        Collective(
            f"loom.shfl.sync.{kind}.i{bits}",
            "warp",
            Int(bits),
            (I32, Int(bits), I32, I32),
            f"(member mask, value, source/delta/xor, width): {text}",
        )
        for kind, text in meaning.items()
        for bits in (32, 64)
    )


def _reductions() -> tuple[Collective, ...]:
    return tuple(
        Collective(f"loom.reduce.sync.{kind}.i32", "warp", I32, (I32, I32), f"(member mask, value): {kind} over them")
        for kind in ("add", "min", "max", "umin", "umax", "and", "or", "xor")
    )


COLLECTIVES: dict[str, Collective] = {
    c.callee: c
    for c in (
        *_shuffles(),
        *_reductions(),
        Collective("loom.vote.sync.ballot", "warp", I32, (I32, I32), "(mask, pred): bit i = member lane i has pred"),
        Collective("loom.vote.sync.all", "warp", I32, (I32, I32), "(mask, pred): 1 where pred != 0 in all members"),
        Collective("loom.vote.sync.any", "warp", I32, (I32, I32), "(mask, pred): 1 where pred != 0 in some member"),
        Collective("loom.vote.sync.uni", "warp", I32, (I32, I32), "(mask, pred): 1 where all members agree"),
        Collective("loom.match.sync.any.i32", "warp", I32, (I32, I32), "(mask, value): members with the same value"),
        Collective("loom.match.sync.any.i64", "warp", I32, (I32, I64), "(mask, value): members with the same value"),
        Collective("loom.match.sync.all.i32", "warp", I32, (I32, I32), "(mask, value): mask if all are equal, else 0"),
        Collective("loom.match.sync.all.i64", "warp", I32, (I32, I64), "(mask, value): mask if all are equal, else 0"),
        Collective("loom.activemask", "warp", I32, (), "the lanes of this warp that run this call together"),
        Collective("loom.syncwarp", "warp", VOID, (I32,), "(mask): barrier and memory order among the members"),
        Collective("loom.syncthreads.count", "block", I32, (I32,), "__syncthreads, then how many had pred != 0"),
        Collective("loom.syncthreads.and", "block", I32, (I32,), "__syncthreads, then 1 where all had pred != 0"),
        Collective("loom.syncthreads.or", "block", I32, (I32,), "__syncthreads, then 1 where some had pred != 0"),
        Collective("loom.grid.sync", "grid", VOID, (), "barrier over all threads of a cooperative launch"),
    )
}

# ---------------------------------------------------------------- what concerns one thread only

# callee -> runtime symbol with the same signature (threadloom/cuda/runtime/device_functions.cpp)
THREAD_LOCAL_CALLS: dict[str, str] = {
    "loom.clock": "__loom_clock",  # () -> i64, monotonic nanoseconds
    "loom.trap": "__loom_trap",  # () -> void: marks the launch failed; the thread then exits
    "loom.assert.fail": "__loom_assert_fail",  # (ptr expr, ptr file, i32 line, ptr function)
}

# What tells a debugger where variables are; targets/cpu/debug_variables.py makes debug records of them.
DEBUG_FRAME, DEBUG_SHARED = DEBUG_CALLS = "loom.debug.frame", "loom.debug.shared"

# ---------------------------------------------------------------- functions that could not be inlined

CONTEXT = Value("loom.context", PTR)
# threadIdx.xyz, blockIdx.xyz, blockDim.xyz, gridDim.xyz, dynamic shared base, dynamic shared bytes
CONTEXT_TYPE = Struct((*(I32,) * 12, PTR, I32))
CONTEXT_DYNAMIC_FIELD = 12
CONTEXT_BYTES_FIELD = 13
