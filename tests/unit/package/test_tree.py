"""The tree itself: lint, no path of one machine, links of the docs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Spelled so that this file does not match itself.
MACHINE_PATHS = re.compile(r"/wor[k]/|/far[m]/|/roo[t]/\.|/tm[p]/[a-z]+[A-Z0-9]|/hom[e]/[a-z]")
PLACEHOLDERS = (  # of the reader, and of examples
    *("file.py", "attention.py", "hoist_invariant.py"),
    *("softmax_load", "softmax_launch"),
)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_ruff_is_clean():
    files = [str(p) for p in tracked("*.py")]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--quiet", *files], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_path_of_one_machine():
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {m.group()}" for m in MACHINE_PATHS.finditer(text)]
    assert found == []


def test_links_of_docs_lead_somewhere():
    dead = []
    for path in tracked("*.md"):
        prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target, _ in LINK.findall(prose):
            if "://" not in target and not (path.parent / target).exists():
                dead.append(f"{path.relative_to(ROOT)}: {target}")
    assert dead == []


def test_files_that_docs_name_exist():
    missing = []
    for path in tracked("*.md"):
        if "results" in path.parts:  # there, commands of other projects stand, with their files
            continue
        for name in re.findall(r"\b(?:threadloom|tests|examples)/[\w/]*(?:\.\w+)?", path.read_text(encoding="utf-8")):
            if "NAME" not in name and not (ROOT / name.rstrip("/")).exists():
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert missing == []


def test_what_docs_quote_exists():
    """Names of Python files in backticks, and names with an underscore, which are names of code."""
    names = [str(path.relative_to(ROOT)) for path in tracked()]
    sources = [p for p in tracked() if p.suffix != ".md" and "results" not in p.parts]
    known = {word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8", errors="ignore"))}
    known |= {Path(name).stem for name in names} | set(PLACEHOLDERS)
    missing = []
    for path in tracked("README.md", "docs/*.md"):
        if path.name in ("tried.md", "status.md"):  # histories, which name what is gone and other projects' files
            continue
        prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for quoted in re.findall(r"`([^`\n]+)`", prose):
            files = [f for f in re.findall(r"[\w./-]*\w\.py\b", quoted) if f not in PLACEHOLDERS]
            gone = [f for f in files if not any(f"/{name}".endswith(f"/{f}") for name in names)]
            gone += [w for w in re.findall(r"\w{4,}", quoted) if "_" in w and w not in known]
            missing += [f"{path.name}: {what} in `{quoted}`" for what in gone]
    assert missing == []
