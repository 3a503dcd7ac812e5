"""NVIDIA H200 SXM (sm_90a). Cycles are SM cycles.

"measured" means the micro-benchmarks of one H200 with driver 580 on 2026-11-30.
"""

from __future__ import annotations

from threadloom.machine.model import SEU, Completion, Device, Figure, Memory, Rate
from threadloom.task.ops import Method

MICRO = "measured: micro-benchmark on one H200"
HOPPER = "NVIDIA H100 architecture white paper"


def _rate(what: str, per_cycle: float, source: str = MICRO) -> Rate:
    return Rate(what, Figure(per_cycle, source))


TMA = SEU(
    name="tma",
    methods=(Method.BULK_COPY,),
    is_async=True,
    completion=Completion.MBARRIER,
    rates=(
        _rate("bytes.load", 40.0),  # all SMs at once from L2, each its own addresses
        _rate("bytes.load.shared", 54.0, "measured: products that need 52 keep up, those that need 57 lose 18 to 28 %"),
        _rate("bytes.load.multicast", 60.0, "measured: pairs are 8 % slower at 1024 cubed, 0.5 % faster at 4096 cubed"),
    ),
    latency_cycles=Figure(1200.0, "measured: 526 from L2, 1225 from DRAM for 16 KiB; SMs in step wait for the first"),
    issue_cycles=Figure(100.0, "measured: wait and issue of one thread, 200 a round of two loads"),
    proxy="async",
)

TMA_STORE = SEU(
    name="tma.store",
    methods=(Method.BULK_COPY,),
    is_async=True,
    completion=Completion.COPY_GROUP,
    rates=(_rate("bytes.store", 32.0, "assumed: half of a copy's 4.0 TB/s at 1.6 GHz, from L2"),),
    latency_cycles=Figure(300.0, "assumed: until the shared source has been read"),
    issue_cycles=Figure(44.0, "measured: the proxy fence before it"),
    proxy="async",
)

TENSOR = SEU(
    name="tc",
    methods=(Method.MATRIX,),
    is_async=True,
    completion=Completion.MMA_GROUP,
    rates=(
        _rate("mac.bf16", 2048.0),
        _rate("mac.f16", 2048.0),
        _rate("mac.f8e4m3", 4096.0, HOPPER),
        _rate("mac.f8e5m2", 4096.0, HOPPER),
        _rate("mac.tf32", 1024.0, HOPPER),
        _rate("mac.i8", 4096.0, HOPPER),
    ),
    latency_cycles=Figure(64.0, "measured: 120 for one m64n128k16 of 64 cycles, 57 beyond the occupancy"),
    issue_cycles=Figure(24.0, "assumed: fence, issue and commit"),
    proxy="async",
)

VECTOR = SEU(
    name="vec",
    methods=(Method.VECTOR, Method.SCALAR),
    is_async=False,
    completion=Completion.PROGRAM_ORDER,
    rates=(
        _rate("fma.f32", 125.0),
        _rate("alu", 63.0),  # min, max, compare, select
        _rate("cvt", 126.0),  # 63 packed pairs
        _rate("exp", 16.0),
        _rate("shuffle", 32.0),
        _rate("mac.f32", 125.0),
        _rate("mac.f64", 64.0, HOPPER),
        _rate("mac.i32", 64.0, HOPPER),
        _rate("mac.f16", 40.0, "assumed: converted first"),
        _rate("mac.bf16", 40.0, "assumed: converted first"),
        _rate("mac.tf32", 60.0, "assumed: converted first"),
        _rate("mac.f8e4m3", 30.0, "assumed: converted first"),
        _rate("mac.f8e5m2", 30.0, "assumed: converted first"),
        _rate("mac.i8", 40.0, "assumed: converted first"),
        _rate("mac.u8", 40.0, "assumed: converted first"),
        _rate("mac.i64", 16.0, "assumed: converted first"),
        _rate("reduce.cycles", 60.0, "assumed: latency of one row reduction over a quad"),
    ),
    latency_cycles=Figure(0.0, "synchronous"),
    issue_cycles=Figure(20.0, "assumed: overhead of one vector task"),
)

