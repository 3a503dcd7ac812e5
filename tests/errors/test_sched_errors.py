"""Every refusal of the scheduler, the machine models and the store: its slug, its numbers, its advice."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from tests.unit.sched import kernels
from threadloom.dtypes import f16, f32
from threadloom.errors import CompileError
from threadloom.machine.devices import device, with_memory
from threadloom.sched.search import plan

DIMS = {"M": 256, "N": 256, "K": 256}


def refused(call) -> CompileError:
    with pytest.raises(CompileError) as error:
        call()
    return error.value


def test_unknown_device():
    error = refused(lambda: device("h300"))
    assert error.slug == "unknown-device"
    assert "h100" in str(error) and "cpu" in str(error)


def test_kernel_that_fits_nowhere_is_refused_at_once_with_the_numbers():
    tiny = with_memory(device("h100"), "smem", 2048)
    began = time.process_time()
    error = refused(lambda: plan(kernels.matmul.tile(T=f16), DIMS, tiny))
    assert time.process_time() - began < 2.0
    assert error.slug == "fits-nowhere"
    assert "2048 bytes" in str(error) and "memory:smem" in str(error)
    assert error.loc is not None and "@tl.kernel" not in str(error.loc)


def test_whole_row_that_no_memory_holds():
    error = refused(lambda: plan(kernels.softmax.tile(T=f32), {"M": 64, "N": 1 << 24}, "h100"))
    assert error.slug == "fits-nowhere"


def test_task_that_no_unit_runs():
    lame = replace(device("h100"), seus=tuple(u for u in device("h100").seus if u.name not in ("vec", "tc")))
    error = refused(lambda: plan(kernels.matmul.tile(T=f16), DIMS, lame))
    assert error.slug == "no-unit-for-task"
    assert "tma" in str(error) and error.loc is not None


def test_unknown_policy():
    assert refused(lambda: plan(kernels.matmul.tile(T=f16), DIMS, "h100", policy="best")).slug == "unknown-policy"


def without_fields(problem):
    return problem.nothing


def without_schedule(problem):
    return [0, 1]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (without_fields, "policy without_fields fails: AttributeError: 'Problem' object has no attribute 'nothing'"),
        (without_schedule, "policy without_schedule returns a list"),
    ],
)
def test_a_faulty_policy_of_the_users(policy, said):
    error = refused(lambda: plan(kernels.matmul.tile(T=f16), DIMS, "h100", policy=policy))
    assert error.slug == "bad-policy" and said in str(error)
    assert error.loc.file == __file__ and policy.__code__.co_firstlineno in (error.loc.line, error.loc.line - 1)


def test_optimal_policy_without_the_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    error = refused(lambda: plan(kernels.matmul.tile(T=f16), DIMS, "h100", policy="optimal"))
    assert error.slug == "optimal-needs-solver"
    assert "pip install" in str(error)
