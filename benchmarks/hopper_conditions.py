"""Under what a result was found: the GPU, its clocks, the versions and the commit, as every result file says them."""

from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent


def conditions() -> dict[str, str]:
    """`gpu` has its name, driver, clocks of the SMs and the memory [MHz] and power [W] at the time of the call."""
    smi = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw"
    return dict(
        torch=_version("torch"), cuda_bindings=_version("cuda-bindings"),
        gpu=_output("nvidia-smi", "--id=0", smi, "--format=csv,noheader"), clocks="as found", commit=commit(),
    )  # fmt: skip


def of_ceilings(rows: list[dict], flops_per_s: float, bytes_per_s: float) -> dict[str, float]:
    """Give each timed row its fraction of what the GPU reached in a loop of products or a copy, which is returned."""
    ceilings = {"TFLOP/s": flops_per_s / 1e12, "GB/s": bytes_per_s / 1e9}
    for row in rows:
        if row.get("unit") in ceilings:
            row["of_ceiling"] = row["rate"] / ceilings[row["unit"]]
    return ceilings


def commit() -> str:
    """Of the checkout, or, in a tree that `git archive` wrote, the one that it put into the file COMMIT."""
    written = (HERE / "COMMIT").read_text().strip()
    return _output("git", "-C", str(HERE), "rev-parse", "--short", "HEAD") if written.startswith("$") else written


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
