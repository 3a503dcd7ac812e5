"""Generated sm_80 kernels, run on the CPU with emulated instructions and compared with float64: copies arrive only when
their thread waits for them, so a wait or a barrier too few gives wrong numbers."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_target.machine_code import example_call
from threadloom.comparison import compare
from threadloom.machine.devices import device
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.targets.cpu.between import between_arrays
from threadloom.targets.cuda.compile import between_facts, facts_of
from threadloom.targets.cuda.emit import KernelSource
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.sm80.emit import emit
from threadloom.tile.ops import Access

pytestmark = pytest.mark.clang


def generated(call, only: Partition | None) -> list[tuple[KernelSource, SProgram]]:
    """Each kernel of the plan, in the order of launch."""
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    dims = {name: max(1, extent) for name, extent in call.dims.items()}
    aligned = {name: f.aligned for name, f in facts.items()}
    splits = only is not None
    program = plan(call.kernel, dims, device("a100"), strides_ok=aligned, only=only, splits=splits).best
    facts |= between_facts(program, call.dims)
    programs = [program] if program.combine is None else [program, program.combine]
    return [(emit(p, facts, call.dims), p) for p in programs]


def errors(
    name: str, shape: dict[str, int], dtype: str, edit=lambda text: text, only: Partition | None = None
) -> list[tuple[float, float]]:
    """(error, bound) of each output of an example, after `edit` of the generated text; `only`: this partition."""
    module = importlib.import_module(f"threadloom.examples.{name}")
    call = example_call(name, shape, dtype)
    arrays = {n: np.ascontiguousarray(a).copy() for n, a in call.arrays.items()}
    for tensor in call.kernel.tensors:
        if tensor.access is Access.OUT:
            arrays[tensor.name].view(np.uint8)[...] = 0xFF
    kernels = generated(call, only)
    arrays |= between_arrays(kernels[0][1], call.dims)
    for source, program in kernels:
        kernel = call.kernel if len(kernels) == 1 else program.graph.kernel
        run_on_cpu(source, kernel, arrays, call.dims, call.scalars, edit)
    outputs = {t.name: arrays[t.name] for t in call.kernel.tensors if t.access is not Access.IN}
    names = [t.name for t in call.kernel.tensors if t.access is Access.IN]
    given = {n: call.arrays[n] for n in names} | dict(call.scalars)
    wanted = module.reference(**given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = compare(call.kernel, call.dims, outputs, dict(zip(outputs, wanted, strict=True)))
    return [(f.error, f.bound) for f in found]


COPY = ("copy_tiles", {"M": 33, "N": 64}, "f16")
CASES = [
    ("softmax", {"M": 5, "N": 257}, "bf16"),
    ("layernorm", {"M": 7, "N": 64}, "f32"),
    ("matmul", {"M": 33, "K": 24, "N": 64}, "f16"),
    ("matmul", {"M": 33, "K": 8, "N": 64}, "f32"),
    ("flash_attention", {"B": 1, "H": 2, "HKV": 1, "SQ": 17, "SK": 40, "D": 16}, "f16"),
]


def test_a_copy():
    assert all(error <= bound for error, bound in errors(*COPY))


def test_a_wait_too_few_is_seen():
    def without_waits(text: str) -> str:
        return re.sub(r"copy_wait<\d+>\(\);", "", text)

    assert not all(error <= bound for error, bound in errors(*COPY, without_waits))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape", "dtype"), CASES, ids=str)
def test_example(name: str, shape: dict[str, int], dtype: str):
    assert all(error <= bound for error, bound in errors(name, shape, dtype))


def split(splits: int, order: str, **tiles: int) -> Partition:
    made = tuple(AxisTile(a, e, e) for a, e in tiles.items())
    return Partition(made, (), tuple(order.split()), splits=splits, persistent=True)


SPLIT = [  # parts that end in a cut tile, that are empty, that see only masked scores
    ("matmul", {"M": 17, "K": 200, "N": 64}, "f16", split(2, "part m n", m=32, n=32, k=64)),
    ("matmul", {"M": 3, "K": 136, "N": 40}, "f32", split(4, "part m n", m=16, n=32, k=32)),
    ("flash_attention", {"B": 1, "H": 2, "HKV": 1, "SQ": 17, "SK": 200, "D": 16}, "f16",
     split(2, "part b h m", m=64, n=64)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape", "dtype", "partition"), SPLIT, ids=lambda x: str(x)[:40])
def test_a_split_reduction(name: str, shape: dict[str, int], dtype: str, partition: Partition):
    assert all(error <= bound for error, bound in errors(name, shape, dtype, only=partition))
