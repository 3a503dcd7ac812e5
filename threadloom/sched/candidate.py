"""One candidate: a partition taken through placement, costs, problems and schedules to predicted time and sProgram."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from threadloom.errors import InternalError
from threadloom.machine.model import Completion, Device
from threadloom.sched.align_workers import align_workers
from threadloom.sched.assemble import assemble
from threadloom.sched.bounds import UNBOUNDED, choose_slots, lower_bounds, shared_bounds
from threadloom.sched.clusters import rounded_tiles
from threadloom.sched.costs import Measured
from threadloom.sched.fold import Modulo, serial
from threadloom.sched.inter import Grid, grid_axes, grid_of, launch_ns
from threadloom.sched.lines import inner_loops, subtree
from threadloom.sched.live_registers import live_bytes
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.parts import Parts, with_combination
from threadloom.sched.pipeline import Problem, Space, build
from threadloom.sched.placement import Place, Placement, operand_of, passes_through, place
from threadloom.sched.profile import Costs
from threadloom.sched.sizes import BoundScalars, Sizes, sizes_of
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Kind, Method, STask, TaskGraph
from threadloom.tile.ops import Dot

Scheduler = Callable[[Problem], Modulo | None]


@dataclass(frozen=True, slots=True)
class Context:
    """What all candidates of a search share."""

    graph: TaskGraph
    dims: dict[str, int]
    whole: dict[str, int]
    device: Device
    strides_ok: dict[str, bool]
    scalars: BoundScalars
    moved_bytes: float
    tile_map: TileMap
    measured: Measured | None = None
    granularity: str = ""
    walk: AxisTile | None = None  # the grid axis that the graph walks in a loop of its own, and how far in one tile
    parts: Parts | None = None  # the graph is that of the parts of a split reduction


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a partition was not scheduled: `family` names the rule, `detail` the numbers."""

    partition: Partition
    family: str
    detail: str


@dataclass(slots=True)
class Candidate:
    context: Context
    partition: Partition
    sizes: Sizes
    placement: Placement
    costs: Costs
    problems: dict[int, Problem]
    grid: Grid
    bounds: dict[int, dict[str, int]]
    ahead: frozenset[str] = frozenset()  # tiles with a second slot, loaded while the EU still works on its last tile
    floor_ns: float = 0.0  # no schedule of this partition is faster
    schedules: dict[int, Modulo] | None = None
    predicted_ns: float = 0.0
    simulated_ns: float = 0.0  # 0: not simulated

    @property
    def after_ns(self) -> float:
        """Time of the program that combines parts."""
        return 0.0 if self.context.parts is None else self.context.parts.after_ns

    @property
    def ii(self) -> int:
        """Initiation interval of the innermost loop (0: no loop)."""
        made = self.schedules or {}
        return next((m.ii for loop, m in reversed(made.items()) if m.problem.nodes and loop != 0), 0)

    @property
    def work(self) -> int:
        """What scheduling its innermost loops costs, in pairs of a node and an arc or a reader of a buffer."""
        pipelined = (p for loop, p in self.problems.items() if loop != 0)
        return sum(len(p.nodes) * (len(p.arcs) + sum(len(x.readers) for x in p.pools)) for p in pipelined)

    @property
    def serial_ns(self) -> float:
        """Predicted time without any overlap."""
        one = {loop: serial(p, {x.name: 1 for x in p.pools}) for loop, p in self.problems.items()}
        return _time(self, one)


