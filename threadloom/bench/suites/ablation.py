"""What each optimisation is worth: Rodinia's programs built with all passes but one, and with one alone (PPoPP'23).

A pass that changes nothing about a program is not built and timed for it: the lowered kernels of both are compared
first. Builds stay in the scratch folder, so that timing can be done later, in turns; ablation_builds.py makes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.bench.suites import results, rodinia_data
from threadloom.bench.suites.driver import environment
from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.program import build_cause
from threadloom.bench.suites.rodinia_pairs import Pair
from threadloom.errors import ThreadloomError

if TYPE_CHECKING:
    from threadloom.cuda.compile_unit import DeviceUnit
    from threadloom.cuda.front import FrontIr
    from threadloom.cuda.host_stubs import Stub
    from threadloom.cuda.nvcc_options import NvccPlan
    from threadloom.cuda.raise_cfg_to_par import Raised

ALL, NONE = "all", "none"
_LIMITS = Limits(cpu_s=300)


@dataclass(slots=True)
class Variant:
    """One way to build a program; variants with equal `digest` are one program."""

    name: str  # all, none, "without X", "only X"
    digest: str
    kernel_s: list[float] = field(default_factory=list)
    cause: str = ""
    results: list = field(default_factory=list)  # what its last run copied to the host, as in results.py

    @property
    def time_s(self) -> float | None:
        """Of the fastest round: whatever else the machine does only adds, and some kernels take a few milliseconds."""
        return min(self.kernel_s) if self.kernel_s and not self.cause else None


@dataclass(slots=True)
class Ablation:
    """All variants of one pair."""

    pair: Pair
    variants: dict[str, Variant]
    commit: str = ""  # that was built

    def ratio(self, slow: str, fast: str) -> float | None:
        """Time of `slow` over that of `fast`; 1.0 where both are the same program, None where one did not run or
        was not reached."""
        one, other = self.variants.get(slow), self.variants.get(fast)
        if one is None or other is None:
            return None
        if one.digest == other.digest:
            return 1.0
        if one.time_s is None or other.time_s is None or other.time_s <= 0:
            return None
        return one.time_s / other.time_s

    def worth_last(self, name: str) -> float | None:
        """What `name` gains on top of all the others."""
        return self.ratio(f"without {name}", ALL)

    def worth_alone(self, name: str) -> float | None:
        """What `name` gains with none of the others."""
        return self.ratio(f"{NONE} nor {name}" if name in _IN_NONE else NONE, f"only {name}")


# Left out only by itself: without it every loop over threads forks, which would hide what the others do.
_IN_NONE = ("serialize-inner",)


def switches(passes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Variant -> the passes that are left out."""
    none = tuple(one for one in passes if one not in _IN_NONE)
    found: dict[str, tuple[str, ...]] = {ALL: (), NONE: none}
    for one in passes:
        found[f"without {one}"] = (one,)
        if one in _IN_NONE:
            found[f"only {one}"] = none
            found[NONE + f" nor {one}"] = passes
        else:
            found[f"only {one}"] = tuple(other for other in none if other != one)
    return found


def copied(pair: Pair, checkout: Path, scratch: Path) -> Path:
    """A copy of the program's folder with the inputs beside it, as its sources expect."""
    rodinia_data.provide(scratch / "data", checkout / "data", pair.inputs)
    for name in {Path(pair.cuda).parts[0], "util", "hybridsort"}:
        if (checkout / "cuda" / name).exists() and not (scratch / "cuda" / name).exists():
            shutil.copytree(checkout / "cuda" / name, scratch / "cuda" / name)
    return scratch / "cuda" / pair.cuda


@dataclass(frozen=True, slots=True)
class Sources:
    """A program's command line, and what its variants share: CUDA sources at level par, other files as objects."""

    plan: NvccPlan
    units: dict[str, tuple[FrontIr, Raised, tuple[Stub, ...]]]
    objects: dict[str, str]


def read_sources(pair: Pair, objects: Path) -> Sources:
    """The sources in the current folder, each read once; objects go to the folder `objects`."""
    from threadloom.cuda import build as cuda_build
    from threadloom.cuda import compile_unit, front, nvcc_options

    words = subprocess.run(["sh", "-c", f"echo {pair.build}"], capture_output=True, text=True, check=True)
    plan = nvcc_options.parse(shlex.split(words.stdout)[1:])
    sources = Sources(plan, {}, {})
    for number, (path, kind) in enumerate(plan.inputs):
        if kind == "cu":
            ir = front.compile_source(path, cuda_build.source_options(plan))
            sources.units[path] = (ir, *compile_unit.raise_unit(ir))
        else:
            sources.objects[path] = str(objects / f"{number}.o")
            one = replace(plan, action="compile", inputs=[(path, kind)], output=sources.objects[path])
            cuda_build.run(one)
    return sources


def idle_passes(sources: Sources) -> set[str]:
    """Those that change no kernel of the program: without one of them alone it is the same."""
    from threadloom.cuda.lower import pipeline

    changed: set[str] = set()
    names: set[str] = set()
    for _, raised, _ in sources.units.values():
        steps = pipeline.lower(raised.module).steps
        names |= {step.name for step in steps}
        changed |= {step.name for step in steps if step.changed}
    return names - changed


def lowered(sources: Sources, without: tuple[str, ...]) -> dict[str, DeviceUnit]:
    """The CUDA sources of a variant."""
    from threadloom.cuda import compile_unit

    found = sources.units.items()
    return {path: compile_unit.lower_unit(raised, stubs, without=without) for path, (_, raised, stubs) in found}


