"""loom bench ablation: what each optimisation is worth over Rodinia, scaling over cores, and others that do the same:
the matmul of MCUDA, Rodinia's OpenCL twins on PoCL.

    loom bench ablation --path CHECKOUT --scratch DIR --json F --svg PREFIX        passes, scaling and MCUDA's matmul
    loom bench ablation ... --jobs 16 --seconds 580     builds by 16 processes, ends in time and says what it left; the
                                                        same command again goes on from there
    loom bench ablation ... --rounds 0                  only builds, for timing later in a quiet turn
    loom bench ablation --parts scaling --built DIR --counts 1,2,4,8,16 --json F
                                                        times what `loom bench rodinia --scratch DIR --rounds 0` built
                                                        there, ours and the twins; needs no compiler
    loom bench ablation --built DIR --pack FOLDER       copies what that needs, for a machine with more cores

Rows of programs that are in F already and not asked for again by --only stay, so that a table grows over several turns.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from threadloom.bench import mcuda, plot
from threadloom.bench.run import commit, machine
from threadloom.bench.suites import ablation, ablation_builds, ablation_times, pocl, scaling
from threadloom.bench.suites.rodinia_pairs import Pair
from threadloom.bench.suites.rodinia_speed import build_pairs, builds, geometric_mean
from threadloom.cli import UsageError, json_output
from threadloom.cli.numbers import at_least, positive
from threadloom.cli.suite_arguments import add_suite_arguments, earlier_record, pairs_named
from threadloom.cuda.lower.pipeline import OPTIONAL

PARTS = ("mcuda", "scaling", "pocl", "passes")  # in the order in which they run
_SIZES = (256, 512)  # parallel-inner forks for every step of every block


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument("--parts", default="passes,scaling,mcuda", help=f"which of {', '.join(PARTS)} (default: all "
                        "but pocl)")  # fmt: skip
    parser.add_argument("--seconds", type=positive, default=3600.0, help="when to stop (default an hour)")
    parser.add_argument("--workers", type=at_least(1), default=4, help="of each build timed, as many builds at a time "
                        "as the cores allow (default 4)")  # fmt: skip
    parser.add_argument("--counts", default="", metavar="N,N", help="numbers of workers (default 1, 2, 4 ... cores)")
    parser.add_argument("--built", type=Path, metavar="DIR", help="scaling of what `loom bench rodinia --scratch DIR` "
                        "built")  # fmt: skip
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="with --built: copy it there instead")
    parser.add_argument("--svg", metavar="PREFIX", help="also plots, as PREFIX-passes.svg and so on")


def run(args: argparse.Namespace) -> int:
    parts = [part for part in args.parts.split(",") if part]
    if unknown := [part for part in parts if part not in PARTS]:
        raise UsageError(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    pairs = pairs_named(args.only)
    if args.built is not None:
        return _of_built(args, pairs)
    if args.path is None and set(parts) - {"mcuda"}:
        raise UsageError("loom bench ablation needs --path, a checkout of Rodinia with its folder cuda")
    record = _record(args.json)
    with tempfile.TemporaryDirectory(prefix="loom-ablation-") as temporary:
        scratch = (args.scratch or Path(temporary)).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        whole = _Run(args, pairs, scratch, record, commit(), time.monotonic() + args.seconds)
        for part in (part for part in PARTS if part in parts):
            whole.run(part)
    # Only now: it loads torch, whose OpenMP runtime the programs would then be built for.
    facts = machine()
    return _finish(args, record, facts) if args.rounds != 0 else 0


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts of one call, each of which gets an even share of the time that the parts before it have left."""

    args: argparse.Namespace
    pairs: list[Pair]
    scratch: Path
    record: dict
    commit: str
    end: float  # of time.monotonic()

    def run(self, part: str) -> None:
        wanted = [one for one in PARTS if one in self.args.parts.split(",")]
        left = len(wanted) - wanted.index(part)
        until = time.monotonic() + (self.end - time.monotonic()) / left
        {"mcuda": self._mcuda, "scaling": self._scaling, "pocl": self._pocl, "passes": self._passes}[part](until)

    def save(self) -> None:
        if self.args.rounds:
            json_output.write(self.args, "bench-ablation", 1, self.record)

    def _passes(self, until: float) -> None:
        now = time.monotonic()
        build_until = now + (until - now) * 2 / 3 if self.args.rounds else until  # what is not built has no time
        found, left = ablation_builds.build_all(
            self.pairs, self.args.path.resolve(), self.scratch, OPTIONAL, self.args.jobs, build_until
        )
        for one in found:
            take_times(one, self.record["passes"].get(one.pair.name))
        print(f"builds took {time.monotonic() - now:.0f} s; not built: {', '.join(left) or 'none'}", flush=True)

        def save() -> None:
            for one in found:
                ablation.share_times(one)
                if any(variant.kernel_s for variant in one.variants.values()):
                    self.record["passes"][one.pair.name] = {"commit": one.commit, **row(one)}
            self.save()

        if self.args.rounds:
            untimed = ablation_times.time_all(found, self.scratch, self.args.rounds, self.args.workers, until, save)
            self.record["not_reached"] = {"builds": left, "times": untimed, "workers": self.args.workers}
            print(f"not timed: {', '.join(untimed) or 'none'}", flush=True)
        for one in found:
            print(line(one), flush=True)

    def _scaling(self, until: float) -> None:
        build_pairs(self.args.path.resolve(), self.scratch, self.args.only, self.args.jobs, inputs=False)
        if self.args.rounds:
            _time_scaling(self.args, self.pairs, self.scratch, self.record, until - time.monotonic())
            self.save()

    def _pocl(self, until: float) -> None:
        names = [pair.name for pair in self.pairs]
        for one in pocl.compare(self.args.path.resolve(), self.scratch, self.args.rounds, names):
            print(f"{one.name:15} " + (f"{one.ratio:.2f}x PoCL" if one.ratio else one.cause), flush=True)
            if self.args.rounds:
                times = {"ours_s": one.ours_s, "pocl_s": one.pocl_s}
                self.record["pocl"][one.name] = {
                    "commit": self.commit, **times, "ratio": one.ratio, "cause": one.cause, "build_log": one.build_log,
                }  # fmt: skip

    def _mcuda(self, until: float) -> None:
        programs = mcuda.build(self.scratch)
        if self.args.rounds:
            self.record["mcuda"] = {"commit": self.commit, **compare_matmul(programs, self.args.rounds)}
            self.save()


