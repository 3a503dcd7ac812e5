"""What an sProgram for cores may not ask for: a core has one thread, and takes tiles one at a time.

Its code obeys tile sizes, the grid's order, `longest_first`, sequential axes and the decisions. The order of Issues,
their stages and the slots of buffers must be right as anywhere, but make no other code (docs/cpu-target.md).
"""

from __future__ import annotations

from threadloom.machine.model import Device
from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.ops import Partition, SProgram

REGISTERS = ("register_rows", "register_vectors")


def check_core(program: SProgram, device: Device, findings: Findings) -> None:
    if device.arch != "cpu":
        return
    for what, why in _without_meaning(program.partition):
        findings.add(Finding("not-on-a-core", f"{what} has no meaning on {device.name}: {why}", what))
    said = {key: value for key, value in program.decisions if key in REGISTERS}
    if said and (why := _wrong_block(said, device)):
        block = ", ".join(f"{key} = {value}" for key, value in said.items())
        findings.add(Finding("bad-decision", f"{block}: {why}", REGISTERS[0]))


def _without_meaning(partition: Partition) -> list[tuple[str, str]]:
    found = []
    if partition.group != 1:
        found.append((f"group {partition.group}", "all its tiles share one cache; write group 1, and choose by order"))
    if partition.workers != 1:
        found.append((f"workers {partition.workers}", "a core is one role"))
    if partition.cluster != 1:
        found.append((f"cluster {partition.cluster}", "no load is shared by cores"))
    if partition.begins_ahead:
        found.append(("begins_ahead", "a core finishes a tile before it begins the next"))
    if partition.backwards:
        found.append(("backwards", "a core's loops go forwards"))
    return found


def _wrong_block(said: dict[str, str], device: Device) -> str:
    """Why a register block cannot be had, "" where it can."""
    if said.keys() != set(REGISTERS):
        return f"{' and '.join(REGISTERS)} are given together"
    if not all(value.isdecimal() and int(value) for value in said.values()):
        return "both are positive numbers"
    rows, vectors = (int(said[key]) for key in REGISTERS)
    if vectors & (vectors - 1):
        return "copies of vector loops are powers of two"
    most = int(device.fact("vector_registers", 16))
    needed = rows * vectors + vectors + 1
    return f"the block takes {needed} vector registers of {most}" if needed > most else ""
