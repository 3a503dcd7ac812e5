"""Code by which a tile begins the next one in its last pass."""

from __future__ import annotations

from functools import lru_cache

import pytest

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.begin_ahead import begin_ahead
from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import DeviceTensor, facts_of, packed
from threadloom.targets.cuda.emit import emit

DIMS = {"B": 4, "H": 16, "HKV": 8, "SQ": 1024, "SK": 1024, "D": 128}


@lru_cache
def source(causal: bool) -> str:
    kernel = flash_attention.tile(T=tl.bf16, causal=causal)
    program = begin_ahead(plan(kernel, DIMS, "h200", most=1).best)
    shapes = {t.name: tuple(DIMS[d] for d in t.dims) for t in kernel.tensors}
    facts = {t.name: facts_of(t, DeviceTensor(1024, shapes[t.name], packed(shapes[t.name]))) for t in kernel.tensors}
    return emit(program, facts, DIMS).text


def role_code(text: str, role: str) -> str:
    return text[text.index(f"\n  // {role}") :].partition("\nelse if")[0]


def test_a_worker_issues_the_next_tiles_first_product_behind_its_last():
    text = role_code(source(causal=True), "worker0")
    end = text[text.index("and the next tile begins") :]
    steps = (
        "// dot_acc",
        "begun = next_tile < tiles;",
        "// dot_s",
        "mma_wait<1>()",
        "// vector_t",
        "mma_wait<0>()",
        "pin(s);",
    )
    places = [end.index(step) for step in steps]
    assert places == sorted(places)
    product = end[end.index("// dot_s") : end.index("mma_commit", end.index("// dot_s"))]
    assert "next_ring_0_2_0.slot" in product and "if (" not in product  # without a next tile, too
    begin = text[: text.index("// steady state")]
    assert begin.index("if (!begun) {") < begin.index("// dot_s") < begin.index("mma_wait<1>()")
    assert text.index("float s[") < text.index("for (i32 round")  # it outlives its tile


def test_a_producer_loads_the_next_tiles_first_operands_before_this_tiles_last():
    text = role_code(source(causal=True), "producer")
    end = text[text.index("and the next tile begins") :]
    places = [end.index(step) for step in ("back_and_forth(round + 1)", "> 0;", "// load_q", "// load_k", "// load_v")]
    assert places == sorted(places)
    assert "m_at_2" in end[end.index("// load_q") :].partition("// load_k")[0]


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_products_are_not_serialised(causal: bool):
    made = nvrtc.compile_source(source(causal), "sm_90a")
    assert not made.serialised and made.spill_bytes == 0