def take_times(found: ablation.Ablation, old: dict | None) -> None:
    """What an earlier call measured of the same programs."""
    if old is None or old["commit"] != found.commit:
        return
    for variant in ablation.distinct(found):
        if old["program"].get(variant.name) == variant.digest:
            variant.kernel_s.extend(old["kernel_s"].get(variant.name, ()))


def _finish(args: argparse.Namespace, record: dict, facts: dict[str, str | int]) -> int:
    cores = {"physical_cores": ablation.physical_cores(), "name": processor(), "lscpu": scaling.cores_text()}
    record["machine"] = {**facts, **cores}
    record["worth"] = worth(record["passes"])
    record["pocl_geometric_mean"] = json_output.finite(geometric_mean(one["ratio"] for one in record["pocl"].values()))
    _show(record)
    json_output.write(args, "bench-ablation", 1, record)
    if args.svg:
        draw(record, args.svg)
    return 0


def _of_built(args: argparse.Namespace, pairs: list[Pair]) -> int:
    """Scaling of programs that were built before, on this machine or another."""
    if args.pack is not None:
        scaling.pack(args.built.resolve(), args.pack, pairs)
        return 0
    if args.parts != "scaling":
        raise UsageError("--built is for --parts scaling")
    record = _record(args.json)
    _time_scaling(args, pairs, args.built, record, args.seconds)
    return _finish(args, record, {"python": platform.python_version()})  # there may be no compiler to ask


def _time_scaling(args: argparse.Namespace, pairs: list[Pair], built: Path, record: dict, seconds: float) -> None:
    counts = sorted({int(one) for one in args.counts.split(",")}) if args.counts else ablation.worker_counts()
    known = builds(built)
    pairs = [pair for pair in pairs if pair.name in known]
    print(scaling.cores_text(), flush=True)
    for found in scaling.time_all(built.resolve(), pairs, counts, seconds):
        print(scaling_line(found), flush=True)
        if times := found.kernel_s.get(scaling.OURS):
            twins = {name: one for name, one in found.kernel_s.items() if name != scaling.OURS}
            record["scaling"][found.pair.name] = {
                "commit": known[found.pair.name]["commit"],
                "command": scaling.problem(found.pair)[0],
                "kernel_s": {str(n): t for n, t in sorted(times.items())},
                "twins": {name: {str(n): t for n, t in sorted(one.items())} for name, one in twins.items()},
                "cause": found.causes,
            }


