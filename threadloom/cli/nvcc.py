"""`loom-nvcc`: `loom cc` under a name that build systems can be given as nvcc. As nvcc does, it takes further options
from the variables NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS."""

from __future__ import annotations

import os
import shlex
import sys


def main(argv: list[str] | None = None) -> int:
    from threadloom.cli import main as loom

    before, behind = (shlex.split(os.environ.get(f"NVCC_{place}_FLAGS", "")) for place in ("PREPEND", "APPEND"))
    return loom(["cc", *before, *(sys.argv[1:] if argv is None else argv), *behind])


if __name__ == "__main__":
    sys.exit(main())
