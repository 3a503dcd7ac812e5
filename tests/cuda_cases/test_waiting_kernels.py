"""Which kernels of the cases run on stacks of their own: those that spin until another thread has written, no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom.bench.suites.waiting import waiting_kernels
from threadloom.cuda import compile_unit, front
from threadloom.cuda.front import SourceOptions
from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower import pipeline as lower
from threadloom.cuda.lower.watch_waits import waiting_loops

CASES = sorted(Path(__file__).parent.glob("*.cu"))
WAITING = {
    "block_shapes": {"increment"},  # a lock that blocks share
    "group_by_key": {"insert"},  # a slot that another thread is filling
    "scoped_atomics": {"in_order"},  # each block waits for the one before
    "streams": {"meet", "wait_for"},
    "waiting_blocks": {"from_the_last", "locked", "forever"},
    "waiting_threads": {"neighbours", "in_a_function", "of_all_blocks", "warps", "locked", "in_shared"},
}


@pytest.mark.clang
@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_only_kernels_that_wait_take_turns(path: Path) -> None:
    ir = front.compile_source(str(path), SourceOptions(includes=(str(path.parent),)))
    raised, _ = compile_unit.raise_unit(ir)
    module = lower.lower(raised.module).module
    taking = [function.name for function in module.functions 
              if is_kernel(function) and function.body is not None and waiting_loops(function.body)]  # fmt: skip
    expected = WAITING.get(path.stem, set())
    assert all(any(name in kernel for kernel in taking) for name in expected)
    assert all(any(name in kernel for name in expected) for kernel in taking), taking
    counted = waiting_kernels([ir.device])  # as the public suites' kernels are
    assert {kernel.split(".")[0] for kernel in taking} == set(counted)
