"""`loom run`."""

from __future__ import annotations

import json

import pytest

WRONG = """
import numpy as np
import threadloom as tl

@tl.kernel
def negate(x: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        out[m] = 0.0 - x[m]

SHAPE = {"M": 100}

def inputs(rng, M):
    return {"x": np.ones(M, np.float32)}

def reference(x):
    return x
"""


PACK = """
import threadloom as tl

@tl.kernel
def pack(x: tl.Tensor["M", "N", tl.i32]) -> tl.Tensor["M", "N", tl.u4]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = tl.cast(x[m, n], tl.u4)
"""


def test_packed_results_are_compared_element_by_element(loom, tmp_path):
    (tmp_path / "pack.py").write_text(PACK)
    done = loom("run", "pack.py", "--shape", "M=3,N=7", "--repeat", "1")
    assert (done.returncode, done.stderr) == (0, "") and "agrees with float64, error 0" in done.stdout


def test_json(loom, tmp_path):
    done = loom("run", "softmax", "--shape", "M=5,N=229", "--repeat", "1", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.run/1"
    assert record["shape"] == {"M": 5, "N": 229}
    (output,) = record["outputs"]
    assert output["holds"] is True and 0 < output["error"] <= output["bound"]
    assert record["seconds"] > 0 and record["bytes_per_s"] > 0


def test_a_wrong_result_fails(loom, tmp_path):
    (tmp_path / "negate.py").write_text(WRONG)
    done = loom("run", "negate.py", "--json", "-")
    assert done.returncode == 1
    (output,) = json.loads(done.stdout)["outputs"]
    assert (output["holds"], output["error"]) == (False, 2.0)


def test_settings_reach_the_kernel_and_its_reference(loom):
    shape = ("--shape", "B=1,H=2,HKV=1,SQ=9,SK=12,D=8")
    assert loom("run", "flash_attention", *shape, "--set", "causal=true", "--repeat", "1").returncode == 0


def test_without_inputs_the_definition_is_the_reference(loom, tmp_path):
    (tmp_path / "negate.py").write_text(WRONG.partition("SHAPE")[0])
    done = loom("run", "negate.py", "--shape", "M=7", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    assert "agrees with float64" in done.stdout


def test_list(loom):
    assert "softmax" in loom("run", "--list").stdout.split()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "KERNEL is missing"),
        (("softmax", "--repeat", "0"), "less than 1"),
        (("flash_attention", "--set", "causl=true"), "no parameter causl"),
        (("flash_attention", "--set", "causal"), "NAME=VALUE"),
    ],
)
def test_usage(loom, args, said):
    done = loom("run", *args)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return x\n", "return x[1, 2]\n", "its function reference: IndexError"),
        ("return x\n", "return x, x\n", "returns 2 results, negate has 1"),
        ("return x\n", "return x[None]\n", "of shape (1, 100), negate makes (100,)"),
        ("def reference(x)", "def reference(y)", "its function reference: TypeError"),
        ("np.ones(M, ", "np.ones(M / 0, ", "negate.py:13:26: "),
    ],
)
def test_what_goes_wrong_in_the_file_is_told_as_its_own(loom, tmp_path, old, new, said):
    (tmp_path / "negate.py").write_text(WRONG.replace(old, new))
    done = loom("run", "negate.py", "--repeat", "1")
    assert done.returncode == 1 and "error[kernel-file]" in done.stderr and said in done.stderr, done.stderr
