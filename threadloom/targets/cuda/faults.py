"""What in a plan's machine code is not as planned: spills, serialised products, more shared memory than there is."""

from __future__ import annotations

from threadloom.targets.cuda.compile import CudaKernel

MOST_SHARED_BYTES = 227 * 1024
MOST_STACK_BYTES = 256  # some functions have tables there


def is_short_of_shared_memory(made: CudaKernel) -> bool:
    """Whether its code takes more than a block can have: tiles are padded to what products need."""
    if made.source.shared_bytes > MOST_SHARED_BYTES:
        return True
    return made.combine is not None and is_short_of_shared_memory(made.combine)


def fault_of(made: CudaKernel, spills: bool = True) -> str:
    """What is not as planned, "" where all is. `spills`: whether they are a fault."""
    cubin = made.cubin
    if made.source.shared_bytes > MOST_SHARED_BYTES:
        return f"{made.source.shared_bytes} bytes of shared memory are needed"
    if cubin.serialised:
        return "products are serialised"
    if cubin.spill_bytes and spills:
        return f"{cubin.spill_bytes} bytes are spilled"
    if cubin.stack_bytes > MOST_STACK_BYTES and spills:
        return f"{cubin.stack_bytes} bytes of values lie in memory"
    return "" if made.combine is None else fault_of(made.combine, spills)
