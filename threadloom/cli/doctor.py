"""Say what was found on this machine and what each missing piece enables.

Exit status 1 only where a piece is missing without which nothing works.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from threadloom.cli import json_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from threadloom.cli.terminal import stdout
    from threadloom.doctor import examine

    findings = examine()
    healthy = all(f.found for f in findings if f.required)
    json_output.write(args, "doctor", 1, {"healthy": healthy, "findings": [asdict(f) for f in findings]})
    if args.json != "-":
        out = stdout()
        for f in findings:
            mark = "[green]yes[/]" if f.found else "[red]NO [/]" if f.required else "[yellow]no [/]"
            out.print(f"{mark} [bold]{f.name:<15}[/] ", end="")
            out.print(f.detail, markup=False)
            if not f.found:
                out.print(f"{'':20}would enable: {f.enables}", markup=False)
                out.print(f"{'':20}to have it:   {f.get}", markup=False)
    return 0 if healthy else 1
