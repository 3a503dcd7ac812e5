"""`loom schedule` and loops whose iterations cannot overlap, because of what they carry or of the machine."""

from __future__ import annotations

import json

import pytest

CHASE = """import threadloom as tl


@tl.kernel
def chase(following: tl.Tensor["N", tl.i32], start: tl.Tensor["B", tl.i32], t: tl.Tensor["T", tl.f32]) -> tl.Tensor["B", tl.i32]:
    for b in tl.grid("B"):
        at = start[b]
        for step in tl.stream(tl.each("T")):
            at = following[at]
        out[b] = at
"""  # noqa: E501
SHAPE = ("--shape", "N=4096,B=64,T=128")
MATMUL = ("matmul", "--shape", "M=128,N=128,K=256")


@pytest.fixture
def chase(tmp_path) -> str:
    (tmp_path / "chase.py").write_text(CHASE)
    return f"{tmp_path / 'chase.py'}:chase"


@pytest.mark.parametrize("device", ["h100", "a100", "cpu"])
def test_a_carried_dependence_with_nothing_beside_it_is_named(loom, chase, device):
    done = loom("schedule", chase, *SHAPE, "--device", device)
    assert done.returncode == 0, done.stderr
    assert "chase.py:8:9) is not pipelined: an iteration needs `at` of the one before" in done.stdout
    (loop,) = json.loads(loom("schedule", chase, *SHAPE, "--device", device, "--json", "-").stdout)["loops"]
    assert (loop["overlaps"], loop["bound_by"], loop["carried"]) == (False, "recurrence", ["at"])


@pytest.mark.parametrize("device", ["h100", "cpu"])
def test_it_is_an_error_where_overlap_is_asked_for(loom, chase, device):
    done = loom("schedule", chase, *SHAPE, "--device", device, "--pipelined")
    assert done.returncode == 1
    assert "chase.py:8:9: error[not-pipelined]: iterations of the loop over step cannot overlap" in done.stderr
    assert "for step in tl.stream" in done.stderr and "^" in done.stderr
    assert "why: an iteration needs `at`" in done.stderr and "gather_following" in done.stderr
    assert "try: carry less" in done.stderr


def test_a_loop_that_loads_ahead_overlaps(loom):
    done = loom("schedule", *MATMUL, "--device", "h100", "--pipelined", "--json", "-")
    assert done.returncode == 0, done.stderr
    (loop,) = json.loads(done.stdout)["loops"]
    assert loop["overlaps"] is True


def test_one_thread_that_issues_everything_is_another_reason(loom):
    done = loom("schedule", *MATMUL, "--device", "cpu", "--pipelined")
    assert done.returncode == 1
    assert "error[not-pipelined]" in done.stderr and "why: one thread issues all its sTasks" in done.stderr
    assert "not pipelined" not in loom("schedule", *MATMUL, "--device", "cpu").stdout  # so it is with every loop there
