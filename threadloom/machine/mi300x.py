"""AMD MI300X (gfx942), from public figures: loads to LDS counted by waitcnt, synchronous MFMA issued by waves."""

from __future__ import annotations

from threadloom.machine.model import SEU, Completion, Device, Figure, Memory, Rate
from threadloom.task.ops import Method

CDNA3 = "AMD CDNA 3 white paper"
ASSUMED = "assumed"


def _rate(what: str, per_cycle: float, source: str = CDNA3) -> Rate:
    return Rate(what, Figure(per_cycle, source))


MI300X = Device(
    name="mi300x",
    arch="gfx942",
    eu_count=304,
    clock_ghz=Figure(2.1, CDNA3),
    seus=(
        SEU(
            name="vmem",
            methods=(Method.ASYNC_COPY,),
            is_async=True,
            completion=Completion.WAITCNT,
            rates=(_rate("bytes.load", 24.0, ASSUMED), _rate("bytes.load.shared", 32.0, ASSUMED)),
            latency_cycles=Figure(800.0, ASSUMED),
            issue_cycles=Figure(40.0, ASSUMED),
        ),
        SEU(
            name="mfma",
            methods=(Method.MATRIX,),
            is_async=False,
            completion=Completion.PROGRAM_ORDER,
            rates=(
                _rate("mac.bf16", 1024.0),
                _rate("mac.f16", 1024.0),
                _rate("mac.f8e4m3", 2048.0),
                _rate("mac.f8e5m2", 2048.0),
                _rate("mac.tf32", 512.0),
                _rate("mac.f32", 128.0),
                _rate("mac.i8", 2048.0),
                _rate("mac.f64", 128.0),
            ),
            latency_cycles=Figure(0.0, "synchronous"),
            issue_cycles=Figure(16.0, ASSUMED),
        ),
        SEU(
            name="vec",
            methods=(Method.VECTOR, Method.SCALAR),
            is_async=False,
            completion=Completion.PROGRAM_ORDER,
            rates=(
                _rate("fma.f32", 128.0),
                _rate("alu", 64.0),
                _rate("cvt", 64.0, ASSUMED),
                _rate("exp", 16.0, ASSUMED),
                _rate("shuffle", 32.0, ASSUMED),
                _rate("mac.f32", 128.0),
                _rate("mac.f64", 64.0),
                _rate("mac.i32", 64.0),
                _rate("mac.f16", 40.0, "assumed: converted first"),
                _rate("mac.bf16", 40.0, "assumed: converted first"),
                _rate("mac.tf32", 60.0, "assumed: converted first"),
                _rate("mac.f8e4m3", 30.0, "assumed: converted first"),
                _rate("mac.f8e5m2", 30.0, "assumed: converted first"),
                _rate("mac.i8", 40.0, "assumed: converted first"),
                _rate("mac.u8", 40.0, "assumed: converted first"),
                _rate("mac.i64", 16.0, "assumed: converted first"),
                _rate("reduce.cycles", 80.0, ASSUMED),
            ),
            latency_cycles=Figure(0.0, "synchronous"),
            issue_cycles=Figure(20.0, ASSUMED),
        ),
        SEU(
            name="lsu",
            methods=(Method.LOAD_STORE,),
            is_async=False,
            completion=Completion.PROGRAM_ORDER,
            rates=(
                _rate("bytes.load", 24.0, ASSUMED),
                _rate("bytes.load.shared", 32.0, ASSUMED),
                _rate("bytes.store", 24.0, ASSUMED),
            ),
            latency_cycles=Figure(700.0, ASSUMED),
            issue_cycles=Figure(20.0, ASSUMED),
        ),
    ),
    memories=(
        Memory("smem", Figure(64 * 1024, CDNA3), granule_bytes=128, bytes_per_cycle=Figure(128.0, ASSUMED)),
        Memory("reg", Figure(384 * 1024, "of 512 KiB, a quarter kept free"), per="role"),
    ),
    dram_bytes_per_s=Figure(5.3e12, CDNA3),
    max_worker_roles=1,
    facts=(
        ("threads_per_worker", 256),
        ("dot_rows", 16),
        ("dot_columns", 16),
        ("dot_depth_bytes", 32),
        ("max_dot_columns", 256),
        ("dot_a_space", "reg smem"),
        ("accumulator_space", "reg"),
        ("register_fixed_regs", 32),
        ("worker_regs_1", 384),
        ("worker_warps", 8),  # in warps of 32 threads: four waves of 64,
        ("smem_reserved_bytes", 1024),
        ("max_cluster", 1),
        ("launch_ns", 5000),
        ("l2_bytes", 256 * 1024 * 1024),
    ),
)
