"""The frame of the command line: help, version, exit statuses, ways of ending."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import threadloom
from threadloom import cli
from threadloom.env import VARIABLES
from threadloom.errors import InternalError


def fake_command(monkeypatch: pytest.MonkeyPatch, run) -> None:
    """A command `fake` whose run() is `run`."""
    module = ModuleType("threadloom.cli.fake", "A fake.")
    module.add_arguments = lambda parser: None
    module.run = run
    monkeypatch.setitem(sys.modules, "threadloom.cli.fake", module)
    module.__spec__ = argparse.Namespace()  # find_spec only asks that there is one
    monkeypatch.setattr(cli, "COMMANDS", (cli.Command("fake", "threadloom.cli.fake", "fakes"),))
    monkeypatch.delenv("LOOM_DEBUG", raising=False)


def test_version(loom_process):
    done = loom_process("--version")
    assert (done.returncode, done.stdout) == (0, f"loom {threadloom.__version__}\n")


def test_help_lists_every_present_command(loom):
    done = loom("--help")
    assert done.returncode == 0
    present = [c for c in cli.COMMANDS if c.is_present]
    assert all(c.name in done.stdout and c.help.split()[0] in done.stdout for c in present)


@pytest.mark.parametrize("args", [(), ("frobnicate",), ("--frobnicate",), ("doctor", "--frobnicate"), ("doctor", "x")])
def test_usage_errors_are_status_2(loom, args):
    done = loom(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", [c.name for c in cli.COMMANDS if c.is_present])
def test_every_command_has_help(loom, name):
    done = loom(name, "--help")
    assert done.returncode == 0
    assert name in done.stdout


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (InternalError("it broke", replay="loom x"), 1, "loom: internal error: it broke\n  replay: loom x"),
        (cli.UsageError("no such thing"), 2, "loom: no such thing"),
        (FileNotFoundError(2, "No such file or directory", "a.py"), 1, "loom: a.py: No such file or directory"),
        (OSError(28, "No space left on device"), 1, "loom: No space left on device\n  try: free some"),
        (ZeroDivisionError("division by zero"), 1, "loom: internal error: ZeroDivisionError: division by zero"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_message(monkeypatch, capsys, error, status, said):
    def run(args):
        raise error

    fake_command(monkeypatch, run)
    assert cli.main(["fake"]) == status
    shown = capsys.readouterr().err
    assert shown.startswith(said)
    assert "Traceback" not in shown


def test_debug_shows_the_traceback(monkeypatch, capsys):
    def run(args):
        raise InternalError("it broke")

    fake_command(monkeypatch, run)
    monkeypatch.setenv("LOOM_DEBUG", "1")
    assert cli.main(["fake"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--help"], ["doctor"]])
def test_closed_pipe_is_silent(args):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "threadloom", *args],
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.parametrize(("name", "value"), [("LOOM_TREADS", "2"), ("LOOM_THREADS", "two")])
def test_wrong_variables_are_usage_errors(loom, name, value):
    done = loom("doctor", env={name: value})
    assert done.returncode == 2
    assert name in done.stderr and "Traceback" not in done.stderr


def test_every_variable_that_is_read_is_registered():
    """A LOOM_ name in the code that env.py does not know could never be set: env.check() refuses it."""
    used = set()
    for path in Path(threadloom.__file__).parent.rglob("*.py"):
        used |= set(re.findall(r"""(?:read\(|environ\W|getenv\(|get\()["'](LOOM_[A-Z_]+)""", path.read_text("utf-8")))
    assert used
    assert used - set(VARIABLES) == set()
    assert len(VARIABLES) <= 10
