"""How much code a source becomes with its loops unrolled, from its text: what is too much takes NVRTC minutes.

Threads that hold 128 elements of several tiles, each loaded and tested for itself, need no good code (their values do
not fit registers anyway), they need code within the minute that a call waits for its compiler.
"""

from __future__ import annotations

import re

MOST_UNROLLED = 600_000  # characters: the examples have up to 290 000; 860 000 took 25 to 75 CPU seconds, in parts 1.5

_LOOP = re.compile(r"for \(int (\w+) = 0; \1 < (\d+); \1(?:\+\+| \+= (\d+))\)")


def is_too_wide(source: str) -> bool:
    """Whether NVRTC is asked to compile quickly: it leaves loops rolled then, and arrays in memory, where no
    accumulator of a warpgroup's products may be."""
    return "mma_m64" not in source and unrolled_size(source) > MOST_UNROLLED


def unrolled_size(source: str) -> int:
    """Characters of `source`, as this generator writes it (a block's brace ends its line), each line as often as it
    stands in unrolled loops."""
    total, factor, around, unrolled = 0, 1, [], False
    for line in map(str.strip, source.splitlines()):
        if line.startswith("#pragma unroll"):
            unrolled = line == "#pragma unroll"  # all of it
            continue
        loop = _LOOP.match(line) if unrolled else None
        times = -(-int(loop[2]) // int(loop[3] or 1)) if loop else 1
        total += factor * times * len(line)
        if line.startswith("}") and around:
            factor = around.pop()
        if line.endswith("{"):
            around.append(factor)
            factor *= times
        unrolled = False
    return total
