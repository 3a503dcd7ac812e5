"""NVIDIA H100 SXM5 (sm_90a): the SM of the H200 with another clock and memory."""

from __future__ import annotations

from threadloom.machine import h200
from threadloom.machine.model import Device, Figure

H100 = Device(
    name="h100",
    arch="sm_90a",
    eu_count=132,
    clock_ghz=Figure(1.6, "assumed like the H200 under load; the data sheet's 989 TFLOP/s are at 1.83 GHz"),
    seus=(h200.TMA, h200.TMA_STORE, h200.TENSOR, h200.VECTOR, h200.LSU),
    memories=h200.MEMORIES,
    dram_bytes_per_s=Figure(3.35e12, "NVIDIA H100 SXM5 data sheet"),
    max_worker_roles=3,
    facts=h200.FACTS,
)
