"""What in a plan's machine code is not as planned: spills, serialised products, values in memory."""

from __future__ import annotations

from threadloom.targets.cuda.compile import CudaKernel

MOST_STACK_BYTES = 256  # some functions have tables there


def fault_of(made: CudaKernel, spills: bool = True) -> str:
    """What is not as planned, "" where all is. `spills`: whether they are a fault."""
    cubin = made.cubin
    if cubin.serialised:
        return "products are serialised"
    if cubin.spill_bytes and spills:
        return f"{cubin.spill_bytes} bytes are spilled"
    if cubin.stack_bytes > MOST_STACK_BYTES and spills:
        return f"{cubin.stack_bytes} bytes of values lie in memory"
    return "" if made.combine is None else fault_of(made.combine, spills)
