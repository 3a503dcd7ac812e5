"""What the GPU generator writes for each form of operation, read from the text (no GPU, no compiler)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import threadloom as tl
from benchmarks.gpu_cases import column_sum, double_product, nibbles, running_sum, short_blocks, split_sums
from tests.unit.cuda_emit import both_computed
from tests.unit.sched import test_repeated_sums as repeated_sums
from threadloom.examples import (
    chunk_scan,
    flash_attention,
    flash_attention_varlen,
    layernorm,
    matmul,
    mla_decode,
)
from threadloom.examples.chunk_state import chunk_state
from threadloom.examples.chunk_state import inputs as chunk_state_inputs
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.emit import KernelSource
from threadloom.targets.cuda.emit_for import emit
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.time_plan import packed_facts


def source_of(call, device: str = "h200", only: Partition | None = None) -> str:
    return emitted(call, device, only).text


def emitted(call, device: str = "h200", only: Partition | None = None) -> KernelSource:
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    dims = {name: max(1, extent) for name, extent in call.dims.items()}
    aligned = {n: f.aligned for n, f in facts.items()}
    program = plan(call.kernel, dims, device, most=4, strides_ok=aligned, splits=False, only=only).best
    return emit(program, facts, call.dims)


def source(module, shape: dict[str, int], dtype: type = np.float16) -> str:
    function = getattr(module, module.__name__.rpartition(".")[2])
    return source_of(function.bind(**module.inputs(np.random.default_rng(0), **shape, dtype=dtype)))


def test_rows_that_a_product_pads_do_not_leave_in_boxes():
    """A buffer of 16 rows held the boxes of four warps, which wrote over the barriers behind it."""
    for shape in short_blocks.SHAPES:
        text = source(short_blocks, shape)
        assert "mma_m64" in text and "bulk_store" not in text
        assert "< (u32)16" in text, "rows beyond the block are not stored"


@pytest.mark.slow
def test_lines_are_fetched_beyond_a_box_unless_the_tile_has_the_box_beside_it():
    for head, fetched in ((128, 128), (64, 256)):
        shape = {"B": 2, "H": 4, "HKV": 4, "SQ": 512, "SK": 512, "D": head}
        call = flash_attention.flash_attention.bind(
            **flash_attention.inputs(np.random.default_rng(0), **shape, dtype=np.float16)
        )
        made = emitted(call)
        assert {spec.fetch_bytes for _, spec in made.maps if spec.tensor in "kv"} == {fetched}
        boxes = set(re.findall(r"&map_k, full_k[^,]*, (\d+), n_at", made.text))  # by their first column
        assert boxes == ({"0", "64"} if head == 128 else {"0"})


def test_operands_that_end_inside_the_tensor_lose_what_follows():
    text = source(split_sums, split_sums.SHAPE)
    assert "// positions of the tile that count" in text  # of b; threads bring a, and zeros beyond its end
    assert "positions of the tile" not in source(matmul, {"M": 256, "K": 256, "N": 256})


def test_the_values_of_other_sequences_are_masked():
    text = source(flash_attention_varlen, {"B": 3, "H": 2, "HKV": 2, "L": 64, "D": 64})
    zeroed = text[text.index("// positions of the tile that count") :]
    assert "smem_v" in zeroed[: zeroed.index("mma_")]


def test_a_tile_read_along_and_across_its_rows_has_two_descriptors():
    """Latent vectors are keys of one product and values of another; with one panel one descriptor happens to do."""
    text = source(mla_decode, {"B": 2, "H": 64, "S": 256, "D": 128, "R": 64})
    across = [line for line in text.splitlines() if "_desc_across = descriptor_mn_major" in line]
    (tile,) = {line.split("_desc_across")[0].split()[-1] for line in across}
    assert f"const u64 {tile}_desc = descriptor_k_major(" in text
    assert f", {tile}_desc_across + " in text and f", {tile}_desc + " in text


def test_computed_columns_go_through_shared_memory():
    text = source_of(both_computed.bound(16, 256, 256))
    at = text.index("write_shared<16>(smem_weights")
    after = text[at : text.index("mma_m64", at)]
    assert "fence_to_async();" in after and "group_sync(1 + worker, 128);" in after


@pytest.mark.parametrize("module", [matmul, flash_attention])
def test_f32_is_multiplied_exactly(module):
    text = source(module, module.SHAPES[0], np.float32)
    assert "wgmma" not in text and "from_rows[" in text
    assert "mma_m64" in source(module, module.SHAPES[0], np.float16)


def test_f64_of_two_computed_operands():
    text = source(double_product, double_product.SHAPES[0])
    assert "double acc" in text and "write_shared<16>(smem_" in text and "__shfl_sync(" in text


def test_scans_and_sums_cross_lanes_and_warps():
    assert "__shfl_up_sync" in source(running_sum, running_sum.SHAPE)
    assert "__shfl_down_sync" in source(running_sum, running_sum.SHAPE)
    assert "smem_scratch" not in source(running_sum, running_sum.SHAPES[0])  # four rows or more: a warp each
    assert "read_cell<float>(smem_scratch" in source(column_sum, column_sum.SHAPE)


def test_rows_that_begin_anywhere_are_loaded_element_by_element():
    """Found on an H200: 16-byte accesses at the first position of a group were misaligned."""
    text = source(split_sums, split_sums.SHAPES[0])
    assert "load_vector<16>(piece, &a[" not in text and "? a[" in text


@pytest.mark.parametrize(
    "module, shape",
    [
        pytest.param(
            chunk_scan, {"B": 2, "C": 4, "L": 256, "H": 8, "P": 64, "N": 128, "G": 1}, marks=pytest.mark.slow
        ),
        (layernorm, {"M": 64, "N": 1024}),
        (matmul, {"M": 1024, "N": 1024, "K": 512}),
    ],
    ids=lambda x: getattr(x, "__name__", "").rpartition(".")[2],
)
def test_slots_that_copies_fill_again_are_released_after_the_reads(module, shape):
    """A read that waits behind products may come after a copy that the release allowed: seen on an H200."""
    releases, pending = 0, set()
    for line in source(module, shape).splitlines():
        code = line.partition("//")[0]
        if found := re.search(r"read_(?:shared<\d+>|matrices)\(\w+, smem_(\w+)", code):
            pending.add(found.group(1))
        elif "fence_to_async()" in code or "write_shared<16>(exchange" in code:  # what is written had to be read
            pending.clear()
        elif found := re.search(r"barrier_arrive\(empty_(\w+)", code):
            assert found.group(1) not in pending, line
            releases += "vector" in line
    assert releases or module is matmul


def test_a_walked_axis_keeps_what_it_does_not_change():
    shape = {"B": 1, "C": 4, "L": 256, "H": 80, "P": 64, "N": 128, "G": 1}
    call = chunk_state.bind(**chunk_state_inputs(np.random.default_rng(0), **shape, dtype=np.float16))
    tiles = (AxisTile("p", 64, 64), AxisTile("n", 128, 128), AxisTile("k", 64, 64), AxisTile("h", 20, 20))
    order = ("b", "chunk", "h", "p", "n")
    only = Partition(tiles, sequential=("h",), order=order, group=16, persistent=True)
    program = plan(call.kernel, call.dims, "h200", most=4, only=only).best
    given = device_tensors(call.kernel, call.arrays)
    text = emit(program, {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}, call.dims).text
    worker = text[text.index("// worker0") :]
    filled, walk = worker.index("_first = ring_1_"), worker.index("i32 h_start")
    assert filled < walk < worker.index(".slot = kept_") < worker.index("mma_m64")
    assert "smem_b_in_desc_across + kept_" in worker  # read from the kept slots


@tl.kernel
def rotate(x: tl.Tensor["S", "D", tl.f32], cos: tl.Tensor["S", "D // 2", tl.f32]) -> tl.Tensor["S", "D", tl.f32]:
    for s, d in tl.grid("S", "D"):
        half = tl.dim("D") // 2
        out[s, d] = x[s, d] * cos[s, d % half] + tl.where(d < half, -x[s, d + half], x[s, d - half])


def test_gathers_compute_their_own_indices():
    """Found with a stranger's rotary embedding: the index of `cos` was in no registers."""
    text = source_of(rotate.bind(np.zeros((64, 128), np.float32), np.zeros((64, 64), np.float32)))
    gather = text[text.index("// gather_cos") :]
    assert gather.index("floor_mod(") < gather.index("cos_[(i64)(")


