"""An sProgram as one CUDA C++ kernel for sm_90a.

before: SProgram (checked), what is known of the tensors. after: `KernelSource`: text, and all that a launch needs.
The text is the sProgram read aloud: buffers, barriers, then each role in turn. Same input, same bytes.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.machine.devices import device
from threadloom.sched.ops import Arrive, Role, SProgram, Wait, Why
from threadloom.sched.turns import workers_meet
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.across import CELL_BYTES
from threadloom.targets.cuda.begin_ahead import begins_ahead
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.dot import descriptor_base, descriptor_name
from threadloom.targets.cuda.driver import MapSpec
from threadloom.targets.cuda.homes import Homes
from threadloom.targets.cuda.issue import emit_ready_scalars, launch_scalars
from threadloom.targets.cuda.kernel_plan import KernelPlan, c_name, staging_name
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.nvrtc import functions_of
from threadloom.targets.cuda.places import Places
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.rings import declare_rings
from threadloom.targets.cuda.section import RoleEmitter
from threadloom.targets.cuda.unsupported import located
from threadloom.targets.cuda.wgmma import wrapper
from threadloom.task.ops import Method
from threadloom.tile import ops as tile
from threadloom.writer import Writer

ALIGN_BYTES = 1024
OTHER_SCRATCH_BYTES = 4096


@dataclass(frozen=True, slots=True)
class KernelSource:
    """`maps`: (parameter name, spec) in parameter order; `direct`: tensors passed as pointer and strides; `dims`:
    run-time dimensions passed as i32; `scalars`: (name, dtype name); `grid`: of the grid axes (dim, extent of a tile,
    what the number of tiles is rounded up to a multiple of); `cluster`: blocks that load together.
    """

    name: str
    text: str
    arch: str
    threads: int
    shared_bytes: int
    cluster: int
    persistent: bool
    maps: tuple[tuple[str, MapSpec], ...]
    direct: tuple[str, ...]
    dims: tuple[str, ...]
    scalars: tuple[tuple[str, str], ...]
    grid: tuple[tuple[tile.Dim, int, int], ...]
    barriers: tuple[str, ...]
    blocks_per_eu: int = 1


def emit(
    program: SProgram,
    facts: dict[str, TensorFacts],
    dims: dict[str, int],
    timeline: int = 0,
    pads_all: bool = True,
) -> KernelSource:
    """`timeline`: records of in-kernel clocks that each role of block 0 keeps (0: none; see `clocks.py`); `pads_all`:
    pad tiles that no product reads, too (`emit_for.py`: if that fits)."""
    plan = KernelPlan(program, facts, dims, timeline=timeline, pads_all=pads_all)
    kernel = program.graph.kernel
    body = Writer()
    with located(kernel.loc):
        shared_bytes = _emit_body(body, plan)
    threads = 32 * sum(r.warps for r in program.roles)
    maps = tuple(sorted(plan.maps.items()))
    direct = direct_tensors(plan)
    names = dims_of(plan)
    text = Writer()
    emit_head(text, plan, threads, shared_bytes, "sm90.cuh")
    for i in sorted(plan.used, key=lambda i: i.name):
        text.line()
        text.lines(wrapper(i))
    parameters = [f"const __grid_constant__ TensorMap {name}" for name, _ in maps] + parameters_of(plan, direct, names)
    text.line()
    blocks = int(device(program.device).fact("blocks_per_eu", 1))
    _check_registers(program, threads * blocks, blocks)
    if timeline:
        text.line(f"__device__ u32 loom_clocks[{len(program.roles) * (3 * timeline + 1)}];")
    text.line(f'extern "C" __global__ void __launch_bounds__({threads}, {blocks})')
    text.line(f"{identifier(kernel.name)}({', '.join(parameters)}) {{")
    text.lines(body.text())
    text.line("}")
    axes = [a.axis for a in plan.loop(0).axes]
    grid = tuple((a.dim, plan.grid_extent(a.name), plan.rounded.get(a.name, 1)) for a in axes)
    return KernelSource(
        identifier(kernel.name), text.text(), "sm_90a", threads, shared_bytes,
        program.partition.cluster, program.partition.persistent, maps, direct, names,
        tuple((s.name, s.dtype.name) for s in kernel.scalars), grid, tuple(s.name for s in plan.rings), blocks,
    )  # fmt: skip


def _check_registers(program: SProgram, threads: int, blocks: int) -> None:
    """A role that asks for more registers than its block has waits for them for ever."""
    entry = min(255, 65536 // threads // 8 * 8)
    wanted = sum(role.registers * role.warps for role in program.roles)
    if wanted > entry * threads // blocks // 32:
        raise InternalError(f"roles want {32 * wanted} registers, a block has {entry * threads // blocks}")


def emit_head(w: Writer, plan: KernelPlan, threads: int, shared_bytes: int, header: str) -> None:
    p = plan.program
    w.note(f"{p.graph.kernel.name} for {p.device}, planned by {p.policy}")
    tiles = ", ".join(f"{t.axis} {t.extent}" for t in p.partition.tiles)
    w.note(f"tiles: {tiles}; {p.partition.workers} workers, {threads} threads, {shared_bytes} bytes of shared memory")
    for loop in p.loops:
        if loop.loop:
            w.note(
                f"loop {loop.loop}: one iteration every {loop.ii_cycles:.0f} cycles, {loop.stages} stages (predicted)"
            )
    w.line(f'#include "{header}"')


def dims_of(plan: KernelPlan) -> tuple[str, ...]:
    """The named dimensions that are parameters of the kernel, in their order."""
    kernel = plan.program.graph.kernel
    return tuple(sorted({d for t in kernel.tensors for d in t.dims if isinstance(d, str)} | axis_dims(plan)))


def parameters_of(plan: KernelPlan, direct: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """C declarations of the parameters after the maps: `direct` tensors with their strides, dimensions, scalars."""
    made = []
    for name in direct:
        tensor = plan.facts[name].tensor
        const = "const " if tensor.access is tile.Access.IN else ""
        made.append(f"{const}{c.memory_type(tensor.dtype)}* __restrict__ {identifier(name)}")
        made += [f"const i64 {identifier(name)}_stride{d}" for d in range(len(tensor.dims))]
    made += [f"const i32 dim_{d}" for d in names]
    scalars = plan.program.graph.kernel.scalars
    return made + [f"const {c.register_type(s.dtype)} {identifier(s.name)}" for s in scalars]


def axis_dims(plan: KernelPlan) -> set[str]:
    return {a.dim for a in plan.axes.values() if isinstance(a.dim, str)}


def direct_tensors(plan: KernelPlan) -> tuple[str, ...]:
    """Tensors that threads access by address."""
    found: dict[str, None] = {}
    for t in plan.tasks.values():
        for op in t.ops:
            bulk = t.name in plan.issued and plan.issued[t.name].method is Method.BULK_COPY
            staged = bulk and isinstance(op, tile.Store) and plan.is_staged(op.value.name)
            loaded = isinstance(op, tile.Load) and not (bulk and plan.shared_tile_of_load(op) is not None)
            if loaded or (isinstance(op, tile.Store | tile.AtomicAdd) and not staged):
                found[op.tensor] = None
    return tuple(t.name for t in plan.program.graph.kernel.tensors if t.name in found)


def _emit_body(w: Writer, plan: KernelPlan) -> int:
    """The kernel's body; returns the bytes of dynamic shared memory it uses."""
    program = plan.program
    w.line(f"extern __shared__ __align__({ALIGN_BYTES}) u8 raw[];")
    w.line("const u32 smem = smem_address(raw);")
    w.line(f"if (smem % {ALIGN_BYTES}) __trap();  // swizzled tiles would be scrambled")
    at = 0
    for b in program.buffers:
        if b.space != "smem":
            continue
        if b.layout == "staging":
            w.line(f"const u32 smem_{c_name(b.name)} = smem + {at};  // staged results of {b.role}")
            at += _up(b.slots * b.bytes_per_slot, ALIGN_BYTES)
            continue
        shared = plan.shared_tiles[b.name]
        shape = (
            " x ".join(str(e) for _, e in shared.row_axes) + f" x {shared.columns}"
            if shared.row_axes
            else shared.columns
        )
        owner = f" of {b.role}" if b.role else ""
        name = f"smem_{c_name(b.name)}"
        w.line(f"const u32 {name} = smem + {at};  // {b.slots} slots of {shape} {shared.dtype.name}, {b.layout}{owner}")
        at += _up(b.slots * shared.bytes_per_slot, ALIGN_BYTES)
    for s in plan.rings:
        w.line(f"const u32 {plan.barrier_name(s.name)} = smem + {at};  // {s.slots} barriers")
        at += 8 * s.slots
    scratch = w.mark()
    w.line("const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;")
    if (count := program.partition.cluster) > 1:
        w.line(f"const i32 block_in_cluster = (i32)cluster_rank();  // of {count} that load together")
    if plan.rings:
        _emit_barriers(w, plan)
    scope = Scope(w)
    Places(plan, scope, worker=False).declare_grid(plan.loop(0))
    workers = sum(role.kind == "worker" for role in program.roles)
    warps = sum(role.warps for role in program.roles if role.kind == "worker")
    codes = _emit_roles(w, plan, max(0, _spare_bytes(plan, at)) // max(1, warps))
    if program.partition.cluster > 1:
        w.line("__syncwarp();")
        w.line("cluster_sync();  // no block leaves while another may still write to its memory or arrive there")
    if factor_bytes := max(code.factor_bytes for code in codes):
        at = _up(at, 16)
        w.insert(scratch, f"const u32 smem_factors = smem + {at};  // where lanes exchange factors")
        w.insert(scratch, f"constexpr u32 factor_bytes = {factor_bytes};  // of a warp")
        at += factor_bytes * warps
    if any(code.scratch for code in codes):
        at = _up(at, CELL_BYTES)
        w.insert(scratch, f"const u32 smem_scratch = smem + {at};  // where warps of a worker exchange values")
        at += 128 * CELL_BYTES * workers
    if together := max(code.sharing_workers for code in codes):
        at = _up(at, CELL_BYTES)
        w.insert(scratch, f"const u32 smem_between = smem + {at};  // where workers exchange values")
        at += 128 * CELL_BYTES * together
    return at + insert_converted(w, scratch, at, max(code.converted_bytes for code in codes), workers)


def _spare_bytes(plan: KernelPlan, used_bytes: int) -> int:
    """Of shared memory, beside what the plan has in it and what values may need on their way between warps."""
    return int(device(plan.program.device).memory("smem").capacity_bytes.value) - used_bytes - OTHER_SCRATCH_BYTES


def _emit_barriers(w: Writer, plan: KernelPlan) -> None:
    with w.block("if (threadIdx.x == 0)"):
        for s in plan.rings:
            arrivals = s.arrivals * (1 if _arrives_once(plan, s.name) else 4)
            for slot in range(s.slots):
                w.line(f"barrier_init({plan.barrier_name(s.name)} + {8 * slot}, {arrivals});")
        w.line("barrier_init_done();")
    w.line("cluster_sync();" if plan.program.partition.cluster > 1 else "__syncthreads();")


def insert_converted(w: Writer, mark: int, at: int, converted_bytes: int, workers: int) -> int:
    """Declare the memory through which values go to another layout, from byte `at` on; its size."""
    if not converted_bytes:
        return 0
    start, each = _up(at, CELL_BYTES), _up(converted_bytes, CELL_BYTES)
    w.insert(mark, f"const u32 smem_converted = smem + {start};  // where values change their layout")
    w.insert(mark, f"constexpr u32 converted_bytes = {each};  // of a worker")
    return start + each * workers - at


def _arrives_once(plan: KernelPlan, signal: str) -> bool:
    """Whether a role's arrival is one thread's (with the bytes of copies, or from a producer of one lane) and not one
    of each of its four warps."""
    if any(i.completes == signal for i in plan.issued.values()):
        return True
    arriving = {s.role for s in plan.program.sections for i in s.instrs if isinstance(i, Arrive) and i.signal == signal}
    producers = {r.name for r in plan.program.roles if r.kind == "producer"}
    return bool(arriving & producers) and not plan.wide_producer


@dataclass(frozen=True, slots=True)
class RoleCode:
    """`names`: what the code calls things that differ from role to role: (C type, name, C expression)."""

    role: Role
    names: tuple[tuple[str, str, str], ...]
    body: str
    scratch: bool
    sharing_workers: int
    converted_bytes: int
    factor_bytes: int  # of a warp


def _emit_roles(w: Writer, plan: KernelPlan, factor_room_bytes: int) -> list[RoleCode]:
    """Each role in a branch of its own; workers with the same code share one."""
    roles = plan.program.roles
    codes = [_role_code(plan, role, factor_room_bytes) for role in roles]
    groups = [max(1, role.warps // 4) for role in roles]
    first = 0
    at = 0
    while at < len(roles):
        together = 1
        while at + together < len(roles) and _same_code(codes[at], codes[at + together]):
            together += 1
        tests = [f"group == {first + sum(groups[at : at + k])}" for k in range(together)]
        head = f"{'else ' if at else ''}if ({' || '.join(tests)})" if len(roles) > 1 else ""
        with w.block(head):
            _emit_branch(w, codes[at : at + together], first, several=len(roles) > 1)
        first += sum(groups[at : at + together])
        at += together
    return codes


def _same_code(a: RoleCode, b: RoleCode) -> bool:
    names = [(kind, name) for kind, name, _ in a.names] == [(kind, name) for kind, name, _ in b.names]
    alike = a.role.kind == b.role.kind == "worker" and a.role.registers == b.role.registers
    return alike and names and a.body == b.body


def _emit_branch(w: Writer, codes: list[RoleCode], first_group: int, several: bool) -> None:
    """`several`: the block has other roles, which give registers or take them."""
    role = codes[0].role
    w.note(", ".join(code.role.name for code in codes))
    if role.registers and several:
        verb = "shrink" if role.kind == "producer" else "grow"
        w.line(f"{verb}_registers<{role.registers}>();")
    if role.kind == "worker":
        shift = first_group - _number(role)
        shared = f"const i32 worker = group - {shift};" if shift else "const i32 worker = group;"
        w.line(shared if len(codes) > 1 else f"constexpr i32 worker = {_number(role)};")
    for at, (kind, name, _) in enumerate(codes[0].names):
        text = codes[-1].names[at][2]
        for k in reversed(range(len(codes) - 1)):
            if codes[k].names[at][2] != text:
                text = f"worker == {_number(codes[k].role)} ? {codes[k].names[at][2]} : {text}"
        w.line(f"const {kind} {name} = {text};")
    w.lines(codes[0].body)


def _number(role: Role) -> int:
    return int(role.name.removeprefix("worker") or 0)


def _role_code(plan: KernelPlan, role: Role, factor_room_bytes: int) -> RoleCode:
    w = Writer()
    scope = Scope(
        w, names=taken_names(plan), rounds=plan.rounds, unrounded=plan.stored_only, factor_room_bytes=factor_room_bytes
    )
    scope.registers |= launch_scalars(plan, scope.team.warps)
    names = []
    for b in plan.program.buffers:
        if b.layout == "staging" and b.role in ("", role.name):
            names.append(("u32", staging_name(b.tile), "smem_" + c_name(b.name)))
        elif b.space == "smem" and b.role == role.name:
            names.append(("u32", plan.shared_tiles[b.name].base, "smem_" + c_name(b.name)))
    turns = {}
    graph, partition = plan.program.graph, plan.program.partition
    for section in plan.program.sections:
        for instr in section.instrs if section.role == role.name else ():
            if isinstance(instr, Wait | Arrive) and instr.reason.why is Why.ORDER:
                turn = turns.setdefault(instr.signal, f"turn_{len(turns)}")
                scope.takes_turns |= workers_meet(graph, partition, section.loop)
                if ("u32", turn, plan.barrier_name(instr.signal)) not in names:
                    names.append(("u32", turn, plan.barrier_name(instr.signal)))
                if isinstance(instr, Wait):
                    names.append(("u32", f"{turn}_early", str(instr.reason.distance)))
                    names.append(("u32", f"{turn}_index", str(plan.barrier_index(instr.signal))))
    scope.names |= {name for _, name, _ in names}
    if role.kind == "producer":
        if plan.wide_producer:
            w.line("const bool elected = warp_in_group == 0 && lane == 0;  // feeds the copy engine")
        with w.block("if (warp_in_group == 0 && elect_lane())") if not plan.wide_producer else nullcontext():
            _emit_tiles(w, plan, role, scope, turns)
    else:
        _emit_descriptors(w, plan, scope)
        _emit_tiles(w, plan, role, scope, turns)
    return RoleCode(
        role, tuple(names), w.text(), scope.needs_scratch, scope.sharing_workers, scope.converted_bytes,
        scope.factor_bytes,
    )  # fmt: skip


def _emit_descriptors(w: Writer, plan: KernelPlan, scope: Scope) -> None:
    for dot in plan.dots.values():
        for value, axis, split, size in dot.parts:
            shared = plan.shared_tile(value.name)
            name = descriptor_name(shared, axis) if shared else ""
            if shared and name not in scope.names:
                scope.names.add(name)
                w.line(f"const u64 {name} = {descriptor_base(shared, axis, plan.worker_rows(split, size))};")


def taken_names(plan: KernelPlan) -> set[str]:
    """C names that parameters, buffers and barriers have."""
    kernel = plan.program.graph.kernel
    parameters = {identifier(p.name) for p in (*kernel.tensors, *kernel.scalars)}
    names = parameters | {f"dim_{d}" for d in axis_dims(plan)} | {plan.barrier_name(s.name) for s in plan.rings}
    return names | functions_of("sm90.cuh") | functions_of("sm80.cuh")


def _emit_tiles(w: Writer, plan: KernelPlan, role: Role, scope: Scope, turns: dict[str, str]) -> None:
    places = Places(plan, scope, worker=role.kind == "worker")
    if plan.timeline:
        number = [r.name for r in plan.program.roles].index(role.name)
        which = f"{number - _number(role)} + worker" if role.kind == "worker" else str(number)
        writes = "blockIdx.x == 0" + (" && warp_in_group == 0 && lane == 0" if role.kind == "worker" else "")
        w.line(f"Clocks clocks(loom_clocks, {which}, {plan.timeline}, {writes});")
    e = RoleEmitter(plan, role, scope, places, turns=turns)
    declare_rings(e)
    walk = "for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x)"
    if plan.program.partition.longest_first:  # who had the longest tile of a round has the shortest next
        walk = "for (i32 round = 0, tile = blockIdx.x; tile < tiles; round++, tile = back_and_forth(round))"
    if not plan.program.partition.persistent:
        walk = "for (i32 tile = blockIdx.x; tile < tiles; tile = tiles)"  # one tile a block
    ahead = begins_ahead(e.section(0)) is not None
    if ahead:
        e.begun, e.next_tile = scope.fresh("begun"), _next_tile(plan)
        w.line(f"bool {e.begun} = false;  // whether the last tile has begun this one")
    if ahead and role.kind == "worker":
        e.homes = Homes.declare(plan, scope, role.name)  # what is begun ahead outlives its tile
    with w.block(walk):
        places.enter_tile(plan.loop(0), "tile", lambda: emit_ready_scalars(e, 0))
        if role.kind == "worker" and not ahead:
            e.homes = Homes.declare(plan, scope, role.name)
        e.tile_body()
    if any(plan.is_store_group(i.completes) for i in plan.issued.values()) and role.kind == "worker":
        w.line("if (lane == 0) store_wait_read<0>();  // the sources must outlive the stores' reads")


def _next_tile(plan: KernelPlan) -> str:
    """C expression of the number of the tile that this block does after this one."""
    return "back_and_forth(round + 1)" if plan.program.partition.longest_first else "tile + (i32)gridDim.x"


def _up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple
