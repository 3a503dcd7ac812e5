"""`loom check` on a program with a race, a divergent barrier and absent lanes, and on the repaired one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quick import some

from threadloom.cli import check

SOURCE = Path(__file__).parent / "racing.cu"


def _line(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def test_a_race_and_a_divergent_barrier_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert check.main(["--json", str(report), str(SOURCE)]) == 1
    found = json.loads(report.read_text())["findings"]
    lines = {(one["kind"], tuple(sorted(place["line"] for place in one["places"]))) for one in found}
    barrier = SOURCE.read_text().splitlines().index("    __syncthreads();", 20) + 1  # the one in `halves`
    race = (_line("tile[threadIdx.x] ="), _line("sum += tile"))
    assert lines == {("race", race), ("divergent-barrier", (barrier,)), ("absent-lanes", (_line("__shfl_down_sync"),))}
    absent = next(one["message"] for one in found if one["kind"] == "absent-lanes")
    assert "__shfl_down_sync names lanes 16 to 31 of warp 0, which do not reach it" in absent
    shown = capsys.readouterr().err
    assert "sum += tile[(j + threadIdx.x) % 64];" in shown and "3 found" in shown


def test_the_repaired_program_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(SOURCE), "-DREPAIRED"]) == 0
    assert "nothing found" in capsys.readouterr().err


@pytest.mark.slow
def test_the_last_block_reads_plainly_what_a_fence_published(capsys: pytest.CaptureFixture[str]) -> None:
    program = str(SOURCE.parent / "last_block.cu")
    assert check.main([program, "-DPARTIAL=float", "-DFENCE=__threadfence()"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("fence", ["__threadfence_block()", pytest.param("", marks=pytest.mark.slow)])
def test_the_last_block_needs_a_fence_of_the_device(fence: str, tmp_path: Path) -> None:
    program, report = SOURCE.parent / "last_block.cu", tmp_path / "report.json"
    assert check.main(["--json", str(report), str(program), "-DPARTIAL=float", f"-DFENCE={fence}"]) == 1
    found = json.loads(report.read_text())["findings"]
    text = program.read_text().splitlines()
    lines = [next(i for i, line in enumerate(text, 1) if part in line) for part in ("] = tile[0]", "+= partial[")]
    assert [(one["kind"], sorted(place["line"] for place in one["places"])) for one in found] == [("race", lines)]


QUICK = ("vector_add",)
CASES = sorted(path.stem for path in SOURCE.parent.glob("*.cu") if path.stem not in ("racing", "freed"))


@pytest.mark.parametrize(
    "case", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_the_other_programs_are_clean(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    """But those whose first line says `races;`, as they do, `overruns;`, `frees;` what is another process's, or
    `waits;` for another block or kernel."""
    first = (SOURCE.parent / f"{case}.cu").read_text().splitlines()[0]
    flags = first.partition("flags:")[2].split()
    status = check.main([str(SOURCE.parent / f"{case}.cu"), *flags])
    shown = capsys.readouterr().err
    said = [word for word in ("races", "waits", "overruns", "frees") if f" {word};" in first]
    assert status == bool(said), shown
    assert ("endless-wait" in shown) == ("waits" in said) and ("out-of-bounds" in shown) == ("overruns" in said)
    assert "uninitialised" not in shown


COPIES = """
__global__ void good(int *out, const int *in, int n) { memcpy(out + threadIdx.x * n, in + threadIdx.x * n, n * 4); }
__global__ void twice(int *out, const int *in, int n) { memmove(out + threadIdx.x, in, n * 4); }
__global__ void far(int *out, const int *in, int n) { memcpy(out + threadIdx.x * n, in, n * 4); }
__global__ void own(int *out, const int *in, int n) {
  int row[16];
  memset(row, threadIdx.x, n * 4);
  out[threadIdx.x] = row[threadIdx.x];
}
__global__ void unset(int *out, const int *in, int n) {
  __shared__ int tile[32];
  memcpy(out + threadIdx.x * n, tile + threadIdx.x * n, n * 4);
}
int main(int argc, char **argv) {
  int *a, *b, n = atoi(argv[2]);
  cudaMalloc(&a, 128), cudaMalloc(&b, 128), cudaMemset(b, 1, 128);
  void (*kernels[])(int *, const int *, int) = {good, twice, far, own, unset};
  kernels[atoi(argv[1])]<<<1, 8>>>(a, b, n);
  return argv[1][0] == '0' && n == 4 ? memcmp(a, b, 128) : cudaDeviceSynchronize();
}
"""


def test_copies_are_watched_whatever_their_size(tmp_path: Path) -> None:
    (tmp_path / "copies.cu").write_text(COPIES)
    built = check.build_checked([str(tmp_path / "copies.cu")], tmp_path / "copies")
    clean, race, bounds, unset = [], ["race"], ["out-of-bounds"], ["uninitialised"]
    wanted = {(0, 4): clean, (0, 0): clean, (1, 0): clean, (1, 2): race, (2, 4): clean, (2, 5): bounds, (3, 16): clean,
              (3, 17): bounds, (3, 99999): bounds, (4, 1): unset}  # fmt: skip
    for (kernel, n), kinds in wanted.items():
        built.with_suffix(".findings").unlink(missing_ok=True)
        status, findings = check.run_checked(built, [str(kernel), str(n)])
        assert sorted({one["kind"] for one in findings}) == kinds, (kernel, n)
        assert status == 0


USE, FREE = ["use-after-free"], ["invalid-free"]
FREED = {0: [], 1: USE, 2: USE, 3: FREE, 4: USE, 5: FREE, 6: USE, 7: USE}  # by the program's argument


def test_memory_that_has_been_freed_is_watched(tmp_path: Path) -> None:
    source = SOURCE.parent / "freed.cu"
    built = check.build_checked([str(source)], tmp_path / "freed")
    texts = source.read_text().splitlines()
    for what, kinds in FREED.items():
        built.with_suffix(".findings").unlink(missing_ok=True)
        _, findings = check.run_checked(built, [str(what)])
        assert [one["kind"] for one in findings] == kinds, what
        shown = [texts[place["line"] - 1] for one in findings for place in one["places"]]
        wanted = {1: "o[threadIdx.x] = 1", 2: "kept[threadIdx.x] = 2", 6: "o[threadIdx.x] = 1"}.get(what)
        assert len(shown) == (wanted is not None) and all(wanted in text for text in shown)
        assert ("in kernel" in "".join(map(check.render, findings))) == bool(shown)


LOCKED = """
__device__ int lock = 1;
__global__ void take() {
  while (atomicCAS(&lock, 0, 1) != 0) {
  }
}
__global__ void first(volatile int* flag) {
  while (blockIdx.x == 0 && !*flag) {
  }
  *flag = 1;
}
int main(int argc, char**) {
  int* flag;
  cudaMalloc(&flag, sizeof *flag);
  cudaMemset(flag, 0, sizeof *flag);
  if (argc > 1) take<<<1, 1>>>();
  else first<<<2, 1>>>(flag);
  return cudaDeviceSynchronize();
}
"""


WAITS = ((), "while (blockIdx"), (("--", "lock"), "while (atomicCAS")


@pytest.mark.parametrize("arguments, line", some(WAITS, WAITS[:1]))
def test_a_thread_that_waits_for_what_comes_later_ends_the_program(arguments, line, tmp_path: Path, capsys) -> None:
    program = tmp_path / "locked.cu"
    program.write_text(LOCKED)
    assert check.main([str(program), *arguments]) == 1
    shown = capsys.readouterr().err
    number = next(i for i, text in enumerate(LOCKED.splitlines(), 1) if line in text)
    assert f"endless-wait: {program}:{number}: thread 0 of block 0 waits" in shown, shown
