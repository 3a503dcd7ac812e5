"""Machine models: devices as data (PipeThreader, section 3: vDevice, EU, sEU).

A device is `eu_count` equal EUs (SMs, CUs, cores); an EU has specialised units (sEUs) and memories. Models are one
file each beside this one and hold numbers only, each with its source; the compiler asks a model for facts and never
for a name. Adding a device is adding a file and listing it in `devices.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from threadloom.task.ops import Method


class Completion(StrEnum):
    """How one learns that work on an sEU is done: the type of the signal a wait must use."""

    PROGRAM_ORDER = "program-order"  # synchronous: done when the next instruction of the same role starts
    MBARRIER = "mbarrier"  # counts arrivals and bytes; phase flips on completion
    MMA_GROUP = "mma-group"  # FIFO per issuing role: wait until at most n groups are in flight
    COPY_GROUP = "copy-group"  # likewise for asynchronous copies
    WAITCNT = "waitcnt"  # likewise, counter of outstanding operations (AMD)


GROUPS = (Completion.MMA_GROUP, Completion.COPY_GROUP, Completion.WAITCNT)  # completed in the order of issue


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and where it comes from (a document, or "measured: ...", or "assumed")."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Rate:
    """`what` per cycle of one EU: "mac.bf16" "fma.f32" "alu" "exp" "cvt" "bytes.load" "bytes.store" ..."""

    what: str
    per_cycle: Figure


@dataclass(frozen=True, slots=True)
class SEU:
    """One kind of specialised unit inside an EU, one resource for all roles of it. A synchronous one keeps the issuing
    role busy until the work is done, an asynchronous one for `issue_cycles`."""

    name: str
    methods: tuple[Method, ...]
    is_async: bool
    completion: Completion
    rates: tuple[Rate, ...]
    latency_cycles: Figure  # from end of occupancy to result usable
    issue_cycles: Figure
    proxy: str = "generic"  # the memory proxy of its accesses: "generic" or "async"
    _rate_of: dict[str, float] = field(init=False, repr=False, compare=False)  # a search asks ten thousand times

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rate_of", {r.what: r.per_cycle.value for r in reversed(self.rates)})

    def rate(self, what: str) -> float | None:
        return self._rate_of.get(what)


@dataclass(frozen=True, slots=True)
class Memory:
    """An on-chip memory of one EU (`per` "eu") or of one role ("role": registers). `bytes_per_cycle`: what the EU reads
    from a buffer there; None where units never wait for it."""

    name: str
    capacity_bytes: Figure
    per: str = "eu"
    granule_bytes: int = 1
    bytes_per_cycle: Figure | None = None


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    arch: str  # "sm_90a" "sm_80" "gfx942" "cpu"
    eu_count: int
    clock_ghz: Figure
    seus: tuple[SEU, ...]
    memories: tuple[Memory, ...]
    dram_bytes_per_s: Figure
    max_worker_roles: int  # consumer roles (warpgroups) per EU; 1 on a CPU core
    facts: tuple[tuple[str, int | str | bool], ...] = ()  # ("bulk_copy_align_bytes", 16), ("vector_bytes", 64) ...
    _fact_of: dict[str, int | str | bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fact_of", dict(reversed(self.facts)))

    def fact(self, key: str, default: int | str | bool | None = None) -> int | str | bool | None:
        return self._fact_of.get(key, default)

    def memory(self, name: str) -> Memory:
        return next(m for m in self.memories if m.name == name)
