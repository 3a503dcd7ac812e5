"""Generated sm_80 kernels, run on the CPU with emulated instructions and compared with float64: copies arrive only when
their thread waits for them, so a wait or a barrier too few gives wrong numbers."""

from __future__ import annotations

import importlib
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_target.machine_code import example_call
from threadloom.comparison import compare
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.sched.search import plan
from threadloom.targets.cuda.best_plan import programs_for
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.emit import KernelSource
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.sm80.emit import emit
from threadloom.tile.ops import Access

pytestmark = pytest.mark.clang


def generated(call) -> KernelSource:
    """The code of the first of the best plans that there is code for."""
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    refused: list[CompileError] = []
    for program in itertools.islice(programs_for(call.kernel, call.dims, facts, device("a100"), splits=False), 8):
        try:
            return emit(program, facts, call.dims)
        except CompileError as error:
            refused.append(error)
    raise refused[0]


def backwards(call) -> KernelSource:
    """The code of the best plan with loops that go from their last tile to the first."""
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    best = plan(call.kernel, call.dims, "a100", splits=False).best.partition
    made = plan(call.kernel, call.dims, "a100", splits=False, only=replace(best, backwards=True)).best
    return emit(made, facts, call.dims)


def errors(
    name: str, shape: dict[str, int], dtype: str, edit=lambda text: text, source=generated, **choices: object
) -> list[tuple[float, float]]:
    """(error, bound) of each output of an example, after `edit` of the generated text. `choices`: constants."""
    module = importlib.import_module(f"threadloom.examples.{name}")
    call = example_call(name, shape, dtype, **choices)
    arrays = {n: np.ascontiguousarray(a).copy() for n, a in call.arrays.items()}
    for tensor in call.kernel.tensors:
        if tensor.access is Access.OUT:
            arrays[tensor.name].view(np.uint8)[...] = 0xFF
    run_on_cpu(source(call), call.kernel, arrays, call.dims, call.scalars, edit)
    outputs = {t.name: arrays[t.name] for t in call.kernel.tensors if t.access is not Access.IN}
    names = [t.name for t in call.kernel.tensors if t.access is Access.IN]
    given = {n: call.arrays[n] for n in names} | dict(call.scalars) | choices
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
    ("attention_backward", {"B": 1, "H": 1, "SQ": 25, "SK": 40, "D": 16}, "f16"),
    ("attention_backward", {"B": 1, "H": 1, "SQ": 25, "SK": 40, "D": 16}, "f32"),
    ("w4_matmul", {"M": 5, "N": 40, "K": 256}, "f16"),  # 32 weights in one access
]


def test_a_copy():
    assert all(error <= bound for error, bound in errors(*COPY))


@pytest.mark.slow
def test_a_wait_too_few_is_seen():
    def without_waits(text: str) -> str:
        return re.sub(r"copy_wait<\d+>\(\);", "", text)

    assert not all(error <= bound for error, bound in errors(*COPY, without_waits))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape", "dtype"), CASES, ids=str)
def test_example(name: str, shape: dict[str, int], dtype: str):
    assert all(error <= bound for error, bound in errors(name, shape, dtype))


@pytest.mark.slow
def test_causal_attention_from_the_last_keys_to_the_first():
    shape = {"B": 1, "H": 2, "HKV": 1, "SQ": 150, "SK": 170, "D": 16}
    found = errors("flash_attention", shape, "f16", source=backwards, causal=True)
    assert all(error <= bound for error, bound in found)
