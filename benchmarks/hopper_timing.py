"""Planning, compiling, checking and timing of GPU kernels beside their peers (hopper.py and its cases use it)."""

from __future__ import annotations

import itertools
import random
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from hopper_clock import Clock

from threadloom.machine.devices import device as find_device
from threadloom.machine.devices import with_memory
from threadloom.machine.model import Device
from threadloom.sched.begin_ahead import begin_ahead
from threadloom.sched.ops import Partition
from threadloom.sched.partition import partitions
from threadloom.sched.reuse import from_afar, key_of, recipe_from_text, remake
from threadloom.sched.search import Outcome, context_of, graphs_of, plan, proved_program
from threadloom.sched.shipped import shipped
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of
from threadloom.targets.cuda.faults import fault_of
from threadloom.tile.ops import Kernel

AHEAD, BACK, ONCE, SHIPPED = "-ahead", "-back", "-once", "shipped"
MOST_TRIED = 12
WATCHDOG = ("LOOM_WATCHDOG=20000000",)


def device_tensor(t: torch.Tensor) -> DeviceTensor:
    return DeviceTensor(t.data_ptr(), tuple(t.shape), tuple(t.stride()))


# ---------------------------------------------------------------- jobs: what is planned and compiled


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to be planned and compiled. `tiles`: "" for the model's plan number `rank`, else "m128n256k64w2"; of
    blocks that share an SM "m1w1@8-direct" (machine/shares.py); with the next tile begun in the last pass of one
    "m128n128w2-ahead"; with loops that go backwards "m128n128w2-back" (or "-back-ahead"); with a block for each tile
    "n64w1@2-once"; with a reduction in parts "n64w1x8@2"; with so many KiB of shared memory a block "n32w1@2-smem40";
    or "shipped" for the plan that comes with the package. `policy`: of the search."""

    kernel: Kernel
    dims: tuple[tuple[str, int], ...]
    given: tuple[tuple[str, DeviceTensor], ...]
    tiles: str = ""
    rank: int = 0
    defines: tuple[str, ...] = ()
    policy: str = "joint"


@dataclass(frozen=True, slots=True)
class Made:
    kernel: CudaKernel | None
    about: str
    error: str = ""


def make(job: Job) -> Made:
    start = time.time()
    dims, given = dict(job.dims), dict(job.given)
    try:
        tiles, _, share = job.tiles.removesuffix(AHEAD).removesuffix(BACK).removesuffix(ONCE).partition("@")
        share, _, kib = share.partition("-smem")
        device = find_device(f"h200/{share}" if share else "h200")
        device = with_memory(device, "smem", int(kib) * 1024) if kib else device
        if tiles == SHIPPED:
            outcome = shipped_plan(job.kernel, dims)
        else:
            only = find_partition(job.kernel, dims, tiles, device) if tiles else None
            only = replace(only, persistent=False) if job.tiles.endswith(ONCE) else only
            only = replace(only, backwards=True) if BACK in job.tiles else only
            outcome = plan(job.kernel, dims, device, job.policy, only=only)
        program = begin_ahead(outcome.best) if job.tiles.endswith(AHEAD) else outcome.best
        if job.rank:
            if job.rank >= len(outcome.candidates):
                return Made(None, "", "no such plan")
            program = proved_program(outcome.candidates[job.rank])
            if program is None:
                return Made(None, "", "the checker refuses it")
        planned = time.time()
        facts = {p.name: facts_of(p, given[p.name]) for p in job.kernel.tensors}
        made = compile_program(program, facts, dims, job.defines)
        if not job.tiles and not job.rank:
            made = without_faults(made, job.kernel, outcome, dims, job.defines)
    except Exception as e:  # reported with the case
        return Made(None, "", f"{type(e).__name__} {str(e)[:500]}")
    program, c = made.program, made.cubin
    tiles = "".join(f"{t.axis}{t.extent}" for t in program.partition.tiles)
    tiles += BACK if program.partition.backwards else ""
    tiles += AHEAD if program.partition.begins_ahead else ""
    return Made(
        made,
        f"{program.device} {tiles}w{program.partition.workers} "
        f"regs {c.registers} spill {c.spill_bytes} serialised {c.serialised} "
        f"smem {made.source.shared_bytes} plan {planned - start:.1f}s compile {time.time() - planned:.1f}s",
    )


def without_faults(
    made: CudaKernel, kernel: Kernel, outcome: Outcome, dims: dict[str, int], defines: tuple[str, ...]
) -> CudaKernel:
    """What a call without a measured or near plan runs: of the best plans the first whose code has no faults."""
    if not fault_of(made):
        return made
    lent = from_afar(kernel, dims, find_device("h200"), outcome.best.predicted_ns)
    candidates = (proved_program(c) for c in outcome.candidates[1:MOST_TRIED])
    for program in itertools.chain(lent, candidates):
        other = compile_program(program, made.facts, dims, defines) if program is not None else None
        if other is not None and not fault_of(other):
            return other
    return made


def shipped_plan(kernel: Kernel, dims: dict[str, int]) -> Outcome:
    """The plan that comes with the package for these extents, made again as a call would."""
    device = find_device("h200")
    stored = shipped(device.name).plan(key_of(kernel, dims, device))
    if stored is None:
        raise ValueError("no plan comes with the package")
    return remake(kernel, dims, device, recipe_from_text(stored.plan))


def find_partition(kernel: Kernel, dims: dict[str, int], tiles: str, device: Device) -> Partition:
    wanted = {a: int(n) for a, n in re.findall(r"([a-v]+)(\d+)", tiles)}
    workers, splits = re.search(r"w(\d+)(?:x(\d+))?$", tiles).groups()
    for _, graph in graphs_of(kernel, None, device):
        context = context_of(graph, dims, device)
        for p in partitions(graph, context.whole, device):
            if {t.axis: t.extent for t in p.tiles} == wanted and p.workers == int(workers):
                return replace(p, splits=int(splits or 1))
    raise ValueError(f"no partition {tiles}")


# ---------------------------------------------------------------- cases


@dataclass
class Case:
    """`sets`: input sets (tensors by name; the first is checked); `peers`: name -> function of the set's number."""

    label: str
    kernel: Kernel
    sets: list[dict[str, torch.Tensor]]
    scalars: dict[str, float]
    reference: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    peers: dict[str, Callable[[int], object]] = field(default_factory=dict)
    work: float = 0.0  # operations, or bytes where `bytes_moved`
    bytes_moved: bool = False
    repeats: int = 0  # calls per graph; 0: check only
    output: str = "out"
    tiles: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()  # of the search, besides the usual one

    @property
    def dims(self) -> dict[str, int]:
        return {
            n: s
            for p in self.kernel.tensors
            if p.dtype.bits >= 8  # others have several elements to a byte
            for n, s in zip(p.dims, self.sets[0][p.name].shape, strict=True)
            if isinstance(n, str)
        }

    def jobs(self, top: int, tiles: tuple[str, ...]) -> dict[str, Job]:
        given = tuple((n, device_tensor(t)) for n, t in self.sets[0].items())
        base = dict(kernel=self.kernel, dims=tuple(self.dims.items()), given=given)
        if not self.repeats:
            return {"ours": Job(**base, defines=WATCHDOG)}
        named = {f"ours.{k}" if k else "ours": Job(**base, rank=k) for k in range(top)}
        named |= {f"ours.{policy}": Job(**base, policy=policy) for policy in self.policies}
        return named | {f"ours.{t}": Job(**base, tiles=t) for t in (SHIPPED, *self.tiles, *tiles)}


