"""Print a CUDA root (bin/nvcc, include, lib64) for build systems.

    make CUDA_HOME=$(loom cuda-home)
    cmake -DCMAKE_CUDA_COMPILER=$(loom cuda-home)/bin/nvcc -DCUDAToolkit_ROOT=$(loom cuda-home)

The root lies in the cache folder and is made at the first call: nvcc calls `loom cc`, include holds our headers, lib64
our runtime.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="make it anew")


def run(args: argparse.Namespace) -> int:
    from threadloom.cuda.cuda_home import make

    print(make(args.force))
    return 0
