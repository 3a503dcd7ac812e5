"""Tuning: measure the model's best plans for one shape and keep the fastest. Can be interrupted and resumed.

Every time is stored as soon as it is measured; a later run with the same kernel, shape and device measures only what is
missing. Plans that failed or timed out are remembered as such and not tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from threadloom.errors import CompileError, slug
from threadloom.machine.model import Device
from threadloom.sched.candidate import Candidate
from threadloom.sched.measure import TIMEOUT_S, Measurer
from threadloom.sched.ops import SProgram
from threadloom.sched.reuse import Recipe, key_of, recipe_from_text, recipe_text, remake
from threadloom.sched.search import plan
from threadloom.store import PlanTime, Store
from threadloom.tile.ops import Kernel

NOTHING_RAN = slug("nothing-measured", "tuning found no plan that ran")

MOST_PLANS = 24


@dataclass(frozen=True, slots=True)
class Progress:
    """After each plan: `done` of `total`, what this one took, the best so far, and whether it came from the store."""

    done: int
    total: int
    found: PlanTime
    best_ns: float
    stored: bool


@dataclass(frozen=True, slots=True)
class Tuned:
    program: SProgram
    ns: float
    measured: int  # plans measured now
    stored: int  # plans whose time was known
    failed: tuple[PlanTime, ...]


def tune(
    kernel: Kernel,
    dims: dict[str, int],
    device: Device,
    store: Store,
    arrays: Mapping[str, np.ndarray] | None = None,
    scalars: Mapping[str, float] | None = None,
    progress: Callable[[Progress], None] | None = None,
    most: int = MOST_PLANS,
    timeout_s: float = TIMEOUT_S,
    worker: str = "",
) -> Tuned:
    """Measure up to `most` plans; `arrays`: values of integer tensors that bound loops or index others."""
    key = key_of(kernel, dims, device)
    known = store.plan_times(key)
    outcome = plan(kernel, dims, device, limit_s=20.0, breadth=most)
    recipes = _distinct(outcome.candidates, most)
    options = {"worker": worker} if worker else {}
    found: list[PlanTime] = []
    fresh = 0
    with Measurer(kernel, dims, device, arrays, scalars, timeout_s, **options) as measurer:
        for at, recipe in enumerate(recipes):
            before = known.get(recipe_text(recipe))
            result = before or measurer.measure(recipe)
            if before is None:
                store.add_plan_time(key, result)
                fresh += 1
            found.append(result)
            if progress is not None:
                best = min((f.ns for f in found if f.state == "ok"), default=0.0)
                progress(Progress(at + 1, len(recipes), result, best, before is not None))
    good = sorted((f for f in (*found, *known.values()) if f.state == "ok"), key=lambda f: f.ns)
    failed = tuple(f for f in found if f.state != "ok")
    if not good:
        raise CompileError(
            NOTHING_RAN,
            f"none of {len(found)} plans of {kernel.name} ran on {device.name}",
            why=failed[0].message if failed else "no plan was made",
            try_="loom doctor says what is missing",
            loc=kernel.loc,
        )
    program = remake(kernel, dims, device, recipe_from_text(good[0].plan)).best
    store.set_plan(key, good[0].plan, good[0].ns, program.predicted_ns)
    return Tuned(program, good[0].ns, fresh, len(found) - fresh, failed)


def _distinct(candidates: tuple[Candidate, ...], most: int) -> list[Recipe]:
    """Recipes of the candidates in the model's order, each once."""
    recipes = [Recipe(c.partition, "joint", c.context.granularity) for c in candidates]
    return list({recipe_text(r): r for r in recipes}.values())[:most]
