"""What the README says can be done, can be done."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from threadloom.cli import COMMANDS

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_first_kernel_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "first.py").write_text(code)
    done = subprocess.run([sys.executable, "first.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`loom ([a-z-]+)", README))))
def test_named_commands_exist(name):
    assert name in {c.name for c in COMMANDS}


def test_dependencies_have_a_reason():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for k, v in project["optional-dependencies"].items() if k != "test" for d in v)]
    names = {re.match(r"[\w-]+", d).group() for d in wanted}
    notices = (ROOT / "THIRD_PARTY_NOTICES").read_text()
    assert [n for n in names if n not in README or n not in notices] == []
