"""4-bit weights become rows of a product in registers, two at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import emitted, source_of
from threadloom.examples.w4_matmul import inputs, w4_matmul
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.packed_nibbles import _less


def call(m: int, n: int, k: int, dtype: type = np.float16):
    return w4_matmul.bind(**inputs(np.random.default_rng(0), m, n, k, dtype))


def test_weights_are_unpacked_in_registers_from_words_that_the_copy_engine_brings():
    made = emitted(call(16, 128, 512))
    (spec,) = [spec for _, spec in made.maps if spec.tensor == "w"]
    assert spec.box[0] == 64, "bytes, not elements"
    assert "smem_weights" not in made.text and "group_sync" not in made.text
    at = r"piece_row \* 64 \+ \(\(\(piece_column & ~7\)\) / 2 \^"
    assert re.search(rf"read_shared<16>\(piece, smem_w .*{at}", made.text)
    assert spec.swizzle_bytes == 64, "lanes read down rows of 64 bytes: four of eight would meet in a bank"
    value = "multiply_f16(nibbles_f16(piece[e], byte, parts, 0xd480e408), scale)"
    assert f"weights_packed[i / 2 + e * 2] = {value}" in made.text
    assert re.search(r"bulk_load\(smem_w[^;]*, \(128 \* \(g_at\)\) / 2, n_at\)", made.text)
    assert "stage_box_across<" in made.text, "the product's rows are the tensor's columns"
    cubin = nvrtc.compile_source(made.text, "sm_90a")
    assert cubin.spill_bytes == 0 and not cubin.serialised


@pytest.mark.parametrize("zero", [0, 8, -3, 64])
def test_every_byte_becomes_its_two_numbers_less_the_zero_point(zero: int):
    """nibbles_f16 in NumPy: a byte in both halves below 0x64, cut to its nibble, times 1 and a sixteenth."""
    byte = np.arange(256, dtype=np.uint32)
    both = (byte | byte << 16 | 0x64006400) & 0x64F0640F
    halves = both.view(np.uint16).view(np.float16).reshape(-1, 2).astype(np.float64)
    less = np.array([int(_less(zero), 16)], np.uint32).view(np.float16).astype(np.float64)
    made = halves * [1, 1 / 16] + less
    assert (made == np.stack([byte & 15, byte >> 4], axis=1).astype(np.int64) - zero).all()
    assert (made.astype(np.float16) == made).all(), "the fused operation rounds nothing"


def test_a_product_of_two_f16_is_the_f32_product_rounded():
    scales = np.arange(2**16, dtype=np.uint16).view(np.float16)
    scales = scales[np.isfinite(scales)]
    for weight in range(-8, 8):
        exact = scales.astype(np.float64) * weight
        with np.errstate(over="ignore"):
            rounded, product = exact.astype(np.float32).astype(np.float16), scales * np.float16(weight)
        assert (exact.astype(np.float32) == exact).all() and (product.view(np.uint16) == rounded.view(np.uint16)).all()


@tl.kernel
def unscaled(a: tl.Tensor["M", "K", tl.f16], w: tl.Tensor["N", "K", tl.u4]) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], tl.cast(w[n, k], tl.f16))
        out[m, n] = acc


def test_numbers_without_scale_or_zero_point():
    a, w = np.zeros((16, 256), np.float16), np.zeros((128, 128), np.uint8)
    text = source_of(unscaled.bind(a, w))
    assert "= nibbles_f16(piece[e], byte, parts, 0xd400e400);" in text and "multiply_f16(" not in text


def test_what_has_another_form_is_made_element_by_element():
    bf16 = source_of(call(16, 128, 512, tl.dtypes.numpy_dtype(tl.bf16)))
    assert "nibbles_f16(" not in bf16 and "read_shared<1>(w_piece" in bf16
    assert "w_piece[e / 2] >> 4 * (e % 2) & 15" in bf16
    assert nvrtc.compile_source(bf16, "sm_90a").spill_bytes == 0
    odd = source_of(call(16, 128, 130))
    assert "nibbles_f16(" not in odd and "map_w" not in odd, "rows of 65 bytes have no boxes"
