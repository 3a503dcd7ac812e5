"""`loom bench`: what a script reads. How quick anything is, is no business of tests."""

from __future__ import annotations

import json
import re

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
        (("softmax", "--counts", "1,2"), {}, 2, "unrecognized arguments: --counts"),
        (("--json", "f", "rodinia"), {}, 2, "rodinia comes first"),
        (("rodinia", "--counts", "1"), {}, 2, "unrecognized arguments: --counts"),
        (("softmax", "--limit", "0"), {}, 2, "0 is not positive"),
        (("softmax", "--limit", "inf"), {}, 2, "not finite"),
        (("softmax", "--rounds", "0"), {}, 2, "less than 1"),
        (("softmax",), {"OPENBLAS_CORETYPE": "Haswell"}, 1, "forced-blas-core"),
    ],
)
def test_failures(loom, args, env, status, said):
    done = loom("bench", *args, env=env)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


@pytest.fixture
def with_peers(tmp_path, monkeypatch, capfd):
    """`loom bench` with a script in place of benchmarks/hopper.py that says what it was started with."""
    from threadloom import cli
    from threadloom.cli import bench_gpu

    script = tmp_path / "script.py"
    script.write_text("import os, sys; print(sys.argv[1:], os.environ['PYTHONPATH']); sys.exit('fail' in sys.argv[-1])")
    monkeypatch.setattr(bench_gpu, "SCRIPT", script)

    def run(*args: str) -> tuple[int, str]:
        status = cli.main(["bench", *args])
        return status, "".join(capfd.readouterr())

    return run


def test_beside_peers_on_a_gpu(with_peers, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir(), b.mkdir()
    json_file = str(tmp_path / "out.json")
    status, said = with_peers("softmax", "--peers", str(a), "--peers", str(b), "--rounds", "3", "--json", json_file)
    assert status == 0
    assert f"['--ops', 'rows', '--only', 'softmax', '--rounds', '3', '--json', '{json_file}'] {a}:{b}" in said
    assert with_peers("matmul", "--peers", str(a), "--json", "fail.json")[0] == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("softmax", "--peers", "nowhere"), "nowhere: no such folder"),
        (("conv2d", "--peers", "."), "no peers of conv2d"),
        (("softmax", "--peers", ".", "--shape", "M=3"), "sizes of its own"),
        (("softmax", "--peers", ".", "--json", "-"), "needs a file"),
    ],
)
def test_peers_that_cannot_be_meant(with_peers, args, said):
    status, shown = with_peers(*args)
    assert status == 2 and said in shown


def test_operators_with_peers_are_cases_of_the_script():
    from threadloom.cli.bench_gpu import OPERATORS, SCRIPT

    known = re.findall(r'^    "(\w+)": \w+_cases,$', SCRIPT.read_text(), re.M)
    assert {op for options in OPERATORS.values() for op in options[1].split(",")} <= set(known)


def test_rows_beside_the_measured_ceilings():
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    from hopper_conditions import of_ceilings

    rows = [{"rate": 500.0, "unit": "TFLOP/s"}, {"rate": 3000.0, "unit": "GB/s"}, {"failed": "x"}]
    assert of_ceilings(rows, 1e15, 4e12) == {"TFLOP/s": 1000.0, "GB/s": 4000.0}
    assert [row.get("of_ceiling") for row in rows] == [0.5, 0.75, None]


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


@pytest.mark.slow
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
