"""Hopper sources of small kernels, one for each family and feature, compared with the stored text: a change of the
scheduler or the emitter shows in the diff. The stored text was made by another process, so the same input gives the
same bytes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from quick import some

import threadloom as tl
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import DeviceTensor, facts_of
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.time_plan import packed

FOLDER = Path(__file__).parent / "sm90"


@tl.kernel
def transposed(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["N", "K", "T"]) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[n, k])
        out[m, n] = tl.cast(acc, a.dtype)


@tl.kernel
def column_sums(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        tl.atomic_add(out[n], tl.sum(x[m, n], m))


@tl.kernel
def scaled(x: tl.Tensor["M", "N", tl.f32], by: tl.f32) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m, n] = x[m, n] * by


@dataclass(frozen=True, slots=True)
class Case:
    """`misaligned`: tensors whose rows do not begin at multiples of 16 bytes; `cluster`: blocks that load together."""

    kernel: Callable[[], object]
    dims: dict[str, int]
    misaligned: tuple[str, ...] = ()
    cluster: int = 1


def example(name: str, **choices: object) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(f"threadloom.examples.{name}"), name).tile(**choices)


ATTENTION = {"B": 1, "H": 4, "HKV": 2, "SQ": 512, "SK": 512, "D": 64}
CASES = {
    "matmul": Case(example("matmul", T=tl.f16), {"M": 512, "N": 512, "K": 512}),
    "matmul_large": Case(example("matmul", T=tl.bf16), {"M": 4096, "N": 4096, "K": 4096}),
    "matmul_cluster": Case(example("matmul", T=tl.bf16), {"M": 4096, "N": 4096, "K": 4096}, cluster=2),
    "matmul_odd": Case(example("matmul", T=tl.f16), {"M": 200, "N": 136, "K": 72}),
    "matmul_f32": Case(example("matmul", T=tl.f32), {"M": 256, "N": 256, "K": 128}),
    "matmul_misaligned": Case(example("matmul", T=tl.f16), {"M": 256, "N": 256, "K": 256}, ("a", "b")),
    "transposed_f8": Case(lambda: transposed.tile(T=tl.f8e4m3), {"M": 256, "N": 256, "K": 256}),
    "flash_attention_causal": Case(example("flash_attention", T=tl.f16, causal=True), ATTENTION),
    "softmax": Case(example("softmax", T=tl.f16), {"M": 512, "N": 1024}),
    "rmsnorm": Case(example("rmsnorm", T=tl.f16), {"M": 512, "N": 1024}),
    "copy_tiles": Case(example("copy_tiles", T=tl.f16), {"M": 512, "N": 512}),
    "column_sums": Case(lambda: column_sums.tile(), {"M": 512, "N": 256}),
    "scaled": Case(lambda: scaled.tile(), {"M": 64, "N": 128}),
}


LONG = ("matmul_large", "transposed_f8")  # whose kinds have quicker ones

# examples whose dimensions depend on each other: by their first small shape
SMALL = ("layernorm", "conv2d", "w4_matmul", "grouped_matmul", "chunk_state", "block_sparse_matmul")


@pytest.mark.parametrize("name", SMALL)
def test_small_example(name: str, golden):
    module = importlib.import_module(f"threadloom.examples.{name}")
    arguments = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=np.float16)
    call = getattr(module, name).bind(**arguments)
    check(name, Case(lambda: call.kernel, call.dims), golden)


@pytest.mark.parametrize("name", some(CASES, [n for n in CASES if n not in LONG]))
def test_source(name: str, golden):
    check(name, CASES[name], golden)


def check(name: str, case: Case, golden) -> None:
    kernel = case.kernel()
    facts = {}
    for tensor in kernel.tensors:
        shape = tuple(d if isinstance(d, int) else case.dims[d] for d in tensor.dims)
        pointer = 2 if tensor.name in case.misaligned else 0
        facts[tensor.name] = facts_of(tensor, DeviceTensor(pointer, shape, packed(shape)))
    aligned = {name: f.aligned for name, f in facts.items()}
    program = plan(kernel, case.dims, "h200", strides_ok=aligned, splits=False).best
    if case.cluster > 1:
        together = replace(program.partition, cluster=case.cluster)
        program = plan(kernel, case.dims, "h200", strides_ok=aligned, only=together).best
    golden(FOLDER / f"{name}.cu", emit(program, facts, case.dims).text)


def test_nothing_is_stored_that_is_not_made():
    assert {p.stem for p in FOLDER.glob("*.cu")} == {*CASES, *SMALL}


def test_what_is_to_be_unrolled_is_a_loop():
    """NVRTC warns of anything else."""
    for folder in (FOLDER, FOLDER.parent / "sm80"):
        for stored in folder.glob("*.cu"):
            following = re.findall(r"#pragma unroll.*\n\s*(.*)", stored.read_text(encoding="utf-8"))
            assert all(line.startswith(("for ", "#pragma unroll")) for line in following), stored.name
