"""What an ablation counts, and its plots; builds and times are left to the command itself."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from threadloom.bench import plot
from threadloom.bench.suites import ablation, ablation_builds, ablation_times, pocl, results, rodinia_data, scaling
from threadloom.bench.suites.ablation import ALL, NONE, Ablation, Variant, switches
from threadloom.bench.suites.process import Limits
from threadloom.bench.suites.rodinia_pairs import PAIRS, Pair
from threadloom.cli import UsageError, bench_ablation
from threadloom.cuda.lower.pipeline import OPTIONAL


def _measured() -> Ablation:
    """Passes a and b: a doubles the speed alone and on top, b changes nothing alone and does not build on top."""
    variants = {
        ALL: Variant(ALL, "ab", [2.0, 3.0, 9.0]),
        NONE: Variant(NONE, "none", [4.0]),
        "without a": Variant("without a", "b", [4.0]),
        "only a": Variant("only a", "a", [2.0]),
        "without b": Variant("without b", "a", [], "does not build: reason"),
        "only b": Variant("only b", "none", [4.0]),
    }
    return Ablation(PAIRS[0], variants)


def test_ratios_are_of_the_fastest_rounds_and_one_where_nothing_changes() -> None:
    found = _measured()
    assert (found.worth_last("a"), found.worth_alone("a")) == (2.0, 2.0)
    assert (found.worth_last("b"), found.worth_alone("b")) == (None, 1.0)
    assert found.ratio(NONE, ALL) == 2.0


def test_every_switch_is_off_once_and_on_alone_once() -> None:
    found = switches(("a", "b", "c"))
    assert found["without b"] == ("b",)
    assert found["only b"] == ("a", "c")
    assert (found[ALL], found[NONE]) == ((), ("a", "b", "c"))
    assert len(found) == 8


def test_means_count_only_programs_that_a_pass_changes() -> None:
    name, other = OPTIONAL[:2]
    rows = {
        "p": {"alone": {name: 4.0, other: 1.0}, "last": {name: 1.0, other: None}},
        "q": {"alone": {name: 1.0, other: 1.0}, "last": {name: 2.0, other: 1.0}},
        "r": {"alone": {name: 1.0, other: 1.0}, "last": {name: 0.5, other: 1.0}},
    }
    found = bench_ablation.worth(rows)
    assert found[f"{name} alone"] == {"programs": 1, "gain": pytest.approx(4.0)}
    assert found[f"{name} last"] == {"programs": 2, "gain": pytest.approx(1.0)}
    assert found[f"{other} last"] == {"programs": 0, "gain": None}


def test_plots_are_well_formed(tmp_path: Path) -> None:
    for text in (
        plot.bars("gain & loss", [("a<b", 2.0), ("slower", 0.5), ("same", 1.0)], "two cores"),
        plot.lines("scaling", {"x": [(1, 1.0), (2, 1.9)], "y": [(1, 1.0), (2, 1.2)]}),
    ):
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg") and len(list(root)) > 5
    root = ElementTree.fromstring(plot.bars("t", [("a", 2.0), ("b", 0.5)]))
    bars = [element for element in root.iter() if element.get("height") == "14"]
    assert bars[0].get("width") == bars[1].get("width") != "0.0"  # two times as fast and as slow are as far from 1


def test_what_the_command_refuses() -> None:
    args = argparse.Namespace(
        parts="passes,speed", path=None, built=None, only="", json=None, scratch=None, rounds=1, svg=None
    )
    with pytest.raises(UsageError, match="speed"):
        bench_ablation.run(args)
    args.parts = "passes"
    with pytest.raises(UsageError, match="--path"):
        bench_ablation.run(args)
    args.path, args.only = Path("."), "nosuch"
    with pytest.raises(UsageError, match="nosuch"):
        bench_ablation.run(args)


def test_torch_is_loaded_after_the_builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its OpenMP runtime, once in the process, is the one that programs are built for, and the headers' folder is
    looked for beside it: kmeans did not build."""
    order: list[str] = []
    monkeypatch.setattr(ablation_builds, "build_all", lambda *_: order.append("build") or ([_measured()], []))
    monkeypatch.setattr(bench_ablation, "machine", lambda: order.append("torch") or {})
    args = argparse.Namespace(
        parts="passes", path=Path("."), built=None, only="nw", json=None, scratch=tmp_path, rounds=0, svg=None,
        seconds=60.0, jobs=1, workers=1,
    )
    assert bench_ablation.run(args) == 0
    assert order == ["build", "torch"]


def test_opencl_twins_have_a_cuda_program_and_a_cause_or_a_ratio() -> None:
    assert {twin.pair for twin in pocl.TWINS} <= {pair.name for pair in PAIRS}
    assert pocl.Comparison("x", [2.0, 1.0], [3.0, 4.0]).ratio == 3.0
    assert pocl.Comparison("x", [1.0], [], "does not build").ratio is None


def test_there_is_a_core() -> None:
    assert ablation.physical_cores() >= 1


