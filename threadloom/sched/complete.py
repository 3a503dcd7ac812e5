"""What a target adds to a scheduled plan, once it is known how its code would block the loops.

The scheduler knows tiles and tasks, a target how their code is made. So `completes` says by architecture which function
writes a target's choices into a plan (in `threadloom/__init__.py`, by name: it is imported when one is wanted).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `import threadloom` reads this file
    from threadloom.machine.model import Device
    from threadloom.sched.ops import SProgram

_COMPLETED_BY: dict[str, str] = {}  # architecture -> "module:function" of (program, extents)


def completes(arch: str, function: str) -> None:
    """Plans for `arch` are completed by `function` ("module:name")."""
    _COMPLETED_BY[arch] = function


def completed(program: SProgram, dims: dict[str, int], device: Device) -> SProgram:
    """The plan with its target's choices for the extents `dims`; unchanged where the target has none."""
    if device.arch not in _COMPLETED_BY or not program.graph.tasks:
        return program
    module, _, name = _COMPLETED_BY[device.arch].partition(":")
    return getattr(import_module(module), name)(program, dims)
