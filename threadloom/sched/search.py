"""The search drivers: joint (default), decoupled and optimal over all partitions of a kernel on a device.

joint      every partition is bounded first; those that can still win are scheduled in the order of their bound, so no
           better (partition, order) pair within the policy is missed
decoupled  the partition is chosen as if nothing overlapped, then it alone is scheduled (for the comparison)
optimal    as joint, with the solver in place of the list scheduler

No clock is read: work is counted, so that the same input gives the same plan however busy the machine is.

Source: PipeThreader, section 5 (joint search over tile sizes and pipeline order).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from threadloom.errors import CompileError, InternalError, slug
from threadloom.machine.devices import device as find_device
from threadloom.machine.model import Device
from threadloom.machine.shares import MORE_REGISTERS, by_warps, shares, spilled
from threadloom.sched import greedy
from threadloom.sched.add_apart import add_apart
from threadloom.sched.backwards import backwards_loops
from threadloom.sched.begin_ahead import begin_ahead
from threadloom.sched.bounds import choose_slots
from threadloom.sched.candidate import Candidate, Context, Rejected, Scheduler, prepare, program_of, schedule
from threadloom.sched.check import check
from threadloom.sched.clusters import cluster_sizes, clusters_worth_trying
from threadloom.sched.coalesce_accumulators import coalesce_accumulators
from threadloom.sched.coalesce_in_place import coalesce_in_place
from threadloom.sched.complete import completed
from threadloom.sched.copy_loaded import copy_loaded
from threadloom.sched.copy_products import copy_products
from threadloom.sched.costs import Measured
from threadloom.sched.cut_late_inputs import cut_late_inputs
from threadloom.sched.cut_late_outputs import cut_late_outputs
from threadloom.sched.drop_copies import drop_copies
from threadloom.sched.fits_nowhere import not_walked, nowhere_error
from threadloom.sched.fold import Modulo, serial
from threadloom.sched.fold_multiple import fold_multiple
from threadloom.sched.inter import moved_bytes
from threadloom.sched.one_at_a_time import one_at_a_time
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.order_count import order_count
from threadloom.sched.own_indices import own_indices
from threadloom.sched.own_policy import own_policy
from threadloom.sched.partition import MOST_EXTENTS, Cut, partitions
from threadloom.sched.parts import Parts, parts_of
from threadloom.sched.pipeline import Problem
from threadloom.sched.placement import NO_UNIT, copy_engine
from threadloom.sched.rank import simulated_ns, wider_first, worth_simulating
from threadloom.sched.read_first import read_first
from threadloom.sched.share_scalars import share_scalars
from threadloom.sched.sizes import BoundScalars, axis_extents
from threadloom.sched.spread_stores import spread_stores
from threadloom.sched.tile_map import TileMap
from threadloom.sched.tuning_choices import decide
from threadloom.sched.turn_products import turn_products
from threadloom.sched.walk_axis import walk_axis, walkable_axes
from threadloom.task.ops import Kind, TaskGraph
from threadloom.tile.ops import Kernel

UNKNOWN_POLICY = slug("unknown-policy", "the named scheduling policy does not exist")
POLICIES = ("joint", "decoupled", "optimal")
LEAST_SCHEDULED = 4  # whatever they cost
WALKED_PARTS = (1, 4)  # of the longest tile along a walked axis: shorter ones keep more EUs busy
WORTH_SPLITTING = 1.1  # gain by the model; measured on two cores: one of 1.07 by the model was none
WORTH_CLUSTERING = 1.1  # likewise; measured on an H200: pairs of blocks take 0.99 to 1.08 of the time
WORTH_VARYING = 1.02  # what beginning ahead, and going backwards, cost attention on an H200 (most pairs of tiles)
MOST_CLUSTERED = 24  # candidates with the best bounds that are also bounded as clusters
MOST_BOUNDED = 20_000  # sTasks of all partitions that are bounded: a few seconds of CPU time
MOST_SCHEDULED = 16  # partitions given to the scheduler, best bound first
MOST_AHEAD = 2  # of the best plans, that are also offered with tiles begun ahead
MOST_WORK = 30_000  # what they may cost together (`Candidate.work`): about a second of CPU time
SOLVER_SHARE = 4  # no partition gets more than this part of the solver's time


@dataclass(frozen=True, slots=True)
class Counts:
    """`partitions` enumerated, `bounded` (fit in memory), `scheduled`; `orders`: those one schedule chooses from."""

    partitions: int
    bounded: int
    scheduled: int
    orders: int

    @property
    def space(self) -> int:
        """Pairs of partition and order: the size of the search space."""
        return self.partitions * self.orders


@dataclass(frozen=True, slots=True)
class Outcome:
    best: SProgram
    candidates: tuple[Candidate, ...]  # scheduled ones, best first
    rejected: tuple[Rejected, ...]
    counts: Counts
    seconds: float
    cut_short: bool = False  # the bound on work ended it: partitions were left that might have won
    reasons: dict[str, int] = field(default_factory=dict)  # family -> how many partitions it rejected


def plan(
    kernel: Kernel | TaskGraph,
    dims: dict[str, int],
    device: str | Device,
    policy: str | Scheduler = "joint",
    granularity: str | None = None,
    limit_s: float = 2.0,
    measured: Measured | None = None,
    only: Partition | None = None,
    breadth: int = 0,
    strides_ok: dict[str, bool] | None = None,
    most: int = MOST_SCHEDULED,
    splits: bool = True,
) -> Outcome:
    """The best sProgram of `kernel` for the extents `dims` on `device`, by the model.

    `policy`: one of POLICIES, or a scheduling function of your own (docs/howto-policy.md); `limit_s`: for the solver of
    policy `optimal`, counted as work of about so long; `only`: this partition alone; `breadth`: schedule so many
    partitions, though the model says that they cannot win; `most`: schedule no more; `strides_ok`: tensor -> base and
    strides are multiples of what a bulk copy needs (else as for contiguous tensors); `splits`: reductions may be split.
    """
    if isinstance(policy, str) and policy not in POLICIES:
        raise CompileError(
            UNKNOWN_POLICY, f"there is no policy called {policy!r}", try_=f"one of {', '.join(POLICIES)}"
        )
    started = time.monotonic()
    machine = find_device(device)
    contexts, unsplit = _contexts(kernel, dims, machine, granularity, measured, only, splits, strides_ok or {})
    try:
        fitting, rejected, total = _fitting(contexts, only)
    except CompileError as error:
        simple = by_warps(machine)
        if error.slug != NO_UNIT or simple is None:
            raise
        with suppress(CompileError):
            return plan(kernel, dims, simple, policy, granularity, limit_s, measured, only, breadth, strides_ok, most)
        raise
    if not fitting:
        nowhere = nowhere_error(contexts[0].graph, machine, rejected)
        if not any(r.family == "memory:reg" for r in rejected):
            raise nowhere
        return _spilled(kernel, dims, machine, nowhere, granularity, only, strides_ok, most)
    scheduled, more = _search(fitting, policy, limit_s, breadth, max(1, most))
    rejected += more
    if not scheduled:
        raise nowhere_error(contexts[0].graph, machine, rejected)
    scheduled.sort(key=lambda c: _weighed(c, c.predicted_ns))
    program = _best_program(scheduled, policy, rejected) or _serial_program(fitting, scheduled, policy, rejected)
    if program is None:
        raise InternalError(f"no plan of {contexts[0].graph.kernel.name} for {machine.name} could be proved")
    # a plan with tiles begun ahead, or loops that go backwards, is one more choice
    varied = [c.partition for c in (*scheduled, *rejected) if c.partition.begins_ahead or c.partition.backwards]
    ahead = 0 if only is not None else len(varied)
    orders = max(order_count(c.graph) for c in contexts)
    counts = Counts(total + ahead, len(fitting) + ahead, len(scheduled), orders)
    if unsplit:
        rejected.append(Rejected(Partition((), splits=2), "splits", unsplit))
    reasons = dict(Counter(item.family for item in rejected))
    spent = time.monotonic() - started
    return Outcome(program, tuple(scheduled), tuple(rejected), counts, spent, "work-limit" in reasons, reasons)


def _contexts(
    kernel: Kernel | TaskGraph, dims: dict[str, int], device: Device, granularity: str | None,
    measured: Measured | None, only: Partition | None, splits: bool, strides_ok: dict[str, bool],
) -> tuple[list[Context], str]:
    """The graphs to search over, those of split reductions among them; and why none is split, "" where one is."""
    graphs = graphs_of(kernel, granularity, device)
    contexts, unsplit = _whole_contexts(graphs, dims, device, measured, only), ""
    if (splits or only is not None) and not isinstance(kernel, TaskGraph):
        parts, unsplit = parts_of(kernel, graphs[0][1], dims, device, only, strides_ok)
        contexts += _split_contexts(parts, graphs[0][0], dims, device, measured, only)
    if not contexts:
        raise not_walked(kernel, device, only, unsplit)
    for context in contexts:
        context.strides_ok.update(strides_ok)
    return contexts, unsplit


def _fitting(contexts: list[Context], only: Partition | None) -> tuple[list[Candidate], list[Rejected], int]:
    """Candidates that fit in memory, alone and in clusters, what was rejected, and how many there were. Where none of
    the usual sizes fits, the smallest are tried."""
    fitting, rejected, total = _bounded(contexts, only)
    if not fitting and only is None:
        fitting, more, added = _bounded(contexts, None, smallest=True)
        rejected, total = rejected + more, total + added
    for together in [] if only is not None else list(_clustered(fitting)):
        total += 1
        (rejected if isinstance(together, Rejected) else fitting).append(together)
    return fitting, rejected, total


def _spilled(
    kernel: Kernel | TaskGraph, dims: dict[str, int], machine: Device, nowhere: CompileError, granularity: str | None,
    only: Partition | None, strides_ok: dict[str, bool] | None, most: int,
) -> Outcome:  # fmt: skip
    """A plan whose tiles lie in part in memory, where none fits the device's registers; `nowhere` if there is none."""
    for times in MORE_REGISTERS if only is None and machine.arch != "cpu" and "/" not in machine.name else ():
        with suppress(CompileError):
            more = spilled(machine, times)
            return plan(kernel, dims, more, granularity=granularity, strides_ok=strides_ok, most=most, splits=False)
    raise nowhere


