"""Say what was done with each CUDA kernel, line by line: barriers, kept values, forwarded stores, hoisted work.

    loom explain prog.cu [-I DIR] [-D NAME=VALUE] [-std=c++17] [--kernel NAME] [--json FILE]

The flags are nvcc's. A kernel may have two versions; which launches take which is said in its heading. What is said
below several lines is so of each of them. Values with a percent sign are the compiler's own (docs/par.md).
"""

from __future__ import annotations

import argparse
from itertools import groupby
from typing import TYPE_CHECKING

from threadloom.cli import json_output

if TYPE_CHECKING:
    from threadloom.cuda.explain import Explained
    from threadloom.source import Loc


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    own = argparse.ArgumentParser(prog="loom explain", add_help=False, allow_abbrev=False)
    own.add_argument("--kernel", default="")
    json_output.add_json_argument(own)
    args, flags = own.parse_known_args(argv)
    path, explained = explain_command(flags)
    explained = [one for one in explained if args.kernel in _plain(one.kernel)]
    json_output.write(args, "explain", 1, {"source": path, "kernels": [record(one) for one in explained]})
    if args.json != "-":
        named = f" with {args.kernel} in their names" if args.kernel else ""
        print("\n\n".join(text(one) for one in explained) if explained else f"{path}: no kernels{named}")
    return 0


def explain_command(flags: list[str]) -> tuple[str, list[Explained]]:
    """The source that nvcc's `flags` name, and what happens to its kernels."""
    from threadloom.cli import UsageError
    from threadloom.cuda import build, nvcc_options
    from threadloom.cuda.explain import explain

    plan = nvcc_options.parse(flags)
    sources = [path for path, kind in plan.inputs if kind == "cu"]
    if len(sources) != 1:
        raise UsageError(f"loom explain takes one CUDA file, got {len(sources)}: {' '.join(sources) or 'none'}")
    return sources[0], explain(sources[0], build.source_options(plan))


def text(one: Explained) -> str:
    """One version of a kernel, its remarks by line with the source between."""
    head = f"kernel {_plain(one.kernel)}" + (f", {one.version}" if one.version else "")
    lines, told = [head], []
    for _, group in groupby(one.remarks, lambda remark: (remark.loc is not None, remark.line)):
        remarks = list(group)
        said = [f"         {remark.kind}" + (f": {remark.text}" if remark.text else "") for remark in remarks]
        if said != told:
            lines += told
            told = said
        if (loc := remarks[0].loc) is not None:
            lines.append(f"  {loc.line:>4} | {_source(loc)}")
    lines += told
    if not one.remarks:
        lines.append("         nothing to tell: no barriers, nothing moved")
    if one.kept_bytes:
        lines.append(f"  {one.kept_bytes} bytes per thread live across barriers")
    return "\n".join(lines)


def record(one: Explained) -> dict[str, json_output.Json]:
    remarks = [{"kind": r.kind, "file": r.loc.file if r.loc else None, "line": r.line, "text": r.text}
               for r in one.remarks]  # fmt: skip
    return {
        "kernel": one.kernel,
        "name": _plain(one.kernel),
        "version": one.version,
        "kept_bytes_per_thread": one.kept_bytes,
        "remarks": remarks,
    }


def _source(loc: Loc) -> str:
    import linecache

    return linecache.getline(loc.file, loc.line).rstrip()


def _plain(symbol: str) -> str:
    from threadloom.cuda.arguments import demangle

    return demangle(symbol)
