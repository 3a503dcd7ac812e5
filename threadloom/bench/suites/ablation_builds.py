"""An ablation's programs, built by several processes at once.

For each program: read its sources (a task), then lower each variant, take its digest, and build it if no other has that
digest (a task each). What is done is written to `builds.json` in the program's folder at once, so that another call
with the same folder goes on where time ran out.
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
from threadloom.bench.suites.process import die_with_parent
from threadloom.bench.suites.rodinia_pairs import Pair
from threadloom.errors import ThreadloomError
from threadloom.whole_file import write_whole

_RECORD = "builds.json"
_SOURCES = "sources.pickle"


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
        for claim in self.folder.glob("claim.*"):  # of a call that ended before the program was there
            claim.unlink()

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
        missing, digests = set(self.unbuilt()), self.record["digests"]
        causes = {digests[name]: cause for name, cause in self.record["causes"].items()}
        known = {name: digest for name, digest in digests.items() if digest not in missing}
        variants = {name: Variant(name, digest, [], causes.get(digest, "")) for name, digest in known.items()}
        return Ablation(self.pair, variants, self.record["commit"])


def build_all(pairs: Sequence[Pair], checkout: Path, scratch: Path, passes: tuple[str, ...], jobs: int,
              until: float) -> tuple[list[Ablation], list[str]]:  # fmt: skip
    """Build by `jobs` processes until that time.monotonic(); the variants that are there, and what was not reached."""
    programs = [Program(pair, ablation.copied(pair, checkout, scratch).resolve(), passes) for pair in pairs]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), initializer=die_with_parent) as pool:
        work = _Work(pool, until)
        for program in programs:
            program.load()
            if program.record.get("idle") is not None and (program.folder / _SOURCES).exists():
                work.add_variants(program)
            elif program.unknown() or program.unbuilt():
                work.add(_read, program, program.folder, program.pair)
        work.finish()
    left = [f"{one.pair.name}: {name}" for one in programs for name in (*one.unknown(), *one.unbuilt().values())]
    return [one.result() for one in programs], left


class _Work:
    """Tasks that run, and what follows each."""

    def __init__(self, pool: ProcessPoolExecutor, until: float):
        self.pool, self.until = pool, until
        self.running: dict[Future, tuple] = {}

    def add(self, task, program: Program, *arguments) -> None:
        self.running[self.pool.submit(task, *arguments)] = (task, program, arguments)

    def add_variants(self, program: Program) -> None:
        """Those that are not there, what tells most first (ablation.distinct)."""
        wanted = set(program.unknown()) - set(_idle_variants(program)) | set(program.unbuilt().values())
        for name in ablation.in_order(switches(program.passes)):
            if name in wanted:
                self.add(_variant, program, program.folder, name, program.passes)

    def finish(self) -> None:
        while self.running:
            left = self.until - time.monotonic()
            done, _ = wait(self.running, timeout=max(0.0, left), return_when=FIRST_COMPLETED)
            for future in done:
                task, program, arguments = self.running.pop(future)
                self._follow(task, program, arguments, future.result())
            if not done:
                break
        for future in self.running:
            future.cancel()

    def _follow(self, task, program: Program, arguments: tuple, done: dict) -> None:
        record = program.record
        if task is _read:
            if cause := done.get("cause"):
                record["digests"] = dict.fromkeys(switches(program.passes), "none")
                record["causes"] = dict.fromkeys(switches(program.passes), cause)
            else:
                record["idle"] = done["idle"]
                self.add_variants(program)
        else:
            name = arguments[1]
            record["digests"][name] = done["digest"]
            if done["cause"]:
                record["causes"][name] = done["cause"]
            if ALL in record["digests"]:
                record["digests"] = dict.fromkeys(_idle_variants(program), record["digests"][ALL]) | record["digests"]
        program.save()


def _idle_variants(program: Program) -> list[str]:
    return [f"without {name}" for name in program.record["idle"] if f"without {name}" in switches(program.passes)]


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


def _variant(folder: Path, name: str, passes: tuple[str, ...]) -> dict[str, str]:
    """Its digest, and why it does not build; it is built by the first task that claims the digest."""
    sources, without = _sources(folder), switches(passes)[name]
    with chdir(folder):
        try:
            units = ablation.lowered(sources, without)
        except ThreadloomError as error:
            return {"digest": f"none.{name}", "cause": f"does not build: {str(error).splitlines()[0]}"}
        digest, cause = ablation.fingerprint(units, without), ""
        program = folder / f"program.{digest}"
        if not program.exists() and _claim(folder / f"claim.{digest}"):
            cause = ablation.build_variant(sources, units, without, program)
    return {"digest": digest, "cause": cause}


def _claim(place: Path) -> bool:
    try:
        place.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
