"""Homes: the C array in which each tile of registers lives, for one role.

A tile (task/ops.py) is a place: all its values, one content after the other, are in the same registers. Arrays are
declared once per tile of the grid, so every loop pass and every stage finds its values where the last one left them.
What only one sTask sees has no tile and is declared where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.layout import uniform
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.targets.cuda.unsupported import no_code
from threadloom.task.ops import Kind, Loop, STask, Tile


@dataclass(slots=True)
class Homes:
    plan: KernelPlan
    scope: Scope
    arrays: dict[str, Registers]  # tile -> its array
    begins: set[str]  # what carried scalars begin with where scalar code makes it: it has its own variable

    @classmethod
    def declare(cls, plan: KernelPlan, scope: Scope, role: str) -> Homes:
        """Declare the arrays of all register tiles that `role` touches."""
        made = cls(plan, scope, {}, set())
        for tile in plan.program.graph.tiles:
            if plan.lives_in_registers(tile, role):
                made._declare(tile) if tile.type.axes else made._declare_scalar(tile, role)
        return made

    def _declare_scalar(self, tile: Tile, role: str) -> None:
        """A carried scalar: a plain variable, which tasks of tiles read and change, all of them in one role."""
        begins = self._begun_by_scalar_code(tile)
        run, values = self.plan.tasks_of(role), {*tile.values} - begins
        guarded = [t for t in self.plan.tasks.values() if values & {g.cond for g in self.plan.guards(t)}]
        readers = [*(t for name in tile.consumers if values & {*(t := self.plan.task(name)).reads}), *guarded]
        makers = [t for name in tile.producers if values & {*(t := self.plan.task(name)).writes}]
        bounds = [v for loop in self.plan.program.graph.loops for a in loop.axes for v in (a.start, a.stop) if v]
        if any(v.name in values for v in bounds):
            raise no_code(f"the carried scalar {tile.name}", "a loop's bounds depend on it", makers[0].loc)
        for task in (*readers, *(m for m in makers if m.loop == tile.carried)):
            if task.kind is Kind.SCALAR:  # written where its loop's body begins, which may be too early
                raise no_code(f"the carried scalar {tile.name}", "it is used where there are no tiles", task.loc)
        for task in readers:
            if task.name in run and any(maker.name not in run for maker in makers):
                why = "other warps compute it than those that read it here"
                raise no_code(f"the carried scalar {tile.name}", why, task.loc)
        name, dtype = self.scope.fresh(tile.name), tile.type.dtype
        self.scope.writer.line(f"{c.register_type(dtype)} {name};")
        self.arrays[tile.name] = Registers(name, dtype, uniform(self.scope.team.warps), scalar=True)
        self.begins |= begins
        self.scope.registers |= dict.fromkeys(values, self.arrays[tile.name])

    def _begun_by_scalar_code(self, tile: Tile) -> set[str]:
        """The values that loops begin the carried scalar `tile` with and that no vector code makes."""
        makers = (self.plan.task(name) for name in tile.producers)
        by_vectors = {name for t in makers if t.kind is not Kind.SCALAR for name in t.writes}
        carried = [q for loop in self.plan.program.graph.loops for q in loop.carried if q[1].name in tile.values]
        others = by_vectors | {v.name for _, *rest in carried for v in rest}
        return {init.name for init, *_ in carried} - others

    def begin_loop(self, loop: Loop) -> None:
        """Where a run of `loop` begins: its carried scalars that begin with what scalar code has made. Not before:
        stages of the loop around it have different instances, and an earlier run may still be read."""
        for init, arg, _, _ in loop.carried:
            if init.name in self.begins and (home := self.of(arg.name)) is not None:
                self.scope.writer.line(f"{home.name} = {self.scope.scalar(init.name)};")

    def _declare(self, tile: Tile) -> None:
        layouts = {v: self.plan.layouts[v] for v in tile.values if v in self.plan.layouts}
        if not layouts:
            return
        value = next(iter(layouts))
        if len(set(layouts.values())) > 1:
            raise no_code(f"{tile.name}", f"its values {', '.join(layouts)} want two register layouts", None)
        packed, dtype = self.plan.is_packed(value), self.plan.value(value).type.dtype
        name = self.scope.fresh(tile.name + ("_packed" if packed else ""))
        count = layouts[value].registers // (2 if packed else 1)
        self.scope.writer.line(f"{'u32' if packed else c.register_type(dtype)} {name}[{count}];")
        held = Registers(name, dtype, layouts[value], packed=packed)
        self.arrays[tile.name] = held
        for v in tile.values:
            self.scope.homes[v] = name
            self.scope.registers[v] = replace(held, dtype=self.plan.value(v).type.dtype)

    def of(self, value: str) -> Registers | None:
        """The array of the tile of `value`, with the value's dtype."""
        held = self.arrays.get(self.plan.tiles.of(value)) if value not in self.begins else None
        return held and replace(held, dtype=self.plan.value(value).type.dtype)

    def of_buffer(self, buffer: str) -> Registers | None:
        found = self.plan.find_buffer(buffer)
        return self.arrays.get(found.tile) if found else None

    # ------------------------------------------------------------ what a task does to its tiles

    def overwritten(self, task: STask) -> frozenset[str]:
        """Values that `task` reads and whose tile gets its next content from it."""
        written = {self.plan.tiles.of(w) for w in task.writes} - {""}
        return frozenset(r for r in task.reads if self.plan.tiles.of(r) in written)

    def begin(self, task: STask) -> None:
        """Before the task's code: results whose tile holds nothing that the task reads are made in place, the others
        get registers of their own (or those of an operand, where elementwise code may write over it)."""
        held_back = {self.plan.tiles.of(r) for r in self.overwritten(task)}
        for name in task.writes:
            tile = self.plan.tiles.of(name)
            if tile in held_back or (tile in self.arrays and self.arrays[tile].scalar):
                self.scope.registers.pop(name, None)
            elif tile in self.arrays:
                self.scope.registers[name] = self.of(name)

    def finish(self, task: STask) -> None:
        """After it: move what was made elsewhere to its tile."""
        for name in task.writes:
            home, made = self.of(name), self.scope.registers.get(name)
            if home is None or made is None or made.name == home.name:
                continue
            if home.scalar:
                self.scope.writer.line(f"{home.name} = {made.name if made.scalar else f'{made.name}[0]'};")
                continue
            source = made.name if made.scalar else f"{made.name}[i]"
            self.scope.writer.line(unroll(home.layout.registers, home.dtype))
            self.scope.writer.line(f"for (int i = 0; i < {home.layout.registers}; i++) {home.name}[i] = {source};")
            self.scope.registers[name] = home
        for name in task.writes:  # all values of a tile are found in it
            if (home := self.of(name)) is not None:
                self.scope.registers[name] = home
