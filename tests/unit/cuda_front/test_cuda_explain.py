"""`loom explain`: the paper's backprop and normalize kernels, by line."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from threadloom import cli
from threadloom.cli.explain import text as explain_text
from threadloom.cuda.explain import Explained, explain

SOURCE = """\
#define H 16
__global__ void layer(const float *in, const float *weights, float *sums, int hid) {
  __shared__ float node[H];
  __shared__ float weight[H][H];
  int by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  int index = (hid + 1) * H * by + (hid + 1) * ty + tx + 1 + (hid + 1);
  if (tx == 0) node[ty] = in[H * by + ty + 1];
  __syncthreads();  // removed
  weight[ty][tx] = weights[index];  // dead
  __syncthreads();  // stays
  weight[ty][tx] = weight[ty][tx] * node[ty];  // forwarded
  __syncthreads();  // stays
  for (int i = 1; i <= 4; i++) {
    int step = 1 << i;
    if (ty % step == 0) weight[ty][tx] += weight[ty + step / 2][tx];
    __syncthreads();  // stays
  }
  if (tx == 0) sums[by * hid + ty] = weight[tx][ty];
}
__global__ void normalize(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
  for (int k = 0; k < n; k++) s += x[k];  // hoisted
  if (i < n) y[i] = x[i] / s;
}
__global__ void escapes(const float *x, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int turns = 0;
  for (float v = x[i]; v < 4 && turns < 100; turns++)
    v = v * v + x[i];  // vectorised
  out[i] = turns;  // vectorised
}
__global__ void carried(int *out, int n) {
  __shared__ int ring[64];
  int own = threadIdx.x;
  for (int i = 0; i < n; i++) {
    ring[threadIdx.x] = own;
    __syncthreads();  // stays
    own += ring[threadIdx.x ^ 1];
    __syncthreads();  // stays
  }
  out[threadIdx.x] = own;
}
__global__ void chain(volatile int *ready, int *out) {
  while (threadIdx.x < 63 && ready[threadIdx.x + 1] == 0) {}  // waits
  out[threadIdx.x] = 1;
  ready[threadIdx.x] = 1;
}
"""

KERNELS = ("layer", "normalize", "escapes", "carried", "chain")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "paper.cu"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def explained(source: Path) -> dict[str, list[Explained]]:
    found = defaultdict(list)
    for one in explain(str(source)):
        found[next(name for name in KERNELS if name in one.kernel)].append(one)
    return found


def lines(mark: str) -> set[int]:
    return {number for number, text in enumerate(SOURCE.splitlines(), 1) if f"// {mark}" in text}


def lines_of(one: Explained, kind: str) -> set[int]:
    return {remark.line for remark in one.remarks if remark.kind == kind}


@pytest.mark.clang
def test_every_barrier_is_removed_or_has_a_reason(explained: dict[str, list[Explained]]) -> None:
    for versions in (explained["layer"], explained["carried"]):
        for one in versions:
            own = range(one.loc.line, 100)
            removed, stays = lines_of(one, "barrier removed"), lines_of(one, "barrier stays")
            end = 20 if one.loc.line == 2 else 100
            assert removed == {line for line in lines("removed") if line in own and line < end}
            assert stays == {line for line in lines("stays") if line in own and line < end}
            assert all("(line " in remark.text for remark in one.remarks if remark.kind == "barrier stays")


@pytest.mark.clang
def test_a_reason_names_the_lines_of_both_accesses(explained: dict[str, list[Explained]]) -> None:
    apart = explained["layer"][0]
    reason = next(remark.text for remark in apart.remarks if remark.kind == "barrier stays" and remark.line == 10)
    assert "store" in reason and "(line 7) before" in reason and "(line 11) behind" in reason


@pytest.mark.clang
def test_forwarded_and_dead_stores_have_their_lines(explained: dict[str, list[Explained]]) -> None:
    for one in explained["layer"]:
        assert lines_of(one, "forwarded") == lines("forwarded")
        assert lines_of(one, "dead store") == lines("dead")


@pytest.mark.clang
def test_kept_values_name_the_barriers_that_they_cross(explained: dict[str, list[Explained]]) -> None:
    layer = explained["layer"][0]  # the weight is loaded behind the barrier, which has moved in front of it
    assert [(remark.line, remark.text) for remark in layer.remarks if remark.kind == "barrier moved"] == [
        (10, "before line 9 it keeps fewer bytes")
    ]
    assert lines_of(layer, "kept") == set() and layer.kept_bytes == 0
    carried = [remark for remark in explained["carried"][0].remarks if remark.kind == "kept"]
    crossed = "across line " + ", ".join(str(line) for line in sorted(lines("stays")) if line > 20)
    assert any("own" in remark.text and remark.text.endswith(crossed) for remark in carried)


@pytest.mark.clang
def test_loops_that_may_wait_for_other_threads_are_told(explained: dict[str, list[Explained]]) -> None:
    assert {line for one in explained["chain"] for line in lines_of(one, "waits")} == lines("waits")
    others = [one for name, versions in explained.items() for one in versions if name != "chain"]
    assert others and not any(lines_of(one, "waits") for one in others)


@pytest.mark.clang
def test_lines_that_run_over_vectors_of_threads_are_told(explained: dict[str, list[Explained]]) -> None:
    told = [remark for remark in explained["escapes"][0].remarks if remark.kind == "vectorised"]
    assert lines("vectorised") <= {remark.line for remark in told}
    assert all(remark.text.endswith(" threads at a time") for remark in told)
    assert told[0].loc is not None and not {remark.line for remark in told} & lines("stays")


@pytest.mark.clang
def test_work_that_runs_once_per_launch_is_told_once(explained: dict[str, list[Explained]]) -> None:
    apart = explained["normalize"][0]
    told = [remark.text for remark in apart.remarks if remark.kind == "hoisted"]
    assert lines_of(apart, "hoisted") == lines("hoisted")
    assert told == ["a loop runs once per block", "a loop runs once per launch"]


@pytest.mark.clang
def test_passes_are_listed_and_launches_tell_what_they_wait_for(explained: dict[str, list[Explained]]) -> None:
    first = explained["normalize"][0]
    told = {remark.kind: remark.text for remark in first.remarks}
    assert {"specialize", "hoist-invariant-blocks", "raise-affine"} <= set(told["passes"].split(", "))
    assert told["batched"].endswith("; its threads stay with their own elements of 1 of 2 arrays")
    declined = [remark.text for remark in first.remarks if remark.kind == "declined"]
    assert any(text.startswith("align-shares: ") for text in declined)
    assert any(text.startswith("collapse: ") for text in declined)


def test_command_prints_source_lines_and_writes_json(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "explained.json"
    assert cli.main(["explain", str(source), "--kernel", "layer", "--json", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "kernel layer(float const*, float const*, float*, int), where blockDim.z is 1" in shown
    assert "weight[ty][tx] = weights[index];" in shown and "normalize" not in shown
    record = json.loads(target.read_text())
    assert record["schema"] == "threadloom.explain/1"
    assert {kernel["kernel"] for kernel in record["kernels"]} == {"_Z5layerPKfS0_Pfi"}
    assert all(remark["file"] == str(source) for kernel in record["kernels"] for remark in kernel["remarks"])


def test_usage_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain"]) == 2
    assert cli.main(["explain", "a.cu", "b.cu"]) == 2
    assert "one CUDA file" in capsys.readouterr().err


@pytest.mark.clang
def test_the_pages_example_is_what_is_said(explained: dict[str, list[Explained]]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cuda.md").read_text(encoding="utf-8")
    example = page[page.index("kernel layer(") : page.index("\n```", page.index("kernel layer("))]
    said = [line.partition("  //")[0] for line in explain_text(explained["layer"][0]).splitlines()]
    start = said.index("     8 |   __syncthreads();")
    assert [said[0], *said[start : start + example.count("\n")]] == example.splitlines()