def _best_program(scheduled: list[Candidate], policy: str | Scheduler, rejected: list[Rejected]) -> SProgram | None:
    """The first proved plan; by simulation where the static prediction is doubtful, else by prediction.

    `scheduled` is left in that order, without what was refused.
    """
    for made in worth_simulating(scheduled):
        made.simulated_ns = simulated_ns(made, _program(made, policy))
    scheduled.sort(key=lambda c: (c.simulated_ns == 0.0, _weighed(c, c.simulated_ns), _weighed(c, c.predicted_ns)))
    for made in scheduled[:MOST_AHEAD]:
        at = scheduled.index(made) + 1
        scheduled[at:at] = _varied(made, policy)
    scheduled.sort(key=lambda c: (c.simulated_ns == 0.0, _weighed(c, c.simulated_ns), _weighed(c, c.predicted_ns)))
    scheduled[:] = wider_first(scheduled, [_weighed(c, c.simulated_ns) for c in scheduled])
    while scheduled:
        program, finding = _prove(scheduled[0], policy)
        if program is not None:
            return program
        rejected.append(Rejected(scheduled[0].partition, "unproved", finding))
        del scheduled[0]
    return None


def _weighed(made: Candidate, ns: float) -> float:
    """Predicted time by which candidates are compared: a split reduction, or a cluster, has to be worth it, and other
    tiles that the model thinks as good come before these begun ahead or backwards."""
    ns *= WORTH_VARYING ** (made.partition.begins_ahead + made.partition.backwards)
    if made.partition.cluster > 1:
        return ns * WORTH_CLUSTERING
    return ns if made.context.parts is None else ns * WORTH_SPLITTING