def prepare(partition: Partition, context: Context) -> Candidate | Rejected:
    """Everything but the schedule; memory is checked here, before anything costly is built."""
    graph, device = context.graph, context.device
    sizes = sizes_of(graph, partition, context.whole)
    placement = place(graph, partition, sizes, device, context.strides_ok)
    tiles = context.tile_map
    if partition.cluster > 1 and not any(p.multicast > 1 for p in placement.places.values()):
        return Rejected(partition, "cluster", "no load in a loop is the same for neighbouring tiles")
    granule = int(device.fact("register_vectors", 0)) * int(device.fact("vector_bytes", 4)) // 4
    grid = grid_of(graph, sizes, context.scalars, rounded_tiles(graph, partition), granule=max(1, granule))
    if partition.cluster > 1 and grid.uneven:
        return Rejected(partition, "cluster", "tiles differ in their trip counts")
    placement = _with_kept(placement, graph, tiles, grid)
    if (loose := _loosely_kept(placement, graph, tiles)) is not None:
        return Rejected(partition, "kept", f"{loose} cannot be loaded by the copy engine")
    spaces = free_spaces(graph, placement, device, tiles)
    short = _shortage(graph, placement, tiles, spaces) or _registers_short(graph, placement, sizes, device)
    if short is not None:
        return Rejected(partition, *short)
    parallel = frozenset(a for a in grid_axes(graph) if a not in partition.sequential)
    costs = Costs(graph, placement, sizes, device, tiles, context.measured, parallel)
    problems = {loop.id: build(loop.id, graph, placement, costs, spaces[loop.id]) for loop in graph.loops}
    ahead = _loaded_ahead(graph, placement, tiles, partition) if device.arch != "cpu" else frozenset()
    if ahead:
        spaces = free_spaces(graph, placement, device, tiles, ahead)
        roomy = {loop: replace(problem, spaces=spaces[loop]) for loop, problem in problems.items()}
        if all(_two_slots(p) for p in roomy.values() if p.loop != 0):
            problems = roomy
        else:
            ahead = frozenset()
    bounds = {loop: lower_bounds(problem) for loop, problem in problems.items()}
    for found in bounds.values():
        worst = max(found, key=lambda name: found[name], default="")
        if worst and found[worst] >= UNBOUNDED:
            return Rejected(partition, worst.partition("@")[0], "no initiation interval satisfies it")
    if grid.uneven:  # tiles of equal length are neighbours, so that their order can go from long to short
        rest = tuple(a for a in partition.order if a not in grid.walked)
        group = _longest_first_group(partition, context, grid)
        partition = replace(partition, longest_first=True, order=(*grid.walked, *rest), group=group)
    if grid.tiles <= device.eu_count:
        ahead = frozenset(t for t in ahead if _home(tiles, t) != 0)  # no EU has a next tile
    made = Candidate(context, partition, sizes, placement, costs, problems, grid, bounds, ahead)
    real = {loop: shared_bounds(problem, bounds[loop]) for loop, problem in problems.items()}
    made.floor_ns = _time(made, _at_bounds(problems, real))
    return made


