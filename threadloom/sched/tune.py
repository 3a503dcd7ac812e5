"""Tuning: measure the model's best plans for one shape and keep the fastest. Can be interrupted and resumed.

Every time is stored as soon as it is measured; a later run with the same kernel, shape and device measures only what is
missing. Plans that failed or timed out are remembered as such and not tried again. Where compiling takes longer than
measuring (a GPU), workers compile as many plans at a time as there are cores, one worker measures what is ready, and
the few fastest run once more in turns, since a GPU's clock depends on what ran before. Where vector code decides, only
half of the plans are the model's best: the fastest of them run with clocks inside, and the rest are the best of a
search with what their sTasks took (`learn.py`).
"""

from __future__ import annotations

import itertools
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
from threadloom.sched.learn import Lessons, worth_learning
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
LEAST_TO_LEARN, CLOCKED, LEARNING_S = 6, 2, 6.0  # plans; plans run with clocks; seconds that this may take
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
    known = store.plan_times(key)
    missing = [r for r in recipes if recipe_text(r) not in known]
    total = len(known) + len(missing) if compiled_first else len(recipes)
    session = Session(
        kernel, dims, device, store, arrays, scalars, progress, options, began + limit_s, known, key, total
    )
    if compiled_first:
        for before in known.values():
            session.add(before, stored=True)
        _measure_compiled(session, missing, outcome)
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


@dataclass
class Run:
    """What is measured of compiled plans. Those whose code is not as planned (spills, serialised products) wait: they
    are measured only where no other ran."""

    session: Session
    measurer: Measurer
    compilers: Compilers
    folder: Path
    faulty: list[Made] = field(default_factory=list)
    good: dict[str, Made] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, recipes: list[Recipe]) -> None:
        """Plans as they become ready."""
        loader = ThreadPoolExecutor(1)
        loading = loader.submit(self.measurer.load)  # while the first plans compile
        for made in self.compilers.made(recipes, self.folder):
            loading.result()
            if made.error:
                self.session.add(PlanTime(made.recipe, "failed", 0.0, made.error))
            elif made.fault:
                self.faulty.append(made)
            elif self.session.time_left > 0:
                self._time(made)
        loader.shutdown()

    def _time(self, made: Made) -> None:
        result, self.samples[made.recipe] = self.measurer.measure_ready(made)
        self.session.add(result)
        if result.state == "ok":
            self.good[made.recipe] = made

    def finish(self) -> None:
        some_ran = bool(self.good)
        for made in self.faulty:
            if some_ran or self.session.time_left <= 0:
                self.session.add(PlanTime(made.recipe, "failed", 0.0, made.fault))
            else:
                result, self.samples[made.recipe] = self.measurer.measure_ready(made)
                self.session.add(result)
        for wrong in _outvoted(self.session, self.samples):
            self.good.pop(wrong, None)
        _race(self.session, self.measurer, self.good)


def _measure_compiled(session: Session, recipes: list[Recipe], outcome: Outcome) -> None:
    """Measure `recipes`; where learning is worth it, half of them, and then what the corrected model likes best."""
    if not recipes:
        return
    first = len(recipes)
    if len(recipes) >= LEAST_TO_LEARN and worth_learning(outcome.best.graph):
        first = (len(recipes) + 1) // 2
    with (
        tempfile.TemporaryDirectory(prefix="threadloom-tune-") as folder,
        session.measurer() as measurer,
        Compilers(session, first) as compilers,
    ):
        run = Run(session, measurer, compilers, Path(folder))
        run.measure(recipes[:first])
        if first < len(recipes):
            run.measure(_learned(run, recipes[first:], outcome))
        run.finish()


def _learned(run: Run, rest: list[Recipe], outcome: Outcome) -> list[Recipe]:
    """As many plans as `rest`: those that rank best once clocks in the fastest so far have corrected the model."""
    session = run.session
    lessons = Lessons(session.device)
    if session.time_left < LEARNING_S + 2 * outcome.seconds:
        return rest
    fastest = sorted((f for f in session.found if f.plan in run.good), key=lambda f: f.ns)[:CLOCKED]
    candidates = {recipe_text(recipe_of_candidate(c)): c for c in outcome.candidates}
    clocked = [recipe_from_text(f.plan) for f in fastest if f.plan in candidates]
    for made in run.compilers.made(clocked, run.folder, clocks=True):
        if not made.error:
            lessons.add(candidates[made.recipe], run.measurer.task_times(made))
    if not lessons:
        return rest
    again = plan(session.kernel, session.dims, session.device, measured=lessons.time, breadth=session.total)
    done = {*session.known, *(f.plan for f in session.found), *(m.recipe for m in run.faulty)}
    ranked = {recipe_text(r): r for r in (*_distinct(again.candidates, 2 * session.total), *rest)}
    return [r for text, r in ranked.items() if text not in done][: len(rest)]


class Compilers:
    """Workers that compile plans, as many at a time as there are cores. Use as a context manager."""

    def __init__(self, session: Session, most: int):
        self._session = session
        count = max(1, min(MOST_COMPILERS, usable_cores(), most))
        self._all = [session.measurer() for _ in range(count)]
        self._idle = list(self._all)
        self._numbers = itertools.count()

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        for compiler in self._all:
            compiler.__exit__()

    def made(self, recipes: list[Recipe], folder: Path, clocks: bool = False) -> Iterator[Made]:
        """Compiled plans in the order they become ready; none after the deadline."""
        session = self._session

        def make(number: int, recipe: Recipe) -> Made | None:
            if session.time_left <= 0:
                return None
            compiler = self._idle.pop()  # there are as many as threads
            try:
                return compiler.make(recipe, folder / f"{number}.plan", clocks)
            finally:
                self._idle.append(compiler)

        pool, ended = ThreadPoolExecutor(len(self._all)), False
        try:
            futures: list[Future] = [pool.submit(make, next(self._numbers), recipe) for recipe in recipes]
            for future in as_completed(futures, timeout=max(1.0, min(session.time_left, 1e6))):
                made = future.result()
                if made is not None:
                    yield made
            ended = True
        except TimeoutError:
            pass  # the time limit
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for compiler in () if ended else self._all:  # what still compiles is of no use
                compiler.stop()
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
