"""An sProgram as one CUDA C++ kernel for sm_80: cp.async, ldmatrix, mma.sync; 256 threads, one worker.

before: SProgram (checked), what is known of the tensors. after: `KernelSource`: text, and all that a launch needs.
The text is the sProgram read aloud: buffers, then the worker's sections. Same input, same bytes.
"""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.machine.devices import device
from threadloom.sched.ops import Role, SProgram
from threadloom.targets.cuda.across import CELL_BYTES
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.emit import (
    KernelSource,
    dims_of,
    direct_tensors,
    emit_head,
    insert_converted,
    parameters_of,
    taken_names,
)  # fmt: skip
from threadloom.targets.cuda.homes import Homes
from threadloom.targets.cuda.issue import emit_ready_scalars, launch_scalars
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.places import Places
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.rings import declare_rings
from threadloom.targets.cuda.sm80.plan import AmperePlan
from threadloom.targets.cuda.sm80.section import WorkerEmitter
from threadloom.targets.cuda.unsupported import located, no_code
from threadloom.writer import Writer

ALIGN_BYTES = 128


def emit(
    program: SProgram,
    facts: dict[str, TensorFacts],
    dims: dict[str, int],
    timeline: int = 0,
    pads_all: bool = True,
) -> KernelSource:
    """`timeline`: records of in-kernel clocks that block 0 keeps (0: none; see `targets/cuda/clocks.py`); `pads_all`:
    pad tiles that no product reads, too (`emit_for.py`: if that fits)."""
    if len(program.roles) != 1:
        raise InternalError(f"{program.device}: one worker role is expected, not {len(program.roles)}")
    kernel, body = program.graph.kernel, Writer()
    if any(loop.like is not None for loop in program.graph.loops) or program.partition.sequential:
        raise no_code("a walk along an axis of the grid", "loops over kept tiles are not written yet", kernel.loc)
    plan = AmperePlan(program, facts, dims, timeline=timeline, pads_all=pads_all)
    with located(kernel.loc):
        shared_bytes = _emit_body(body, plan, program.roles[0])
    threads, direct, names = plan.team.threads, direct_tensors(plan), dims_of(plan)
    text = Writer()
    emit_head(text, plan, threads, shared_bytes, "sm80.cuh")
    text.line()
    if timeline:
        text.line(f"__device__ u32 loom_clocks[{3 * timeline + 1}];")
    text.line(f'extern "C" __global__ void __launch_bounds__({threads}, 1)')
    with text.block(f"{identifier(kernel.name)}({', '.join(parameters_of(plan, direct, names))})"):
        text.lines(body.text())
    grid = tuple((a.axis.dim, plan.extents[a.axis.name], 1) for a in plan.loop(0).axes)
    return KernelSource(
        identifier(kernel.name), text.text(), device(program.device).arch, threads, shared_bytes, 1,
        program.partition.persistent, (),
        direct, names,
        tuple((s.name, s.dtype.name) for s in kernel.scalars), grid, (),
    )  # fmt: skip


def _emit_body(w: Writer, plan: AmperePlan, role: Role) -> int:
    """The kernel's body; returns the bytes of dynamic shared memory it uses."""
    w.line(f"extern __shared__ __align__({ALIGN_BYTES}) u8 raw[];")
    w.line("const u32 smem = smem_address(raw);")
    at = _emit_shared_tiles(w, plan)
    scratch = w.mark()
    w.line("constexpr i32 worker = 0;")
    w.line("const i32 warp_in_group = warp_index(), lane = lane_index();")
    scope = Scope(w, names=taken_names(plan), team=plan.team)
    scope.registers |= launch_scalars(plan, plan.team.warps)
    places = Places(plan, scope, worker=True)
    places.declare_grid(plan.loop(0))
    if plan.timeline:
        w.line(f"Clocks clocks(loom_clocks, 0, {plan.timeline}, blockIdx.x == 0 && threadIdx.x == 0);")
    e = WorkerEmitter(plan, role, scope, places)
    declare_rings(e)
    walk = "for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x)"
    if plan.program.partition.longest_first:  # who had the longest tile of a round has the shortest next
        walk = "for (i32 round = 0, tile = blockIdx.x; tile < tiles; round++, tile = back_and_forth(round))"
    with w.block(walk):
        places.enter_tile(plan.loop(0), "tile", lambda: emit_ready_scalars(e, 0))
        e.homes = Homes.declare(plan, scope, role.name)
        e.tile_body()
    if scope.needs_scratch:
        at = -(-at // CELL_BYTES) * CELL_BYTES
        w.insert(scratch, f"const u32 smem_scratch = smem + {at};  // where warps exchange values")
        at += plan.team.threads * CELL_BYTES
    return at + insert_converted(w, scratch, at, scope.converted_bytes, workers=1)


def _emit_shared_tiles(w: Writer, plan: AmperePlan) -> int:
    """The addresses of all tiles in shared memory; returns the bytes they take."""
    at = 0
    for b in plan.program.buffers:
        if b.space != "smem":
            continue
        shared = plan.shared_tiles[b.name]
        rows = "".join(f"{extent} x " for _, extent in shared.row_axes)
        slots = f"{b.slots} slots of {rows}{shared.columns} {shared.dtype.name}, {b.layout}"
        w.line(f"const u32 {shared.base} = smem + {at};  // {slots}")
        at += -(-b.slots * shared.bytes_per_slot // ALIGN_BYTES) * ALIGN_BYTES
    return at
