"""The CPU as a device: an EU is a core with a vector unit, a load and pack unit, and a matrix unit where it has one.

`host()` reads this machine (Linux: /proc/cpuinfo, /sys); `build(CpuFacts)` makes the model of any described host, so
tests need no particular machine. Port counts and latencies come from a table by micro-architecture, with a safe
default.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from threadloom.machine.model import SEU, Completion, Device, Figure, Memory, Rate
from threadloom.task.ops import Method

L1_RATE = Figure(96.0, "assumed: two vectors a cycle, typical of current server cores")
L2_RATE = Figure(32.0, "assumed: half a line a cycle, typical of current server cores")
L3_RATE = Figure(8.0, "assumed: one core reading in order")
L3_RATE_ZEN3 = Figure(12.0, "measured: half of what one core reads in order")


@dataclass(frozen=True, slots=True)
class Core:
    """Figures of one micro-architecture: FMA ports, FMA latency, loads a cycle, what L3 delivers to one core."""

    fma_ports: int
    fma_latency_cycles: int
    loads_per_cycle: int
    source: str
    l3_rate: Figure = L3_RATE


# (vendor, family, first model, last model) -> figures; anything else gets DEFAULT (10 accumulators keep it busy).
CORES: tuple[tuple[str, int, int, int, Core], ...] = (
    ("AuthenticAMD", 23, 0x31, 0xFF, Core(2, 5, 2, "Zen 2 guide; measured: 12 accumulators reach the peak")),
    ("AuthenticAMD", 25, 0x00, 0x0F, Core(2, 4, 3, "Zen 3 guide", L3_RATE_ZEN3)),
    ("AuthenticAMD", 25, 0x10, 0xFF, Core(2, 4, 2, "Zen 4 optimisation guide")),
    ("AuthenticAMD", 26, 0x00, 0xFF, Core(2, 4, 2, "Zen 5 optimisation guide")),
    ("GenuineIntel", 6, 0x55, 0x55, Core(2, 4, 2, "Skylake-SP: Intel optimisation manual")),
    ("GenuineIntel", 6, 0x6A, 0x6C, Core(2, 4, 2, "Ice Lake-SP: Intel optimisation manual")),
    ("GenuineIntel", 6, 0x8F, 0x8F, Core(2, 4, 2, "Sapphire Rapids: Intel optimisation manual")),
    ("GenuineIntel", 6, 0xCF, 0xCF, Core(2, 4, 2, "Emerald Rapids: Intel optimisation manual")),
    ("GenuineIntel", 6, 0xAD, 0xAD, Core(2, 4, 2, "Granite Rapids: Intel optimisation manual")),
)
L3_SHARE_BYTES = 16 << 20  # of the last level that one core can count on
DEFAULT = Core(2, 5, 2, "assumed: safe default for an unlisted core")


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What a CPU model is built from. `l3_bytes` is what one core can use of the last level."""

    vendor: str
    family: int
    model: int
    cores: int
    ghz: float
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    amx: tuple[str, ...] = ()  # operand types of the matrix unit
    bf16_dot: bool = False
    source: str = "described"


ZEN2 = CpuFacts("AuthenticAMD", 23, 0x31, 2, 3.3, 32, 16, 32 << 10, 512 << 10, 16 << 20, source="prototype's host")
SAPPHIRE_RAPIDS = CpuFacts(
    "GenuineIntel", 6, 0x8F, 2, 2.1, 64, 32, 48 << 10, 2 << 20, 64 << 20, ("bf16", "i8"), True, "public figures"
)
NEOVERSE_V1 = CpuFacts("ARM", 8, 0xD40, 4, 2.6, 16, 32, 64 << 10, 1 << 20, 32 << 20, source="public figures")


def register_tile(vector_registers: int, core: Core) -> tuple[int, int]:
    """(rows, vectors) of the accumulator block of a product.

    Needs rows*vectors accumulators, `vectors` operands and one broadcast in registers, no more loads than FMAs issue,
    and enough accumulators to hide the FMA latency. Two vectors keep a panel of B narrow enough for L1, and among
    those the tallest block does the fewest loads per FMA (6x2 on 16 registers, 14x2 on 32).
    """
    best, best_key = (4, 2), (0.0, 0, 0)
    for vectors in (1, 2):  # powers of two: copies of vector loops must not cross from panel to panel
        for rows in range(2, vector_registers, 2):
            accumulators = rows * vectors
            fits = accumulators + vectors + 1 <= vector_registers
            loads_ok = (rows + vectors) * core.fma_ports <= accumulators * core.loads_per_cycle
            if fits and loads_ok:
                enough = min(1.0, accumulators / (core.fma_ports * core.fma_latency_cycles))
                best_key, best = max((best_key, best), ((enough, -abs(vectors - 2), rows), (rows, vectors)))
    return best


