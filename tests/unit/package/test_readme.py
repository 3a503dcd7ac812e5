"""What the README says can be done, can be done."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from threadloom.cli import COMMANDS, parser

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def runs(code: str, folder: Path) -> None:
    (folder / "first.py").write_text(code)
    done = subprocess.run([sys.executable, "first.py"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_first_kernel_runs(tmp_path):
    runs(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0], tmp_path)


@pytest.mark.slow
@pytest.mark.clang
def test_cuda_from_python_runs(tmp_path):
    runs(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[1], tmp_path)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`loom ([a-z-]+)", README))))
def test_named_commands_exist(name):
    assert name in {c.name for c in COMMANDS}


def shown_commands() -> list[str]:
    """Every `loom ...` line of the pages' shell blocks, without its comment."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            found += [line.partition("#")[0].strip() for line in block.splitlines() if line.startswith("loom ")]
    return sorted(set(found))


@pytest.mark.parametrize("line", shown_commands())
def test_shown_commands_parse(line, capsys):
    argv = shlex.split(line)[1:]
    command = next(c for c in COMMANDS if c.name == argv[0])
    module = command.load()
    if not hasattr(module, "add_arguments"):
        return  # takes another program's flags
    parser(list(COMMANDS), command, module).parse_args(argv)


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("page", ["README.md", "docs/howto-debug.md", "docs/walkthrough.md"])
def test_shown_commands_run_as_printed(page, tmp_path):
    """A page's commands one after the other, as a reader of it would give them."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = "set -e\n" + "".join(block for block in blocks if not block.startswith("make"))
    assert "loom " in script
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "LOOM_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_dependencies_have_a_reason():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [d for extra, named in project["optional-dependencies"].items() if extra != "test" for d in named]
    wanted = [*project["dependencies"], *extras]
    names = {re.match(r"[\w-]+", d).group() for d in wanted}
    notices = (ROOT / "THIRD_PARTY_NOTICES").read_text()
    assert [n for n in names if n not in README or n not in notices] == []
