"""The driver of public suites: limits hold, nothing stays behind, and outputs are judged as a reader would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from threadloom import cli
from threadloom.bench.suites import (
    driver,
    hecbench,
    hecbench_checks,
    hecbench_data,
    rodinia_checks,
    rodinia_data,
    rodinia_pairs,
    rodinia_speed,
    table,
)
from threadloom.bench.suites.process import Limits, Outcome, run
from threadloom.bench.suites.program import (
    BUILD,
    CRASH,
    INPUT,
    PASS,
    RAN,
    TIME,
    WRONG,
    Program,
    Row,
    judge_by_output,
)
from threadloom.bench.suites.rodinia_speed import NOT_RUNNING, PairResult, Times, geometric_mean


def test_cpu_limit_ends_all_processes_of_a_command(tmp_path: Path) -> None:
    outcome = run(["sh", "-c", "(while :; do :; done) & echo $! > inner; wait"], tmp_path, Limits(cpu_s=0.3))
    assert outcome.stopped == "CPU time"
    inner = int((tmp_path / "inner").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(50):
            os.kill(inner, 0)
            time.sleep(0.05)


def test_memory_limit_ends_a_command(tmp_path: Path) -> None:
    command = ["python3", "-c", "x = bytearray(400 << 20)\nwhile True: pass"]
    assert run(command, tmp_path, Limits(cpu_s=20, memory_bytes=200 << 20)).stopped == "memory"


def test_a_command_that_waits_for_good_is_told_from_one_that_works(tmp_path: Path) -> None:
    outcome = run(["sh", "-c", "sleep 100 & wait"], tmp_path, Limits(cpu_s=20, idle_s=0.3))
    assert outcome.stopped == "idle" and outcome.seconds < 20
    assert judge_by_output(tmp_path, [outcome]) == (TIME, "hangs: waits without using any CPU, after 0 s of CPU time")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("PASS", PASS),
        ("Result = PASS\n", PASS),
        ("0 errors\n", PASS),
        ("Error rate: 0.0\n", PASS),
        ("L1 error : 0.044186\n", RAN),
        ("Number of incorrect matches: 0\n", PASS),
        ("Number of incorrect matches: 10\n", WRONG),
        ("Error after iteration 0 = 0.1\nPASS\n", PASS),
        ("0.04(%) of bytes mismatched (count=26)\nGPU Result matches CPU Result within tolerance...\n", PASS),
        ("9.04(%) of bytes mismatched (count=2600)\nGPU Result differs from CPU Result\n", WRONG),
        ("mismatch: 0", PASS),
        ("FAIL", WRONG),
        ("Verification failed at 3", WRONG),
        ("incorrect result", WRONG),
        ("errors: 12, mismatches: 3", WRONG),
        ("computed result (2) does not match expected result (3).", WRONG),
        ("The result is not correct", WRONG),
        ("Average time 3 us", RAN),
        ("Error (L2norm): 1.6e-09", RAN),
        ("Error: no device", WRONG),
        ("Error bound: 1e-07\nPASS", PASS),
        ("Checking forward pass\n3 us", RAN),
        ("k(int): Assertion `n < 1` failed.\nDevice assert failed as expected\nreturned OK", PASS),
        ("k(int): Assertion `n < 1` failed.\nOK", WRONG),
    ],
)
def test_outputs_are_judged(text: str, result: str, tmp_path: Path) -> None:
    assert judge_by_output(tmp_path, [Outcome(0, 1.0, 1.0, text)])[0] == result


def suite(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "suite" / "src" / "one"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    (tmp_path / "suite" / "include").mkdir()
    (tmp_path / "suite" / "include" / "x.h").write_text("shared")
    return tmp_path / "suite"


@pytest.mark.parametrize(
    ("build", "command", "result"),
    [
        ("cp source program", "cat program ../../include/x.h", PASS),
        ("echo 'x.cu:3: error: no such thing' && false", "true", BUILD),
        ("true", "kill -SEGV $$", CRASH),
        ("true", "echo could not open input.txt && test -e data/input.txt", INPUT),
        ("true", "echo Failed to open the file frames/0. Exit; exit 1", INPUT),
        ("true", "grep x ./testcases/* || true", INPUT),
        ("true", "echo File output.tns does not exist", INPUT),
        ("while :; do :; done", "true", TIME),
    ],
)
def test_a_program_is_built_in_a_copy_and_its_row_says_what_happened(
    tmp_path: Path, build: str, command: str, result: str
) -> None:
    budget = driver.Budget(Limits(cpu_s=0.5), Limits(cpu_s=1))
    checkout = suite(tmp_path, source="PASS\n")
    row = driver.try_program(Program("one", "src/one", (build,), (command,)), checkout, tmp_path / "scratch", budget)
    assert row.result == result and row.by == driver.version(), row
    assert sorted(path.name for path in (checkout / "src" / "one").iterdir()) == ["source"]
    assert str(tmp_path) not in row.cause


@pytest.mark.skipif(shutil.which("stdbuf") is None, reason="needs stdbuf")
def test_what_a_program_says_before_it_crashes_counts(tmp_path: Path) -> None:
    source = '#include <csignal>\n#include <cstdio>\nint main() { puts("Could not open in.txt"); raise(SIGSEGV); }\n'
    checkout = suite(tmp_path, **{"main.cpp": source})
    program = Program("one", "src/one", ("g++ main.cpp -o main",), ("./main; exit $?",))
    row = driver.try_program(program, checkout, tmp_path / "scratch")
    assert (row.result, row.cause) == (INPUT, "Could not open in.txt")


def test_commands_of_a_makefile_that_go_on_in_the_next_line() -> None:
    makefile = (
        "program = main\nrun: $(program)\n\t./$(program) \\\n   a.fasta \\\n   out\n\tdiff out b\n\nclean:\n\trm x\n"
    )
    assert hecbench._run_commands(makefile) == ["./main a.fasta out", "diff out b"]


def test_rows_are_kept_and_shown(tmp_path: Path) -> None:
    rows = [Row("a", PASS, "Result | PASS", 1.5, 0.25, "./a"), Row("b", WRONG, "7 mismatches")]
    table.save(tmp_path / "rows.json", "some", "abc123", rows)
    assert table.load(tmp_path / "rows.json") == {"a": rows[0], "b": rows[1]}
    text = table.markdown("some", "abc123", rows, "about", ("c", "d"))
    assert "| pass | 1 |" in text and "| all | 2 | |" in text and "Result / PASS" in text
    assert "**2 programs have not been run yet:** c, d." in text


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (hecbench_checks.silent, "done in 3 ms", "Error: 3 found"),
        (hecbench_checks.error_at_most(0.1), "The maximum error in distance is 0.05", "RMSE: 0.2"),
        (hecbench_checks.error_at_most(0.1), "RSME = 0.0\naccuracy: 1e-3", "RMSE = nan"),
        (hecbench_checks.error_at_most(0.1), "Deviation of kernel a_b: 3e-05", "Error (L2norm): 1.6e-01"),
        (hecbench_checks.error_at_most(10), "  err = 1.1549", "  err = 11.5"),
        (
            hecbench_checks.no_error_rates,
            "Error rate: 0.000000 0.000000\nError rate: 0.000000 0.000000",
            "Error rate: 0.000000 0.000000\nError rate: 0.000000 0.512571",
        ),
        (
            hecbench_checks.symmetric,
            "Final Origin Energy = 1.77e+06\nMaxAbsDiff   = 3.8e-05",
            "Final Origin Energy = 1.77e+06\nMaxAbsDiff   = 3.8e+01",
        ),
        (
            hecbench_checks.near_the_series,
            "Error statistics for the kernels:\n0.768269 0.768283 0.768263 ",
            "Error statistics for the kernels:\n0.768269 0.868283 0.768263 ",
        ),
        (
            hecbench_checks.same_lines,
            "| Equation: y = 1.100x + -2.000\n| Equation: y = 1.100x + -2.001",
            "| Equation: y = 1.100x + -2.000\n| Equation: y = 1.300x + -2.001",
        ),
        (
            hecbench_checks.counts_agree,
            "Device count: 5\nHost count: 5\nMaximum difference 1",
            "Device count: 5\nHost count: 6\nMaximum difference 1",
        ),
        (hecbench_checks.denoised, "PSNR:36.2", "PSNR:22.1"),
        (hecbench_checks.device_as_host, "device result: 2\nhost result: 2.0000001", "device result: 2"),
        (
            hecbench_checks.sums_of_both,
            "Summation of output prices on GPU: 20.0\nSummation of output prices on CPU: 20.001",
            "Summation of output prices on GPU: 20.0\nSummation of output prices on CPU: 21.0",
        ),
        (
            hecbench_checks.halves,
            "Check correctness on the device\n!!![idx=0] 2592.000000 != 2592.907471, diff=0.907471",
            "Check correctness on the device\n!!![idx=0] 2592.000000 != 2593.907471, diff=1.907471",
        ),
    ],
)
def test_checks_that_print_no_verdict(check: Callable[[str], str], right: str, wrong: str) -> None:
    assert check(right) == "" and check(wrong) != ""


def test_inputs_are_made_in_the_copy_and_not_in_the_checkout(tmp_path: Path) -> None:
    checkout = suite(tmp_path, source="x")
    (checkout / "data").mkdir()
    (checkout / "data" / "kept").write_text("kept")
    folder = driver.copy("src/one", checkout, tmp_path / "scratch")
    place = hecbench_data.writable(folder, "../../data/deep/input.txt")
    place.write_text("made")
    assert not (checkout / "data" / "deep").exists()
    assert (folder / "../../data/kept").read_text() == "kept" and (folder / "../../data/deep/input.txt").exists()


def test_constants_of_the_source_are_made_smaller_in_the_copy_only(tmp_path: Path, monkeypatch) -> None:
    checkout = tmp_path / "suite"
    folder = checkout / "src" / "slow-cuda"
    folder.mkdir(parents=True)
    (folder / "main.cu").write_text("repeat = 1000; repeat = 1000;")
    (folder / "Makefile").write_text("run: main\n\tcat main.cu\n")
    problem = hecbench.Problem(smaller=(("main.cu", "= 1000", "= 2"),))
    monkeypatch.setattr(hecbench, "_problems", lambda: {"slow": problem})
    (program,) = hecbench.programs(checkout)
    unbuilt = replace(program, build=("true",))
    row = driver.try_program(unbuilt, checkout, tmp_path / "scratch", keep=True)
    assert row.command == "cat main.cu (main.cu: = 1000 -> = 2)"
    assert (tmp_path / "scratch" / "tree" / "src/slow-cuda/main.cu").read_text() == "repeat = 2; repeat = 2;"
    assert "1000" in (folder / "main.cu").read_text()


def test_what_a_run_is_and_which_programs_check_themselves(tmp_path: Path, monkeypatch) -> None:
    for name in ("a", "b"):
        folder = tmp_path / "src" / f"{name}-cuda"
        folder.mkdir(parents=True)
        (folder / "Makefile").write_text("run: main\n\t./main 7\n")
    problems = {"a": hecbench.Problem(("1 2", "cd src && ./other 3")), "e": hecbench.Problem(checks=False)}
    monkeypatch.setattr(hecbench, "_problems", lambda: problems)
    assert [p.runs for p in hecbench.programs(tmp_path)] == [("./main 1 2", "cd src && ./other 3"), ("./main 7",)]
    says_failed = [Outcome(0, 1.0, 1.0, "the search failed to improve")]
    assert hecbench._judge("e", tmp_path, says_failed)[0] == RAN
    assert hecbench._judge("a", tmp_path, says_failed)[0] == WRONG
    rates = [Outcome(0, 1.0, 1.0, "Error rate: 0.0 0.5\nError rate: 0.0 0.0")]
    assert hecbench._judge("simpleSpmv", tmp_path, rates)[0] == WRONG
    monkeypatch.setattr(hecbench, "FIRST", 1)
    rows = [Row("a", PASS), Row("b", BUILD), Row("c", RAN), Row("d", PASS), Row("e", TIME)]
    text = hecbench.summary(rows, list("abcde"))
    assert "2 of 3 programs" in text and "66.7 %" in text and "first 1 by name 1 pass and 0 check" in text


def test_problems_are_of_known_form() -> None:
    problems = hecbench._problems()
    assert len(problems) > 400
    for one in problems.values():
        assert all(isinstance(run, str) for run in one.runs) and all(len(edit) == 3 for edit in one.smaller)


def test_a_made_graph_is_symmetric_and_sorted(tmp_path: Path) -> None:
    hecbench_data.ecl_graph(50, 6, weights=True)(tmp_path / "g.egr")
    nodes, edges, *rest = np.fromfile(tmp_path / "g.egr", dtype=np.int32).tolist()
    first, targets, weights = rest[: nodes + 1], rest[nodes + 1 :][:edges], rest[nodes + 1 + edges :]
    assert first[0] == 0 and first[-1] == edges == len(targets) == len(weights)
    ends = list(zip(targets, weights, strict=True))
    pairs = {(a, b): w for a in range(nodes) for b, w in ends[first[a] : first[a + 1]]}
    assert len(pairs) == edges and all(a != b and pairs[b, a] == w for (a, b), w in pairs.items())


def test_made_distances_are_shortest(tmp_path: Path) -> None:
    hecbench_data.roads(tmp_path / "roads")
    hecbench_data.road_distances(tmp_path / "distances")
    nodes, edges, source, *rest = map(int, (tmp_path / "roads").read_text().split())
    first, ends = np.array(rest[: 2 * nodes]).reshape(-1, 2), np.array(rest[2 * nodes :]).reshape(-1, 2)
    distance = np.loadtxt(tmp_path / "distances", skiprows=1, dtype=int)[:, 1]
    starts = np.repeat(np.arange(nodes), first[:, 1])
    reached = distance[starts] + ends[:, 1]
    assert len(ends) == edges and distance[source] == 0 and (distance[ends[:, 0]] <= reached).all()
    best = np.full(nodes, 1 << 30)
    np.minimum.at(best, ends[:, 0], reached)
    best[source] = 0
    assert (best == distance).all()


def test_maximal_matches_are_found_again(tmp_path: Path) -> None:
    folder, data = tmp_path / "cuda" / "mummergpu", tmp_path / "data" / "mummergpu"
    folder.mkdir(parents=True)
    data.mkdir(parents=True)
    reference = "ACGTTGCAACGGTACCATGCATTCGA"
    (data / "NC_003997.fna").write_text(f">it\n{reference[:10]}\n{reference[10:]}\n")
    (data / "NC_003997_q100bp.fna").write_text(f">a one\nTT{reference[2:24]}TT\n>b\n{'A' * 25}\n")
    (folder / "out.txt").write_text("> a\n3\t3\t22\n> b\n")
    assert rodinia_checks.maximal_matches(folder, "") == ""
    (folder / "out.txt").write_text("> a\n3\t3\t21\n> b\n")
    assert rodinia_checks.maximal_matches(folder, "") == "a has other matches"


def test_a_pair_counts_by_its_faster_running_twin() -> None:
    pair = rodinia_pairs.PAIRS[0]
    ours, slow, fast = Times([2.0, 9.0, 2.0], [4.0] * 3), Times([3.0] * 3, [2.0] * 3), Times([1.0] * 3, [8.0] * 3)
    result = PairResult(pair, ours, {"gcc": slow, "clang": fast, "other": Times(cause="does not build")})
    assert result.kernel_ratio == 0.5 and result.whole_ratio == 0.5
    broken = PairResult(pair, Times(cause="signal 11"), {"gcc": slow})
    assert broken.kernel_ratio == NOT_RUNNING
    assert geometric_mean([0.5, 2.0, None]) == pytest.approx(1.0)


def test_pairs_built_before_are_timed_and_added_to_a_record(tmp_path: Path, capsys) -> None:
    for place, seconds in (("cuda/nw", 0.5), ("openmp-gcc/nw", 0.8)):
        program = tmp_path / place / "program"
        program.parent.mkdir(parents=True)
        written = json.dumps({"span_s": seconds, "copies_in_span_s": 0.1})
        program.write_text(f"#!/bin/sh\necho '{written}' > ${{LOOM_REGIONS_FILE:-times.json}}\n")
        program.chmod(0o755)
    causes = {"ours": "", "gcc": "", "clang": "does not build"}
    (tmp_path / "builds.json").write_text(json.dumps({"nw": {"commit": "abc", "causes": causes}}))
    out = tmp_path / "F.json"
    out.write_text(json.dumps({"pairs": [{"name": "lud", "kernel_ratio": 7.0, "whole_ratio": 1.0}]}))
    command = ["bench", "rodinia", "--built", str(tmp_path), "--rounds", "2", "--json", str(out)]
    assert cli.main([*command, "--only", "nw"]) == 0
    found = json.loads(out.read_text())
    lud, nw = found["pairs"]
    assert (lud["name"], nw["name"], nw["commit"]) == ("lud", "nw", "abc")
    assert nw["kernel_ratio"] == pytest.approx(0.7 / 0.4) and found["kernels"] == pytest.approx((7 * 0.7 / 0.4) ** 0.5)
    assert nw["twins"]["clang"]["cause"] == "does not build" and len(nw["ours"]["whole_s"]) == 2
    assert cli.main([*command, "--only", "bfs"]) == 2
    assert "bfs was not built" in capsys.readouterr().err


def test_every_pair_has_generated_inputs_and_both_compilers_named() -> None:
    assert len({pair.name for pair in rodinia_pairs.PAIRS}) == 16
    for pair in rodinia_pairs.PAIRS:
        assert set(pair.inputs) <= set(rodinia_data.MAKERS)
        assert "{C" in pair.twin_build and pair.build.startswith("loom-nvcc")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_parallel_regions_are_timed_from_outside(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(
        "#include <unistd.h>\nint main(void) { usleep(30000);\n"
        "for (int r = 0; r < 2; ++r) {\n#pragma omp parallel\nusleep(20000);\n} usleep(30000); return 0; }"
    )
    observer = Path(rodinia_speed.__file__).with_name("openmp_regions.c")
    for command in (
        ["gcc", "-fopenmp", "x.c", "-o", "x"],
        ["gcc", "-shared", "-fPIC", str(observer), "-o", "observer.so"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    watched = {**os.environ, "LD_PRELOAD": "./observer.so", "LOOM_REGIONS_FILE": "times.json"}
    subprocess.run(["./x"], cwd=tmp_path, check=True, env=watched)
    times = json.loads((tmp_path / "times.json").read_text())
    assert times["regions"] == 2
    assert times["inside_s"] >= 0.04 and times["span_s"] >= times["inside_s"]


def test_the_wavelet_of_dwt2d_divides_as_cxx_does():
    rows = np.array([[3, -2, 0, 1, -5, 4, 7, -6]])
    details = [-2 - int((3 + 0) / 2), 1 - int((0 - 5) / 2), 4 - int((-5 + 7) / 2), -6 - int((7 + 7) / 2)]
    before = [details[0], *details[:-1]]
    means = [int(even) + int((b + d + 2) / 4) for even, b, d in zip(rows[0, 0::2], before, details, strict=True)]
    assert rodinia_checks._lift(rows).tolist() == [[*means, *details]]
