"""Plans from the store, or else from those that came with the package: exact, borrowed from another shape; or made by
the model.

A measured time never leaves its shape. A plan may: the partition that won for a shape in the same bucket (every
dimension within a factor of two, of eight where it says only how many tiles there are, as batches and heads do) is
scheduled and proved for the new shape, and taken if the model does not prefer its own by more than a tenth. The outcome
says where the plan came from.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from threadloom.errors import CompileError, InternalError
from threadloom.machine.model import Device
from threadloom.sched.candidate import Candidate
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import Outcome, plan
from threadloom.sched.shipped import Shipped, shipped
from threadloom.store import Key, Store, StoredPlan, dumps, parse_shape, shape_text
from threadloom.tile.ops import AxisKind, Kernel

BUCKET = 2.0  # greatest ratio of a dimension between two shapes of a bucket
COUNTING_BUCKET = 8.0  # of one that no tile has a part of
MOST_FROM_AFAR = 3  # plans of shapes that are not near
WORSE = 1.1  # how much slower than the model's own plan a borrowed one may be predicted


class Origin(StrEnum):
    TUNED = "tuned"  # measured on this shape
    BORROWED = "borrowed"  # tuned on another shape, checked and accepted for this one
    MODEL = "model"  # never measured


@dataclass(frozen=True, slots=True)
class Chosen:
    """`borrowed_from`: the other shape's text; `measured_ns`: only for a tuned plan."""

    program: SProgram
    origin: Origin
    borrowed_from: str = ""
    measured_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a plan is made again from: everything else follows from the model. `device`: "h200/2" for a plan of half an
    EU (machine/shares.py), "" for one of the device asked for."""

    partition: Partition
    policy: str
    granularity: str
    device: str = ""


def choose(kernel: Kernel, dims: dict[str, int], device: Device, store: Store | None) -> Chosen:
    """The plan to run for this shape, without measuring anything."""
    key = key_of(kernel, dims, device)
    came_with_it = shipped(key.device)
    for stored in (store.plan(key) if store is not None else None, came_with_it.plan(key)):
        program = _remade(kernel, dims, device, stored) if stored is not None else None
        if program is not None:
            return Chosen(program, Origin.TUNED, measured_ns=stored.ns)
    own = plan(kernel, dims, device)
    limits = _limits(kernel, dims)
    for stored in (*_bucket(store, key, limits, dims), *_bucket(came_with_it, key, limits, dims)):
        program = _remade(kernel, dims, device, stored)
        if program is not None and program.predicted_ns <= own.best.predicted_ns * WORSE:
            decisions = (*program.decisions, ("borrowed_from", stored.shape))
            return Chosen(replace(program, decisions=decisions), Origin.BORROWED, borrowed_from=stored.shape)
    return Chosen(own.best, Origin.MODEL)


def _limits(kernel: Kernel, dims: dict[str, int]) -> dict[str, float]:
    """Greatest ratio of each dimension to that of a near shape."""
    cut = {a.dim for a in kernel.axes if a.kind is not AxisKind.EACH}
    return {d: BUCKET if d in cut else COUNTING_BUCKET for d in dims}


def _bucket(
    store: Store | Shipped | None, key: Key, limits: dict[str, float], dims: dict[str, int]
) -> list[StoredPlan]:
    """Plans of near shapes, nearest first."""
    near = []
    for stored in store.plans_of_other_shapes(key) if store is not None else ():
        other = parse_shape(stored.shape)
        if other.keys() != dims.keys():
            continue
        ratios = {d: max(other[d], n) / max(1, min(other[d], n)) for d, n in dims.items()}
        if all(ratio <= limits[d] for d, ratio in ratios.items()):
            near.append((sum(ratios.values()), stored.shape, stored))
    return [stored for _, _, stored in sorted(near, key=lambda n: n[:2])]


def from_afar(kernel: Kernel, dims: dict[str, int], device: Device, own_ns: float) -> Iterator[SProgram]:
    """Plans that were measured for shapes that are not near, nearest first, which the model does not think much less of
    than of its own, of `own_ns`. They come before its second choice, where the code of its first has faults: narrow
    heads of any length then get tiles that were fast for some (0.93 of the best peer; the second choice had 0.87).
    Loops that go backwards or begin ahead gained a little at that shape and are not lent: causal narrow heads had 0.89
    by such a plan, 0.95 by the model's second choice."""
    key, limits = key_of(kernel, dims, device), _limits(kernel, dims)
    store = _open()
    with store or nullcontext():
        for source in (store, shipped(key.device)):
            near = {stored.shape for stored in _bucket(source, key, limits, dims)}
            far = [s for s in _bucket(source, key, dict.fromkeys(dims, math.inf), dims) if s.shape not in near]
            for stored in far[:MOST_FROM_AFAR]:
                program = _remade(kernel, dims, device, stored)
                varied = program is not None and (program.partition.backwards or program.partition.begins_ahead)
                if program is not None and not varied and program.predicted_ns <= own_ns * WORSE:
                    yield replace(program, decisions=(*program.decisions, ("borrowed_from", stored.shape)))