LSU = SEU(
    name="lsu",
    methods=(Method.LOAD_STORE, Method.ASYNC_COPY),
    is_async=False,
    completion=Completion.PROGRAM_ORDER,
    rates=(
        _rate("bytes.load", 32.0, "assumed: half an L2 sector pair a cycle"),
        _rate("bytes.load.shared", 64.0, "assumed"),
        _rate("bytes.store", 32.0, "assumed"),
    ),
    latency_cycles=Figure(500.0, "measured: global atomic round trip 505"),
    issue_cycles=Figure(20.0, "assumed"),
)

MEMORIES = (
    Memory("smem", Figure(227 * 1024, HOPPER), granule_bytes=1024, bytes_per_cycle=Figure(128.0, MICRO)),
    Memory("reg", Figure(240 * 512, "240 registers of 128 threads, measured: setmaxnreg without spills"), per="role"),
)

FACTS: tuple[tuple[str, int | str | bool], ...] = (
    ("bulk_copy_align_bytes", 16),
    ("bulk_copy_rank", 5),  # dimensions of a tensor map
    ("threads_per_worker", 128),
    ("dot_rows", 64),  # rows of one matrix instruction: what a worker owns comes in multiples of it
    ("stacked_rows", 1),  # rows of two axes in one product (sched/stacked_rows.py)
    ("dot_columns", 8),
    ("dot_depth_bytes", 32),
    ("max_dot_columns", 256),
    ("dot_a_space", "reg smem"),  # where the row operand may lie
    ("accumulator_space", "reg"),
    ("register_fixed_regs", 24),  # addresses, counters, row statistics
    ("worker_regs_1", 240),
    ("worker_regs_2", 232),
    ("worker_regs_3", 160),  # 3 * 160 + 32 registers of 128 threads: asking for more than 65536 waits for ever
    ("producer_regs_3", 32),
    ("register_slots", 1),  # the emitter does not rename registers over iterations
    ("exponential_factors", 1),  # of a difference of rows and columns: a factor of each (targets/cuda/factors.py)
    ("producer_regs", 40),  # measured: 24 spill as soon as a position needs a division
    ("wide_producer_regs", 80),  # of a producer whose threads load and store; the workers get the rest of 512 a lane
    ("most_producer_regs", 160),  # of such a one where the workers leave more than those
    ("producer_warps", 4),
    ("panel_row_bytes", 128),  # of operands in shared memory: rows are padded to whole swizzled lines
    ("staging_bytes", 16 * 1024),  # of a worker's results on their way out: two boxes of 16 rows for each warp
    ("worker_warps", 4),
    ("smem_reserved_bytes", 1024),  # barriers and alignment
    ("max_cluster", 8),
    ("registers_per_thread_row", 512),  # of one thread of each warpgroup together: 65536 of an SM, by 128
    ("instruction_regs", 26),  # besides the accumulator's: ptxas asks for 154 to compile n = 256 (C7602)
    ("direct_blocks", "3 4 6 8 12 16"),  # blocks on an SM whose threads load: 168 to 32 registers
    ("most_blocks_per_eu", 4),  # blocks of 256 threads; with two of them, 216 registers for the worker
    ("block_overhead_bytes", 1024),  # of shared memory, kept by the system for each block
    ("launch_ns", 2500),  # assumed: start of one kernel of a graph
    ("l2_bytes", 50 * 1024 * 1024),
)

H200 = Device(
    name="h200",
    arch="sm_90a",
    eu_count=132,
    clock_ghz=Figure(1.6, "measured: lone launches of random data run at 1.6-1.75 GHz"),
    seus=(TMA, TMA_STORE, TENSOR, VECTOR, LSU),
    memories=MEMORIES,
    dram_bytes_per_s=Figure(4.65e12, "measured: reading; copies reach 4.0e12"),
    max_worker_roles=3,
    facts=FACTS,
)