@pytest.mark.clang
def test_a_pass_that_changes_nothing_makes_the_same_program(tmp_path: Path) -> None:
    """vector addition: nothing to hoist, no barrier; its launch is known but it has no loop either."""
    source = tmp_path / "v.cu"
    source.write_text("__global__ void v(float* x) { x[blockIdx.x * 64 + threadIdx.x] += 1; }\n"
                      "int main() { float* x; cudaMalloc(&x, 4096); v<<<16, 64>>>(x); }\n")  # fmt: skip
    pair = ablation.Pair("v", "v", "loom-nvcc v.cu -o program", "./program", "v", "", "")
    with chdir(tmp_path):
        sources = ablation.read_sources(pair, tmp_path)
        wanted = (ALL, "without eliminate-barriers", "without batch-launches")
        left_out = {name: switches(OPTIONAL)[name] for name in wanted}
        digests = {name: ablation.fingerprint(ablation.lowered(sources, out), out) for name, out in left_out.items()}
        assert "eliminate-barriers" in ablation.idle_passes(sources)
        plain = ablation.lowered(sources, OPTIONAL)
        assert ablation.build_variant(sources, plain, OPTIONAL, tmp_path / "none") == ""
        assert subprocess.run([tmp_path / "none"], check=False).returncode == 0
    changed = {name for name, digest in digests.items() if digest != digests[ALL]}
    assert "without eliminate-barriers" not in changed
    assert "without batch-launches" in changed


@pytest.mark.clang
def test_builds_go_on_where_time_ran_out(tmp_path: Path) -> None:
    source = tmp_path / "checkout" / "cuda" / "v" / "v.cu"
    source.parent.mkdir(parents=True)
    source.write_text("__global__ void v(float* x) { x[blockIdx.x * 64 + threadIdx.x] += 1; }\n"
                      "int main() { float* x; cudaMalloc(&x, 4096); v<<<16, 64>>>(x); }\n")  # fmt: skip
    pair, passes = Pair("v", "v", "loom-nvcc v.cu -o program", "./program", "v", "", ""), ("batch-launches", "jam-rows")

    def build(seconds: float) -> tuple[list[Ablation], list[str]]:
        until = time.monotonic() + seconds
        return ablation_builds.build_all([pair], tmp_path / "checkout", tmp_path / "s", passes, 2, until)

    (found,), left = build(-1)
    assert found.variants == {} and len(left) == len(switches(passes))
    (found,), left = build(600)
    assert left == [] and set(found.variants) == set(switches(passes))
    assert found.variants["without jam-rows"].digest == found.variants[ALL].digest
    programs = {place: place.stat().st_mtime_ns for place in (tmp_path / "s" / "cuda" / "v").glob("program.*")}
    assert len(programs) == 2
    (again,), left = build(-1)
    assert again.variants == found.variants and left == []
    assert {place: place.stat().st_mtime_ns for place in programs} == programs
    lost = next(iter(programs))
    lost.unlink()  # as where a call ended while it was made
    assert build(600)[1] == [] and lost.exists()
    assert ablation_times.time_all([again], tmp_path / "s", 2, 1, time.monotonic() + 60, lambda: None) == []
    assert [len(one.kernel_s) for one in ablation.distinct(again)] == [2, 2]


_TIMES_ONE = """
from threadloom.bench.suites.process import Limits, run
run(["sh", "-c", "echo $$ > inner; exec sleep 100"], Path.cwd(), Limits(cpu_s=20))
"""
_BUILDS_ONE = """
from threadloom.bench.suites import ablation, ablation_builds, rodinia_pairs
def read(folder, pair):
    Path("inner").write_text(str(os.getpid()))
    time.sleep(100)
ablation.copied = lambda *_: Path.cwd()
ablation_builds._read = read
ablation_builds.build_all(rodinia_pairs.PAIRS[:1], Path.cwd(), Path.cwd(), (), 2, time.monotonic() + 90)
"""


@pytest.mark.parametrize("script", [_TIMES_ONE, _BUILDS_ONE], ids=["times", "builds"])
def test_a_killed_ablation_leaves_nothing_behind(script: str, tmp_path: Path) -> None:
    head = "import os, time\nfrom pathlib import Path\n"
    killed = subprocess.Popen([sys.executable, "-c", head + script], cwd=tmp_path)
    inner = tmp_path / "inner"
    for _ in range(600):
        if inner.exists() and inner.read_text().strip():
            break
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(inner.read_text()), 0)
            time.sleep(0.05)


def test_times_of_an_earlier_call_count() -> None:
    old = {"commit": "c", "program": {ALL: "ab", NONE: "other"}, "kernel_s": {ALL: [1.0], NONE: [2.0]}}
    found = Ablation(PAIRS[0], {ALL: Variant(ALL, "ab"), NONE: Variant(NONE, "none")}, "c")
    bench_ablation.take_times(found, old)
    assert [one.kernel_s for one in ablation.distinct(found)] == [[1.0], []]
    bench_ablation.take_times(found, {**old, "commit": "another"})
    assert [one.kernel_s for one in ablation.distinct(found)] == [[1.0], []]


