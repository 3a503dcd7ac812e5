"""Public suites of CUDA programs, built unmodified by their own Makefiles and run on this CPU.

    python -m threadloom.bench.suites hecbench --path CHECKOUT --json hecbench.json --markdown hecbench.md

A suite is a module with `programs(path) -> list[Program]`; the checkout is only read, each program is built in a copy.
"""
