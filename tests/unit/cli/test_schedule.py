"""`loom schedule`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

SMALL = ("--shape", "M=64,N=64,K=64")


@pytest.mark.parametrize("device", ["cpu", "h100"])
def test_json_and_files(loom, tmp_path, device):
    done = loom("schedule", "matmul", *SMALL, "--device", device, "--json", "out.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.schedule/2"
    assert record["proved"] is True and record["findings"] == []
    assert record["shape"] == {"M": 64, "N": 64, "K": 64}
    assert set(record["tiles"]) == {"m", "n", "k"}
    assert record["search"]["space"] == record["search"]["partitions"] * record["search"]["orders"]
    assert record["predicted_ns"] > 0
    assert all((tmp_path / name).stat().st_size > 0 for name in record["files"])
    (plan,) = (name for name in record["files"] if name.endswith(".sprog"))
    dtype = "f32" if device == "cpu" else "f16"
    ran = loom("run", "matmul", *SMALL, "--dtype", dtype, "--repeat", "1", "--from", plan)
    assert ran.returncode == 0, ran.stderr


def test_optimal_policy_says_how_good_the_schedule_is(loom):
    pytest.importorskip("ortools")
    done = loom("schedule", "matmul", *SMALL, "--device", "h100", "--policy", "optimal", "--limit", "20", "--json", "-")
    assert done.returncode == 0, done.stderr
    (quality,) = json.loads(done.stdout)["loops"]
    assert quality["ii_cycles"] >= quality["bound_cycles"] > 0
    assert quality["is_optimal"] is True


def test_text_names_tiles_and_proof(loom):
    done = loom("schedule", "matmul", *SMALL, "--device", "h100", "--to", "here")
    assert "dot_acc" in done.stdout and "tc " in done.stdout
    assert "proved for every trip count" in done.stdout
    assert "here/timeline.txt" in done.stdout


def test_measured_times_of_stasks(loom):
    done = loom("schedule", "matmul", *SMALL, "--profile", "--json", "-")
    assert done.returncode == 0, done.stderr
    costs = {c["task"]: c for c in json.loads(done.stdout)["profile"]}
    assert costs["dot_acc"]["measured_cycles"] > 0 and costs["dot_acc"]["model_cycles"] > 0
    shown = loom("schedule", "matmul", *SMALL, "--profile").stdout
    assert re.search(r"dot_acc on \w+: \d+ cycles by the model, \d+ measured", shown)


def test_policy_of_ones_own(loom, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "howto-policy.md").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    done = loom("schedule", "matmul", *SMALL, "--policy", "mine.py:shortest_first", "--device", "h100", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["policy"] == "mine.py:shortest_first"


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (("matmul", "--device", "h1000"), 2, "unknown-device"),
        (("matmul", "--policy", "magic", *SMALL), 2, "unknown-policy"),
        (("matmul", "--policy", "mine.py:own", *SMALL), 2, "no such file"),
        (("matmul", "--shape", "M"), 2, "NAME=EXTENT"),
        (("matmul", "--shape", "Q=3"), 2, "no dimension Q"),
        (("matmul", "--dtype", "i32"), 2, "invalid choice"),
        (("nothing",), 2, "no example"),
        (("matmul", "--task-times", "none.json", *SMALL), 2, "there is no file none.json"),
        (("matmul", "--measure", *SMALL), 2, "--measure is for a GPU's plan"),
        ((), 2, "KERNEL"),
    ],
)
def test_failures(loom, args, status, said):
    done = loom("schedule", *args)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr
