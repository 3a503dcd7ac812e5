"""The passes that both front doors use, by name; each door's own order is in its pipeline file."""

from __future__ import annotations

from threadloom.par.canonicalize import Canonicalize
from threadloom.par.cse import Cse
from threadloom.par.hoist_invariant import HoistInvariant
from threadloom.par.passes import Pass

SHARED_PASSES: dict[str, Pass] = {one.name: one for one in (Canonicalize(), Cse(), HoistInvariant())}

# After a door has built or lowered its code: folding first, so that equal code looks equal; then one copy of each
# value; then out of loops; folding again for what hoisting emptied.
CLEAN_UP: tuple[Pass, ...] = (Canonicalize(), Cse(), HoistInvariant(), Canonicalize())