def fingerprint(units: Mapping[str, DeviceUnit], without: tuple[str, ...]) -> str:
    """A digest of a variant's kernels, as lowered, and of whether their launches may wait in batches."""
    from threadloom.cuda import launch_effects
    from threadloom.par.text import print_module

    digest = hashlib.sha256()
    for unit in units.values():
        batched = {} if launch_effects.NAME in without else unit.effects
        text = _LAUNCH_FACT.sub("", print_module(unit.lowered, False))
        digest.update((text + str(sorted(batched.items()))).encode())
    return digest.hexdigest()[:16]


_LAUNCH_FACT = re.compile(r'"loom\.launched"="[^"]*" ')  # changes nothing by itself


def build_variant(
    sources: Sources, units: Mapping[str, DeviceUnit], without: tuple[str, ...], program: Path
) -> str:
    """Build `units` into `program`, as `loom-nvcc --without=` does; why that failed, or ""."""
    from threadloom.cuda import build as cuda_build
    from threadloom.cuda import compile_unit

    plan = replace(sources.plan, without=without)
    options = cuda_build.unit_options(plan)
    with tempfile.TemporaryDirectory(prefix="loom-") as scratch:
        objects = []
        try:
            for number, (path, _) in enumerate(plan.inputs):
                if path in sources.units:
                    module = compile_unit.link_unit(sources.units[path][0], units[path], options)
                    target = Path(scratch) / f"{number}.o"
                    target.write_bytes(compile_unit.emit_object(module, options))
                    objects.append(str(target))
                else:
                    objects.append(sources.objects[path])
            made = Path(scratch) / "program"
            cuda_build.link(objects, str(made), plan)
        except ThreadloomError as error:
            return "does not build: " + build_cause(str(error))
        shutil.move(made, program)
    return ""


def build(pair: Pair, folder: Path, without: tuple[str, ...], program: Path) -> str:
    """Build into `program`; why that failed, or ""."""
    flag = f"loom-nvcc --without={','.join(without)} " if without else "loom-nvcc "
    outcome = run(["sh", "-c", pair.build.replace("loom-nvcc ", flag, 1)], folder, _LIMITS, environment())
    if not outcome.good:
        return "does not build: " + (outcome.stopped or build_cause(outcome.output))
    (folder / "program").rename(program)
    return ""


def distinct(ablation: Ablation) -> list[Variant]:
    """One variant for each program, in the order in which they tell most: all and none, all but one, one alone."""
    first: dict[str, Variant] = {}
    for name in in_order(ablation.variants):
        first.setdefault(ablation.variants[name].digest, ablation.variants[name])
    return list(first.values())


def in_order(names: Iterable[str]) -> list[str]:
    """Variants, what tells most first."""
    ranks = {ALL: 0, NONE: 1}
    return sorted(names, key=lambda name: ranks.get(name, 2 if "without" in name else 3))


def time_variant(ablation: Ablation, variant: Variant, scratch: Path, variables: Mapping[str, str],
                 limits: Limits = _LIMITS) -> None:  # fmt: skip
    """One more run of it."""
    folder = scratch / "cuda" / ablation.pair.cuda
    measured = profiled(ablation.pair, folder, f"./program.{variant.digest}", variables, limits)
    if measured is None:
        variant.cause = "does not run"
    else:
        variant.kernel_s.append(_kernel_s(measured))
        variant.results = measured.get("results", [])


def share_times(ablation: Ablation) -> None:
    """After the last round: builds with other results count as failed, and equal programs have equal times."""
    first = {variant.digest: variant for variant in distinct(ablation)}
    if ablation.pair.same_each_run and NONE in ablation.variants:
        _compare(first[ablation.variants[NONE].digest], first.values())
    for variant in ablation.variants.values():
        same = first[variant.digest]
        variant.kernel_s, variant.cause = same.kernel_s, variant.cause or same.cause


def _compare(plain: Variant, others: Iterable[Variant]) -> None:
    """A build that gives other results than the one without any pass is not timed: it counts as failed."""
    for variant in others:
        both = plain.results and variant.results and not plain.cause and not variant.cause
        if both and (wrong := results.differ(variant.results, plain.results)):
            variant.cause = f"other results than with no pass: {wrong}"


def kernel_seconds(pair: Pair, folder: Path, program: str, variables: Mapping[str, str]) -> float | None:
    """From the first launch to the end of the last kernel, copies left out; None where the program fails."""
    measured = profiled(pair, folder, program, variables)
    return None if measured is None else _kernel_s(measured)


def _kernel_s(record: dict) -> float:
    return record["span_s"] - record["copies_in_span_s"]


def profiled(pair: Pair, folder: Path, program: str, variables: Mapping[str, str],
             limits: Limits = _LIMITS) -> dict | None:  # fmt: skip
    """What LOOM_PROFILE tells of one run; None where the program fails."""
    times = folder / "times.json"
    times.unlink(missing_ok=True)
    command = "exec " + pair.run.replace("./program", program, 1)
    shown = {"OMP_WAIT_POLICY": "active", "LOOM_PROFILE": str(times), **variables}
    outcome = run(["sh", "-c", command], folder, limits, shown)
    if outcome.stopped or outcome.status < 0 or not times.exists():
        return None
    return json.loads(times.read_text())


# ---------------------------------------------------------------- cores


def core_numbers() -> list[int]:
    """The first processor of each core that this process may use."""
    seen: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        seen.setdefault(siblings.read_text() if siblings.exists() else str(cpu), cpu)
    return list(seen.values())


def physical_cores() -> int:
    """Cores that this process may use, threads of one core counted once."""
    return len(core_numbers())


def worker_counts() -> list[int]:
    """1, 2, 4 ... up to the number of physical cores."""
    cores = physical_cores()
    return sorted({*(1 << power for power in range(cores.bit_length()) if 1 << power <= cores), cores})
