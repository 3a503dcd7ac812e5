"""Whether code made for some extents serves others: sizes that change with each call are not planned anew each time.

Generated code takes extents as parameters, but for axes that are taken whole. What was decided with the extents known
has to come out the same: units and places (a bulk copy may need whole tiles), and that copies begin at 16 bytes. How
well the plan suits the others is not looked at: like the CPU target, calls share a plan within a bucket of extents.
"""

from __future__ import annotations

from collections.abc import Mapping

from threadloom.machine.devices import device
from threadloom.sched.ops import SProgram
from threadloom.sched.placement import Placement, place
from threadloom.sched.sizes import axis_extents, sizes_of
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.tile.ops import AxisKind


def bucket(extent: int) -> int:
    """`extent` rounded up to a multiple of a quarter of the power of two below it."""
    step = max(1, 1 << max(0, extent.bit_length() - 3))
    return max(1, -(-extent // step) * step)


def serves(
    program: SProgram, facts: Mapping[str, TensorFacts], made_for: Mapping[str, int], dims: Mapping[str, int]
) -> bool:
    """Whether the code of `program`, planned for the extents `made_for`, is right for `dims` too. `facts` are those of
    both. A plan with a walked axis is not asked: what it keeps on chip was found for its own extents."""
    if program.partition.sequential:
        return made_for == dims
    compiled_in = {a.dim for a in program.graph.kernel.axes if a.kind is AxisKind.WHOLE and isinstance(a.dim, str)}
    if any(made_for[name] != dims[name] for name in compiled_in):
        return False
    return _placement(program, facts, made_for) == _placement(program, facts, dims)


def _placement(program: SProgram, facts: Mapping[str, TensorFacts], dims: Mapping[str, int]) -> Placement:
    graph = program.graph
    sizes = sizes_of(graph, program.partition, axis_extents(graph, {n: max(1, e) for n, e in dims.items()}))
    aligned = {name: f.aligned for name, f in facts.items()}
    return place(graph, program.partition, sizes, device(program.device), aligned)
