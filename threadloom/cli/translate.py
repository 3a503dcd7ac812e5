"""Turn CUDA C++ into readable C++ with OpenMP: the host source stays, launches become calls, kernels become loops.

    loom translate prog.cu -o prog.cpp
    g++ -O3 -march=native -fopenmp prog.cpp $(loom translate --link-flags) -o prog

The flags are nvcc's (-I -D -std -arch ...); without -o the text goes to standard output. Quoted includes that hold
device code become part of the one file. What cannot be written as C++ is an error with its line.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    from threadloom.cli import UsageError
    from threadloom.cuda import build, nvcc_options
    from threadloom.cuda.translate import program
    from threadloom.whole_file import write_whole

    if argv == ["--link-flags"]:
        import shlex

        print(shlex.join(program.link_flags()))
        return 0
    plan = nvcc_options.parse(argv)
    sources = [path for path, kind in plan.inputs if kind == "cu"]
    if len(sources) != 1:
        raise UsageError(f"loom translate takes one CUDA file, got {len(sources)}: {' '.join(sources) or 'none'}")
    text = program.translate(sources[0], build.source_options(plan))
    if plan.output:
        write_whole(Path(plan.output), text)
    else:
        sys.stdout.write(text)
    return 0
