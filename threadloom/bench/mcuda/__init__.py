"""The paper's comparison with MCUDA: one tiled product, compiled by us and written out as MCUDA writes it.

The CUDA file goes through `loom cc`; the other is thread loops by hand, from gcc and from clang at -O3 -march=native.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.rodinia_speed import twin_compilers

_HERE = Path(__file__).parent
_LIMITS = Limits(cpu_s=120)
OURS = "ours"


def build(scratch: Path) -> dict[str, Path]:
    """Name -> program, of those that build: ours, and serial-inner and parallel-inner by each compiler."""
    from threadloom.cuda import build as cuda_build
    from threadloom.cuda import nvcc_options

    programs = {OURS: scratch / "mcuda.ours"}  # anew each time: it is what is measured
    cuda_build.run(nvcc_options.parse(["-O3", str(_HERE / "matmul.cu"), "-o", str(programs[OURS])]))
    for compiler, commands in twin_compilers().items():
        for form, flag in (("serial-inner", ""), ("parallel-inner", "-DPARALLEL_INNER")):
            program = scratch / f"mcuda.{form}.{compiler}"
            if program.exists():
                programs[f"{form} {compiler}"] = program
                continue
            command = f"{commands['CXX']} -O3 -fopenmp -w {flag} {_HERE / 'matmul_mcuda.cpp'} -o {program} -lm"
            if subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0:
                programs[f"{form} {compiler}"] = program
    return programs


def seconds(program: Path, n: int, runs: int, workers: int) -> float | None:
    """Of the fastest of `runs` products of n x n; None where the program fails or computes something else."""
    variables = {"OMP_WAIT_POLICY": "active", "OMP_NUM_THREADS": str(workers)}
    outcome = run([str(program), str(n), str(runs)], program.parent, _LIMITS, variables)
    return float(outcome.output.split()[0]) if outcome.good else None