def _serial_program(
    fitting: list[Candidate], scheduled: list[Candidate], policy: str | Scheduler, rejected: list[Rejected]
) -> SProgram | None:
    """Where no pipelined plan was proved: the first partition whose plan without overlap is."""
    for made in sorted(fitting, key=lambda c: c.floor_ns)[:MOST_SCHEDULED]:
        planned = schedule(made, one_after_the_other)
        if not isinstance(planned, Rejected):
            planned.simulated_ns = 0.0
            scheduled.append(planned)
            if (program := _best_program(scheduled, policy, rejected)) is not None:
                return program
    return None


def one_after_the_other(problem: Problem) -> Modulo | None:
    """The policy of last resort: no overlap, one slot for each buffer."""
    slots = choose_slots(problem, depth=1)
    return None if slots is None else serial(problem, slots)


def proved_program(made: Candidate, policy: str = "joint") -> SProgram | None:
    """The sProgram of a scheduled candidate, None where the checker refuses it."""
    return _prove(made, policy)[0]


def _varied(made: Candidate, policy: str | Scheduler) -> list[Candidate]:
    """The candidate with tiles begun ahead, with loops that go backwards, and with both, where its code would differ
    (whether that can be proved is seen when it is wanted). They come after the one without, which the model cannot tell
    from them: measured on an H200, causal attention gains nothing or loses up to 7 % by going backwards, and loses 1 to
    5 % where it begins ahead, but for one pair of tiles, where it gained 2 %."""
    partition, device = made.partition, made.context.device
    if partition.begins_ahead or partition.backwards or device.arch == "cpu":
        return []
    program = _program(made, policy)
    ahead = made.grid.tiles > device.eu_count and begin_ahead(program) != program
    backwards = bool(backwards_loops(made.context.graph))
    found = [(True, False)] * ahead + [(False, True)] * backwards + [(True, True)] * (ahead and backwards)
    return [replace(made, partition=replace(partition, begins_ahead=a, backwards=b)) for a, b in found]


