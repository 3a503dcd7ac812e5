"""What lies beyond the end of an axis is overwritten once: a second time only where the array was written in between.

A sum overwrites the last tile's rest with zeros in place, and the packing of the same array for a product, which may
stand behind a wait, wants the same zeros. ptxas keeps such a second test and its branches, and spills for them.
"""

from __future__ import annotations

import re

from threadloom.targets.cuda.registers import Scope


def is_overwritten(scope: Scope, array: str, head: str, place: str, with_: str) -> bool:
    """Whether the code before has done this: `array`'s elements beyond the end are `with_` where the condition of the
    block `head` holds. If not, it is noted down as written here. `place`: variable of the tile's first position."""
    w = scope.writer
    known = scope.overwritten.get(array)
    same = known is not None and known[0] is w and known[2:] == (head, with_) and place.isidentifier()
    if same and _holds(w.written(known[1], w.mark()), head, array, place):
        return True
    scope.overwritten[array] = w, w.mark(), head, with_
    return False


def _holds(lines: list[str], head: str, array: str, place: str) -> bool:
    """Whether `lines`, which begin before or at the block `head`, neither leave the block around it nor write
    `array` behind it nor give `place` another meaning. Anything unclear counts as if they did."""
    start = next((at for at, line in enumerate(lines) if line.strip() == head + " {"), None)
    if start is None:
        return False
    changes = re.compile(rf"\b{array}\[.*\]\s*[-+*/|&^]?=(?!=)|\b{array}\b(?!\[)|\bi32 {place}\b")
    depth, inside = 0, True
    for line in lines[start:]:
        code = line.split("//")[0]
        leaves = depth == 0 and not inside and code.strip().startswith("}")
        depth += code.count("{") - code.count("}")
        if not inside and changes.search(code) and f"pin({array});" not in code:
            return False
        inside = inside and depth > 0
        if leaves or depth < 0:
            return False
    return not inside