def launch(made: CudaKernel, case: Case, number: int) -> None:
    given = {n: device_tensor(t) for n, t in case.sets[number % len(case.sets)].items()}
    made.launch(given, case.dims, case.scalars, torch.cuda.current_stream().cuda_stream)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    got, want = got.double(), want.double()
    return float((got - want).norm() / want.norm().clamp_min(1e-30)) if torch.isfinite(got).all() else float("nan")


def alternate(
    runs: dict[str, Callable[[int], None]], repeats: int, rounds: int, clocks: dict[str, list[float]] | None = None
) -> dict[str, list[float]]:
    """Milliseconds of one call, per round. `run(i)` uses input set i; `clocks` gets the mean SM clock [MHz] of each."""
    graphs, clock = {}, Clock()
    for name, run in runs.items():
        for i in range(3):
            run(i)
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for i in range(repeats):
                run(i)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for number in range(rounds + 1):
        random.shuffle(names)
        for name in names:
            clock.begin()
            begin.record()
            graphs[name].replay()
            end.record()
            clock.end()
            torch.cuda.synchronize()
            if number:
                times[name].append(begin.elapsed_time(end) / repeats)
            if number and clocks is not None:
                clocks.setdefault(name, []).append(clock.mhz())
    return times


def report(case: Case, times: dict[str, list[float]], clocks: dict[str, list[float]], rows: list[dict]) -> None:
    medians = {n: statistics.median(t) for n, t in times.items()}
    best_peer = min((m for n, m in medians.items() if not n.startswith("ours")), default=None)
    unit = "GB/s" if case.bytes_moved else "TFLOP/s"
    for name, m in sorted(medians.items(), key=lambda x: x[1]):
        ratio = best_peer / m if best_peer else float("nan")
        rate = case.work / m / (1e6 if case.bytes_moved else 1e9)
        mhz = statistics.median(clocks[name])
        cycles = statistics.median(t * 1e3 * c for t, c in zip(times[name], clocks[name], strict=True))
        print(
            f"  {case.label:30s} {name:28s} {m * 1e3:9.1f} us {cycles / 1e3:9.1f} kcycles {mhz:5.0f} MHz "
            f"{rate:8.1f} {unit}  x{ratio:.3f}",
            flush=True,
        )
        rows.append(
            dict(
                case=case.label,
                name=name,
                ms=m,
                min_ms=min(times[name]),
                max_ms=max(times[name]),
                cycles=round(cycles),
                mhz=round(mhz),
                rate=rate,
                unit=unit,
                ratio=ratio,
            )
        )


def run_case(case: Case, made: dict[str, Made], args, rows: list[dict]) -> None:
    runs: dict[str, Callable[[int], object]] = {}
    want = case.reference(case.sets[0])
    for name, one in made.items():
        if one.kernel is None:
            print(f"{case.label} {name}: FAILED {one.error}", flush=True)
            rows.append(dict(case=case.label, name=name, failed=one.error))
            continue
        out = case.sets[0][case.output]
        if out.dtype.is_floating_point:
            out.fill_(float("nan"))
        try:
            launch(one.kernel, case, 0)
            torch.cuda.synchronize()
        except Exception as e:  # the others are still worth timing
            print(f"{case.label} {name}: FAILED {str(e)[:300]}; {one.about}", flush=True)
            rows.append(dict(case=case.label, name=name, failed=str(e)[:300]))
            continue
        error = relative_error(out, want)
        print(f"{case.label} {name}: error {error:.2e}; {one.about}", flush=True)
        rows.append(dict(case=case.label, name=name, error=error, about=one.about))
        runs[name] = lambda i, k=one.kernel: launch(k, case, i)
    del want
    if case.repeats and runs and not args.check_only:
        clocks: dict[str, list[float]] = {}
        report(case, alternate({**runs, **case.peers}, case.repeats, args.rounds, clocks), clocks, rows)
    torch.cuda.empty_cache()
