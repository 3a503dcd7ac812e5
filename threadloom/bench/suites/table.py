"""A suite's rows as JSON, so that a run can be taken up where it stopped, and as a Markdown table for people."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from threadloom.bench.suites.program import MEANINGS, Row
from threadloom.whole_file import write_whole


def load(path: Path) -> dict[str, Row]:
    """Finished rows by name; empty where there is no file yet."""
    if not path.exists():
        return {}
    return {row["name"]: Row(**row) for row in json.loads(path.read_text())["rows"]}


def save(path: Path, suite: str, commit: str, rows: list[Row]) -> None:
    record = {"schema": "threadloom.suite/1", "suite": suite, "commit": commit, "rows": [asdict(row) for row in rows]}
    write_whole(path, json.dumps(record, indent=1) + "\n")


def markdown(suite: str, commit: str, rows: list[Row], about: str, not_run: tuple[str, ...] = ()) -> str:
    """The table; `not_run` names the suite's programs that have no row yet."""
    counts = Counter(row.result for row in rows)
    lines = [f"# {suite} at {commit}", "", about, ""]
    lines += ["| result | programs | meaning |", "|---|---|---|"]
    lines += [f"| {result} | {counts[result]} | {meaning} |" for result, meaning in MEANINGS.items() if counts[result]]
    lines += [f"| all | {len(rows)} | |", ""]
    if not_run:
        lines += [f"**{len(not_run)} programs have not been run yet:** {', '.join(not_run)}.", ""]
    if versions := Counter(row.by for row in rows if row.by).most_common():
        lines += ["Run by threadloom at " + ", ".join(f"{by} ({count} rows)" for by, count in versions) + ".", ""]
    lines += ["| program | result | cause, or the line that it is judged by | build s | run s | command |"]
    lines += ["|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row.name, row.result, _cell(row.cause), f"{row.build_s:.1f}", f"{row.run_s:.2f}", _cell(row.command)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Plain text in a cell: no pipes, no control characters, no folders of the machine that ran it."""
    printable = "".join(ch if ch.isprintable() else " " for ch in text)
    return printable.replace("|", "/").replace("`", "'")