def core_of(facts: CpuFacts) -> Core:
    for vendor, family, first, last, core in CORES:
        if facts.vendor == vendor and facts.family == family and first <= facts.model <= last:
            return core
    return DEFAULT


def build(facts: CpuFacts) -> Device:
    """The device model of the described CPU."""
    core = core_of(facts)
    rows, vectors = register_tile(facts.vector_registers, core)
    matrix = (_matrix_unit(facts),) if facts.amx else ()
    copy_per_core = 12e9 if facts.ghz < 2.8 else 19e9
    return Device(
        name="cpu",
        arch="cpu",
        eu_count=facts.cores,
        clock_ghz=Figure(facts.ghz, facts.source),
        seus=(_vector_unit(facts, core), _load_unit(facts), *matrix),
        memories=(
            Memory("l1", Figure(facts.l1_bytes, facts.source), granule_bytes=64, bytes_per_cycle=L1_RATE),
            Memory("l2", Figure(facts.l2_bytes, facts.source), granule_bytes=64, bytes_per_cycle=L2_RATE),
            Memory("l3", Figure(facts.l3_bytes, facts.source), granule_bytes=64, bytes_per_cycle=core.l3_rate),
            Memory("reg", Figure(facts.vector_registers * facts.vector_bytes, facts.source), per="role"),
        ),
        dram_bytes_per_s=Figure(min(copy_per_core * facts.cores, 200e9), "assumed: 12 or 19 GB/s a core, 200 in all"),
        max_worker_roles=1,
        facts=(
            ("vector_bytes", facts.vector_bytes),
            ("vector_registers", facts.vector_registers),
            ("fma_ports", core.fma_ports),
            ("fma_latency_cycles", core.fma_latency_cycles),
            ("register_rows", rows),
            ("register_vectors", vectors),
            ("launch_ns", 5000),  # measured: fork and join with two barriers 2-25 us
            ("dot_a_space", "l1 l2"),
            ("accumulator_space", "l2"),
            ("exp_on_fma_ports", True),
            ("tile_cycles", 600),  # assumed: entering one tile
            ("core_spread", 0.4),  # of a tile, by which cores end one after the other; measured in a VM
        ),
    )


def _rate(what: str, per_cycle: float, source: str) -> Rate:
    return Rate(what, Figure(per_cycle, source))


def _vector_unit(facts: CpuFacts, core: Core) -> SEU:
    lanes = facts.vector_bytes // 4
    fma = float(core.fma_ports * lanes)
    figures = core.source
    return SEU(
        name="fma",
        methods=(Method.MATRIX, Method.VECTOR, Method.SCALAR),
        is_async=False,
        completion=Completion.PROGRAM_ORDER,
        rates=(
            _rate("mac.f32", fma, figures),
            _rate("mac.f64", fma / 2, figures),
            _rate("mac.tf32", fma, figures),
            _rate("mac.f16", fma / 2, "assumed: widened to f32 on load"),
            _rate("mac.bf16", fma * (2 if facts.bf16_dot else 0.5), "vdpbf16ps where present, else widened"),
            _rate("mac.f8e4m3", fma / 4, "assumed: widened to f32"),
            _rate("mac.f8e5m2", fma / 4, "assumed: widened to f32"),
            _rate("mac.i8", fma / 2, "assumed: widened to i32"),
            _rate("mac.u8", fma / 2, "assumed: widened to i32"),
            _rate("mac.i32", fma / 2, "assumed"),
            _rate("mac.i64", fma / 8, "assumed"),
            _rate("fma.f32", fma, figures),
            _rate("alu", fma, figures),
            _rate("cvt", fma / 2, "assumed"),
            _rate("exp", lanes / 7.0, "measured: 0.253 ns an element with 8 lanes at 3.3 GHz, 6.7 cycles a vector"),
            _rate("shuffle", float(lanes), "assumed"),
            _rate("reduce.cycles", 12.0, "assumed: horizontal step of one row"),
        ),
        latency_cycles=Figure(0.0, "synchronous"),
        issue_cycles=Figure(20.0, "assumed: call and loop set-up of one task"),
    )


