"""Structural rules of level `sched`: what must hold before an sProgram means anything (the checker proves the rest).

Used between the policy and whoever reads the program next, and on programs parsed from text. The rules are in
`check_static.py`: names, places of instructions, units and their completions, kinds of signals, memory.
"""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.machine.devices import device as device_named
from threadloom.machine.model import Device
from threadloom.sched.check_static import check_static
from threadloom.sched.ops import SProgram


def verify(program: SProgram, device: Device | None = None) -> None:
    """Raise an InternalError that lists every broken rule."""
    found = check_static(program, device or device_named(program.device)).list()
    if found:
        raise InternalError(f"not an sProgram of {program.device}: " + "; ".join(map(str, found)))