# ---------------------------------------------------------------- scaling of programs that were built before

_PROGRAM = """#!/bin/sh
span=$((30 / OMP_NUM_THREADS))
echo "{\\"span_s\\": $span, \\"copies_in_span_s\\": 10}" > $%s
echo "$OMP_PLACES $OMP_PROC_BIND $*" >> said
"""


def _built(folder: Path, pair: Pair) -> None:
    for place, variable in (("cuda/" + pair.cuda, "LOOM_PROFILE"), ("openmp-gcc/" + pair.openmp, "LOOM_REGIONS_FILE")):
        (folder / place).mkdir(parents=True)
        (folder / place / "program").write_text(_PROGRAM % variable)
        (folder / place / "program").chmod(0o755)
    (folder / "builds.json").write_text(json.dumps({pair.name: {"commit": "abc", "causes": {}}}))


def test_scaling_of_built_programs(tmp_path: Path) -> None:
    pair = next(pair for pair in PAIRS if pair.name == "lud")
    _built(tmp_path, pair)
    place = tmp_path / "record.json"
    args = argparse.Namespace(parts="scaling", built=tmp_path, pack=None, only="", counts="1,2", seconds=2.0,
                              json=str(place), svg=str(tmp_path / "plot"))  # fmt: skip
    assert bench_ablation.run(args) == 0
    record = json.loads(place.read_text())
    found = record["scaling"]["lud"]
    assert found["commit"] == "abc"
    assert set(found["kernel_s"]["1"]) == {20.0} and set(found["kernel_s"]["2"]) == {5.0}
    assert set(found["twins"]["gcc"]["2"]) == {5.0} and found["cause"] == {"clang": "not built"}
    assert "physical_cores" in record["machine"]
    assert (tmp_path / "plot-scaling.svg").exists()
    said = (tmp_path / "openmp-gcc" / pair.openmp / "said").read_text().splitlines()
    assert said[0].startswith("{") and said[0].endswith("} close -n 2 -s 2048")  # the most workers first


def test_pairs_that_are_measured_larger_exist() -> None:
    names = {pair.name for pair in PAIRS}
    assert names >= set(scaling._LARGER)
    for pair in PAIRS:
        _, twin, inputs = scaling.problem(pair)
        assert twin.format(threads=3) != "" and all(name in rodinia_data.MAKERS for name in inputs)


# ---------------------------------------------------------------- results of two builds


def _copies(array: np.ndarray) -> list:
    words = np.frombuffer(array.tobytes(), np.uint64)
    return [[array.nbytes, "".join(f"{word:016x}" for word in words)]]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_results_may_differ_by_rounding(kind: type) -> None:
    values = np.linspace(-3, 5, 16).astype(kind)
    assert results.differ(_copies(values), _copies(values)) == ""
    assert results.differ(_copies(values * kind(1.0002)), _copies(values)) == ""
    other = values.copy()
    other[3] *= 1.01
    assert results.differ(_copies(other), _copies(values)) != ""
    other[3] = np.nan
    assert results.differ(_copies(other), _copies(values)) != ""


def test_whole_numbers_must_be_equal() -> None:
    values = np.arange(1000, 1016, dtype=np.int32)
    assert results.differ(_copies(values), _copies(values)) == ""
    assert results.differ(_copies(values + np.int32(1)), _copies(values)) != ""
    assert results.differ([*_copies(values), [8, "0" * 16]], _copies(values)) != ""


def test_a_build_with_other_results_is_not_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right, wrong = _copies(np.ones(4, np.float32)), _copies(np.zeros(4, np.float32))

    def run(pair: Pair, folder: Path, program: str, variables: dict, limits: Limits) -> dict:
        return {"span_s": 2.0, "copies_in_span_s": 0.5, "results": wrong if program.endswith(".b") else right}

    monkeypatch.setattr(ablation, "profiled", run)
    found = _measured()
    for variant in found.variants.values():
        variant.kernel_s.clear()
    assert ablation_times.time_all([found], tmp_path, 1, 1, time.monotonic() + 60, lambda: None) == []
    ablation.share_times(found)
    assert "other results" in found.variants["without a"].cause  # digest b
    assert found.worth_last("a") is None
    assert found.variants[NONE].cause == "" and found.variants[NONE].kernel_s[-1] == 1.5


def test_a_plot_of_what_time_was_left_for(tmp_path: Path) -> None:
    times = {"nw": {"kernel_s": {"1": [2.0], "16": [0.5]}}, "lud": {"kernel_s": {"16": [0.5]}}}
    machine = {"name": "some", "physical_cores": 16}
    bench_ablation.draw({"machine": machine, "worth": {}, "mcuda": {}, "scaling": times}, str(tmp_path / "x"))
    text = (tmp_path / "x-scaling.svg").read_text()
    assert "nw" in text
    assert "lud" not in text  # there is nothing to compare it with
