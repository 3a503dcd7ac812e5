"""`loom bench`: what a script reads. How quick anything is, is no business of tests."""

from __future__ import annotations

import json

import pytest


@pytest.mark.slow
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
        ((), {}, 2, "OPERATOR"),
        (("frobnicate",), {}, 2, "no operator or kernel"),
        (("softmax", "--shape", "M=8"), {}, 2, "has sizes of its own"),
        (("flash_decoding", "--shape", "Z=8"), {}, 2, "no dimension Z"),
        (("nothing.py:f",), {}, 2, "no such file"),
        (("softmax", "--limit", "0"), {}, 2, "0 is not positive"),
        (("softmax", "--limit", "inf"), {}, 2, "not finite"),
        (("softmax", "--rounds", "-1"), {}, 2, "less than 0"),
        (("softmax",), {"OPENBLAS_CORETYPE": "Haswell"}, 1, "forced-blas-core"),
    ],
)
def test_failures(loom, args, env, status, said):
    done = loom("bench", *args, env=env)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


SCALED = """
import numpy as np
import threadloom as tl

@tl.kernel
def scaled(x: tl.Tensor["M", "N", "T"], factor: tl.f32 = 2.0) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n] * factor

SHAPE = {"M": 8, "N": 100}
"""
QUICK = ("--rounds", "1", "--limit", "0.2")


def test_own_kernel_alone(loom, tmp_path):
    """Time and rate, no ratio; `work` in the file makes a rate and a fraction of the measured peak."""
    (tmp_path / "own.py").write_text(SCALED)
    done = loom("bench", "own.py:scaled", *QUICK, "--shape", "N=30", "--set", "factor=3", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    assert "scaled M=8 N=30" in done.stdout and "fastest" not in done.stdout and "GB/s" not in done.stdout
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["ratio_turn"] is None and result["goal"] is None and result["reached"] is None and result["right"]


def test_own_kernel_with_peers_and_work(loom, tmp_path):
    text = SCALED + """
def peers(x, factor=2.0):
    out = np.empty_like(x)
    return {"numpy": lambda: np.multiply(x, factor, out=out)}

def bytes_moved(M, N):
    return 2 * M * N * 4
"""
    (tmp_path / "own.py").write_text(text)
    done = loom("bench", "own.py:scaled", *QUICK, "--dtype", "f32", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    assert all(said in done.stdout for said in ("numpy", "B/s", "of the measured copy rate", "of the fastest peer"))
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["peers"]["numpy"]["min_s"] > 0 and result["ratio_turn"] > 0
    assert 0 < result["fraction_of_peak"]["copy rate"] < 100


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("def peers(x):\n    return x[9]\n", "its function peers: IndexError"),
        ("def peers(x):\n    return [x.sum]\n", "does not return a dict of functions"),
        ("def reference(x):\n    return 3.0 * x\n", "WRONG"),
    ],
)
def test_own_kernel_whose_file_is_wrong(loom, tmp_path, more, said):
    (tmp_path / "own.py").write_text(SCALED + more)
    done = loom("bench", "own.py", *QUICK)
    assert done.returncode == 1 and said in done.stdout + done.stderr
