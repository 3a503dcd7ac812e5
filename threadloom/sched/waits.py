"""Puts waits, releases, fences and turns into the lines of the roles.

before: Lines (order and stages only). after: every dependence that program order does not keep is covered by a Wait
with its reason, every slot is released after the Wait that covers its readers, generic writes that an async-proxy
unit accesses are fenced, and roles that share the matrix unit hand over turns. Tiles that a loop leaves for another to
go through again are waited for in the loop that makes them, and released together after the other.
Meaning of the instructions: docs/sprogram.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.machine.model import GROUPS, SEU, Completion
from threadloom.sched.lines import Item, Line, inner_loops, subtree
from threadloom.sched.ops import Arrive, Buffer, Fence, Inner, Instr, Issue, Partition, Reason, Signal, Wait, Why
from threadloom.sched.pipeline import pairs, updates_after
from threadloom.sched.placement import Placement
from threadloom.sched.tile_map import TileMap
from threadloom.sched.turns import take_turns, workers_meet
from threadloom.task.ops import Edge, Kind, TaskGraph

SLOTS_TO_SPARE = 3  # one that is read, one that is filled, and one whose release may be late


@dataclass(frozen=True, slots=True)
class Dependence:
    """Role `src_role` at `edge.src` -> role `dst_role` at `edge.dst`, in the lines of their common loop."""

    loop: int
    src_role: str
    dst_role: str
    edge: Edge
    tile: str


class Synchronizer:
    """Works on the lines in place; `signals` collects what it needed."""

    def __init__(
        self,
        graph: TaskGraph,
        placement: Placement,
        lines: dict[tuple[int, str], Line],
        buffers: dict[tuple[str, str], Buffer],
        partition: Partition,
    ):
        self.partition = partition
        self.graph, self.placement, self.lines, self.buffers = graph, placement, lines, buffers
        self.tiles = TileMap(graph)
        self.signals: dict[str, Signal] = {}
        self._parents = {loop.id: loop.parent for loop in graph.loops}
        self._task_loop = {t.name: t.loop for t in graph.tasks}
        self._kept_loops = graph.kept_loops()

    def run(self) -> None:
        every = self._dependences()
        deps = [d for d in every if self._task_loop[d.edge.src] not in self._kept_loops]
        kept = [d for d in every if self._task_loop[d.edge.src] in self._kept_loops]
        self._name_groups()
        self._name_rings(deps + kept)
        for tile in dict.fromkeys(d.tile for d in kept):
            self._keep(tile, [d for d in kept if d.tile == tile])
        for dep in deps:
            self._fence(dep)
        self._fence_overwritten()
        for dep in deps:
            self._wait_for_value(dep)
        for dep in deps:
            self._protect_slot(dep)
        for (loop, _), line in list(self.lines.items()):
            self._wait_for_slots(loop, line)
        self._release_slots(deps)
        for loop in self.graph.loops:
            if not inner_loops(loop) and loop.id != 0 and not workers_meet(self.graph, self.partition, loop.id):
                take_turns(loop.id, self.lines, self.placement, self.signals)

    # ------------------------------------------------ what depends on what

    def seu(self, task: str) -> SEU:
        return self.placement.units[task].seu

    def _chain(self, loop: int) -> list[int]:
        chain = [loop]
        while (up := self._parents[chain[-1]]) is not None:
            chain.append(up)
        return chain

    def _common(self, edge: Edge) -> int:
        inside = self._chain(self._task_loop[edge.src])
        return next(loop for loop in self._chain(self._task_loop[edge.dst]) if loop in inside)

    def _dependences(self) -> list[Dependence]:
        """Every graph edge between roles that really issue its ends, in the innermost loop that holds both."""
        found = []
        for edge in self.graph.edges:
            if Kind.SCALAR in (self.graph.task(edge.src).kind, self.graph.task(edge.dst).kind):
                continue
            tile = self.tiles.of(edge.value)
            for src, dst in pairs(edge, self.placement, self.placement.places.get(tile)):
                found.append(Dependence(self._common(edge), src, dst, edge, tile))
        return found

    def position(self, loop: int, role: str, task: str) -> int:
        """Where the role's line of `loop` holds the task, or the inner loop with it."""
        line = self.lines[loop, role]
        at = self._task_loop[task]
        if at == loop:
            return line.position(task)
        child = next(c for c in self._chain(at) if self._parents[c] == loop)
        return line.inner(child)

    def item(self, loop: int, role: str, task: str) -> Item:
        return self.lines[loop, role].items[self.position(loop, role, task)]

    # ------------------------------------------------ signals

    def _name_groups(self) -> None:
        """Tasks on a unit with group completion join their role's FIFO of that unit."""
        for line in self.lines.values():
            for item in line.items:
                if isinstance(item.instr, Issue) and self.seu(item.task).completion in GROUPS:
                    name = self.group(item.task)
                    self.signals[name] = Signal(name, self.seu(item.task).completion)
                    self._complete(item, name)

    def group(self, task: str) -> str:
        return f"{self.seu(task).name}.group"

    def _complete(self, item: Item, signal: str) -> None:
        old = item.instr
        item.instr = Issue(old.task, old.seu, old.method, old.stage, signal)

    def _needs_ring(self, dep: Dependence) -> bool:
        """A value that crosses roles, or that a unit with memory barriers makes."""
        return dep.src_role != dep.dst_role or self.seu(dep.edge.src).completion is Completion.MBARRIER

    def _name_rings(self, deps: list[Dependence]) -> None:
        """A full signal per buffer that crosses roles, and an empty one for its slots."""
        for tile in dict.fromkeys(d.tile for d in deps if self._needs_ring(d)):
            buffer = self.buffers[tile, ""]
            crossing = [d for d in deps if d.tile == tile and self._needs_ring(d)]
            sources = dict.fromkeys((d.edge.src, d.src_role) for d in crossing)
            asynchronous = self.seu(crossing[0].edge.src).is_async
            writers = len(dict.fromkeys(role for _, role in sources))
            size = buffer.bytes_per_slot if asynchronous else 0
            full = Signal(f"full.{buffer.name}", Completion.MBARRIER, buffer.slots, writers, size)
            readers = len(dict.fromkeys(d.dst_role for d in crossing))
            released = readers * buffer.multicast  # by the readers of every EU that the tile was loaded for
            empty = Signal(f"empty.{buffer.name}", Completion.MBARRIER, buffer.slots, released)
            self.signals[full.name], self.signals[empty.name] = full, empty
            for task, role in sources:
                item = self.item(self._task_loop[task], role, task)
                if asynchronous:
                    self._complete(item, full.name)
                else:
                    reason = Reason(Why.DEPENDENCE, task, crossing[0].edge.dst, buffer.name)
                    item.after.append(Arrive(full.name, reason, item.stage))

    # ------------------------------------------------ fences

    def _fence(self, dep: Dependence) -> None:
        """A generic write before an access by the async proxy."""
        src, dst = self.seu(dep.edge.src), self.seu(dep.edge.dst)
        if src.proxy != "generic" or dst.proxy != "async" or not dep.tile:
            return
        buffer = self.buffer(dep.tile, dep.src_role)
        if buffer is None:
            return
        reason = Reason(Why.DEPENDENCE, dep.edge.src, dep.edge.dst, buffer.name, dep.edge.distance)
        if dep.src_role == dep.dst_role:
            target = self.item(dep.loop, dep.dst_role, dep.edge.dst)
            _once(target.before, Fence(buffer.name, "generic", "async", reason, target.stage))
        else:
            target = self.item(self._task_loop[dep.edge.src], dep.src_role, dep.edge.src)
            fence = Fence(buffer.name, "generic", "async", reason, target.stage)
            if fence not in target.after:
                target.after.insert(0, fence)

    def _fence_overwritten(self) -> None:
        """A place that a generic write changed (a result over its operand) before its asynchronous producer comes
        round to it again."""
        for place in self.placement.places.values():
            tile = self.tiles.tile(place.tile)
            generic = [t for t in tile.producers if self.seu(t).proxy == "generic" and not self.seu(t).is_async]
            for task in [t for t in tile.producers if self.seu(t).proxy == "async"] if generic else []:
                for role in self.placement.units[task].roles:
                    buffer = self.buffer(place.tile, role)
                    target = self.item(self._task_loop[task], role, task)
                    if buffer is not None and not any(
                        isinstance(k, Fence) and k.buffer == buffer.name for k in target.before
                    ):
                        reason = Reason(Why.SLOT_FREE, generic[-1], task, buffer.name, buffer.slots)
                        target.before.append(Fence(buffer.name, "generic", "async", reason, target.stage))

    def buffer(self, tile: str, role: str) -> Buffer | None:
        return self.buffers.get((tile, role)) or self.buffers.get((tile, ""))

    # ------------------------------------------------ waits for values

    def _wait_for_value(self, dep: Dependence) -> None:
        edge, src = dep.edge, self.seu(dep.edge.src)
        target = self.item(dep.loop, dep.dst_role, edge.dst)
        if self._needs_ring(dep):
            buffer = self.buffers[dep.tile, ""]
            reason = Reason(Why.DEPENDENCE, edge.src, edge.dst, buffer.name, edge.distance)
            self._ring_wait(dep, Wait(f"full.{buffer.name}", reason, target.stage))
        elif src.completion in GROUPS and not self._chained(dep):
            name = self._buffer_name(dep)
            reason = Reason(Why.DEPENDENCE, edge.src, edge.dst, name, edge.distance)
            self._group_wait(dep, reason, edge.distance)

    def _buffer_name(self, dep: Dependence) -> str:
        buffer = self.buffer(dep.tile, dep.src_role)
        return buffer.name if buffer else dep.tile

    def _chained(self, dep: Dependence) -> bool:
        """An accumulator passed on inside one matrix unit by one role: executed in issue order."""
        src, dst = self.graph.task(dep.edge.src), self.graph.task(dep.edge.dst)
        same_unit = self.seu(src.name) == self.seu(dst.name) and self.seu(src.name).completion is Completion.MMA_GROUP
        return same_unit and any(self.tiles.of(v) == dep.tile for v in dst.writes)

    def _ring_wait(self, dep: Dependence, wait: Wait) -> None:
        """One wait for an instance is enough: skip it where an earlier item of the line has waited for the same one."""
        line = self.lines[dep.loop, dep.dst_role]
        at = self.position(dep.loop, dep.dst_role, dep.edge.dst)
        key = (wait.signal, wait.stage, wait.reason.distance)
        for item in line.items[: at + 1]:
            for known in item.before:
                if isinstance(known, Wait) and (known.signal, known.stage, known.reason.distance) == key:
                    return
        line.items[at].before.append(wait)

    def _group_wait(self, dep: Dependence, reason: Reason, distance: int) -> None:
        """Before the target, wait until the group of the source's instance is complete."""
        line = self.lines[dep.loop, dep.dst_role]
        at = self.position(dep.loop, dep.dst_role, dep.edge.dst)
        came = self.position(dep.loop, dep.src_role, dep.edge.src)
        later = line.items[at].stage + distance - line.items[came].stage
        signal = self.group(dep.edge.src)
        pending = self._groups_between(line, signal, came, later, at)
        wait = Wait(signal, reason, line.items[at].stage, pending)
        for known in line.items[at].before:
            if isinstance(known, Wait) and known.signal == signal and known.pending <= pending:
                return
        line.items[at].before[:] = [
            k for k in line.items[at].before if not (isinstance(k, Wait) and k.signal == signal)
        ]
        line.items[at].before.append(wait)

    def _groups_between(self, line: Line, signal: str, came: int, later: int, at: int) -> int:
        """Groups that join the FIFO after item `came` and before item `at` comes `later` iterations on."""
        joins = [self._joins(item, signal) for item in line.items]
        between = joins[came + 1 : at] if later == 0 else joins[came + 1 :] + joins * (later - 1) + joins[:at]
        if None in between:  # an inner loop adds a number that is not known here
            return 0
        return sum(j or 0 for j in between)

    def _joins(self, item: Item, signal: str) -> int | None:
        if isinstance(item.instr, Issue):
            return 1 if item.instr.completes == signal else 0
        inside = subtree(self.graph, item.instr.loop)
        used = any(self.group(t.name) == signal for t in self.graph.tasks if t.loop in inside)
        return None if used else 0

    # ------------------------------------------------ slots

    def _protect_slot(self, dep: Dependence) -> None:
        """An asynchronous reader of a buffer that the same role writes again: wait for it before the next write."""
        reader = self.seu(dep.edge.dst)
        buffer = self.buffer(dep.tile, dep.src_role) if dep.tile else None
        if buffer is None or self._needs_ring(dep) or reader.completion not in GROUPS:
            return
        if self.tiles.tile(dep.tile).carried is not None:
            self._protect_carried(dep, buffer)
            return
        if self.seu(dep.edge.src) == reader:
            return
        slots_later = buffer.slots - dep.edge.distance
        for writer in self._first_writers(dep.tile):
            reason = Reason(Why.SLOT_FREE, dep.edge.dst, writer, buffer.name, slots_later)
            back = Edge(dep.edge.dst, writer, dep.tile)
            self._group_wait(Dependence(dep.loop, dep.dst_role, dep.src_role, back, dep.tile), reason, slots_later)

    def _protect_carried(self, dep: Dependence, buffer: Buffer) -> None:
        """A carried tile is updated in place: by another unit than the reader's only when that has read it. (One that
        also writes it is waited for by whoever reads what it writes.)"""
        if any(self.tiles.of(v) == dep.tile for v in self.graph.task(dep.edge.dst).writes):
            return
        for reader, updater, distance in updates_after(dep.edge, self.graph, self.tiles):
            if self.seu(updater) != self.seu(reader) and dep.dst_role in self.placement.units[updater].roles:
                reason = Reason(Why.SLOT_FREE, reader, updater, buffer.name, distance)
                back = Edge(reader, updater, dep.tile)
                self._group_wait(Dependence(dep.loop, dep.dst_role, dep.dst_role, back, dep.tile), reason, distance)

    def _first_writers(self, tile: str) -> list[str]:
        """Tasks that begin an instance of the tile: those that write over their operand in it come later."""
        made = self.tiles.tile(tile)
        begin = [t for t in made.producers if not any(self.tiles.of(v) == tile for v in self.graph.task(t).reads)]
        return begin or list(made.producers[:1])

    def _wait_for_slots(self, loop: int, line: Line) -> None:
        """A writer of a ring buffer waits until its slot was released."""
        for item in line.items:
            for instr in (item.instr, *item.after):
                name = getattr(instr, "completes", "") or (instr.signal if isinstance(instr, Arrive) else "")
                if name.startswith("full.") and loop not in self._kept_loops:
                    buffer = name.removeprefix("full.")
                    readers = [e.dst for e in self.graph.edges if self.tiles.of(e.value) and e.src == item.task]
                    reason = Reason(Why.SLOT_FREE, readers[0] if readers else "", item.task, buffer)
                    _once(item.before, Wait(f"empty.{buffer}", reason, item.stage))

    def _release_slots(self, deps: list[Dependence]) -> None:
        """After a role's last reader of a ring buffer is done, the role arrives at the empty signal."""
        rings = [d for d in deps if self._needs_ring(d)]
        for tile, role in dict.fromkeys((d.tile, d.dst_role) for d in rings):
            own = [d for d in rings if d.tile == tile and d.dst_role == role]
            loop = self._task_loop[own[0].edge.src]
            if any(d.loop != loop for d in own):
                raise InternalError(f"tile {tile} is read outside the loop that loads it")
            self._release(loop, role, own)

    def _release(self, loop: int, role: str, deps: list[Dependence]) -> None:
        line = self.lines[loop, role]
        points = [self._done_point(line, dep) for dep in deps]  # (iteration, position after which)
        iteration, at, dep = max(points, key=lambda p: p[:2])
        buffer = self.buffers[dep.tile, ""]
        reason = Reason(Why.SLOT_FREE, dep.edge.dst, dep.edge.src, buffer.name)
        arrive = Arrive(f"empty.{buffer.name}", reason, iteration)
        waited = self._own_wait(line, at, dep)
        if waited is not None:  # free at once what the item itself has waited for, before its work
            line.items[at].before.insert(waited + 1, arrive)
        else:
            line.items[at].after.append(arrive)

    def _own_wait(self, line: Line, at: int, dep: Dependence) -> int | None:
        """Place among what stands before item `at` of its wait for the asynchronous reader `dep.edge.dst`, None where
        the reader is known to be done only later."""
        if self.seu(dep.edge.dst).completion not in GROUPS:
            return None
        signal, came = self.group(dep.edge.dst), self.position(line.loop, line.role, dep.edge.dst)
        if isinstance(line.items[came].instr, Inner):
            return None
        later, found = self._when_done(line, came, signal, self.buffers[dep.tile, ""].slots)
        if found != at or not self._waits_for(line, signal, came, later, at):
            return None
        covering = self._groups_between(line, signal, came, later, at)
        return next(
            n
            for n, k in enumerate(line.items[at].before)
            if isinstance(k, Wait) and k.signal == signal and k.pending <= covering
        )

    def _done_point(self, line: Line, dep: Dependence) -> tuple[int, int, Dependence]:
        """(iteration in stages, item after which) at which the reader is known to be done."""
        came = self.position(line.loop, line.role, dep.edge.dst)
        item = line.items[came]
        read_at = item.stage + dep.edge.distance
        if self.seu(dep.edge.dst).completion not in GROUPS:
            return read_at, came, dep
        signal = self.group(dep.edge.dst)
        if isinstance(item.instr, Inner):
            reason = Reason(Why.SLOT_FREE, dep.edge.dst, dep.edge.src, self._buffer_name(dep))
            if not any(isinstance(k, Wait) and k.signal == signal and k.pending == 0 for k in item.after):
                item.after.append(Wait(signal, reason, item.stage, 0))
            return read_at, came, dep
        later, at = self._when_done(line, came, signal, self.buffers[dep.tile, ""].slots)
        if self._needs_next(line, dep, came, later, at):  # else the role would wait for what it has not released
            later, at = 0, came
        pending = self._groups_between(line, signal, came, later, at + 1)
        stage = item.stage + later
        reason = Reason(Why.SLOT_FREE, dep.edge.dst, dep.edge.src, self._buffer_name(dep), 0)
        if not self._covered(line, signal, came, later, at):
            line.items[at].after.append(Wait(signal, reason, stage, pending))
        return stage + dep.edge.distance, at, dep

    def _needs_next(self, line: Line, dep: Dependence, came: int, later: int, at: int) -> bool:
        """Whether an item after `came`, up to `at` of `later` iterations on, reads the next content of the slot."""
        slots, count = self.buffers[dep.tile, ""].slots, len(line.items)
        if later >= slots:
            return True
        distances = {e.dst: e.distance for e in self.graph.edges if self.tiles.of(e.value) == dep.tile}
        content = -line.items[came].stage - dep.edge.distance
        following = (divmod(came + step, count) for step in range(1, later * count + at - came + 1))
        read = ((ahead, line.items[place]) for ahead, place in following if isinstance(line.items[place].instr, Issue))
        return any(i.task in distances and ahead - i.stage - distances[i.task] - content >= slots for ahead, i in read)

    def _when_done(self, line: Line, came: int, signal: str, slots: int) -> tuple[int, int]:
        """(iterations later, item after which): where the role waits for the asynchronous item anyway; else the first
        moment when it has likely left its unit, or, for the unit's only task in a loop whose buffer has slots to spare,
        where it comes again: other work of the role then runs beside it even where that takes less time than planned
        (decoding 4-bit weights beside their product)."""
        target = line.items[came].done
        count = len(line.items)
        alone = [self._joins(item, signal) for item in line.items].count(0) == count - 1
        for step in range(1, count + 1):
            later, at = divmod(came + step, count)
            if self._waits_for(line, signal, came, later, at):
                return later, at
        for step in range(1, count + 1):
            later, at = divmod(came + step, count)
            if later and self._waits_anyway(line, signal, came, later, at):
                return later, at
        for step in range(1, 4 * count + 1):
            later, at = divmod(came + step, count)
            item = line.items[at]
            if self._waits_for(line, signal, came, later, at):
                return later, at
            if item.start + later * line.ii >= target:
                same_unit = isinstance(item.instr, Issue) and item.instr.completes == signal
                if same_unit:  # let the unit have its next task before this role waits
                    return later, at
                if alone and slots >= SLOTS_TO_SPARE and step < count:  # nothing but the release wants to know
                    continue
                previous = (came + step - 1) % count
                return (came + step - 1) // count, previous
        return 1, came

    def _waits_anyway(self, line: Line, signal: str, came: int, later: int, at: int) -> bool:
        """Whether item `at`, `later` iterations on, waits for what item `came` issued, for a reason of its own
        iteration: not after the last one, where a wait for the release itself is left."""
        item = line.items[at]
        return _waits(item.before, signal, item.stage, self._groups_between(line, signal, came, later, at))

    def _waits_for(self, line: Line, signal: str, came: int, later: int, at: int) -> bool:
        """Whether item `at` already waits for exactly the instance that item `came` issued `later` iterations ago."""
        stage = line.items[came].stage + later
        return _waits(line.items[at].before, signal, stage, self._groups_between(line, signal, came, later, at))

    def _covered(self, line: Line, signal: str, came: int, later: int, at: int) -> bool:
        """Whether that instance is waited for before item `at` or right after it."""
        stage, covering = line.items[came].stage + later, self._groups_between(line, signal, came, later, at + 1)
        return self._waits_for(line, signal, came, later, at) or _waits(line.items[at].after, signal, stage, covering)

    # ------------------------------------------------ tiles that are gone through again

    def _keep(self, tile: str, deps: list[Dependence]) -> None:
        """All slots are filled by one run of a loop, read by another, and free again when that and all around it are
        done: the full signal counts in the first loop, the empty one (of one slot) in the loop around both. The open
        one is for runs without iterations: no reader may release what its owner has not taken yet."""
        buffer, source = self.buffers[tile, ""], deps[0].edge.src
        made_in = self._task_loop[source]
        around = deps[0].loop
        empty = self.signals[f"empty.{buffer.name}"]
        self.signals[empty.name] = Signal(empty.name, empty.kind, 1, empty.arrivals)
        opened = Signal(f"open.{buffer.name}", empty.kind, 1, len(dict.fromkeys(d.src_role for d in deps)))
        self.signals[opened.name] = opened
        for role in dict.fromkeys(d.dst_role for d in deps):
            edge = next(d.edge for d in deps if d.dst_role == role)
            reason = Reason(Why.DEPENDENCE, source, edge.dst, buffer.name)
            self.lines[made_in, role].lead.append(Wait(f"full.{buffer.name}", reason))
            outer = self.lines[around, role]
            outer.items[outer.inner(made_in)].before.append(Wait(opened.name, reason))
            item = self.lines[around, role].items[self.position(around, role, edge.dst)]
            for reader in dict.fromkeys(d.edge.dst for d in deps if d.dst_role == role):
                if self.seu(reader).completion in GROUPS:
                    drained = Wait(self.group(reader), Reason(Why.SLOT_FREE, reader, source, buffer.name), 0, 0)
                    _once(item.after, drained)
            item.after.append(Arrive(empty.name, Reason(Why.SLOT_FREE, edge.dst, source, buffer.name)))
        for role in dict.fromkeys(d.src_role for d in deps):
            line = self.lines[around, role]
            reason = Reason(Why.SLOT_FREE, deps[0].edge.dst, source, buffer.name)
            opens = Arrive(opened.name, Reason(Why.DEPENDENCE, source, deps[0].edge.dst, buffer.name))
            line.items[line.inner(made_in)].before += [Wait(empty.name, reason), opens]


def _waits(instrs: list[Instr], signal: str, stage: int, most: int) -> bool:
    """Whether one of `instrs` waits in `stage` until at most `most` groups of `signal` are pending."""
    return any(isinstance(i, Wait) and i.signal == signal and i.stage == stage and i.pending <= most for i in instrs)


def _once(instrs: list[Instr], instr: Instr) -> None:
    if instr not in instrs:
        instrs.append(instr)