def _longest_first_group(partition: Partition, context: Context, grid: Grid) -> int:
    """How many indices of the other axes are done from long to short together before the next, so that what their
    tiles share stays in the L2 cache; 1: all at once.

    EUs take tiles to and fro (0 1 2 2 1 0 0 ...): they keep to get the same work where two rounds are whole sections,
    or a section is whole pairs of rounds. Of those the largest that fits half of the cache, else the smallest."""
    device, rounds = context.device, 2 * context.device.eu_count
    cache = int(device.fact("l2_bytes", 0)) // 2
    if device.arch == "cpu" or not partition.persistent or len(grid.walked) != 1 or context.moved_bytes <= cache:
        return 1
    (axis,) = grid.walked
    extent = next((t.extent for t in partition.tiles if t.axis == axis), 1)
    along = -(-context.whole[axis] // extent)
    others = grid.tiles // along
    even = [n for n in range(2, others) if rounds % (n * along) == 0 or n * along % rounds == 0]
    fitting = [n for n in even if n * context.moved_bytes <= others * cache]
    return max(fitting, default=min(even, default=1))


def _with_kept(placement: Placement, graph: TaskGraph, tiles: TileMap, grid: Grid) -> Placement:
    """Slots for all that a run of a loop makes, where another loop goes through it again."""
    places = dict(placement.places)
    for loop, values in graph.kept_loops().items():
        trips = max((trips[loop] for _, trips in grid.classes), default=1)
        for tile in {tiles.of(v) for v in values} & places.keys():
            places[tile] = replace(places[tile], kept_slots=max(1, trips))
    return replace(placement, places=places)


def _loosely_kept(placement: Placement, graph: TaskGraph, tiles: TileMap) -> str | None:
    """A tile that should be kept and is not filled by the copy engine in memory that all share."""
    for values in graph.kept_loops().values():
        for value in sorted(values):
            place = placement.places.get(tiles.of(value))
            makers = tiles.tile(tiles.of(value)).producers
            engine = all(placement.units[t].seu.completion is Completion.MBARRIER for t in makers)
            if place is None or not place.shared or not engine:
                return value
    return None


def _loaded_ahead(graph: TaskGraph, placement: Placement, tiles: TileMap, partition: Partition) -> frozenset[str]:
    """Tiles that the copy engine loads beside an inner loop: with two slots, the next tile's load need not wait. What
    stays for a whole walk along an axis comes so seldom that its room is better used inside."""
    outer = {loop.id for loop in graph.loops if loop.id == 0 or inner_loops(loop)}
    outer -= {0} if partition.sequential else set()
    return frozenset(
        p.tile
        for p in placement.places.values()
        if p.shared and _home(tiles, p.tile) in outer and tiles.tile(p.tile).producers
        and all(placement.units[t].seu.completion is Completion.MBARRIER for t in tiles.tile(p.tile).producers)
    )  # fmt: skip


def _two_slots(problem: Problem) -> bool:
    """Whether every buffer that a copy engine fills gets at least two slots."""
    slots = choose_slots(problem)
    loaded = [
        p.name for p in problem.pools
        if problem.nodes[p.producer].seu.completion is Completion.MBARRIER and not p.fixed
    ]  # fmt: skip
    return slots is not None and all(slots[name] >= 2 for name in loaded)


def _shortage(
    graph: TaskGraph, placement: Placement, tiles: TileMap, spaces: dict[int, tuple[Space, ...]]
) -> tuple[str, str] | None:
    """(family, numbers) where a memory cannot hold one slot of each buffer."""
    for loop in graph.loops:
        for space in spaces[loop.id]:
            each = 1 if space.role else len(_workers(placement))
            own = sum(
                space.taken(p.bytes_per_slot, p.least_slots) * (1 if p.shared else each)
                for p in placement.places.values()
                if p.space == space.name and not p.carried and _home(tiles, p.tile) == loop.id
                and space.role in ("", *placement.units[tiles.tile(p.tile).producers[0]].roles)
            )  # fmt: skip
            if own > space.free_bytes:
                owner = f" of {space.role}" if space.role else ""
                where = f"loop {loop.id}" if loop.id else "the grid body"
                return (
                    f"memory:{space.name}",
                    f"{where} needs {own} bytes{owner}, and {space.free_bytes} are left for it",
                )
    return None


def _registers_short(graph: TaskGraph, placement: Placement, sizes: Sizes, device: Device) -> tuple[str, str] | None:
    """(family, numbers) where one sTask's own values overflow a worker's registers."""
    registers = int(device.fact(f"worker_regs_{len(_workers(placement))}", 0))
    if device.arch == "cpu" or not registers:
        return None
    budget = (registers - int(device.fact("register_fixed_regs", 0))) * 4 * int(device.fact("threads_per_worker", 128))
    passing = [t for t in graph.tiles if device.fact("one_tile_blocks") and passes_through(t, graph)]
    later = frozenset(v for t in passing for v in (t.name, *t.values))
    for task in graph.tasks:
        split = placement.units[task.name].split
        if task.kind is Kind.VECTOR and (need := live_bytes(task, sizes, split, later)) > budget:
            return "memory:reg", f"{task.name} alone needs {need} bytes of the {budget} of a worker"
    entry = int(device.fact("registers_per_thread_row", 0)) // (len(_workers(placement)) + 1)
    matrix = (t for t in graph.tasks if placement.units[t.name].method is Method.MATRIX)
    widest = max((_columns(t, sizes) for t in matrix), default=0)
    if entry and widest // 2 + int(device.fact("instruction_regs", 0)) > entry:
        return "memory:reg", f"a product of {widest} columns needs more than the {entry} registers a thread begins with"
    return None


def _columns(task: STask, sizes: Sizes) -> int:
    """Columns of one matrix instruction of the task."""
    most = 0
    for op in (o for o in task.ops if isinstance(o, Dot)):
        for value in (op.a, op.b):
            if operand_of(value.name, task, sizes.split) == "column":
                columns = sizes.elems(tuple(a for a in value.type.axes if a not in op.over))
                most = max(most, -(-columns // -(-columns // 256)))
    return most


def _home(tiles: TileMap, tile: str) -> int:
    """The loop whose instances make the tile (0 for one that nothing makes)."""
    producers = tiles.tile(tile).producers
    return tiles.loop_of_task[producers[0]] if producers else 0


def _at_bounds(problems: dict[int, Problem], bounds: dict[int, dict[str, int]]) -> dict[int, Modulo]:
    """Schedules as good as the bounds allow (not realisable in general)."""
    return {
        loop: Modulo(p, max([1, *bounds[loop].values()]), (0,) * len(p.nodes), {}, "bound")
        for loop, p in problems.items()
    }


def _time(made: Candidate, schedules: dict[int, Modulo]) -> float:
    context = made.context
    return made.after_ns + launch_ns(
        context.graph, context.device, made.partition, made.grid, schedules, context.moved_bytes
    )


def schedule(made: Candidate, scheduler: Scheduler) -> Candidate | Rejected:
    """Give every loop its modulo schedule."""
    context = made.context
    if context.parts is not None:
        context.parts.settle()
    schedules: dict[int, Modulo] = {}
    for loop in context.graph.loops:
        problem = made.problems[loop.id]
        if inner_loops(loop) or loop.id == 0:
            slots = choose_slots(problem, depth=1)
            if slots is not None:
                alone = len(context.graph.loops) == 1  # no loop inside: more tiles of the grid may be on their way
                deep = choose_slots(problem) if alone else None
                slots |= {p.name: deep[p.name] if deep else 2 for p in problem.pools if p.tile in made.ahead}
            planned = None if slots is None else serial(problem, slots)
        else:
            planned = scheduler(problem)
            if planned is not None and problem.queues():
                planned = align_workers(problem, planned)
        if planned is None:
            return Rejected(made.partition, "no-schedule", "no order of the sTasks fits the buffers")
        schedules[loop.id] = planned
    made.schedules = schedules
    made.predicted_ns = _time(made, schedules)
    return made


def program_of(made: Candidate, policy: str, decisions: tuple[tuple[str, str], ...]) -> SProgram:
    if made.schedules is None:
        raise InternalError("a candidate without schedules has no sProgram")
    context = made.context
    program = assemble(
        context.graph, made.partition, context.device, made.placement, made.schedules, policy, made.predicted_ns,
        decisions,
    )  # fmt: skip
    return with_combination(program, context.parts)


# ---------------------------------------------------------------- memory by live range


def free_spaces(
    graph: TaskGraph, placement: Placement, device: Device, tiles: TileMap, ahead: frozenset[str] = frozenset()
) -> dict[int, tuple[Space, ...]]:
    """Per loop what is left of each memory for buffers whose instances that loop makes; `ahead`: tiles with two slots.

    Buffers of the EU's memory are never shared, so each loop gets what other loops' buffers (one slot each) leave.
    Registers are: only what lives across the loop counts against it.
    """
    result: dict[int, tuple[Space, ...]] = {}
    for loop in graph.loops:
        spaces: list[Space] = []
        for memory in device.memories:
            if device.arch == "cpu" and memory.name != "l3":
                continue  # placement has seen to it; only the last level can overflow
            if memory.per == "eu":
                space = Space(memory.name, "", 0, memory.granule_bytes)
                used = _outside_bytes(placement, tiles, loop.id, space, ahead)
                free = int(memory.capacity_bytes.value) - used
                if memory.name == "smem":
                    free -= int(device.fact("smem_reserved_bytes", 0))
                spaces.append(Space(memory.name, "", free, memory.granule_bytes))
            else:
                spaces += _role_spaces(graph, placement, device, tiles, loop.id, memory.name)
        result[loop.id] = tuple(spaces)
    return result


def _outside_bytes(
    placement: Placement, tiles: TileMap, loop: int, space: Space, ahead: frozenset[str]
) -> int:
    """One slot (two for `ahead`) of each buffer of the memory that another loop makes, or that is carried."""
    total = 0
    for held in placement.places.values():
        if held.space == space.name and (held.carried or _home(tiles, held.tile) != loop):
            copies = 1 if held.shared else len(_workers(placement))
            total += space.taken(held.bytes_per_slot, held.least_slots + (held.tile in ahead)) * copies
    return total


def _workers(placement: Placement) -> list[str]:
    return [r.name for r in placement.roles if r.kind != "producer"]


def _role_spaces(
    graph: TaskGraph, placement: Placement, device: Device, tiles: TileMap, loop: int, memory: str
) -> list[Space]:
    threads = int(device.fact("threads_per_worker", 128))
    workers = _workers(placement)
    registers = int(device.fact(f"worker_regs_{len(workers)}", 0)) - int(device.fact("register_fixed_regs", 0))
    budget = registers * 4 * threads
    held = [p for p in placement.places.values() if p.space == memory]
    live = sum(p.bytes_per_slot for p in held if _lives_across(p.tile, p.carried, loop, graph, tiles))
    own = [p for p in held if not p.carried and _home(tiles, p.tile) == loop]
    quiet = sum(p.bytes_per_slot for p in own if not _is_buffer(p, placement, tiles))
    elsewhere = sum(p.bytes_per_slot for p in held if p not in own and _is_buffer(p, placement, tiles))
    return [Space(memory, role, budget - max(live, elsewhere - quiet)) for role in workers]


def _is_buffer(held: Place, placement: Placement, tiles: TileMap) -> bool:
    """A register tile that an asynchronous unit touches keeps its registers all the time; others only while they live,
    so two rules hold: what lives together fits, and all buffers together fit."""
    tile = tiles.tile(held.tile)
    return any(placement.units[t].seu.is_async for t in (*tile.producers, *tile.consumers))


def _lives_across(name: str, carried: bool, loop: int, graph: TaskGraph, tiles: TileMap) -> bool:
    """Whether the tile holds a value while `loop` runs that `loop`'s own instances do not make."""
    known = tiles.living.get((name, carried, loop))
    if known is None:
        known = tiles.living[name, carried, loop] = _compute_lives_across(name, carried, loop, graph, tiles)
    return known


def _compute_lives_across(name: str, carried: bool, loop: int, graph: TaskGraph, tiles: TileMap) -> bool:
    tile = tiles.tile(name)
    inside = subtree(graph, loop)
    touched_in = any(graph.task(t).loop in inside for t in (*tile.producers, *tile.consumers))
    if carried:
        return touched_in
    made_in = any(graph.task(t).loop in inside for t in tile.producers)
    if made_in:
        return False
    return loop != 0 and touched_in and graph.task(tile.producers[0]).kind is not Kind.SCALAR