def _load_unit(facts: CpuFacts) -> SEU:
    return SEU(
        name="lsu",
        methods=(Method.PACK, Method.LOAD_STORE),
        is_async=False,
        completion=Completion.PROGRAM_ORDER,
        rates=(
            _rate("bytes.load", 24.0, "assumed: streaming from L2 or L3"),
            _rate("bytes.load.shared", 24.0, "assumed"),
            _rate("bytes.pack", facts.vector_bytes / 2, "measured: packing is 1-2 % of a 1024^3 product with AVX-512"),
            _rate("bytes.pack.transposed", facts.vector_bytes / 4, "assumed: half of it"),
            _rate("bytes.store", 24.0, "assumed"),
        ),
        latency_cycles=Figure(0.0, "synchronous; misses are the prefetch distance's business"),
        issue_cycles=Figure(20.0, "assumed"),
    )


def _matrix_unit(facts: CpuFacts) -> SEU:
    per_cycle = {"bf16": 512.0, "f16": 512.0, "i8": 1024.0}  # 16x16x32 bf16 products in 16 cycles
    return SEU(
        name="amx",
        methods=(Method.MATRIX,),
        is_async=False,
        completion=Completion.PROGRAM_ORDER,
        rates=tuple(
            Rate(f"mac.{t}", Figure(per_cycle[t], "Intel optimisation manual: 16 cycles a tile product"))
            for t in facts.amx
        ),
        latency_cycles=Figure(0.0, "synchronous"),
        issue_cycles=Figure(52.0, "Intel optimisation manual: latency of a tile product"),
    )


# ---------------------------------------------------------------- reading this machine


@lru_cache(maxsize=1)
def host() -> Device:
    return build(host_facts())


@lru_cache(maxsize=1)
def host_facts() -> CpuFacts:
    """This machine; figures that cannot be read fall back to a small common core."""
    info = _cpuinfo()
    flags = set(info.get("flags", info.get("Features", "")).split())
    cores = usable_cores()
    if "avx512f" in flags:
        vector_bytes, registers = 64, 32
    elif "avx2" in flags:
        vector_bytes, registers = 32, 16
    elif platform.machine() in ("aarch64", "arm64"):
        vector_bytes, registers = 16, 32
    else:
        vector_bytes, registers = 16, 16
    caches = _caches()
    amx = tuple(t for t, flag in (("bf16", "amx_bf16"), ("i8", "amx_int8"), ("f16", "amx_fp16")) if flag in flags)
    return CpuFacts(
        vendor=info.get("vendor_id", "ARM" if vector_bytes == 16 and registers == 32 else "unknown"),
        family=_int(info.get("cpu family"), 0),
        model=_int(info.get("model"), 0),
        cores=cores,
        ghz=round(_float(info.get("cpu MHz"), 2500.0) / 1000.0, 2),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=caches.get(1, 32 << 10),
        l2_bytes=caches.get(2, 512 << 10),
        l3_bytes=min(caches.get(3, 8 << 20), L3_SHARE_BYTES * cores),  # a virtual machine sees all of the host's
        amx=amx,
        bf16_dot="avx512_bf16" in flags,
        source="read from /proc/cpuinfo and /sys",
    )


def usable_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _cpuinfo() -> dict[str, str]:
    """Fields of the first processor in /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    first = text.split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _caches() -> dict[int, int]:
    """Level -> bytes of the data and unified caches of core 0."""
    sizes: dict[int, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            level = int((folder / "level").read_text())
            size = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        scale = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        if kind != "Instruction":
            sizes[level] = _int(size.rstrip("KM"), 0) * scale
    return {level: size for level, size in sizes.items() if size > 0}


def _int(text: str | None, default: int) -> int:
    try:
        return int(text, 0) if text is not None else default
    except ValueError:
        return default


def _float(text: str | None, default: float) -> float:
    try:
        return float(text) if text is not None else default
    except ValueError:
        return default
