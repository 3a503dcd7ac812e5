"""`loom dump --from`: what an edited tile program, task graph or plan becomes, on a device that need not be here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.cuda_target.fake_driver import gpu  # noqa: F401 (a fixture)
from threadloom.cli import main
from threadloom.cli.kernel_argument import example_names

SMALL = ("softmax", "--shape", "M=64,N=256", "--dtype", "f16")
PRODUCT = ("matmul", "--shape", "M=64,N=64,K=1024", "--dtype", "f16")


def dump(device: str, to: Path, *more: str, kernel: tuple[str, ...] = SMALL) -> int:
    return main(["dump", *kernel, "--device", device, "--to", str(to), *more])


def edit(file: Path, old: str, new: str) -> Path:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


@pytest.mark.parametrize("device", ["cpu", "h200", "a100"])
@pytest.mark.parametrize("stage", ["01-tile.tile", "02-task.task"])
def test_an_edited_function_reaches_the_code(tmp_path, capsys, device, stage):
    assert dump(device, tmp_path / "old") == 0
    edit(tmp_path / "old" / stage, " = exp ", " = sin ")
    assert dump(device, tmp_path / "new", "--from", str(tmp_path / "old" / stage)) == 0
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names[0] == stage and "03-sched.sprog" in names
    code = {"cpu": "04-par.par"}.get(device, "04-cuda.cu")
    before, after = ((tmp_path / folder / code).read_text() for folder in ("old", "new"))
    assert after != before
    if device != "cpu":  # where functions are written out
        assert len(re.findall(r"\bsin", after)) > len(re.findall(r"\bsin", before))


def test_an_edited_plan_reaches_the_code(tmp_path, capsys):
    assert dump("h200", tmp_path / "old", kernel=PRODUCT) == 0
    plan = tmp_path / "old" / "03-sched.sprog"
    text = plan.read_text()
    slots = int(re.search(r"^buffer a of .*?(\d+) slots", text, re.M)[1])
    rings = rf"^((?:buffer [ab] of|signal (?:full|empty)\.[ab] ).*?){slots} slots"
    fewer = re.sub(rings, r"\g<1>2 slots", text, flags=re.MULTILINE)
    assert slots > 2 and fewer != text
    plan.write_text(fewer)
    assert dump("h200", tmp_path / "new", "--from", str(plan), "--json", str(tmp_path / "o.json"), kernel=PRODUCT) == 0
    shared = [
        int(re.search(r"(\d+) bytes of shared memory", (tmp_path / f / "04-cuda.cu").read_text())[1])
        for f in ("old", "new")
    ]
    assert shared[1] < shared[0] * 0.7
    record = json.loads((tmp_path / "o.json").read_text())
    assert record["schema"] == "threadloom.dump-from/1" and record["tiles"].keys() == {"m", "n", "k"}


def test_a_wrong_plan_makes_no_code(tmp_path, capsys):
    assert dump("h200", tmp_path / "old", kernel=PRODUCT) == 0
    plan = edit(tmp_path / "old" / "03-sched.sprog", "wait empty.a for", "wait empty.b for")
    assert dump("h200", tmp_path / "new", "--from", str(plan), kernel=PRODUCT) == 1
    assert "schedule-refused" in capsys.readouterr().err and not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("device", "stage", "status", "said"),
    [
        ("a100", "03-sched.sprog", 1, "is a plan for h200"),
        ("h200", "04-cuda.cu", 1, "comes after planning"),
        ("mi300x", "02-task.task", 1, "no-emitter"),
    ],
)
def test_what_cannot_be_made(tmp_path, capsys, device, stage, status, said):
    assert dump("h200", tmp_path / "old") == 0
    assert dump(device, tmp_path / "new", "--from", str(tmp_path / "old" / stage)) == status
    assert said in capsys.readouterr().err


def test_a_folder_must_be_named(tmp_path, capsys):
    assert main(["dump", *SMALL, "--from", str(tmp_path / "x.task")]) == 2
    assert "--to DIR" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["01-tile.tile", "02-task.task", "03-sched.sprog"])
def test_stages_run_on_the_gpu(tmp_path, capsys, gpu, stage):  # noqa: F811
    """By a driver that records: the GPU's code is launched on copies."""
    pytest.importorskip("cuda.bindings.nvrtc")
    assert dump("h200", tmp_path / "old") == 0
    main(["run", *SMALL, "--repeat", "1", "--device", "gpu", "--from", str(tmp_path / "old" / stage)])
    assert gpu.launches and "softmax on gpu" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("device", ["h200", "a100"])
@pytest.mark.parametrize("name", example_names())
def test_every_examples_plan_reads_back(tmp_path, capsys, name, device):
    """The code of the text is the code of the plan."""
    if main(["dump", name, "--device", device, "--to", str(tmp_path / "old")]):
        assert "fits-nowhere" in capsys.readouterr().err
        return
    assert main(["dump", name, "--device", device, "--to", str(tmp_path / "new"), "--from",
                 str(tmp_path / "old" / "03-sched.sprog")]) == 0  # fmt: skip
    for file in (tmp_path / "new").glob("*.cu"):
        assert file.read_text() == (tmp_path / "old" / file.name).read_text()
