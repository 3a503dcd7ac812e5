"""Facts about the machine we run on: LLVM's cpu name and features, vector width, caches, cores."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from threadloom import env
from threadloom.errors import CompileError

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_ARCH_PRCTL = 158  # x86-64 system call number
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_TILE_DATA = 18


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """What LLVM compiles for; `features` in its spelling ("+avx2,+fma")."""

    triple: str
    cpu: str
    features: str = ""


# For compiling without running; the x86-64 ones are the psABI levels plus what their machines have.
X86_64_V2 = CpuTarget("x86_64-unknown-linux-gnu", "x86-64-v2")
X86_64_V3 = CpuTarget("x86_64-unknown-linux-gnu", "x86-64-v3")
X86_64_V4 = CpuTarget("x86_64-unknown-linux-gnu", "x86-64-v4")
SAPPHIRE_RAPIDS = CpuTarget("x86_64-unknown-linux-gnu", "sapphirerapids")  # AVX-512, AMX bf16 and int8
AARCH64_NEON = CpuTarget("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8")
NEOVERSE_V1 = CpuTarget("aarch64-unknown-linux-gnu", "neoverse-v1")


@dataclass(frozen=True, slots=True)
class HostCpu:
    target: CpuTarget
    feature_names: frozenset[str]  # those that are present, without the plus sign
    vector_bytes: int
    vector_registers: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int  # that this process may use

    def has(self, feature: str) -> bool:
        return feature in self.feature_names


@lru_cache(maxsize=1)
def host_cpu() -> HostCpu:
    import llvmlite.binding as llvm

    flags = llvm.get_host_cpu_features()
    target = CpuTarget(llvm.get_process_triple(), llvm.get_host_cpu_name(), flags.flatten())
    present = frozenset(name for name, on in flags.items() if on)
    vector_bytes, registers = _vectors(present)
    caches = _cache_bytes()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return HostCpu(
        target,
        present,
        vector_bytes,
        registers,
        caches.get(1, 32 << 10),
        caches.get(2, 512 << 10),
        caches.get(3, 0),
        cores,
    )


@lru_cache(maxsize=1)
def target_cpu() -> HostCpu:
    """What CUDA programs are compiled for: this machine, or the CPU that LOOM_CPU names, with this machine's caches."""
    name = env.read("LOOM_CPU")
    if not name:
        return host_cpu()
    features = _features_of(name)
    vector_bytes, registers = _vectors(features)
    target = CpuTarget(host_cpu().target.triple, name)
    return replace(
        host_cpu(), target=target, feature_names=features, vector_bytes=vector_bytes, vector_registers=registers
    )


# Of what LLVM knows by the name, the features that our own choices depend on.
_V3 = frozenset("sse2 sse4.1 sse4.2 avx avx2 fma f16c bmi bmi2".split())
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
_KNOWN_CPUS = {
    "x86_64": {
        "x86-64-v2": frozenset("sse2 sse4.1 sse4.2".split()),
        **dict.fromkeys(("x86-64-v3", "haswell", "znver2", "znver3"), _V3),
        **dict.fromkeys(("x86-64-v4", "skylake-avx512", "icelake-server", "sapphirerapids", "emeraldrapids"), _V4),
        **dict.fromkeys(("graniterapids", "znver4", "znver5"), _V4),
    },
    "aarch64": dict.fromkeys(("generic", "neoverse-n1", "neoverse-v1", "neoverse-v2"), frozenset({"neon", "fp-armv8"})),
}


def _features_of(name: str) -> frozenset[str]:
    known = _KNOWN_CPUS.get(host_cpu().target.triple.partition("-")[0], {})
    if name not in known:
        why = "it is no CPU that we know"
        raise CompileError(env.BAD_VALUE, f"LOOM_CPU is {name!r}", why=why, try_=", ".join(known))
    return known[name]


def _vectors(features: frozenset[str]) -> tuple[int, int]:
    """Bytes and number of the widest vector registers."""
    if "avx512f" in features:
        return 64, 32
    if "avx" in features:
        return 32, 16
    if platform.machine() in ("aarch64", "arm64"):
        return 16, 32
    return 16, 16


def _cache_bytes() -> dict[int, int]:
    """Level -> bytes of the data or unified cache that core 0 sees."""
    sizes = {}
    for index in sorted(_CACHES.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            sizes[level] = parse_size(text)
    return sizes


def parse_size(text: str) -> int:
    """`48K` and `2M` as the kernel writes them, in bytes."""
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
    return int(text.rstrip("KMG")) << unit


@lru_cache(maxsize=1)
def enable_amx() -> bool:
    """Ask the kernel to let this process use AMX tiles; False where there are none. Must precede the first use."""
    if sys.platform != "linux" or not host_cpu().has("amx-tile"):
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    return syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_TILE_DATA) == 0
