"""What GPU 0 really reaches: its rate of 16-bit matrix products and its copy rate, as `machine/peaks.py` for CPUs.

Products: a loop of matrix instructions that does nothing else, on all multiprocessors, with random operands (the clock
depends on how many bits flip). Copies: the driver's own, of more than any cache holds.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.machine.peaks import Peaks
from threadloom.targets.cuda import driver, driver_work
from threadloom.targets.cuda.driver_calls import OnContext
from threadloom.targets.cuda.launch import model_of
from threadloom.targets.cuda.launch_prepared import Parameter, Prepared, number
from threadloom.targets.cuda.nvrtc import compile_source
from threadloom.targets.cuda.wgmma import Instruction, wrapper

THREADS = 256
ROUNDS = 4000  # of 8 instructions of each warpgroup, or 64 of each warp: some milliseconds
COPY_BYTES = 512 << 20
ATTEMPTS = 8

_HOPPER = Instruction(256, "f16", "f16", a_in_registers=False)
_HOPPER_BYTES = 2 * 64 * 128 + 256 * 128  # rows of 64 elements: 64 for each warpgroup, 256 for both
_HOPPER_FLOPS = 2 * 8 * 2 * 64 * 256 * _HOPPER.k  # of a block's round
_HOPPER_SOURCE = f"""#include "sm90.cuh"

{wrapper(_HOPPER)}
// Random numbers of size 0.5 to 1, then products of them.
extern "C" __global__ void __launch_bounds__({THREADS}, 1) matrix_rate(i32 rounds, float* out) {{
  extern __shared__ __align__(1024) u8 raw[];
  for (u32 i = threadIdx.x; i < {_HOPPER_BYTES} / 4; i += {THREADS}) {{
    u32 bits = (i + 1) * 2654435761u;
    bits ^= bits >> 15;
    ((u32*)raw)[i] = (bits & 0x83ff83ff) | 0x38003800;
  }}
  fence_to_async();
  __syncthreads();
  const u32 smem = smem_address(raw);
  const u64 a = descriptor_k_major(smem + (threadIdx.x >> 7) * {64 * 128});
  const u64 b = descriptor_k_major(smem + {2 * 64 * 128});
  float d[128] = {{}};
#pragma unroll 1
  for (i32 round = 0; round < rounds; round++) {{
    mma_fence();
#pragma unroll
    for (int i = 0; i < 8; i++) {_HOPPER.name}(d, a + 2 * (i & 3), b + 2 * (i & 3), 1);
    mma_commit();
    mma_wait<0>();
    pin(d);
  }}
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; i++) sum += d[i];
  if (sum == 0.12345f) out[0] = sum;  // the products must not be dropped
}}
"""

_AMPERE_FLOPS = (THREADS // 32) * 64 * 2 * 16 * 8 * 16  # of a block's round
_AMPERE_SOURCE = f"""#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__({THREADS}) matrix_rate(i32 rounds, float* out) {{
  u32 a[4], b[2];
  for (int i = 0; i < 4; i++) a[i] = (((threadIdx.x + 1) * (i + 3) * 2654435761u) & 0x83ff83ff) | 0x38003800;
  for (int i = 0; i < 2; i++) b[i] = (((threadIdx.x + 7) * (i + 5) * 2246822519u) & 0x83ff83ff) | 0x38003800;
  float d[8][4] = {{}};
#pragma unroll 1
  for (i32 round = 0; round < rounds; round++) {{
#pragma unroll
    for (int i = 0; i < 64; i++) mma_f16(d[i & 7], a, b);
  }}
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 32; i++) sum += d[i >> 2][i & 3];
  if (sum == 0.12345f) out[0] = sum;  // the products must not be dropped
}}
"""

SOURCES = {"sm_90a": (_HOPPER_SOURCE, _HOPPER_FLOPS, _HOPPER_BYTES), "sm_80": (_AMPERE_SOURCE, _AMPERE_FLOPS, 0)}


def measure() -> Peaks:
    """The best of a few attempts each."""
    multiprocessors = driver.multiprocessors(0)
    with driver_work.new_stream() as stream:
        return Peaks(multiprocessors, _matrix_rate(multiprocessors, stream), _copy_rate(stream), "f16 matrix rate")


def _matrix_rate(multiprocessors: int, stream: int) -> float:
    arch = model_of(0).arch
    source, flops, shared_bytes = SOURCES[arch]
    context = driver.context(0)
    with OnContext(int(context)):
        loaded = driver.load(compile_source(source, arch), "matrix_rate", THREADS, shared_bytes)
        blocks = multiprocessors if arch == "sm_90a" else 4 * multiprocessors
        parameters = [number(ROUNDS), Parameter("pointer", "out", None)]
        prepared = Prepared(loaded, ("out",), parameters, blocks, int(context))
        ns = _best(lambda: prepared.launch([driver.NOWHERE], [], stream), stream)
    return blocks * ROUNDS * flops / ns * 1e9


def _copy_rate(stream: int) -> float:
    api = driver.api()
    pointers = []
    try:
        for _ in range(2):
            pointers.append(int(driver.check(api.cuMemAlloc(COPY_BYTES), f"allocating {COPY_BYTES} bytes")))
        to, source = pointers[0], pointers[-1]
        ns = _best(lambda: driver.check(api.cuMemcpyDtoDAsync(to, source, COPY_BYTES, stream), "copying"), stream)
    finally:
        for pointer in pointers:
            driver_work.free(pointer)
    return 2 * COPY_BYTES / ns * 1e9


def _best(launch: Callable[[], object], stream: int) -> float:
    """Nanoseconds on the GPU of the fastest launch but the first."""
    return min([driver_work.time_launches(launch, stream) for _ in range(ATTEMPTS + 1)][1:])
