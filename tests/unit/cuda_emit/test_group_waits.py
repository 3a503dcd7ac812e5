"""Waits for products are as strong as ptxas wants them, so that it lets products overlap."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.gpu_cases import gated_linear
from threadloom.examples import matmul
from threadloom.sched.ops import Arrive, Issue, Reason, Wait, Why
from threadloom.sched.search import plan
from threadloom.targets.cuda import best_plan, nvrtc
from threadloom.targets.cuda import compile as compiling
from threadloom.targets.cuda.driver import WATCHDOG
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.group_waits import cover_younger, join, with_full_waits
from threadloom.targets.cuda.launch import device_tensors, kernel_for
from threadloom.task.ops import Method


@dataclass
class Products:
    """What the pass asks of a plan in which each sTask `x` is a product that writes the registers `x`."""

    tiles: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(of=lambda value: value))

    def is_group(self, signal: str) -> bool:
        return signal == "mma"

    def find_buffer(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(tile=name)

    def task(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(writes=(name,))


def product(name: str) -> Issue:
    return Issue(name, "tensor", Method.MATRIX, completes="mma")


def wait(name: str, pending: int) -> Wait:
    return Wait("mma", pending=pending, reason=Reason(Why.DEPENDENCE, name, "reader", buffer=name))


def pending(*instrs: Issue | Wait) -> list[int]:
    return [i.pending for i in cover_younger(list(instrs), {0}, Products()) if isinstance(i, Wait)]


def test_of_two_waits_the_stronger_comes_first():
    release = Arrive("empty", reason=Reason(Why.SLOT_FREE, "a", "load", buffer="x"))
    for between in ((), (release,)):
        joined = join((wait("a", 1), *between, wait("b", 0)), {0}, Products())
        assert [i.pending for i in joined if isinstance(i, Wait)] == [0, 0]
    joined = join((wait("a", 0), release, wait("b", 1)), {0}, Products())
    assert [i.pending for i in joined if isinstance(i, Wait)] == [0, 1]
    joined = join((wait("a", 1), product("b"), wait("b", 0)), {0}, Products())
    assert [i.pending for i in joined if isinstance(i, Wait)] == [1, 0], "something is done between"


def test_what_is_issued_again_beside_a_younger_product():
    assert pending(product("b"), wait("a", 1), product("a"), wait("b", 1)) == [0, 1]


def test_not_where_the_younger_one_is_complete_before():
    assert pending(product("b"), wait("a", 1), wait("b", 0), product("a")) == [1, 0]


def test_not_where_another_one_is_issued():
    assert pending(product("b"), wait("a", 1), product("c"), wait("b", 1)) == [1, 1]


def test_waits_for_all_products():
    assert with_full_waits("mma_wait<2>();  // a\nmma_wait<15>();") == "mma_wait<0>();  // a\nmma_wait<0>();"


def test_code_that_is_serialised_is_compiled_with_full_waits(monkeypatch: pytest.MonkeyPatch):
    texts = []

    def compile_source(text: str, arch: str, defines: tuple[str, ...] = ()) -> nvrtc.Cubin:
        texts.append(text)
        return nvrtc.Cubin(b"", arch, 100, 0, 0, 0, "C7514" if "mma_wait<1>" in text else "")

    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    given = matmul.inputs(np.random.default_rng(0), 512, 256, 512, np.float16)
    call = matmul.matmul.bind(**given)
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: compiling.facts_of(t, given[t.name]) for t in call.kernel.tensors}
    made = compiling.compile_program(plan(call.kernel, call.dims, "h200", splits=False).best, facts, call.dims)
    assert len(texts) == 2 and made.source.text == texts[1] == with_full_waits(texts[0])


def serialised_by_units(text: str, arch: str, defines: tuple[str, ...] = ()) -> nvrtc.Cubin:
    """As if ptxas ran all products of tensor cores one by one that are issued for a warpgroup."""
    return nvrtc.Cubin(b"", arch, 100, 0, 0, 0, "C7511" if '"sm90.cuh"' in text else "")


def test_warps_do_the_products_where_those_of_every_plan_are_serialised(monkeypatch: pytest.MonkeyPatch):
    """And few plans are compiled to find that out, each a second time with full waits, however many cores there are."""
    texts = []

    def compile_source(text: str, arch: str, defines: tuple[str, ...] = ()) -> nvrtc.Cubin:
        texts.append(text)
        return serialised_by_units(text, arch, defines)

    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    monkeypatch.setattr(best_plan, "MANY_SERIALISED", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    call = matmul.matmul.bind(**matmul.inputs(np.random.default_rng(0), 64, 64, 64, np.float16))
    made = kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays))
    assert "mma_f16(" in made.source.text and made.source.arch == made.cubin.arch == "sm_90a"
    assert len(texts) == 2 * 2 + 1


@pytest.mark.slow
def test_chunks_of_five_positions(monkeypatch: pytest.MonkeyPatch):
    """ptxas serialises these products whatever is done to the source."""
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("LOOM_COMPILE_SECONDS", "0")
    call = gated_linear.gated_linear.bind(
        **gated_linear.inputs(np.random.default_rng(0), **gated_linear.SHAPES[1], dtype=np.float16)
    )
    assert fault_of(kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays))) == ""


@pytest.mark.slow
@pytest.mark.parametrize("defines", [(), WATCHDOG])
def test_scores_that_begin_beside_the_last_product_of_a_chunk(defines: tuple[str, ...]):
    """ptxas serialised all products of this kernel: scores were read, and made anew, while another product ran."""
    pytest.importorskip("cuda.bindings.nvrtc")
    given = gated_linear.inputs(np.random.default_rng(0), 1, 2, 64, 64, 16, np.float16)
    call = gated_linear.gated_linear.bind(**given)
    made = kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays), defines=defines)
    assert fault_of(made) == ""
