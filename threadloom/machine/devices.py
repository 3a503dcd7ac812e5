"""The list of devices by name. `cpu` is this machine, read when first asked for."""

from __future__ import annotations

from dataclasses import replace

from threadloom.errors import CompileError, slug
from threadloom.machine import a100, b200, cpu, h100, h200, mi300x
from threadloom.machine.model import SEU, Device, Figure, Rate
from threadloom.machine.shares import share_named

UNKNOWN_DEVICE = slug("unknown-device", "the named device has no machine model")

_FIXED: dict[str, Device] = {
    "h100": h100.H100,
    "h200": h200.H200,
    "a100": a100.A100,
    "b200": b200.B200,
    "mi300x": mi300x.MI300X,
}
NAMES: tuple[str, ...] = (*_FIXED, "cpu")


def device(name: str | Device) -> Device:
    """The model called `name` (a model is returned as it is); "h200/2": with two blocks on each EU (shares.py)."""
    if isinstance(name, Device):
        return name
    if name == "cpu":
        return cpu.host()
    base, _, parts = name.partition("/")
    if base in _FIXED and parts and (part := share_named(_FIXED[base], parts)) is not None:
        return part
    if name not in _FIXED:
        raise CompileError(
            UNKNOWN_DEVICE, f"there is no machine model called {name!r}", try_=f"one of {', '.join(NAMES)}"
        )
    return _FIXED[name]


def with_rate(device: Device, seu: str, what: str, per_cycle: float, source: str = "assumed: set by hand") -> Device:
    """`device` with one rate of one sEU changed (for sensitivity studies and tests)."""

    def changed(unit: SEU) -> SEU:
        kept = tuple(r for r in unit.rates if r.what != what)
        return replace(unit, rates=(*kept, Rate(what, Figure(per_cycle, source))))

    return replace(device, seus=tuple(changed(u) if u.name == seu else u for u in device.seus))


def with_memory(device: Device, memory: str, capacity_bytes: int, source: str = "assumed: set by hand") -> Device:
    """`device` with the capacity of one memory changed."""
    changed = tuple(
        replace(m, capacity_bytes=Figure(capacity_bytes, source)) if m.name == memory else m for m in device.memories
    )
    return replace(device, memories=changed)