def _prove(made: Candidate, policy: str | Scheduler) -> tuple[SProgram | None, str]:
    """The candidate's sProgram, or None and what the checker has against it."""
    context = made.context
    program = completed(_program(made, policy), context.dims, context.device)
    findings = check(program, context.device)
    return (program, "") if not findings else (None, str(findings[0]))


def _program(made: Candidate, policy: str | Scheduler) -> SProgram:
    program = program_of(made, _policy_name(made, policy), decide(made))
    if made.partition.begins_ahead:
        program = begin_ahead(program)
    return replace(program, predicted_ns=made.simulated_ns) if made.simulated_ns else program


def graphs_of(kernel: Kernel | TaskGraph, granularity: str | None, device: Device) -> list[tuple[str, TaskGraph]]:
    """The task graphs to search over, by granularity. A core runs vector code in one thread, so finer sTasks cannot
    overlap there."""
    if isinstance(kernel, TaskGraph):
        return [(granularity or "", kernel)]
    from threadloom.task.build import GRANULARITIES, build_task_graph

    names = (granularity,) if granularity else GRANULARITIES[:1] if device.arch == "cpu" else GRANULARITIES
    if device.arch != "cpu" and copy_engine(device) is not None:
        kernel = fold_multiple(kernel)  # a core's caches keep what comes twice
    made = {}
    for name in names:
        graph = prepare_graph(build_task_graph(kernel, name), device)
        if all(graph.tasks != other.tasks for other in made.values()):
            made[name] = graph
    return list(made.items())


