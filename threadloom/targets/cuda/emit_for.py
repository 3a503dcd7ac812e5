"""The code of a plan, by the emitter of its device, in as little shared memory as a block has."""

from __future__ import annotations

from collections.abc import Callable

from threadloom.errors import InternalError
from threadloom.machine.devices import device
from threadloom.sched.ops import SProgram
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.emit import KernelSource
from threadloom.targets.cuda.unsupported import NO_CODE, SharedMemoryShort

EMITTED = ("sm_90a", "sm_80")  # architectures that code is made for


def emit(program: SProgram, facts: dict[str, TensorFacts], dims: dict[str, int], timeline: int = 0) -> KernelSource:
    """`timeline`: records of in-kernel clocks that block 0 keeps (0: none; see `clocks.py`). Tiles that no product
    reads are padded as the others are where there is room. CompileError (SharedMemoryShort) where the code takes more
    shared memory than a block has."""
    write, most = _emitter(program), most_shared_bytes(program.device)
    for pads_all in (True, False):
        source = write(program, facts, dims, timeline, pads_all)
        if source.shared_bytes <= most:
            return source
    why = f"with its padding it needs {source.shared_bytes} bytes of shared memory of {most}"
    what = "there is no GPU code for tiles of this size"
    raise SharedMemoryShort(NO_CODE, what, why=why, try_="other tile sizes")


def most_shared_bytes(name: str) -> int:
    """What one block can have on the device called `name`, also where the plan is for several on an EU."""
    return int(device(name.partition("/")[0]).memory("smem").capacity_bytes.value)


def _emitter(program: SProgram) -> Callable[..., KernelSource]:
    machine = device(program.device)
    if machine.arch not in EMITTED:
        raise InternalError(f"{program.device} is {machine.arch}: there is no code generator for it")
    if machine.fact("emitter") == "sm80":
        from threadloom.targets.cuda.sm80.emit import emit
    else:
        from threadloom.targets.cuda.emit import emit
    return emit
