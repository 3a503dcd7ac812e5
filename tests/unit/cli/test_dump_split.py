"""Dumps of a split reduction: both programs, each stage of which can be run from."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import choose
from threadloom.dump import cpu_stages, gpu_stages, write_stages
from threadloom.errors import CompileError
from threadloom.machine.cpu import host
from threadloom.run_stage import runner
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import plan

PARTITION = Partition(
    (AxisTile("m", 6, 6), AxisTile("n", 16, 16), AxisTile("k", 64, 64)), (), ("part", "m", "n"), splits=3
)


@pytest.fixture
def dumped(tmp_path):
    chosen = choose("matmul", {})
    call = bound_call(chosen, make_inputs(chosen, "f32", {"M": 5, "N": 16, "K": 301}))
    program = plan(call.kernel, call.dims, host(), only=PARTITION).best
    for stage in cpu_stages(call, program):
        (tmp_path / stage.file).write_text(stage.text)
    return call, tmp_path


def test_every_stage_runs(dumped):
    call, folder = dumped
    files = sorted(p.name for p in folder.iterdir())
    assert files == ["01-tile.tile", "02-task.task", "03-sched.sprog", "04-par.par", "05-llvm.ll", "06-asm.s",
                     "12-combine.task", "14-combine.par", "15-combine.ll", "16-combine.s"]  # fmt: skip
    wanted = np.maximum(call.arrays["a"].astype(np.float64) @ call.arrays["b"] + call.arrays["bias"], 0)
    for name in files:
        call.arrays["out"][...] = np.nan
        runner(folder / name, call)()
        np.testing.assert_allclose(call.arrays["out"], wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def test_nothing_of_it_is_left_beside_a_later_plan_in_one_part(dumped):
    call, folder = dumped
    program = plan(call.kernel, call.dims, host(), splits=False).best
    written = write_stages(folder, list(cpu_stages(call, program)))
    assert sorted(folder.iterdir()) == sorted(written)
    runner(folder / "03-sched.sprog", call)()
    wanted = np.maximum(call.arrays["a"].astype(np.float64) @ call.arrays["b"] + call.arrays["bias"], 0)
    np.testing.assert_allclose(call.arrays["out"], wanted, rtol=1e-4, atol=1e-4)


def test_an_edited_combination_is_refused_or_run(dumped):
    call, folder = dumped
    tasks = folder / "12-combine.task"
    tasks.write_text(tasks.read_text().replace("= add %acc.1, ", "= sub %acc.1, "))
    with pytest.raises(CompileError, match="wrong-parts"):
        runner(folder / "03-sched.sprog", call)
    llvm = folder / "15-combine.ll"
    alone = folder / "alone" / "03-sched.sprog"
    alone.parent.mkdir()
    alone.write_text((folder / "03-sched.sprog").read_text())
    with pytest.raises(CompileError, match=r"no \.task") as caught:
        runner(alone, call)
    assert caught.value.why == "it names kernel matmul_parts"
    (folder / "03-sched.sprog").unlink()
    with pytest.raises(CompileError, match=r"no \.sprog"):
        runner(llvm, call)


def test_code_for_a_gpu_has_both_kernels():
    chosen = choose("matmul", {})
    call = bound_call(chosen, make_inputs(chosen, "f16", {"M": 16, "N": 64, "K": 512}))
    tiles = (AxisTile("m", 64, 64), AxisTile("n", 64, 64), AxisTile("k", 64, 64))
    only = Partition(tiles, (), ("part", "m", "n"), splits=2, persistent=True)
    program = plan(call.kernel, call.dims, "h200", only=only).best
    texts = {s.file: s.text for s in gpu_stages(call.kernel, call.dims, program)}
    assert "matmul_parts(" in texts["04-cuda.cu"] and "matmul_combine(" in texts["14-combine.cu"]
