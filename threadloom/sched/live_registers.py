"""How many bytes of registers a VECTOR sTask needs for its own values.

Elementwise operations run together, element by element, so only what has to outlast a reduction or a scan takes
registers for a whole tile: its operand, if others read it too, and every value made before it and read after it.
"""

from __future__ import annotations

from threadloom.sched.sizes import Sizes
from threadloom.task.ops import STask
from threadloom.tile.ops import Cast, Reduce, Scan, Value
from threadloom.tile.uses import operands, results

LEAST_BYTES = 4  # narrow elements are computed in registers of their own


def live_bytes(task: STask, sizes: Sizes, share: bool, later: frozenset[str] = frozenset()) -> int:
    """The most bytes alive at once, of one worker's part. `later`: values that are loaded in pieces when used."""
    values: dict[str, Value] = {v.name: v for op in task.ops for v in (*operands(op), *results(op))}
    made = {v.name: at for at, op in enumerate(task.ops) for v in results(op)}
    last = {v.name: at for at, op in enumerate(task.ops) for v in operands(op)} | dict.fromkeys(
        task.writes, len(task.ops)
    )

    def size(name: str) -> int:
        type_ = values[name].type
        return sizes.elems(type_.axes, share) * max(LEAST_BYTES, type_.dtype.bits // 8) if type_.axes else 0

    first = {v.name: at for at, op in reversed(list(enumerate(task.ops))) for v in operands(op)}
    cast = {op.result.name for op in task.ops if isinstance(op, Cast) and op.arg.name in later}
    most = max((size(name) for name in values if name in last and name not in later), default=0)
    for at, op in enumerate(task.ops):
        if isinstance(op, Reduce | Scan):
            alive = {n for n in values if made.get(n, -1) < at and last.get(n, -1) > at} - later
            alive -= {n for n in cast if first.get(n, -1) > at}  # converted when used, too
            alive |= {op.arg.name} if last.get(op.arg.name, -1) > at or op.arg.name not in made else set()
            most = max(most, sum(size(n) for n in alive))
    return most
