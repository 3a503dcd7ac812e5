"""Tuning: measure the model's best plans for one shape and keep the fastest. Can be interrupted and resumed.

Every time is stored as soon as it is measured; a later run with the same kernel, shape and device measures only what is
missing. Plans that failed or timed out are remembered as such and not tried again. Where compiling takes longer than
measuring (a GPU), workers compile as many plans at a time as there are cores, one worker measures what is ready, and
the few fastest run once more in turns, since a GPU's clock depends on what ran before.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from threadloom.errors import CompileError, slug
from threadloom.machine.cpu import usable_cores
from threadloom.machine.model import Device
from threadloom.sched.candidate import Candidate
from threadloom.sched.measure import TIMEOUT_S, Made, Measurer
from threadloom.sched.ops import SProgram
from threadloom.sched.reuse import Recipe, key_of, recipe_from_text, recipe_of_candidate, recipe_text, remake
from threadloom.sched.search import Outcome, plan
from threadloom.store import Key, PlanTime, Store
from threadloom.task.ops import Kind
from threadloom.tile.ops import Access, Kernel

NOTHING_RAN = slug("nothing-measured", "tuning found no plan that ran")

MOST_PLANS = 24
PER_PRODUCT_S, MOST_S = 20.0, 60.0  # time limit: for each product of the kernel, and in all
COMPILED_FIRST = ("sm_90a", "sm_80")  # architectures whose plans are compiled by workers of their own
MOST_COMPILERS = 16
RACED, CLOSE = 4, 1.06  # plans that run again in turns: those within a few percent of the best


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
    seconds: float = 0.0
    skipped: int = 0  # plans that the time limit left out


@dataclass
class Session:
    """One run of `tune`: what is asked for, and what has been found."""

    kernel: Kernel
    dims: dict[str, int]
    device: Device
    store: Store
    arrays: Mapping[str, np.ndarray] | None
    scalars: Mapping[str, float] | None
    progress: Callable[[Progress], None] | None
    options: dict[str, object]  # of the workers
    deadline: float
    known: dict[str, PlanTime]
    key: Key
    total: int = 0
    found: list[PlanTime] = field(default_factory=list)
    fresh: int = 0

    def measurer(self) -> Measurer:
        return Measurer(self.kernel, self.dims, self.device, self.arrays, self.scalars, **self.options)

    def add(self, result: PlanTime, stored: bool = False) -> None:
        """Keep one result, and report it."""
        if not stored:
            self.store.add_plan_time(self.key, result)
            self.fresh += 1
        self.found.append(result)
        if self.progress is not None:
            best = min((f.ns for f in self.found if f.state == "ok"), default=0.0)
            self.progress(Progress(len(self.found), self.total, result, best, stored))

    @property
    def time_left(self) -> float:
        return self.deadline - time.monotonic()


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
    limit_s: float | None = None,
    outcome: Outcome | None = None,
) -> Tuned:
    """Measure up to `most` plans; `arrays`: values of integer tensors that bound loops or index others; `limit_s`: for
    all of it (default on a GPU: 20 s for each product of the kernel, at most 60 s); `outcome`: of a search that was
    made already."""
    began = time.monotonic()
    key = key_of(kernel, dims, device)
    outcome = outcome or plan(kernel, dims, device, breadth=most)
    recipes = _distinct(outcome.candidates, most)
    compiled_first = device.arch in COMPILED_FIRST
    if limit_s is None:
        products = sum(t.kind is Kind.DOT for t in outcome.best.graph.tasks)
        limit_s = min(MOST_S, PER_PRODUCT_S * max(1, products)) if compiled_first else float("inf")
    options = {"timeout_s": timeout_s, **({"worker": worker} if worker else {})}
    session = Session(
        kernel, dims, device, store, arrays, scalars, progress, options, began + limit_s, store.plan_times(key), key,
        len(recipes),
    )  # fmt: skip
    missing = []
    for recipe in recipes:
        before = session.known.get(recipe_text(recipe))
        if before is None:
            missing.append(recipe)
        elif compiled_first:
            session.add(before, stored=True)
    if compiled_first:
        _measure_compiled(session, missing)
    else:
        _measure_each(session, recipes)
    return _choose(session, time.monotonic() - began)


def _choose(session: Session, seconds: float) -> Tuned:
    good = sorted((f for f in _newest(session) if f.state == "ok"), key=lambda f: f.ns)
    failed = tuple(f for f in session.found if f.state != "ok")
    if not good:
        raise CompileError(
            NOTHING_RAN,
            f"none of {len(session.found)} plans of {session.kernel.name} ran on {session.device.name}",
            why=failed[0].message if failed else "no plan was made",
            try_="loom doctor says what is missing",
            loc=session.kernel.loc,
        )
    for best in good:  # one that an older version measured may no longer be made
        try:
            program = remake(session.kernel, session.dims, session.device, recipe_from_text(best.plan)).best
        except (CompileError, ValueError, KeyError, TypeError):
            continue
        session.store.set_plan(session.key, best.plan, best.ns, program.predicted_ns)
        known = len(session.found) - session.fresh
        skipped = session.total - len(session.found)
        return Tuned(program, best.ns, session.fresh, known, failed, seconds, skipped)
    raise CompileError(NOTHING_RAN, f"no measured plan of {session.kernel.name} can be made again", try_="loom cache")


def _newest(session: Session) -> list[PlanTime]:
    """What is known of each plan, the latest measurement of each."""
    return list({**session.known, **{f.plan: f for f in session.found}}.values())


def _measure_each(session: Session, recipes: list[Recipe]) -> None:
    """One after the other, each compiled where it is measured."""
    with session.measurer() as measurer:
        for recipe in recipes:
            before = session.known.get(recipe_text(recipe))
            session.add(before or measurer.measure(recipe), stored=before is not None)


# ---------------------------------------------------------------- compiled by workers of their own


def _measure_compiled(session: Session, recipes: list[Recipe]) -> None:
    """Measure plans as they become ready. Those whose code is not as planned (spills, serialised products) are measured
    only where no other ran."""
    if not recipes:
        return
    faulty: list[Made] = []
    good: dict[str, Made] = {}
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="threadloom-tune-") as folder, session.measurer() as measurer:
        loader = ThreadPoolExecutor(1)
        loading = loader.submit(measurer.load)  # while the first plans compile
        for made in _made(session, recipes, Path(folder)):
            loading.result()
            if made.error:
                session.add(PlanTime(made.recipe, "failed", 0.0, made.error))
            elif made.fault:
                faulty.append(made)
            elif session.time_left > 0:
                result, samples[made.recipe] = measurer.measure_ready(made)
                session.add(result)
                if result.state == "ok":
                    good[made.recipe] = made
        loader.shutdown()
        for made in faulty:
            if good or session.time_left <= 0:
                session.add(PlanTime(made.recipe, "failed", 0.0, made.fault))
            else:
                result, samples[made.recipe] = measurer.measure_ready(made)
                session.add(result)
        for wrong in _outvoted(session, samples):
            good.pop(wrong, None)
        _race(session, measurer, good)


def _made(session: Session, recipes: list[Recipe], folder: Path) -> Iterator[Made]:
    """Compiled plans in the order they become ready; none after the deadline."""
    compilers = [session.measurer() for _ in range(max(1, min(MOST_COMPILERS, usable_cores(), len(recipes))))]
    idle = list(compilers)

    def make(number: int, recipe: Recipe) -> Made | None:
        if session.time_left <= 0:
            return None
        compiler = idle.pop()  # there are as many as threads
        try:
            return compiler.make(recipe, folder / f"{number}.plan")
        finally:
            idle.append(compiler)

    pool = ThreadPoolExecutor(len(compilers))
    try:
        futures: list[Future] = [pool.submit(make, at, recipe) for at, recipe in enumerate(recipes)]
        for future in as_completed(futures, timeout=max(1.0, min(session.time_left, 1e6))):
            made = future.result()
            if made is not None:
                yield made
    except TimeoutError:
        pass  # the time limit
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for compiler in compilers:
            compiler.__exit__()
        pool.shutdown()


def _outvoted(session: Session, samples: dict[str, list[float]]) -> list[str]:
    """Plans whose results differ from those of most: they count as failed. Two plans alone cannot say who is right."""
    from threadloom.comparison import tolerance

    measured = [f for f in session.found if f.state == "ok" and samples.get(f.plan)]
    if len(measured) < 3:
        return []
    values = {f.plan: np.asarray(samples[f.plan]) for f in measured}
    dtypes = [t.dtype for t in session.kernel.tensors if t.access is Access.OUT]

    def agree(a: np.ndarray, b: np.ndarray) -> bool:
        allowed = 2 * max(tolerance(session.kernel, session.dims, d, a[np.abs(a) < 1e30]) for d in dtypes)
        return bool((np.abs(a - b) <= allowed).all())

    votes = {p: sum(agree(v, w) for w in values.values()) for p, v in values.items()}
    most = max(votes.values())
    if most * 2 <= len(measured):
        return []
    right = values[next(p for p, n in votes.items() if n == most)]
    wrong = [f for f in measured if not agree(right, values[f.plan])]
    for found in wrong:
        failed = PlanTime(found.plan, "failed", 0.0, f"its results differ from those of {most} plans")
        session.store.add_plan_time(session.key, failed)
        session.found[session.found.index(found)] = failed
    return [f.plan for f in wrong]


def _race(session: Session, measurer: Measurer, good: dict[str, Made]) -> None:
    """Measure the fastest once more, in turns; these times replace their first ones."""
    times = sorted((f for f in session.found if f.plan in good and f.state == "ok"), key=lambda f: f.ns)
    close = [f for f in times if f.ns <= times[0].ns * CLOSE][:RACED]
    if len(close) < 2:
        return
    for first, ns in zip(close, measurer.race([good[f.plan] for f in close]), strict=False):
        again = PlanTime(first.plan, "ok", ns, first.message)
        session.store.add_plan_time(session.key, again)
        session.found[session.found.index(first)] = again


def _distinct(candidates: tuple[Candidate, ...], most: int) -> list[Recipe]:
    """Recipes of the candidates in the model's order, each once."""
    recipes = [recipe_of_candidate(c) for c in candidates]
    return list({recipe_text(r): r for r in recipes}.values())[:most]