def scaling_line(found: scaling.Scaling) -> str:
    sides = [f"{name} " + " ".join(f"{n}: {min(t) * 1e3:.1f}" for n, t in sorted(one.items()))
             for name, one in found.kernel_s.items()]  # fmt: skip
    causes = [f"{name} ({cause})" for name, cause in found.causes.items()]
    return f"{found.pair.name:15} " + "   ".join(sides + causes) + " ms"


def _record(path: str | None) -> dict:
    """The parts of an earlier record, which this one adds to."""
    old = earlier_record(path)
    return {part: old.get(part) or {} for part in (*PARTS, "not_reached")}


def processor() -> str:
    """The processor's own name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), "")


def line(found: ablation.Ablation) -> str:
    distinct = {variant.digest for variant in found.variants.values()}
    whole = found.ratio(ablation.NONE, ablation.ALL)
    shown = "" if whole is None else f"all passes together {whole:.2f}x"
    return f"{found.pair.name:15} {len(distinct)} different programs  {shown}"


def row(found: ablation.Ablation) -> dict[str, json_output.Json]:
    return {
        "kernel_s": {name: variant.kernel_s for name, variant in found.variants.items() if variant.kernel_s},
        "program": {name: variant.digest for name, variant in found.variants.items()},
        "cause": {name: variant.cause for name, variant in found.variants.items() if variant.cause},
        "all": found.ratio(ablation.NONE, ablation.ALL),
        "alone": {name: found.worth_alone(name) for name in OPTIONAL},
        "last": {name: found.worth_last(name) for name in OPTIONAL},
    }


def worth(rows: dict) -> dict[str, json_output.Json]:
    """Geometric means over the programs that a pass changes; their number."""
    found: dict[str, json_output.Json] = {}
    for name in OPTIONAL:
        for kind in ("alone", "last"):
            ratios = [one[kind].get(name) for one in rows.values()]
            changed = [ratio for ratio in ratios if ratio not in (None, 1.0)]
            mean = geometric_mean(changed) if changed else None
            found[f"{name} {kind}"] = {"programs": len(changed), "gain": mean}
    return found


def compare_matmul(programs: dict[str, Path], rounds: int) -> dict[str, json_output.Json]:
    cores = ablation.physical_cores()
    found: dict[str, json_output.Json] = {}
    for workers in sorted({1, cores}):
        for n in _SIZES:
            times = {name: mcuda.seconds(program, n, rounds, workers) for name, program in programs.items()}
            found[f"{n} on {workers}"] = {"seconds": times}
    return found


def _show(record: dict) -> None:
    for name, one in record["worth"].items():
        if one["programs"]:
            print(f"{name:32} {one['gain']:.2f}x over {one['programs']} programs that it changes")
    for case, one in record["mcuda"].items():
        if isinstance(one, dict):
            times = one["seconds"]
            n = int(case.split()[0])
            print(case, "  ".join(f"{name} {2e-9 * n**3 / t:.1f} GFLOP/s" for name, t in times.items() if t))


def draw(record: dict, prefix: str) -> None:
    """PREFIX-passes.svg, PREFIX-scaling.svg and PREFIX-mcuda.svg, of what the record has."""
    name = f"{record['machine']['name']}, {record['machine']['physical_cores']} physical cores"
    gains = [(f"{what} ({one['programs']})", one["gain"]) for what, one in record["worth"].items() if one["programs"]]
    if gains:
        title = "Kernel time without the pass over with it, geometric mean (programs that it changes)"
        Path(f"{prefix}-passes.svg").write_text(plot.bars(title, gains, name))
    if record["scaling"]:
        series = {}
        for pair, one in record["scaling"].items():
            times = {int(n): median(t) for n, t in one["kernel_s"].items()}
            if 1 in times:  # where time ran out before
                series[pair] = [(n, times[1] / t) for n, t in sorted(times.items())]
        Path(f"{prefix}-scaling.svg").write_text(plot.lines("Speed of kernels over workers", series, name))
    rows = [
        (f"{case}: {what} / ours", t / one["seconds"][mcuda.OURS])
        for case, one in record["mcuda"].items()
        if isinstance(one, dict) and one["seconds"].get(mcuda.OURS)
        for what, t in one["seconds"].items()
        if t and what != mcuda.OURS
    ]
    if rows:
        title = "Time of MCUDA's forms of a tiled product over ours"
        Path(f"{prefix}-mcuda.svg").write_text(plot.bars(title, rows, name))
