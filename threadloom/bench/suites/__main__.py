"""python -m threadloom.bench.suites SUITE --path CHECKOUT: build and run a suite's programs, and make its table."""

from __future__ import annotations

import argparse
import importlib
import re
import signal
import sys
from pathlib import Path

from threadloom.bench.suites import driver, table
from threadloom.bench.suites.process import Limits

SUITES = {
    "rodinia": "9c10d3e",
    "cuda-samples": "c94ff366",
    "hecbench": "f27000a51",
    "polybench": "70ea4ca",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m threadloom.bench.suites", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--path", type=Path, required=True, help="the suite's checkout; it is only read")
    parser.add_argument("--json", type=Path, required=True, help="rows; those in it are not run again")
    parser.add_argument("--markdown", type=Path, help="also write the table for people")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for copies and logs")
    parser.add_argument("--only", default="", help="regular expression of names")
    parser.add_argument("--again", default="", help="regular expression: run rows with this result or name again")
    parser.add_argument("--every", type=int, default=1, help="only every Nth program")
    parser.add_argument("--build-limit", type=float, default=120, metavar="S", help="CPU seconds of a build")
    parser.add_argument("--run-limit", type=float, default=60, metavar="S", help="CPU seconds of a run")
    parser.add_argument("--keep", action="store_true", help="keep the built copies")
    parser.add_argument("--list", action="store_true", help="print names and commands, and run nothing")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    suite = importlib.import_module("threadloom.bench.suites." + args.suite.replace("-", "_"))
    programs = suite.programs(args.path.resolve())
    chosen = [one for i, one in enumerate(programs) if i % args.every == 0 and re.search(args.only, one.name)]
    if args.list:
        for program in chosen:
            print(program.name, "|", "; ".join(program.runs), "|", program.left_out)
        return 0
    rows = table.load(args.json)
    names = [program.name for program in programs]
    args.scratch.mkdir(parents=True, exist_ok=True)

    limits = driver.Budget(Limits(args.build_limit), Limits(args.run_limit))

    def write() -> None:
        ordered = [rows[name] for name in names if name in rows]
        table.save(args.json, args.suite, SUITES[args.suite], ordered)
        if args.markdown:
            not_run = tuple(name for name in names if name not in rows)
            about = suite.ABOUT + (f"\n\n{suite.summary(ordered, names)}" if hasattr(suite, "summary") else "")
            args.markdown.write_text(table.markdown(args.suite, SUITES[args.suite], ordered, about, not_run))

    for program in chosen:
        known = rows.get(program.name)
        if known and not (
            args.again and (re.fullmatch(args.again, known.result) or re.fullmatch(args.again, known.name))
        ):
            continue
        row = driver.try_program(program, args.path.resolve(), args.scratch.resolve(), limits, args.keep)
        rows[program.name] = row
        print(
            f"{row.name:32} {row.result:6} build {row.build_s:6.1f} s  run {row.run_s:6.2f} s  {row.cause}", flush=True
        )
        write()
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
