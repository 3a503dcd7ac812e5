"""The smallest programs of each kind of fault that random programs have found in the GPU generator."""

from __future__ import annotations

import re

import numpy as np
import pytest
from generators.tile_programs import program
from quick import some

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_sm80.test_on_cpu import generated
from threadloom.sched.ops import AxisTile, Partition
from threadloom.targets.cuda import nvrtc


def compiled(call, device: str = "h200") -> str:
    text = source_of(call, device)
    nvrtc.compile_source(text, "sm_90a")
    return text


def on_cpu(kernel, dtype: type, **arguments) -> np.ndarray:
    """What the code for sm_80, which shares the generator of elementwise code and of stores, computes."""
    call = kernel.bind(**arguments)
    out = np.full_like(call.arrays["out"], 0x7F, dtype)
    run_on_cpu(generated(call), call.kernel, call.arrays | {"out": out}, call.dims, call.scalars)
    return out


@tl.kernel
def gathered(
    x: tl.Tensor["M", "N", tl.f32], index: tl.Tensor["N", tl.i32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m, n] = x[m, index[n]]


def test_indices_that_the_copy_engine_brings_are_read_from_shared_memory():
    text = compiled(gathered.bind(np.zeros((64, 64), np.float32), np.zeros(64, np.int32)), "h200/2")
    gather = text[text.index("// gather_x") :]
    assert "bulk_load(smem_index" in text
    assert gather.index("smem_index") < gather.index("x[(i64)(")
    release = gather.index("barrier_arrive(empty_index")
    assert "__syncwarp();" in gather[gather.index("x[(i64)(") : release]


@tl.kernel
def halves(x: tl.Tensor["M", "2 * P", tl.f32], index: tl.Tensor["M", tl.i32]) -> tl.Tensor["M", "P", tl.f32]:
    for m in tl.grid("M"):
        p = tl.axis("P")
        out[m, p] = x[index[m], p] * x[index[m], p + tl.dim("P")]


def test_an_extent_among_the_subscripts_of_a_gather():
    assert "dim_P" in compiled(halves.bind(np.zeros((64, 64), np.float32), np.zeros(64, np.int32)))


@tl.kernel
def scattered(x: tl.Tensor["M", "N", tl.f32], y: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        tl.atomic_add(out[tl.cast(x[m, n] * 7, tl.i32), n], tl.where(n < tl.dim("N") - 1, y[m, n], 0.0))


def test_extents_and_numbers_in_elementwise_code_and_in_indices_of_a_store():
    x = np.zeros((64, 64), np.float32)
    compiled(scattered.bind(x, x))
    nvrtc.compile_source(generated(scattered.bind(x, x)).text, "sm_80")


@tl.kernel
def masked_twice(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        below = n <= m
        out[m, n] = tl.where(below, x[m, n], 1.0) * x[m, n] + tl.where(below, tl.exp(x[m, n]), 0.5)


def test_a_condition_of_a_mask_and_of_elementwise_code():
    compiled(masked_twice.bind(np.zeros((64, 64), np.float32)))


@tl.kernel
def shifted(x: tl.Tensor["M", "N", tl.u8]) -> tl.Tensor["M", tl.i32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m] = tl.sum((x[m, n] + 3) >> x[m, n], n)


@pytest.mark.parametrize("extent", [16, 2048])
def test_narrow_integers_in_pieces_of_shared_memory(extent: int):
    compiled(shifted.bind(np.zeros((32, extent), np.uint8)))


@tl.kernel
def narrow_rows(x: tl.Tensor["K", "N", tl.f32]) -> tl.Tensor["N", tl.f32]:
    for n in tl.grid("N"):
        acc = tl.zeros(n)
        for k in tl.stream(tl.each("K")):
            acc = acc + x[k, n]
        out[n] = acc


def test_slots_begin_where_the_copy_engine_may_write():
    """Found on an H200: slots of 16 bytes gave misaligned addresses."""
    text = compiled(narrow_rows.bind(np.zeros((24, 8), np.float32)))
    steps = [int(n) for n in re.findall(r"bulk_load\(smem_x \+ ring_\w+\.slot \* (\d+)", text)]
    assert steps and all(n % 128 == 0 for n in steps)


@tl.kernel
def spread(x: tl.Tensor["M", tl.f32], y: tl.Tensor["N", "W", tl.f32]) -> tl.Tensor["M", "N", "W", tl.f32]:
    for m, n in tl.grid("M", "N"):
        w = tl.axis("W")
        out[m, n, w] = x[m] * 2.0


@pytest.mark.slow
@pytest.mark.clang
def test_a_store_fills_the_axes_that_its_value_lacks():
    """Found on an H200: only the first position of a tile along `n` and along `w` was written."""
    given = dict(x=np.arange(5, dtype=np.float32), y=np.zeros((37, 3), np.float32))
    out = on_cpu(spread, np.float32, **given)
    assert np.array_equal(out, np.broadcast_to(2.0 * np.arange(5)[:, None, None], out.shape))
    compiled(spread.bind(**given))


@tl.kernel
def spread_by_index(
    x: tl.Tensor["M", tl.f32], index: tl.Tensor["N", tl.i32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        out[m, index[n]] = x[m]


@pytest.mark.clang
def test_a_store_to_computed_positions_along_axes_that_its_value_lacks():
    rng = np.random.default_rng(0)
    x, index = rng.standard_normal(24).astype(np.float32), rng.permutation(24).astype(np.int32)
    out = on_cpu(spread_by_index, np.float32, x=x, index=index)
    assert np.array_equal(out, np.broadcast_to(x[:, None], out.shape))
    compiled(spread_by_index.bind(x, index))


@tl.kernel
def spread_sums(x: tl.Tensor["M", tl.f32], index: tl.Tensor["N", tl.i32]) -> tl.Tensor["B", tl.f32]:
    for m, n in tl.grid("M", "N"):
        tl.atomic_add(out[tl.maximum(index[n], 0) % tl.dim("B")], tl.sum(x[m], m))


def test_additions_to_computed_positions_along_axes_that_their_value_lacks():
    call = spread_sums.bind(np.zeros(24, np.float32), np.zeros(40, np.int32), out=np.zeros(7, np.float32))
    assert "atomic" in compiled(call)


@tl.kernel
def complements(x: tl.Tensor["M", tl.u8], y: tl.Tensor["M", tl.i8]) -> tl.Tensor["M", tl.i32]:
    for m in tl.grid("M"):
        out[m] = tl.cast(~x[m], tl.i32) * 1000 + tl.cast(-y[m], tl.i32)


@pytest.mark.slow
@pytest.mark.clang
def test_complements_and_negatives_of_8_bits_wrap():
    x, y = np.arange(5, dtype=np.uint8), np.array([-128, -1, 0, 1, 127], np.int8)
    assert np.array_equal(on_cpu(complements, np.int32, x=x, y=y), (~x).astype(np.int32) * 1000 + (-y).astype(np.int32))


@tl.kernel
def any_and_all(x: tl.Tensor["M", "W", tl.i32]) -> tl.Tensor["M", tl.i32]:
    for m in tl.grid("M"):
        w = tl.axis("W")
        out[m] = tl.cast(tl.any(x[m, w] > 2, w), tl.i32) * 2 + tl.cast(tl.all(x[m, w] > 0, w), tl.i32)


@pytest.mark.clang
@pytest.mark.slow
def test_all_lanes_exchange_truth_values():
    """Found on an H200: lanes whose part had decided the result left out the shuffle."""
    x = np.ones((3, 64), np.int32)
    x[0, 40], x[1, 17], x[2, 5] = 3, 0, 9
    assert np.array_equal(on_cpu(any_and_all, np.int32, x=x), [3, 0, 3])
    text = compiled(any_and_all.bind(x))
    assert "&& __shfl" not in text and "|| __shfl" not in text


@tl.kernel
def chosen(x: tl.Tensor["B", tl.f32], y: tl.Tensor["B", "M", tl.f32], s: tl.f32) -> tl.Tensor["B", "M", tl.f32]:
    for b, m in tl.grid(tl.each("B"), "M"):
        if s > 1.0:
            r = x[b] * 0.5
        else:
            r = x[b] + 3.0
        out[b, m] = r + y[b, m]


@pytest.mark.slow
@pytest.mark.clang
def test_an_if_chooses_between_scalars():
    """Found on an H200: the first branch was taken always."""
    x, y = np.arange(2, dtype=np.float32), np.ones((2, 8), np.float32)
    for s, wanted in ((2.0, x * 0.5), (0.5, x + 3)):
        assert np.array_equal(on_cpu(chosen, np.float32, x=x, y=y, s=s), wanted[:, None] + y)


@tl.kernel
def chosen_sum(x: tl.Tensor["B", "W", tl.f32], s: tl.f32) -> tl.Tensor["B", tl.f32]:
    for b in tl.grid(tl.each("B")):
        w = tl.axis("W")
        if s > 1.0:
            r = tl.sum(x[b, w], w) * 0.5
        else:
            r = tl.sum(x[b, w], w) + 3.0
        out[b] = r


@pytest.mark.clang
@pytest.mark.slow
def test_an_if_chooses_between_scalars_that_threads_compute():
    x = np.ones((2, 8), np.float32)
    for s, wanted in ((2.0, 4.0), (0.5, 11.0)):
        assert np.array_equal(on_cpu(chosen_sum, np.float32, x=x, s=s), [wanted, wanted])


@tl.kernel
def cut_off(x: tl.Tensor["N", tl.f32]) -> tl.Tensor["N", tl.i64]:
    for n in tl.grid("N"):
        narrow = tl.cast(tl.cast(x[n], tl.u8), tl.i64) * 1000 + tl.cast(tl.cast(x[n], tl.i8), tl.i64)
        wide = tl.cast(x[n], tl.i32) // 65536 + tl.cast(tl.cast(x[n], tl.f64), tl.i64) // 4294967296
        out[n] = wide * 1000000 + narrow + ((tl.index(n) << 1) >> 2)


def test_casts_from_floats_cut_off():
    text = source_of(cut_off.bind(np.zeros(13, np.float32)))
    assert all(part in text for part in ("to_narrow(", "0, 255)", "-128, 127)", "to_i32(", "to_i64("))


@pytest.mark.slow
def test_casts_from_floats_cut_off_and_indices_are_shifted():
    x = np.array([0.0, -0.9, 1.9, 127.5, 130.0, 255.9, 300.0, -128.9, -500.0, 1e20, -1e20, np.nan, np.inf], np.float32)
    assert (on_cpu(cut_off, np.int64, x=x) == cut_off.interpret(x=x)).all()


@tl.kernel
def ragged(
    first: tl.Tensor["J", tl.i32], a: tl.Tensor["N", "K", tl.f8e4m3], b: tl.Tensor["K", "M", tl.f8e4m3]
) -> tl.Tensor["N", "M", tl.f32]:
    for n, m in tl.grid("N", "M"):
        acc = tl.zeros(n, m)
        for k in tl.stream(tl.span("K", first[0], first[0] + 9)):
            acc += tl.dot(a[n, k], b[k, m])
        out[n, m] = acc


def test_pieces_are_no_longer_than_what_tiles_begin_at_multiples_of():
    import ml_dtypes

    f8 = ml_dtypes.float8_e4m3fn
    call = ragged.bind(np.zeros(3, np.int32), np.zeros((8, 24), f8), np.zeros((24, 16), f8))
    tiles = tuple(AxisTile(axis, extent, extent) for axis, extent in (("n", 64), ("m", 8), ("k", 16)))
    text = source_of(call, only=Partition(tiles, order=("n", "m"), persistent=True))
    assert "write_shared<16>(smem_b" in text and "load_vector<16>(piece, &b" not in text


@tl.kernel
def gathered_by_bytes(
    x: tl.Tensor["B", "M", tl.bf16], index: tl.Tensor["M", tl.i32], y: tl.Tensor["M", tl.u8]
) -> tl.Tensor["B", "M", tl.bf16]:
    for b, m in tl.grid(tl.each("B"), "M"):
        out[b, m] = x[b, index[m]] + tl.cast(y[m] + y[m], tl.f32)


def arguments_of_gather() -> dict[str, np.ndarray]:
    import ml_dtypes

    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 64)).astype(ml_dtypes.bfloat16)
    return {"x": x, "index": rng.integers(0, 64, 64).astype(np.int32), "y": rng.integers(0, 9, 64).astype(np.uint8)}


def test_indices_in_other_registers_than_what_they_bring():
    """Bytes go sixteen to a thread, what is loaded beside them, too; indices are loaded four to a thread."""
    text = source_of(gathered_by_bytes.bind(**arguments_of_gather()))
    gather = text[text.index("// gather_x") :]
    assert "in the layout of what it meets" in gather[: gather.index("x[(i64)(")]


@tl.kernel
def least_of_negatives(x: tl.Tensor["M", "N", tl.i32]) -> tl.Tensor["M", tl.i32]:
    for m in tl.grid("M"):
        out[m] = tl.min(-x[m, :], "N")


def test_integers_are_negated_by_other_means_where_compilers_lose_signs():
    text = compiled(least_of_negatives.bind(np.zeros((64, 64), np.int32)))
    assert "negative(" in text and "(-x" not in text


@tl.kernel
def running(x: tl.Tensor["B", "C", "N", tl.f32]) -> tl.Tensor["B", "C", "N", tl.f32]:
    for b in tl.grid(tl.each("B")):
        total, before = 0.0, 0.0
        for c, n in tl.stream(tl.each("C"), "N"):
            total += tl.sum(x[b, c, n], n)
        for c, n in tl.stream(tl.each("C"), "N"):
            out[b, c, n] = tl.cumsum(x[b, c, n], n) + before - total
            before += tl.sum(x[b, c, n], n)


def test_carried_scalars_and_two_loops_over_the_same_axes():
    compiled(running.bind(np.zeros((2, 2, 40), np.float32)))


@pytest.mark.slow
def test_carried_scalars_and_two_loops_over_the_same_axes_are_right():
    x = np.random.default_rng(0).integers(0, 3, (2, 2, 40)).astype(np.float32)
    assert np.allclose(on_cpu(running, np.float32, x=x), running.interpret(x))


@tl.kernel
def scaled_by_sum(x: tl.Tensor["B", "N", tl.f32]) -> tl.Tensor["B", "N", tl.f32]:
    for b in tl.grid(tl.each("B")):
        total = 0.0
        for n in tl.stream("N"):
            total += tl.sum(x[b, n], n)
        factor = 1.0 / (total + 1.0)
        for n in tl.stream("N"):
            out[b, n] = x[b, n] * factor


def test_scalar_code_after_a_loop_reads_what_the_loop_carried_at_its_end():
    text = source_of(scaled_by_sum.bind(np.zeros((4, 4000), np.float32)))
    carried = re.search(r"(\w+) = total_1;", text)
    assert text.index("// vector_total") < carried.start() < text.index("// vector_factor")
    assert f" = {carried[1]} + " in text[text.index("// vector_factor") :]


@tl.kernel
def binned(x: tl.Tensor["N", "T"], at: tl.Tensor["N", tl.i32]) -> tl.outputs(
    out=tl.Tensor[5, "T"], count=tl.Tensor[5, tl.i64]
):
    for n in tl.grid("N"):
        tl.atomic_add(out[at[n]], x[n])
        tl.atomic_add(count[at[n]], 1)


@pytest.mark.clang
@pytest.mark.parametrize("dtype", some([np.float16, np.int8], [np.float16]))
def test_atomic_additions_to_types_without_an_instruction(dtype: type):
    x, at = np.arange(40) % 4, np.arange(40, dtype=np.int32) % 7
    call = binned.bind(x.astype(dtype), at)
    compiled(call)
    arrays = call.arrays | {"out": np.zeros(5, dtype), "count": np.zeros(5, np.int64)}
    run_on_cpu(generated(call), call.kernel, arrays, call.dims, call.scalars)
    assert (arrays["out"] == np.bincount(at, x, 7)[:5]).all()
    assert (arrays["count"] == np.bincount(at)[:5]).all()


@tl.kernel
def chained(x: tl.Tensor["M", "K", tl.f16], w: tl.Tensor["V", "K", tl.f16]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        total = tl.zeros(m)
        for v in tl.stream("V"):
            logits = tl.zeros(m, v)
            for k in tl.stream("K"):
                logits += tl.dot(x[m, k], w[v, k])
            total += tl.sum(tl.exp(logits), v)
        out[m] = total


def test_a_loop_inside_a_loop_loads_by_the_axes_of_both_on_sm_80():
    x = np.zeros((64, 256), np.float16)
    nvrtc.compile_source(generated(chained.bind(x, x)).text, "sm_80")


@tl.kernel
def halves_across(x: tl.Tensor["M", "N", tl.i32], index: tl.Tensor["N", tl.i32]) -> tl.outputs(
    y=tl.Tensor["N", "M", tl.u4], z=tl.Tensor["M", "N", tl.u4]
):
    for m in tl.grid("M"):
        n = tl.axis("N")
        y[n, m] = tl.cast(x[m, n], tl.u4)
        z[m, index[n]] = tl.cast(x[m, n], tl.u4)


@pytest.mark.clang
def test_halves_of_a_byte_from_different_threads():
    """Of an odd number a row, the last one has 0 beside it."""
    rng = np.random.default_rng(0)
    x, index = rng.integers(0, 16, (5, 7)).astype(np.int32), rng.permutation(7).astype(np.int32)
    call = halves_across.bind(x, index)
    compiled(call)
    arrays = call.arrays | {name: np.full_like(call.arrays[name], 0xFF) for name in ("y", "z")}
    run_on_cpu(generated(call), call.kernel, arrays, call.dims, call.scalars)
    moved = np.zeros_like(x)
    moved[:, index] = x
    for got, wanted in ((arrays["y"], x.T), (arrays["z"], moved)):
        padded = np.pad(wanted, ((0, 0), (0, 1)))[:, : wanted.shape[1] // 2 * 2 + 2]
        assert np.array_equal(got, padded[:, ::2] | padded[:, 1::2] << 4)


def test_loops_that_feed_loops_that_feed_others():
    """Found on an H200: of three loops in a chain the first was not written."""
    assert "__global__" in three_loops()


@pytest.mark.slow  # NVRTC takes 20 s
def test_loops_that_feed_loops_that_feed_others_compile():
    nvrtc.compile_source(three_loops(), "sm_90a")


def three_loops() -> str:
    found = program(1366050790)
    return source_of(found.kernel.bind(**found.arguments))


@tl.kernel
def three_rows_each(
    a: tl.Tensor["M", "J", "K", tl.f32], b: tl.Tensor["N", "J", "K", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        j, k = tl.axis("J"), tl.axis("K")
        out[m, n] = tl.dot(a[m, j, k], b[n, j, k], over=(j, k))


def test_threads_beyond_the_end_of_an_inner_axis_fill_nothing():
    """Found on an H200: of three rows for each index the fourth, a zero, was written over the next index's first."""
    x = np.zeros((70, 3, 33), np.float32)
    text = compiled(three_rows_each.bind(x, x))
    fills = re.findall(r"(if \(.*\) )?write_shared<16>\(smem_([ab])", text)
    assert len(fills) == 2 and all("< 3" in guard for guard, _ in fills)
