"""An ablation's programs, built by several processes at once.

For each program: read its sources (a task), take the digest of each variant (tasks of a few), and build each distinct
one (a task). What is done is written to `builds.json` in the program's folder at once, so that another call with the
same folder goes on where time ran out.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import chdir
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from threadloom.bench.suites import ablation
from threadloom.bench.suites.ablation import ALL, Ablation, Sources, Variant, switches
from threadloom.bench.suites.driver import version
from threadloom.bench.suites.rodinia_pairs import Pair
from threadloom.errors import ThreadloomError
from threadloom.whole_file import write_whole

_RECORD = "builds.json"
_SOURCES = "sources.pickle"
_DIGESTS_EACH = 5  # of a task


@dataclass(slots=True)
class Program:
    """One pair's folder, and what is known of its variants."""

    pair: Pair
    folder: Path
    passes: tuple[str, ...]
    record: dict = field(default_factory=dict)

    def load(self) -> None:
        kept = self.folder / _RECORD
        known = json.loads(kept.read_text()) if kept.exists() else {}
        same = known.get("passes") == list(self.passes)
        fresh = {"commit": version(), "passes": list(self.passes), "digests": {}, "causes": {}}
        self.record = known if same else fresh

    def save(self) -> None:
        write_whole(self.folder / _RECORD, json.dumps(self.record))

    def unknown(self) -> list[str]:
        """Variants without a digest yet."""
        return [name for name in switches(self.passes) if name not in self.record["digests"]]

    def unbuilt(self) -> dict[str, str]:
        """Digest -> the first variant that has it, of programs that are neither there nor known to fail."""
        failed = {self.record["digests"][name] for name in self.record["causes"]}
        found: dict[str, str] = {}
        for name, digest in self.record["digests"].items():
            if digest not in failed and not (self.folder / f"program.{digest}").exists():
                found.setdefault(digest, name)
        return found

    def result(self) -> Ablation:
        """The variants that can be timed or are known to fail."""
        missing = set(self.unbuilt())
        known = {name: digest for name, digest in self.record["digests"].items() if digest not in missing}
        causes = self.record["causes"]
        variants = {name: Variant(name, digest, [], causes.get(name, "")) for name, digest in known.items()}
        return Ablation(self.pair, variants, self.record["commit"])


def build_all(pairs: Sequence[Pair], checkout: Path, scratch: Path, passes: tuple[str, ...], jobs: int,
              until: float) -> tuple[list[Ablation], list[str]]:  # fmt: skip
    """Build by `jobs` processes until that time.monotonic(); the variants that are there, and what was not reached."""
    programs = [Program(pair, ablation.copied(pair, checkout, scratch).resolve(), passes) for pair in pairs]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        work = _Work(pool, until)
        for program in programs:
            program.load()
            if program.unknown() or program.unbuilt():
                work.add(_read, program, program.folder, program.pair)
        work.finish()
    left = [f"{one.pair.name}: {name}" for one in programs for name in (*one.unknown(), *one.unbuilt().values())]
    return [one.result() for one in programs], left


class _Work:
    """Tasks that run, and what follows each."""

    def __init__(self, pool: ProcessPoolExecutor, until: float):
        self.pool, self.until = pool, until
        self.running: dict[Future, tuple] = {}
        self.started: set[tuple[str, str]] = set()  # builds

    def add(self, task, program: Program, *arguments) -> None:
        self.running[self.pool.submit(task, *arguments)] = (task, program, arguments)

    def finish(self) -> None:
        while self.running:
            left = self.until - time.monotonic()
            done, _ = wait(self.running, timeout=max(0.0, left), return_when=FIRST_COMPLETED)
            for future in done:
                task, program, arguments = self.running.pop(future)
                self._follow(task, program, arguments, future)
            if not done:
                break
        for future in self.running:
            future.cancel()

    def _follow(self, task, program: Program, arguments: tuple, future: Future) -> None:
        if task is _read:
            if cause := future.result().get("cause"):
                program.record["digests"] = dict.fromkeys(switches(program.passes), "none")
                program.record["causes"] = dict.fromkeys(switches(program.passes), cause)
            else:
                program.record["idle"] = future.result()["idle"]
                names = _without_idle(program)
                for at in range(0, len(names), _DIGESTS_EACH):
                    self.add(_digests, program, program.folder, tuple(names[at : at + _DIGESTS_EACH]), program.passes)
        elif task is _digests:
            program.record["digests"] |= future.result()
            if ALL in program.record["digests"]:
                same = dict.fromkeys(_idle_variants(program), program.record["digests"][ALL])
                program.record["digests"] = same | program.record["digests"]
        elif cause := future.result():
            program.record["causes"][arguments[1]] = cause
        program.save()
        for digest, name in program.unbuilt().items():
            if (program.pair.name, digest) not in self.started and task is not _read:
                self.started.add((program.pair.name, digest))
                self.add(_build, program, program.folder, name, program.passes, digest)


def _idle_variants(program: Program) -> list[str]:
    return [f"without {name}" for name in program.record["idle"] if f"without {name}" in switches(program.passes)]


def _without_idle(program: Program) -> list[str]:
    idle = set(_idle_variants(program))
    return [name for name in program.unknown() if name not in idle] or [ALL]


# ---------------------------------------------------------------- tasks


def _read(folder: Path, pair: Pair) -> dict:
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    with chdir(folder):
        try:
            sources = ablation.read_sources(pair, objects)
        except ThreadloomError as error:
            return {"cause": f"does not build: {str(error).splitlines()[0]}"}
    (folder / _SOURCES).write_bytes(pickle.dumps(sources))
    return {"idle": sorted(ablation.idle_passes(sources))}


@lru_cache(maxsize=2)
def _sources(folder: Path) -> Sources:
    return pickle.loads((folder / _SOURCES).read_bytes())  # our own file, of the call before or of this one


def _digests(folder: Path, names: tuple[str, ...], passes: tuple[str, ...]) -> dict[str, str]:
    left_out = switches(passes)
    return {name: ablation.fingerprint(_sources(folder), left_out[name]) for name in names}


def _build(folder: Path, name: str, passes: tuple[str, ...], digest: str) -> str:
    with chdir(folder):
        return ablation.build_variant(_sources(folder), switches(passes)[name], folder / f"program.{digest}")
