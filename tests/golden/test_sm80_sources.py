"""sm_80 sources of small kernels, one for each family and feature, compared with the stored text. The stored text was
made by another process, so the same input gives the same bytes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import threadloom as tl
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import DeviceTensor, facts_of
from threadloom.targets.cuda.sm80.emit import emit
from threadloom.targets.cuda.time_plan import packed

FOLDER = Path(__file__).parent / "sm80"


@tl.kernel
def transposed_tf32(a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["N", "K", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(tl.cast(a[m, k], tl.tf32), tl.cast(b[n, k], tl.tf32))
        out[m, n] = acc


@tl.kernel
def column_sums(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        tl.atomic_add(out[n], tl.sum(x[m, n], m))


@dataclass(frozen=True, slots=True)
class Case:
    """`misaligned`: tensors whose rows do not begin at multiples of 16 bytes."""

    kernel: Callable[[], object]
    dims: dict[str, int]
    misaligned: tuple[str, ...] = ()


def example(name: str, **choices: object) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(f"threadloom.examples.{name}"), name).tile(**choices)


CASES = {
    "matmul": Case(example("matmul", T=tl.f16), {"M": 512, "N": 512, "K": 512}),
    "matmul_large": Case(example("matmul", T=tl.bf16), {"M": 4096, "N": 4096, "K": 4096}),
    "matmul_misaligned": Case(example("matmul", T=tl.f16), {"M": 256, "N": 256, "K": 256}, ("a", "b")),
    "matmul_f32": Case(example("matmul", T=tl.f32), {"M": 256, "N": 256, "K": 128}),
    "transposed_tf32": Case(lambda: transposed_tf32.tile(), {"M": 256, "N": 256, "K": 128}),
    "flash_attention_causal": Case(
        example("flash_attention", T=tl.f16, causal=True),
        {"B": 1, "H": 4, "HKV": 2, "SQ": 512, "SK": 512, "D": 64},
    ),
    "softmax": Case(example("softmax", T=tl.f16), {"M": 512, "N": 1024}),
    "layernorm": Case(example("layernorm", T=tl.f16), {"M": 512, "N": 1024}),
    "copy_tiles": Case(example("copy_tiles", T=tl.f16), {"M": 512, "N": 512}),
    "column_sums": Case(lambda: column_sums.tile(), {"M": 512, "N": 256}),
}


@pytest.mark.parametrize("name", CASES)
def test_source(name: str, golden):
    case = CASES[name]
    kernel, facts = case.kernel(), {}
    for tensor in kernel.tensors:
        shape = tuple(d if isinstance(d, int) else case.dims[d] for d in tensor.dims)
        pointer = 2 if tensor.name in case.misaligned else 0
        facts[tensor.name] = facts_of(tensor, DeviceTensor(pointer, shape, packed(shape)))
    aligned = {name: f.aligned for name, f in facts.items()}
    program = plan(kernel, case.dims, "a100", strides_ok=aligned, splits=False).best
    golden(FOLDER / f"{name}.cu", emit(program, facts, case.dims).text)


def test_nothing_is_stored_that_is_not_made():
    assert {p.stem for p in FOLDER.glob("*.cu")} == set(CASES)
