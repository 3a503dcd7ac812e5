"""`loom dump` writes every stage, and every stage can be run from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from quick import some

from threadloom.cli import main
from threadloom.cli.execution import execute
from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import Chosen, choose, example_names
from threadloom.dump import cpu_stages
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.run_stage import NOT_A_STAGE
from threadloom.sched.search import plan

STAGES = ["01-tile.tile", "02-task.task", "03-sched.sprog", "04-par.par", "05-llvm.ll", "06-asm.s"]
CASES = {
    "softmax": {"M": 7, "N": 229},
    "matmul": {"M": 33, "K": 24, "N": 65},
    "flash_attention": {"B": 1, "H": 2, "HKV": 1, "SQ": 17, "SK": 40, "D": 16},
}


def chosen(name: str) -> Chosen:
    return choose(name, CASES[name])


@pytest.fixture(scope="module", params=some(CASES, ["softmax", "flash_attention"]))
def dumped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Chosen, Path]:
    kernel, folder = chosen(request.param), tmp_path_factory.mktemp(request.param)
    call = bound_call(kernel, make_inputs(kernel))
    for stage in cpu_stages(call, plan(call.kernel, call.dims, device("cpu")).best):
        (folder / stage.file).write_text(stage.text)
    return kernel, folder


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_runs(dumped, stage):
    kernel, folder = dumped
    done = execute(kernel, repeat=1, stage=folder / stage)
    assert all(c.holds for c in done.outputs)


@pytest.mark.parametrize("stage", ["01-tile.tile", "02-task.task"])
def test_a_file_as_windows_saves_it_runs(dumped, stage, tmp_path):
    kernel, folder = dumped
    edited = tmp_path / stage
    edited.write_bytes(b"\xef\xbb\xbf" + (folder / stage).read_bytes().replace(b"\n", b"\r\n"))
    assert all(c.holds for c in execute(kernel, repeat=1, stage=edited).outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", example_names())
def test_every_example_runs_from_every_stage(name, tmp_path):
    kernel = choose(name, choose(name, {}).module.SHAPES[0])
    call = bound_call(kernel, make_inputs(kernel))
    for stage in cpu_stages(call, plan(call.kernel, call.dims, device("cpu")).best):
        (tmp_path / stage.file).write_text(stage.text)
    for stage in STAGES:
        assert all(c.holds for c in execute(kernel, repeat=1, stage=tmp_path / stage).outputs), stage


@pytest.mark.parametrize(
    ("stage", "old", "new"),
    [
        ("01-tile.tile", " = exp ", " = exp2 "),
        ("02-task.task", "%p: [m, n] f32 = exp ", "%p: [m, n] f32 = exp2 "),
        ("04-par.par", " = fdiv ", " = fmul "),
        ("05-llvm.ll", " = fdiv ", " = fmul "),
    ],
)
def test_an_edit_has_its_effect(tmp_path, stage, old, new):
    kernel = chosen("softmax")
    call = bound_call(kernel, make_inputs(kernel))
    for made in cpu_stages(call, plan(call.kernel, call.dims, device("cpu")).best):
        (tmp_path / made.file).write_text(made.text)
    text = (tmp_path / stage).read_text()
    assert old in text
    (tmp_path / stage).write_text(text.replace(old, new))
    assert not all(c.holds for c in execute(kernel, repeat=1, stage=tmp_path / stage).outputs)


def test_an_edited_plan_keeps_its_meaning_with_other_tiles(tmp_path):
    kernel = chosen("matmul")
    call = bound_call(kernel, make_inputs(kernel))
    for made in cpu_stages(call, plan(call.kernel, call.dims, device("cpu")).best):
        (tmp_path / made.file).write_text(made.text)
    file = tmp_path / "03-sched.sprog"
    lines = file.read_text().splitlines()
    tile = next(i for i, line in enumerate(lines) if line.startswith("tile n "))
    lines[tile] = "tile n 8"
    file.write_text("\n".join(lines) + "\n")
    assert all(c.holds for c in execute(kernel, repeat=1, stage=file).outputs)


def test_command(loom, tmp_path):
    done = loom("dump", "softmax", "--shape", "M=7,N=229", "--to", "here", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.dump/1"
    assert [Path(f).name for f in record["files"]] == [*STAGES, "report.txt", "report.json"]
    report = json.loads((tmp_path / "here" / "report.json").read_text())
    assert report["schema"] == "threadloom.report/1" and report["tiles"] == record["tiles"]
    again = loom("run", "softmax", "--shape", "M=7,N=229", "--from", "here/05-llvm.ll", "--repeat", "1")
    assert again.returncode == 0, again.stderr


def test_a_device_without_code_generator_is_refused(capsys, tmp_path):
    assert main(["dump", "matmul", "--device", "b200", "--to", str(tmp_path / "here")]) == 1
    assert "error[no-emitter]: b200 is sm_100a" in capsys.readouterr().err
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("stage", STAGES[3:])
def test_what_runs_on_the_cpu_is_not_called_a_run_on_the_gpu(dumped, stage):
    kernel, folder = dumped
    with pytest.raises(CompileError, match="it is code for the CPU") as caught:
        execute(kernel, repeat=1, stage=folder / stage, device="gpu")
    assert caught.value.slug == NOT_A_STAGE


def test_a_stage_of_other_types_says_which(dumped):
    kernel, folder = dumped
    with pytest.raises(CompileError, match="is f32 in it, and f16 here") as caught:
        execute(kernel, "f16", repeat=1, stage=folder / "01-tile.tile")
    assert caught.value.slug == "bad-stage"


def test_not_a_stage(tmp_path):
    (tmp_path / "report.txt").write_text("x")
    with pytest.raises(CompileError) as caught:
        execute(chosen("softmax"), stage=tmp_path / "report.txt")
    assert caught.value.slug == NOT_A_STAGE


def test_a_plan_far_from_its_graph_says_what_is_missing(tmp_path):
    """Of softmax the kernel's own graph does; of attention the plan's graph has sTasks of its own."""
    for name in ("softmax", "flash_attention"):
        kernel = chosen(name)
        call = bound_call(kernel, make_inputs(kernel))
        text = {s.file: s.text for s in cpu_stages(call, plan(call.kernel, call.dims, device("cpu")).best)}
        (tmp_path / f"{name}.sprog").write_text(text["03-sched.sprog"])
    assert all(c.holds for c in execute(chosen("softmax"), repeat=1, stage=tmp_path / "softmax.sprog").outputs)
    with pytest.raises(CompileError, match=r"beside flash_attention.sprog there is no .task") as caught:
        execute(kernel, repeat=1, stage=tmp_path / "flash_attention.sprog")
    assert caught.value.slug == NOT_A_STAGE and "sTask vector_p" in caught.value.why


@pytest.mark.parametrize(
    ("stage", "old", "new", "slug"),
    [
        ("01-tile.tile", " = exp ", " = expo ", "invalid-tile-ir"),
        ("01-tile.tile", "reduce max", "reduce most", "invalid-tile-ir"),
        ("02-task.task", "edge ", "egde ", "bad-task-text"),
        ("02-task.task", "edge load_x -> ", "# edge load_x -> ", "invalid-task-graph"),
        ("03-sched.sprog", "issue vector_t", "isue vector_t", "bad-schedule-text"),
        ("03-sched.sprog", "issue load_x on lsu by", "issue store_out on lsu by", "schedule-refused"),
        ("04-par.par", " = fdiv ", " = fdivide ", "par-syntax"),
        ("04-par.par", " = fdiv ", " = udiv ", "bad-stage"),
        ("05-llvm.ll", " = fdiv ", " = fdivide ", "bad-stage"),
        ("05-llvm.ll", " = fdiv ", " = udiv ", "bad-stage"),
    ],
)
def test_a_broken_edit_is_the_editors_error(tmp_path, stage, old, new, slug):
    kernel = chosen("softmax")
    call = bound_call(kernel, make_inputs(kernel))
    for made in cpu_stages(call, plan(call.kernel, call.dims, device("cpu")).best):
        (tmp_path / made.file).write_text(made.text.replace(old, new) if made.file == stage else made.text)
    with pytest.raises(CompileError) as caught:
        execute(kernel, repeat=1, stage=tmp_path / stage)
    assert caught.value.slug == slug


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_of_another_kernel_is_refused(dumped, stage):
    kernel, folder = dumped
    other = chosen("matmul" if kernel.name != "matmul" else "softmax")
    with pytest.raises(CompileError, match=r"other parameters|made for") as caught:
        execute(other, repeat=1, stage=folder / stage)
    assert caught.value.slug == "bad-stage" and kernel.name in str(caught.value)


@pytest.mark.parametrize("stage", STAGES[2:])
def test_code_for_other_extents_is_refused_and_what_is_above_is_not(dumped, stage):
    kernel, folder = dumped
    first = next(iter(kernel.shape))
    grown = replace(kernel, shape={**kernel.shape, first: kernel.shape[first] + 1})
    if stage < "04":
        assert all(c.holds for c in execute(grown, repeat=1, stage=folder / stage).outputs)
        return
    with pytest.raises(CompileError, match="made for") as caught:
        execute(grown, repeat=1, stage=folder / stage)
    assert caught.value.slug == "bad-stage"


@pytest.mark.parametrize(
    ("name", "content", "slug"),
    [
        ("a.par", b"", "bad-stage"),
        ("a.ll", b"", "bad-stage"),
        ("a.s", b"", "bad-stage"),
        ("a.tile", b"", "invalid-tile-ir"),
        ("a.par", b"\xff\xfe", "not-a-stage"),
        ("a.task", b"\xff\xfe", "not-a-stage"),
    ],
)
def test_files_that_hold_no_kernel(tmp_path, name, content, slug):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CompileError) as caught:
        execute(chosen("softmax"), repeat=1, stage=tmp_path / name)
    assert caught.value.slug == slug


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("loom_kernel:", "loom_kernel:\n\tno_such_instruction", r"LLVM refuses a\.s: a\.s:\d+:\d+: invalid"),
        ("loom_kernel:", "loom_kernel:\n\tjmp\tnowhere_at_all", "cannot be linked"),
    ],
)
def test_wrong_assembly_is_one_error(dumped, tmp_path, right, wrong, said):
    """LLVM would end the process that it finds the first one in."""
    kernel, folder = dumped
    text = (folder / STAGES[-1]).read_text(encoding="utf-8")
    (tmp_path / "a.s").write_text(text.replace(right, wrong), encoding="utf-8")
    with pytest.raises(CompileError, match=said) as caught:
        execute(kernel, repeat=1, stage=tmp_path / "a.s")
    assert caught.value.slug == "bad-stage"


def test_missing_stage_is_one_message(loom):
    done = loom("run", "softmax", "--shape", "M=2,N=3", "--from", "nothing.par")
    assert (done.returncode, done.stderr.strip()) == (1, "loom: nothing.par: No such file or directory")


def test_variable_dumps_every_compiled_kernel(loom, tmp_path):
    done = loom("run", "softmax", "--shape", "M=3,N=5", "--repeat", "1", env={"LOOM_DUMP": "dumps"})
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "dumps" / "softmax").iterdir()) == STAGES
    loom("run", "softmax", "--shape", "M=3,N=5", "--repeat", "1", env={"LOOM_DUMP": "dumps"})
    assert sorted(p.name for p in (tmp_path / "dumps").iterdir()) == ["softmax", "softmax-2"]
