"""`loom bench`: what a script reads. How quick anything is, is no business of tests."""

from __future__ import annotations

import json

import pytest


def test_json(loom, tmp_path):
    quick = ("--rounds", "1", "--limit", "1")
    done = loom("bench", "softmax", *quick, "--json", "out.json", env={"OPENBLAS_CORETYPE": ""})
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.bench/1"
    assert record["machine"] and record["results"]
    for result in record["results"]:
        assert result["ours"]["min_s"] > 0 and result["error"] < 1e-3
        assert result["ratio_min"] > 0 and isinstance(result["reached"], bool)


@pytest.mark.parametrize(
    ("args", "env", "status", "said"),
    [
        ((), {}, 2, "operator"),
        (("frobnicate",), {}, 2, "invalid choice"),
        (("softmax", "--limit", "0"), {}, 2, "0 is not positive"),
        (("softmax", "--limit", "inf"), {}, 2, "not finite"),
        (("softmax", "--rounds", "-1"), {}, 2, "less than 0"),
        (("softmax",), {"OPENBLAS_CORETYPE": "Haswell"}, 1, "forced-blas-core"),
    ],
)
def test_failures(loom, args, env, status, said):
    done = loom("bench", *args, env=env)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
