"""How fast the GPU's clock ran while a burst of launches did: cycles beside times, since the card is power-limited.

Before and after the burst a kernel of one small block for each multiprocessor notes down the counters of cycles and of
nanoseconds, by the number of the multiprocessor that it finds itself on. What both times lie on the same one gives the
burst's mean clock: the median over multiprocessors.
"""

from __future__ import annotations

import statistics

import torch

from threadloom.targets.cuda import driver
from threadloom.targets.cuda.driver_calls import OnContext
from threadloom.targets.cuda.launch_prepared import Parameter, Prepared
from threadloom.targets.cuda.nvrtc import compile_source

BLOCKS_OF_EACH = 4  # more than one, so that none of the multiprocessors is left out
MOST = 1024  # multiprocessors
LEAST_NS = 1000
SOURCE = """#include "common.cuh"
extern "C" __global__ void stamp(long long* out) {
  unsigned where; long long now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(where));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  out[2 * where] = clock64();
  out[2 * where + 1] = now;
}
"""


class Clock:
    """Of the current device. Between `begin` and `end` a burst is put on the current stream; `mhz` waits for it."""

    def __init__(self) -> None:
        ordinal = torch.cuda.current_device()
        arch = "sm_90a" if torch.cuda.get_device_capability()[0] == 9 else "sm_80"
        blocks = BLOCKS_OF_EACH * driver.multiprocessors(ordinal)
        context = driver.context(ordinal)
        with OnContext(int(context)):
            loaded = driver.load(compile_source(SOURCE, arch), "stamp", 32, 0, ordinal=ordinal)
            self._stamp = Prepared(loaded, ("out",), [Parameter("pointer", "out", None)], blocks, int(context))
        self._notes = [torch.zeros(MOST, 2, dtype=torch.int64, device="cuda") for _ in range(2)]

    def begin(self) -> None:
        self._note(0)

    def end(self) -> None:
        self._note(1)

    def _note(self, which: int) -> None:
        self._notes[which].zero_()
        self._stamp.launch([self._notes[which].data_ptr()], [], torch.cuda.current_stream().cuda_stream)

    def mhz(self) -> float:
        """The mean clock of the burst [MHz]; NaN where nothing can be said."""
        return mean_clock(*(notes.tolist() for notes in self._notes))


def mean_clock(before: list[list[int]], after: list[list[int]]) -> float:
    """Of (cycles, nanoseconds) of each multiprocessor, (0, 0) where it has none: the clock [MHz]."""
    both = [(a, b) for a, b in zip(before, after, strict=True) if a[1] and b[1] - a[1] > LEAST_NS]
    return statistics.median((b[0] - a[0]) / (b[1] - a[1]) for a, b in both) * 1e3 if both else float("nan")
