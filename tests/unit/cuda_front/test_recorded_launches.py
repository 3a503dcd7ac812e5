"""What the first launch of a run had, and all others with it, makes a version of the kernel in a second compilation."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, compile_unit, front, nvcc_options
from threadloom.cuda.host_launches import ATTRIBUTE, with_recorded_launches
from threadloom.cuda.kernel import LAUNCHED
from threadloom.cuda.lower.pipeline import lower
from threadloom.errors import CompileError

pytestmark = pytest.mark.clang

SOURCE = """
#include <cstdlib>
__global__ void sum(int* x, int n, short step, long long far, int turn) {
  int total = turn + step + (int)far;
  for (int i = threadIdx.x; i < n; i += blockDim.x) total += x[i];
  x[n + threadIdx.x] = total;
}
int main(int, char** words) {
  int block = atoi(words[1]), n = atoi(words[2]), *x, host[512] = {};
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaMalloc(&x, sizeof host);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  for (int turn = 0; turn < 3; ++turn) sum<<<1, block>>>(x, n, 4, -1, turn);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  for (int t = 0; t < block; ++t) {
    int wanted = 5;
    for (int i = t; i < n; i += block) wanted += i;
    if (host[n + t] != wanted) return 1;
  }
  return 0;
}
"""


def _run(program: Path, record: Path, *words: str) -> None:
    done = subprocess.run([program, *words], env={**os.environ, "LOOM_PROFILE": str(record)}, check=False)
    assert done.returncode == 0, words


def test_a_version_for_the_first_launch(tmp_path: Path) -> None:
    source, record, program = tmp_path / "x.cu", tmp_path / "record.json", tmp_path / "x"
    source.write_text(SOURCE)
    assert build.run(nvcc_options.parse([str(source), "-o", str(program)])) == 0
    _run(program, record, "32", "100")
    [kernel] = json.loads(record.read_text())["kernels"]
    assert kernel["first"][:3] == ["32", "1", "1"] and kernel["first"][4:] == ["64000000", "0400", "f" * 16, ""]

    raised, stubs = compile_unit.raise_unit(
        front.compile_source(str(source), build.source_options(nvcc_options.parse([])))
    )
    marked = with_recorded_launches(raised, stubs, str(record))
    [raised_kernel] = [f for f in marked.module.functions if f.body is not None]
    facts = {p.value.name: a for p in raised_kernel.params for a in p.attrs if ATTRIBUTE in a}
    assert facts["n"].endswith('="100"') and facts["block.x"].endswith('="32"') and "turn" not in facts
    assert any(f.name.endswith(LAUNCHED) for f in lower(marked.module).module.functions)

    assert build.run(nvcc_options.parse([f"--launches={record}", str(source), "-o", str(program)])) == 0
    for words in (("32", "100"), ("32", "99"), ("16", "100")):  # others take the general version
        _run(program, tmp_path / "again.json", *words)


def test_no_record(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no such file"):
        nvcc_options.parse([f"--launches={tmp_path / 'none.json'}"])
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    raised = compile_unit.Raised(compile_unit.Module(()), ())
    with pytest.raises(CompileError) as caught:
        with_recorded_launches(raised, (), str(wrong))
    assert caught.value.slug == "cuda-launches-file"
