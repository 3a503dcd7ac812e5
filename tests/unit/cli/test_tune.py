"""`loom tune`: measures, keeps, resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

ARGS = ("tune", "softmax", "--shape", "M=64,N=64", "--plans", "2")


def test_second_run_measures_nothing_again(loom, tmp_path):
    first = loom(*ARGS, "--json", "out.json")
    assert first.returncode == 0, first.stderr
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.tune/1"
    assert (record["measured"], record["known"], record["failed"]) == (2, 0, [])
    assert record["measured_ns"] > 0 and set(record["tiles"]) == {"m"}
    again = json.loads(loom(*ARGS, "--json", "-").stdout)
    assert (again["measured"], again["known"]) == (0, 2)
    assert again["measured_ns"] == record["measured_ns"]


def test_interrupted_run_keeps_what_was_measured(loom, tmp_path):
    store = tmp_path / "cache"
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "threadloom", *ARGS],
        env={**os.environ, "LOOM_CACHE": str(store)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().startswith("plan 1/2")
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the second plan was quicker than the interrupt")
    assert process.returncode == 130
    assert said.strip() == "interrupted" and "goes on from there" in rest
    again = json.loads(loom(*ARGS, "--json", "-").stdout)
    assert again["known"] >= 1


@pytest.mark.parametrize(
    ("args", "env", "status", "said"),
    [
        (("--plans", "0"), {}, 2, "less than 1"),
        (("--limit", "-3"), {}, 2, "-3 is not positive"),
        (("--timeout", "nan"), {}, 2, "nan is not positive"),
        ((), {"LOOM_CACHE": "off"}, 2, "LOOM_CACHE=off"),
        (("--device", "h1000"), {}, 2, "unknown-device"),
    ],
)
def test_failures(loom, args, env, status, said):
    done = loom(*ARGS, *args, env=env)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