def walks_of(
    graph: TaskGraph, dims: dict[str, int], device: Device, only: Partition | None
) -> list[tuple[AxisTile | None, TaskGraph]]:
    """The graph as it is, and with an axis of the grid walked (`walk_axis.py`) some ways; `only`: as it says. A core's
    caches keep what comes again anyway, and other units than copy engines cannot fill a buffer that long ahead."""
    if only is not None and only.sequential:
        walks = [t for t in only.tiles if (t.axis,) == only.sequential and t.axis in walkable_axes(graph, dims)]
    elif only is not None or device.arch == "cpu" or copy_engine(device) is None:
        return [(None, graph)]
    else:
        walks = [
            AxisTile(axis, indices, indices)
            for axis, most in walkable_axes(graph, dims).items()
            for indices in dict.fromkeys(most // part for part in WALKED_PARTS if most % part == 0)
            if indices > 1
        ]
    plain: list[tuple[AxisTile | None, TaskGraph]] = [(None, graph)] if only is None else []
    made = [(walk, walk_axis(graph, walk.axis, walk.extent, dims)) for walk in walks]
    return plain + [(walk, walked) for walk, walked in made if walked is not None]


def _whole_contexts(
    graphs: list[tuple[str, TaskGraph]], dims: dict[str, int], device: Device, measured: Measured | None,
    only: Partition | None,
) -> list[Context]:
    """The graphs, walked or not, for a program that has an EU to itself and for some that share one."""
    return [
        context_of(g, dims, shared, measured, name, walk)
        for name, plain in graphs
        for walk, g in walks_of(plain, dims, device, only)
        for shared in shares(device, any(t.kind is Kind.DOT for t in g.tasks), len(g.loops) > 1)
        if only is None or (only.workers <= shared.max_worker_roles and only.splits < 2)
    ]


def _split_contexts(
    parts: list[Parts], granularity: str, dims: dict[str, int], device: Device, measured: Measured | None,
    only: Partition | None,
) -> list[Context]:
    """For each number of parts: the graph of the kernel that does them, in the granularity tried first. Where one says
    what to walk, walked."""
    found = []
    for one in parts:
        ((name, graph),) = graphs_of(one.kernels.parts, granularity or None, device)[:1]
        walks = walks_of(graph, dims, device, only) if only is not None else [(None, graph)]
        found += [replace(context_of(g, dims, device, measured, name, walk), parts=one) for walk, g in walks]
    return found


def prepare_graph(graph: TaskGraph, device: Device | None = None) -> TaskGraph:
    """The passes between the task level and scheduling, each with its reason."""
    if device is not None and device.arch != "cpu":
        graph = share_scalars(graph)  # a core is one role with one thread
        graph = own_indices(graph)
        graph = spread_stores(graph)
        graph = copy_loaded(graph)
        graph = copy_products(graph)  # its products lie in memory like everything else
        graph = turn_products(graph, device)
    elif device is not None:
        graph = one_at_a_time(graph)
    graph = cut_late_inputs(graph)  # before the others: what it cuts off becomes tiles of its own
    if device is not None and device.fact("register_slots") == 1:
        graph = cut_late_outputs(graph)  # an operand in registers cannot be made while the last one is in use
    if device is not None and device.arch != "cpu":
        graph = add_apart(graph)
    graph = drop_copies(graph)  # before sharing places: a copy reads the place
    graph = coalesce_accumulators(graph)
    if device is None or device.arch != "cpu":
        graph = coalesce_in_place(graph)  # the generator for cores gives every vector result a place of its own
    return read_first(graph)


def context_of(
    graph: TaskGraph, dims: dict[str, int], device: Device, measured: Measured | None = None, granularity: str = "",
    walk: AxisTile | None = None,
) -> Context:
    whole = axis_extents(graph, dims)
    granule = int(device.fact("bulk_copy_align_bytes", 16))
    strides_ok = {}
    for tensor in graph.kernel.tensors:
        inner = tensor.dims[-1] if tensor.dims else 1
        extent = inner if isinstance(inner, int) else dims[inner]
        strides_ok[tensor.name] = len(tensor.dims) < 2 or tensor.dtype.bytes_for(extent) % granule == 0
    moved = moved_bytes(graph, dims)
    scalars = BoundScalars(graph, dims)
    return Context(graph, dims, whole, device, strides_ok, scalars, moved, TileMap(graph), measured, granularity, walk)


def _bounded(
    contexts: list[Context], only: Partition | None, smallest: bool = False
) -> tuple[list[Candidate], list[Rejected], int]:
    fitting: list[Candidate] = []
    rejected: list[Rejected] = []
    chosen = [(c, only) for c in contexts] if only else _worth_bounding(contexts, smallest)
    for context, partition in chosen:
        made = prepare(partition, context)
        if isinstance(made, Rejected):
            rejected.append(made)
        else:
            fitting.append(made)
    return fitting, rejected, len(chosen)


def _worth_bounding(contexts: list[Context], smallest: bool) -> list[tuple[Context, Partition]]:
    """The partitions of each context; of kernels with very many sTasks and choices each second extent, or fewer."""
    most = MOST_EXTENTS
    while True:
        found = []
        for c in contexts:
            cut = None if c.parts is None else Cut(c.parts.axis, c.parts.count, c.parts.granule)
            made = partitions(c.graph, c.whole, c.device, smallest, c.walk, cut, most)
            found += [(c, partition) for partition in made]
        if most < 2 or sum(len(c.graph.tasks) for c, _ in found) <= MOST_BOUNDED:
            return found
        most //= 2


def _clustered(fitting: list[Candidate]) -> Iterator[Candidate | Rejected]:
    """The best of `fitting` with EUs that load together, where loads are what bounds them."""
    for made in sorted(fitting, key=lambda c: c.floor_ns)[:MOST_CLUSTERED]:
        if clusters_worth_trying(made.problems, made.bounds):
            for count in cluster_sizes(made.context.device, made.context.graph, made.partition, made.sizes):
                yield prepare(replace(made.partition, cluster=count), made.context)


def _search(
    fitting: list[Candidate], policy: str | Scheduler, limit_s: float, breadth: int, most: int
) -> tuple[list[Candidate], list[Rejected]]:
    scheduler = _scheduler(policy, limit_s)
    if policy == "decoupled":
        ranked = sorted(fitting, key=lambda c: c.serial_ns)
    else:
        ranked = sorted(fitting, key=lambda c: _weighed(c, c.floor_ns))
    done: list[Candidate] = []
    rejected: list[Rejected] = []
    best, work = float("inf"), 0
    least, most = max(min(LEAST_SCHEDULED, most), breadth), max(most, breadth)
    for made in ranked:
        if policy == "decoupled" and done:
            rejected.append(Rejected(made.partition, "tiles-first", "another tile was chosen before any order"))
            continue
        if _weighed(made, made.floor_ns) >= best and len(done) >= breadth:
            rejected.append(Rejected(made.partition, "bound", f"at least {made.floor_ns:.0f} ns, best {best:.0f} ns"))
            continue
        if len(done) >= most or (len(done) >= least and work > MOST_WORK):
            rejected.append(Rejected(made.partition, "work-limit", f"after {len(done)} partitions with better bounds"))
            continue
        work += made.work
        planned = schedule(made, scheduler)
        if isinstance(planned, Rejected):
            rejected.append(planned)
        else:
            done.append(planned)
            best = min(best, _weighed(planned, planned.predicted_ns))
    return done, rejected


def _scheduler(policy: str | Scheduler, limit_s: float) -> Scheduler:
    if not isinstance(policy, str):
        return own_policy(policy)
    if policy == "optimal":
        from threadloom.sched import optimal

        left_s = limit_s

        def solve(problem: Problem) -> Modulo | None:
            nonlocal left_s
            made, spent_s = optimal.solve(problem, min(limit_s / SOLVER_SHARE, left_s))
            left_s -= spent_s
            return made

        return solve
    return greedy.schedule


def _policy_name(made: Candidate, policy: str | Scheduler) -> str:
    used = {m.policy for loop, m in (made.schedules or {}).items() if loop != 0 and m.problem.nodes}
    name = policy if isinstance(policy, str) else "own"
    return f"{name}:{'+'.join(sorted(used))}" if used else name
