"""NVIDIA B200 (sm_100a), from public figures.

Accumulators lie in tensor memory there; this model keeps them in a memory of that name and assumes Hopper's figures
wherever nothing is published.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.machine import h200
from threadloom.machine.model import Device, Figure, Memory, Rate

PUBLIC = "NVIDIA Blackwell architecture brief"
ASSUMED = "assumed: Hopper's figure scaled by the published peak"


def _rate(what: str, per_cycle: float, source: str = PUBLIC) -> Rate:
    return Rate(what, Figure(per_cycle, source))


B200 = Device(
    name="b200",
    arch="sm_100a",
    eu_count=148,
    clock_ghz=Figure(1.85, ASSUMED),
    seus=(
        replace(
            h200.TMA,
            rates=(
                _rate("bytes.load", 48.0, ASSUMED),
                _rate("bytes.load.shared", 96.0, ASSUMED),
            ),
        ),
        replace(h200.TMA_STORE, rates=(_rate("bytes.store", 40.0, ASSUMED),)),
        replace(
            h200.TENSOR,
            rates=(
                _rate("mac.bf16", 4096.0),
                _rate("mac.f16", 4096.0),
                _rate("mac.f8e4m3", 8192.0),
                _rate("mac.f8e5m2", 8192.0),
                _rate("mac.tf32", 2048.0),
                _rate("mac.i8", 8192.0),
            ),
        ),
        h200.VECTOR,
        h200.LSU,
    ),
    memories=(
        Memory("smem", Figure(227 * 1024, PUBLIC), granule_bytes=1024, bytes_per_cycle=Figure(128.0, ASSUMED)),
        Memory("reg", Figure(240 * 512, ASSUMED), per="role"),
        Memory("tmem", Figure(256 * 1024, PUBLIC)),
    ),
    dram_bytes_per_s=Figure(8.0e12, PUBLIC),
    max_worker_roles=3,
    facts=(
        *(f for f in h200.FACTS if f[0] not in ("accumulator_space", "l2_bytes", "dot_a_space")),
        ("accumulator_space", "tmem"),
        ("dot_a_space", "tmem smem"),
        ("l2_bytes", 126 * 1024 * 1024),
    ),
)
