"""What this CPU really reaches: single-precision FMA rate and non-temporal copy rate of all usable cores.

Measured with two tiny loops that do nothing else, so that "fraction of peak" is a fraction of something seen here and
not of a data sheet. Takes two to three seconds. A GPU's: targets/cuda/gpu_peaks.py.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from threadloom.machine.cpu import usable_cores

ACCUMULATORS = 12  # FMA latency (4 or 5 cycles) times two ports, and still within 16 vector registers
FMA_ROUNDS = 2_000_000
COPY_BYTES = 64 << 20  # per direction; past the last-level share of these cores on the machines we know
ATTEMPTS = 5  # at least
SPREAD_S = 1.0  # over which attempts go on: a virtual machine's cores run slower for tenths of a second at a time
PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Peaks:
    """`threads`: cores used, or multiprocessors of a GPU; `flops_per_s`, the rate that `compute` names, counts a fused
    multiply-add as two; `copy_bytes_per_s` counts bytes read and written."""

    threads: int
    flops_per_s: float
    copy_bytes_per_s: float
    compute: str = "FMA peak"


def measure(threads: int | None = None) -> Peaks:
    """The best of a few attempts with `threads` threads (default: every core this process may use)."""
    import numpy as np

    count = threads or usable_cores()
    loops = _Loops()
    flops = 2 * ACCUMULATORS * loops.lanes * FMA_ROUNDS * count
    fma_s = _best_seconds([lambda: loops.fma(FMA_ROUNDS)] * count)

    part_bytes = COPY_BYTES // count // 4096 * 4096
    arrays = [np.ones(part_bytes * count + 4096, np.uint8) for _ in range(2)]
    source, target = (-(-a.ctypes.data // 4096) * 4096 for a in arrays)  # the first page inside each
    vectors = part_bytes // (4 * loops.lanes)
    copy_s = _best_seconds(
        [lambda i=i: loops.copy(target + i * part_bytes, source + i * part_bytes, vectors) for i in range(count)]
    )
    return Peaks(count, flops / fma_s, 2 * part_bytes * count / copy_s)


def _best_seconds(works: list[Callable[[], object]]) -> float:
    """Shortest time from a common start until all of `works`, each in its own thread, are done."""
    end, seconds = time.perf_counter() + SPREAD_S, []
    while len(seconds) < ATTEMPTS or time.perf_counter() < end:
        seconds.append(_seconds(works))
        time.sleep(PAUSE_S)
    return min(seconds)


def _seconds(works: list[Callable[[], object]]) -> float:
    start, end = threading.Barrier(len(works) + 1), threading.Barrier(len(works) + 1)

    def body(work: Callable[[], object]) -> None:
        start.wait()
        work()
        end.wait()

    threads = [threading.Thread(target=body, args=(w,), daemon=True) for w in works]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    end.wait()
    return time.perf_counter() - began


class _Loops:
    """The two loops, compiled for this host; ctypes releases the interpreter's lock around each call."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        self.lanes = 16 if features.get("avx512f") else 8 if features.get("avx") else 4
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2
        )
        module = llvm.parse_assembly(_fma_text(self.lanes) + _copy_text(self.lanes, "x86" in llvm.get_process_triple()))
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.fma = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(self._engine.get_function_address("fma_loop"))
        self.copy = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int64)(
            self._engine.get_function_address("copy_loop")
        )


def _fma_text(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    ids = range(ACCUMULATORS)
    phis = "\n".join(f"  %a{i} = phi {vector} [ splat (float {i}.0), %entry ], [ %b{i}, %loop ]" for i in ids)
    fmas = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} splat (float 0.5),"
        f" {vector} splat (float 1.0))"
        for i in ids
    )
    sums = "\n".join(f"  %s{i + 1} = fadd {vector} %s{i}, %b{i}" for i in ids).replace("%s0", "zeroinitializer")
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define float @fma_loop(i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{fmas}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{sums}
  %r = extractelement {vector} %s{ACCUMULATORS}, i64 0
  ret float %r
}}
"""


def _copy_text(lanes: int, has_sfence: bool) -> str:
    vector, align = f"<{lanes} x float>", 4 * lanes
    declare = "declare void @llvm.x86.sse.sfence()" if has_sfence else ""
    fence = "call void @llvm.x86.sse.sfence()" if has_sfence else "fence seq_cst"
    return f"""
{declare}
define void @copy_loop(ptr noalias %to, ptr noalias %from, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr {vector}, ptr %from, i64 %i
  %target = getelementptr {vector}, ptr %to, i64 %i
  %v = load {vector}, ptr %source, align {align}
  store {vector} %v, ptr %target, align {align}, !nontemporal !0
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  {fence}
  ret void
}}
!0 = !{{i32 1}}
"""