def test_a_sum_over_what_workers_share_is_whole_in_each():
    """Each worker has 64 of 128 latent columns of the result, and makes all scores itself, in memory of its own."""
    call, program = repeated_sums.call_of("mla_decode"), repeated_sums.planned("mla_decode")
    text = emit(program, packed_facts(call.kernel, call.dims), call.dims).text
    loops = re.findall(r"for \(int k = 0; k < (\d+); k\+\+\) {\n *mma_\w+\((\w+), (\w+)_desc(_across)?", text)
    scores = [(steps, row) for steps, result, row, _ in loops if result == "dot"]
    assert set(scores) == {("8", "smem_q")}, "the depth of 128, in steps of 16"
    parts = [(steps, row, across) for steps, result, row, across in loops if result == "acc"]
    assert set(parts) == {("2", "smem_latent", "_across")}, "32 keys"
    assert "smem_latent_desc_across = descriptor_mn_major(smem_latent + (worker * 64) / 64 *" in text
    (own,) = {x for x in re.findall(r"const u32 (own_\w+) = ", text)}
    memory = own.replace("own_", "smem_")
    assert f"{own} = worker == 0 ? {memory}_worker0 : {memory}_worker1;" in text
    store = text[text.rindex("// store_out") :]
    assert "worker * 64 + " in store


@tl.kernel
def nibbles_across(x: tl.Tensor["M", "N", tl.i32]) -> tl.Tensor["N", "M", tl.u4]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[n, m] = tl.cast(x[m, n], tl.u4)


def test_two_results_of_four_bits_are_stored_as_a_byte():
    text = source(nibbles, {"M": 5, "N": 37}, np.float16)
    store = text[text.index("// store_out") :]
    assert "i += 2)" in store and "& 15) : 0) << 4);" in store, "a last one alone leaves 0 beside it"
    assert ">> 1)) * out_stride1]" in store


def test_results_of_four_bits_whose_neighbours_are_elsewhere_are_stored_one_by_one():
    text = source_of(nibbles_across.bind(np.zeros((64, 64), np.int32)))
    assert "store_nibble(&out[" in text[text.index("// store_out") :]
    nvrtc.compile_source(text, "sm_90a")


def test_weights_of_a_group_come_in_one_access_where_groups_begin_at_multiples_of_it():
    text = source_of(both_computed.bound(16, 128, 512))
    assert re.search(r"load_words<16>\(&w_ahead\[[^]]*\], &w\[", text) and "from_words<16>(piece, &w_ahead[" in text
    odd = source_of(both_computed.bound(16, 128, 130))  # rows of 65 bytes
    assert "load_vector" not in odd[odd.index("// load_w: w") : odd.index("// load_scales")]
