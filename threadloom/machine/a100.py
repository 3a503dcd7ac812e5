"""NVIDIA A100 SXM 80 GB (sm_80): no bulk copies; cp.async groups, synchronous mma. Figures: public, or said assumed."""

from __future__ import annotations

from threadloom.machine.model import SEU, Completion, Device, Figure, Memory, Rate
from threadloom.task.ops import Method

AMPERE = "NVIDIA A100 architecture white paper"
ASSUMED = "assumed"


def _rate(what: str, per_cycle: float, source: str = AMPERE) -> Rate:
    return Rate(what, Figure(per_cycle, source))


A100 = Device(
    name="a100",
    arch="sm_80",
    eu_count=108,
    clock_ghz=Figure(1.41, AMPERE),
    seus=(
        SEU(
            name="cpasync",
            methods=(Method.ASYNC_COPY,),
            is_async=True,
            completion=Completion.COPY_GROUP,
            rates=(_rate("bytes.load", 32.0, ASSUMED), _rate("bytes.load.shared", 48.0, ASSUMED)),
            latency_cycles=Figure(600.0, ASSUMED),
            issue_cycles=Figure(40.0, ASSUMED),
        ),
        SEU(
            name="tc",
            methods=(Method.MATRIX,),
            is_async=False,
            completion=Completion.PROGRAM_ORDER,
            rates=(
                _rate("mac.bf16", 1024.0),
                _rate("mac.f16", 1024.0),
                _rate("mac.tf32", 512.0),
                _rate("mac.i8", 2048.0),
                _rate("mac.f64", 64.0),
            ),
            latency_cycles=Figure(0.0, "synchronous"),
            issue_cycles=Figure(20.0, ASSUMED),
        ),
        SEU(
            name="vec",
            methods=(Method.VECTOR, Method.SCALAR),
            is_async=False,
            completion=Completion.PROGRAM_ORDER,
            rates=(
                _rate("fma.f32", 64.0),
                _rate("alu", 64.0),
                _rate("cvt", 64.0, ASSUMED),
                _rate("exp", 16.0),
                _rate("shuffle", 32.0),
                _rate("mac.f32", 64.0),
                _rate("mac.f64", 32.0),
                _rate("mac.i32", 64.0),
                _rate("mac.f16", 40.0, "assumed: converted first"),
                _rate("mac.bf16", 40.0, "assumed: converted first"),
                _rate("mac.tf32", 60.0, "assumed: converted first"),
                _rate("mac.f8e4m3", 30.0, "assumed: converted first"),
                _rate("mac.f8e5m2", 30.0, "assumed: converted first"),
                _rate("mac.i8", 40.0, "assumed: converted first"),
                _rate("mac.u8", 40.0, "assumed: converted first"),
                _rate("mac.i64", 16.0, "assumed: converted first"),
                _rate("reduce.cycles", 60.0, ASSUMED),
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
                _rate("bytes.load", 32.0, ASSUMED),
                _rate("bytes.load.shared", 48.0, ASSUMED),
                _rate("bytes.store", 32.0, ASSUMED),
            ),
            latency_cycles=Figure(500.0, ASSUMED),
            issue_cycles=Figure(20.0, ASSUMED),
        ),
    ),
    memories=(
        Memory("smem", Figure(163 * 1024, AMPERE), granule_bytes=128, bytes_per_cycle=Figure(128.0, ASSUMED)),
        Memory("reg", Figure(255 * 1024, "255 registers of 256 threads"), per="role"),
    ),
    dram_bytes_per_s=Figure(2.039e12, "NVIDIA A100 80GB data sheet"),
    max_worker_roles=1,
    facts=(
        ("emitter", "sm80"),  # the folder of targets/cuda that writes the code
        ("threads_per_worker", 256),
        ("dot_rows", 64),  # mma has 16; eight warps share a tile, as rows x columns of warps
        ("whole_rows", 128),  # eight warps of 16 rows each
        ("dot_columns", 8),
        ("dot_depth_bytes", 32),
        ("max_dot_columns", 256),
        ("dot_a_space", "reg smem"),
        ("accumulator_space", "reg"),
        ("register_fixed_regs", 112),  # addresses, fragments, row statistics: with 104, attention of depth 128 spills
        ("register_slots", 1),  # the emitter does not rename registers over iterations
        ("exponential_factors", 1),  # of a difference of rows and columns: a factor of each (targets/cuda/factors.py)
        ("panel_row_bytes", 128),  # of operands in shared memory: rows are padded to whole swizzled lines
        ("worker_regs_1", 255),
        ("worker_warps", 8),
        ("smem_reserved_bytes", 1024),
        ("max_cluster", 1),
        ("launch_ns", 2500),
        ("l2_bytes", 40 * 1024 * 1024),
    ),
)
