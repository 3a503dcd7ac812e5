"""loom bench OPERATOR --peers PATH: our kernels on a Hopper GPU and their peers in one run, each round in a new order.

    loom bench attention --peers PATH --json out.json     PATH: a folder with FlashAttention-3, mamba-ssm and such,
                                                          put in front of PYTHONPATH; may be given several times

The cases are a checkout's (benchmarks/hopper.py, which has more options). The JSON has GPU, driver, clocks, versions
and commit; of each candidate error, median, minimum and maximum, rate, its fraction of what a loop of products or a
copy reached in the same run, and the ratio to the best peer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from threadloom.cli import UsageError

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "hopper.py"

# operator -> options of the script
OPERATORS = {
    "matmul": ("--ops", "matmul,llama"),
    "attention": ("--ops", "attention"),
    "decode": ("--ops", "decode"),
    "chunk_scan": ("--ops", "scan"),
    "chunk_state": ("--ops", "state"),
    "softmax": ("--ops", "rows", "--only", "softmax"),
    "rmsnorm": ("--ops", "rows", "--only", "rmsnorm"),
    "layernorm": ("--ops", "rows", "--only", "layernorm"),
    "all": ("--ops", "matmul,llama,attention,rows,scan,state,decode"),
}


def run(args: argparse.Namespace) -> int:
    """The status of the script; usage errors where something cannot be meant."""
    if args.kernel not in OPERATORS:
        raise UsageError(f"there are no peers of {args.kernel} on a GPU\n  try: {', '.join(OPERATORS)}")
    if args.shape or args.settings or args.dtype:
        raise UsageError(f"{args.kernel} has sizes of its own: --shape, --set and --dtype are for a KERNEL")
    if args.limit or args.one_thread:
        raise UsageError("--limit and --one-thread are for times on the CPU, without --peers")
    if missing := [path for path in args.peers if not path.is_dir()]:
        raise UsageError(f"{missing[0]}: no such folder")
    if args.json == "-":
        raise UsageError("--json needs a file with --peers, since standard output shows the progress")
    if not SCRIPT.is_file():
        raise UsageError("--peers needs a checkout of threadloom, which has the folder benchmarks")
    paths = [*(str(path.resolve()) for path in args.peers), *filter(None, [os.environ.get("PYTHONPATH")])]
    rounds = ("--rounds", str(args.rounds)) if args.rounds else ()
    json = ("--json", args.json) if args.json else ()
    command = [sys.executable, str(SCRIPT), *OPERATORS[args.kernel], *rounds, *json]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, check=False).returncode