def _remade(kernel: Kernel, dims: dict[str, int], device: Device, stored: StoredPlan) -> SProgram | None:
    """The stored plan for these extents; None where it does not fit them (or an older version made it)."""
    try:
        recipe = recipe_from_text(stored.plan)
        return remake(kernel, dims, device, recipe).best
    except (CompileError, InternalError, ValueError, KeyError, TypeError):
        return None


def remake(kernel: Kernel, dims: dict[str, int], device: Device, recipe: Recipe) -> Outcome:
    """Schedule and prove one partition."""
    granularity = recipe.granularity or None
    shared = recipe.device if recipe.device.startswith(f"{device.name}/") else device
    return plan(kernel, dims, shared, recipe.policy, granularity, only=recipe.partition)


# ---------------------------------------------------------------- texts and keys


def recipe_text(recipe: Recipe) -> str:
    return dumps(asdict(recipe))


def recipe_from_text(text: str) -> Recipe:
    record = json.loads(text)
    partition = dict(record["partition"])
    tiles = tuple(AxisTile(**t) for t in partition.pop("tiles"))
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in partition.items()}
    return Recipe(Partition(tiles, **lists), record["policy"], record["granularity"], record.get("device", ""))


def recipe_of(program: SProgram) -> Recipe:
    granularity = next((value for key, value in program.decisions if key == "granularity"), "")
    return Recipe(program.partition, program.policy.partition(":")[0], granularity, _share(program.device))


def recipe_of_candidate(candidate: Candidate) -> Recipe:
    context = candidate.context
    return Recipe(candidate.partition, "joint", context.granularity, _share(context.device.name))


def _share(device: str) -> str:
    return device if "/" in device else ""


def key_of(kernel: Kernel, dims: dict[str, int], device: Device) -> Key:
    dtypes = ",".join(f"{t.name}:{t.dtype.name}" for t in kernel.tensors)
    return Key(device_key(device), kernel_digest(kernel), shape_text(dims), dtypes)


def kernel_digest(kernel: Kernel) -> str:
    """The kernel's name and a digest of its text: another text is another kernel."""
    from threadloom.tile.text import print_kernel

    return f"{kernel.name}-{hashlib.sha256(print_kernel(kernel).encode()).hexdigest()[:16]}"


def device_key(device: Device) -> str:
    """The device that times belong to: a CPU is told apart by what its times depend on."""
    if device.arch != "cpu":
        return device.name
    sizes = [f"{m.name}{int(m.capacity_bytes.value)}" for m in device.memories]
    return "-".join(["cpu", f"x{device.eu_count}", f"v{device.fact('vector_bytes')}", *sizes])


def is_measured(kernel: Kernel, dims: dict[str, int], device: Device) -> bool:
    """Whether a plan was measured for just these extents."""
    key = key_of(kernel, dims, device)
    store = _open()
    if store is not None:
        with store:
            if store.plan(key) is not None:
                return True
    return shipped(key.device).plan(key) is not None


_warned: set[str] = set()


def program_for(kernel: Kernel, dims: dict[str, int], device: Device) -> Chosen:
    """What a call runs: the stored plan, a borrowed one, or the model's."""
    store = _open()
    if store is None:
        return choose(kernel, dims, device, None)
    with store:
        return choose(kernel, dims, device, store)


def _open() -> Store | None:
    """The store; one that cannot be used is told once and then done without: it must not keep a kernel from running."""
    from threadloom.store import open_store

    try:
        return open_store()
    except CompileError as error:
        if str(error) not in _warned:
            _warned.add(str(error))
            print(f"threadloom: {error}", file=sys.stderr)
        return None
