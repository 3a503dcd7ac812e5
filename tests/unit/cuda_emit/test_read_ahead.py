"""What a worker loads into its own registers comes one pass ahead, and its products run beside the unpacking."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from tests.unit.cuda_emit import both_computed
from tests.unit.cuda_emit.test_forms import source_of
from threadloom.examples.w4_matmul import inputs, w4_matmul
from threadloom.sched import search
from threadloom.sched.ops import AxisTile, Issue, Partition, Wait
from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc

ONE = Partition((AxisTile("m", 64, 64), AxisTile("n", 64, 64)), order=("m", "n"), workers=1, persistent=True)


def call():
    return both_computed.bound(16, 64, 512)


@cache
def text() -> str:
    return source_of(call(), only=ONE)


def test_weights_are_loaded_for_the_next_pass_once_this_ones_are_unpacked():
    loop = text()[text().index("u32 w_ahead[8];") :]
    first = loop.index("load_words<16>(&w_ahead[")
    begin = re.search(r"for \(i32 (\w+) = 0; \1 < (\w+); \1\+\+\)", loop)
    taken, asked = loop.index("from_words<16>(piece, &w_ahead["), loop.index("load_words<16>(&w_ahead[", first + 1)
    assert first < begin.start() < taken < asked < loop.index("// vector_weights")
    t, count = begin.groups()
    assert f"if ({t} + 1 < {count})" in loop[taken:asked], "nothing is loaded for a pass that there is none of"
    assert f"if ({t} + 4 < {count})" in loop and loop.count("prefetch_global(") == 4  # weights, scales; before, within
    assert nvrtc.compile_source(text(), "sm_90a").spill_bytes == 0


def test_loads_under_conditions_and_in_pipelines_of_products_are_not_ahead():
    from benchmarks.gpu_cases import linked_pages
    from threadloom.examples import block_sparse_matmul

    for module in (block_sparse_matmul, linked_pages):
        name = module.__name__.rpartition(".")[2]
        given = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=np.float16)
        assert "_ahead[" not in source_of(getattr(module, name).bind(**given))


def test_the_next_weights_are_unpacked_beside_the_product(monkeypatch):
    """The slot of `a` is released behind the next product, not before the unpacking, which would wait for the last."""
    monkeypatch.setattr(search, "turn_products", lambda graph, device: graph)  # weights in shared memory
    made = w4_matmul.bind(**inputs(np.random.default_rng(0), 16, 64, 512, np.float16))
    program = plan(made.kernel, made.dims, "h200", only=ONE).best
    (section,) = [s.instrs for s in program.sections if s.loop and any(_is_product(i) for i in s.instrs)]
    product = next(at for at, i in enumerate(section) if _is_product(i))
    waits = [(at, i.pending) for at, i in enumerate(section) if isinstance(i, Wait) and i.signal == "tc.group"]
    assert (product + 1, 1) in waits
    assert all(pending >= 1 for _, pending in waits), waits


def _is_product(instr) -> bool:
    return isinstance(instr, Issue) and instr.seu == "tc"
