"""Where the tiles of a persistent block stand, worked out for all of them before the first.

before: each role divides the number of every tile by numbers of tiles that are known at launch only, one division
        after another, while nothing else goes on
after:  const auto place_of = [&](i32 tile) -> u64 { ... the divisions ... };
        for (i32 round = threadIdx.x; round < 64 ...) write_place(smem_places + 8 * round, place_of(tile));
        and each role: const u64 place = round < 64 ? read_place(smem_places + 8 * round) : place_of(tile);

A place is the tile's index along each axis of the grid, 16 bits each. Needs: the decision `walk = listed`
(`sched/tuning_choices.py`), room in shared memory, and that no tile is begun in another's last pass.
"""

from __future__ import annotations

from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.task.ops import Loop
from threadloom.writer import Writer

ROUNDS = 64  # tiles of a block that have an entry; later ones are divided for
INDEX_BITS = 16
LIST_BYTES = 8 * ROUNDS


def wants_list(plan: KernelPlan) -> bool:
    program = plan.program
    return ("walk", "listed") in program.decisions and not program.partition.begins_ahead


def place_lines(w: Writer, loop: Loop) -> None:
    """The indices in the variable `place`."""
    for at, a in enumerate(loop.axes):
        shifted = f"place >> {at * INDEX_BITS}" if at else "place"
        w.line(f"const i32 index_{a.axis.name} = (i32)({shifted} & {(1 << INDEX_BITS) - 1});")


def packed_place(loop: Loop) -> str:
    """C expression of the place of a tile whose indices are known."""
    parts = [f"(u64)index_{a.axis.name}" + (f" << {at * INDEX_BITS}" if at else "") for at, a in enumerate(loop.axes)]
    return " | ".join(parts)
