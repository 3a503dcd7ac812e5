"""Compile CUDA C++ for this CPU; takes nvcc's flags.

    loom cc prog.cu -o prog          build a program
    loom cc -c part.cu -o part.o     compile one file; link with `loom cc *.o -o prog`
    loom cc -shared -o lib.so x.cu   a shared library
    loom cc --without=PASS,... x.cu  without these optimisations, to see what each is worth
    loom cc --no-fibers x.cu         an error where threads may wait for one another on stacks of their own
    loom cc --launches=FILE x.cu     with versions for the first launches of a run (LOOM_PROFILE=FILE ./prog wrote it)

Flags about GPU code (-arch, -gencode, -Xptxas, -maxrregcount ...) are accepted; -arch sets __CUDA_ARCH__.
"""

from __future__ import annotations

import sys


def main(argv: list[str]) -> int:
    from threadloom.cuda import build, nvcc_options

    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    plan = nvcc_options.parse(argv)
    if plan.action == "help":
        print(__doc__)
        return 0
    if plan.action == "version":
        print(version_text())
        return 0
    if plan.dry_run:
        print(plan, file=sys.stderr)
        return 0
    return build.run(plan)


def version_text() -> str:
    """Like nvcc's, since build systems read the release number."""
    from threadloom import __version__

    return (
        "nvcc: NVIDIA (R) Cuda compiler driver compatible: threadloom " + __version__ + "\n"
        "Cuda compilation tools, release 12.8, V12.8.0\nBuild threadloom"
    )
