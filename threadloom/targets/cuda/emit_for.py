"""The emitter of a device's architecture."""

from __future__ import annotations

from collections.abc import Callable

from threadloom.errors import InternalError
from threadloom.machine.devices import device
from threadloom.sched.ops import SProgram
from threadloom.targets.cuda.emit import KernelSource

EMITTED = ("sm_90a", "sm_80")  # architectures that code is made for


def emitter(program: SProgram) -> Callable[..., KernelSource]:
    """`emit(program, facts, dims, timeline=0)` for the device that `program` was planned for."""
    arch = device(program.device).arch
    if arch == "sm_90a":
        from threadloom.targets.cuda.emit import emit
    elif arch == "sm_80":
        from threadloom.targets.cuda.sm80.emit import emit
    else:
        raise InternalError(f"{program.device} is {arch}: there is no code generator for it")
    return emit
