"""`loom-nvcc`: `loom cc` under a name that build systems can be given as nvcc."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    from threadloom.cli import main as loom

    return loom(["cc", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
