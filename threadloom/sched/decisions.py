"""Every key of `SProgram.decisions`: choices that are no part of roles, sections or buffers, by name.

A target obeys the keys it knows and may ignore hints; the checker refuses a key that is not in this table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    key: str
    meaning: str
    hint: bool  # a target may ignore it


_RECORDS = (
    Decision("register_rows", "most rows of the accumulator block of a product on a core", hint=False),
    Decision("register_vectors", "vectors a row of that block has, where rows and lanes are many", hint=False),
    Decision(
        "nontemporal", "tensor whose stores bypass the caches: the output is larger than the last level", hint=True
    ),
    Decision(
        "prefetch",
        "`NAME DISTANCE l1|l2|l3`: what of a tensor (tiles, strips, panels, rows), or of a product's accumulators, a "
        "core fetches ahead, how many of them ahead, and into which cache",
        hint=True,
    ),
    Decision("pack", "operand of a product that is copied into panels on a core", hint=True),
    Decision("unpacked", "operand of a product that is read where it lies on a core", hint=True),
    Decision("share_packing", "tensor that cores pack once, before the grid, for all tiles that read it", hint=True),
    Decision("threads", "number of EUs to use, where fewer than all are faster", hint=False),
    Decision("granularity", "fused or split: how vector work was cut into sTasks", hint=True),
    Decision("parts_in_turn", "loop in whose iteration i worker w of two does part (w + i) % 2 of tiles", hint=True),
    Decision("borrowed_from", "shape of the plan that this one was taken from", hint=True),
)

PREFETCH = re.compile(r"\S+ \d{1,4} l[123]")

TABLE: dict[str, Decision] = {d.key: d for d in _RECORDS}
