"""Split reductions on a GPU: the code of both kernels, launched as one, with a driver that records."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from quick import some

import threadloom as tl
from tests.unit.cuda_target.fake_driver import OnGpu, Status
from tests.unit.cuda_target.machine_code import sass
from tests.unit.cuda_target.test_gpu_calls import aligned
from threadloom.bench.kernels import product
from threadloom.errors import CompileError
from threadloom.sched import reuse
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.targets.cuda import launch
from threadloom.targets.cuda.compile import CudaKernel, between_facts, compile_program
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.serves import bucket
from threadloom.targets.cuda.time_plan import make_ready, packed_facts_of, read_ready

pytest.importorskip("cuda.bindings.nvrtc")

DIMS = {"M": 16, "N": 256, "K": 2048}
TILES = {"m": 64, "n": 64, "k": 64}
TILES_80 = {"m": 16, "n": 64, "k": 64}


def split(splits: int, tiles: dict[str, int]) -> Partition:
    made = tuple(AxisTile(a, e, e) for a, e in tiles.items())
    return Partition(made, (), ("part", "m", "n"), splits=splits, persistent=True)


@tl.kernel
def scaled_product(
    a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"], by: tl.f32, bias: tl.Tensor["N", tl.f32]
) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc * by + bias[n]


@cache
def planned(device: str, splits: int = 4) -> SProgram:
    tiles = TILES if device == "h200" else TILES_80
    return plan(scaled_product.tile(T=tl.f16), DIMS, device, only=split(splits, tiles)).best


@cache
def compiled(device: str) -> CudaKernel:
    program = planned(device)
    return compile_program(program, packed_facts_of(program, DIMS), DIMS)


CODE = [("h200", "HGMMA", "UTMALDG"), ("a100", "HMMA", "LDGSTS")]


@pytest.mark.parametrize(("device", "product_", "copy"), some(CODE, CODE[:1]))
def test_both_kernels_compile_to_what_is_planned(device, product_, copy, tmp_path):
    made = compiled(device)
    assert fault_of(made) == "" and made.combine.combine is None
    parts, combine = sass(made, tmp_path), sass(made.combine, tmp_path)
    found = parts.text.count(product_), parts.text.count(copy), combine.text.count(product_)
    assert found[0] > 0 and found[1] > 0 and found[2] == 0
    # every part begins and ends at whole tiles or at the tensor's end: nothing is zeroed, nothing masked
    assert "positions of the tile that count" not in made.source.text
    if device == "h200":  # both operands by the copy engine, from where a part begins
        assert made.source.text.count("bulk_load(smem_a") >= 1 and made.source.text.count("bulk_load(smem_b") >= 1


def test_a_plan_made_ready_holds_both_kernels(tmp_path):
    path = tmp_path / "plan"
    assert make_ready(planned("h200"), DIMS, path) == ""
    kernel = read_ready(path)
    assert kernel.combine is not None and kernel.combine.source.name == "scaled_product_combine"


# ---------------------------------------------------------------- calls


def run(gpu, monkeypatch, stream: int = 0, **dims: int):
    """One call, by the split plan."""
    monkeypatch.setattr(reuse, "program_for", lambda *_: reuse.Chosen(planned("h200"), reuse.Origin.TUNED))
    M, N, K = ({**DIMS, **dims}[d] for d in "MNK")
    a, b, out = (aligned(np.zeros(shape, np.float16)) for shape in ((M, K), (K, N), (M, N)))
    bias = aligned(np.zeros(N, np.float32))
    scaled_product(OnGpu(a, stream=stream), OnGpu(b, stream=stream), 2.5, OnGpu(bias, stream=stream),
                   out=OnGpu(out, stream=stream))  # fmt: skip
    return a, b, bias, out


def addresses(words: list[int]) -> set[int]:
    return set(words)


def test_parts_and_combination_go_to_one_stream(gpu, monkeypatch):
    a, b, bias, out = run(gpu, monkeypatch, stream=7)
    first, second = gpu.launches
    (made,) = launch._known_of(scaled_product.tile(T=tl.f16)).compiled.values()
    assert first.blocks == min(132, 4 * 4) and first.threads == made.source.threads
    assert second.threads == made.combine.source.threads
    assert {first.stream, second.stream} == {7}
    ((between, size, stream),) = gpu.allocated
    assert stream == 7 and size >= 4 * 16 * 256 * 4 and gpu.freed == [(between, 7)]
    pointer = {name: x.ctypes.data for name, x in (("a", a), ("b", b), ("bias", bias), ("out", out))}
    assert {pointer["a"], pointer["b"], between} <= addresses(first.words)
    assert not {pointer["out"], pointer["bias"]} & addresses(first.words)
    assert {pointer["out"], pointer["bias"], between} <= addresses(second.words)
    assert not {pointer["a"], pointer["b"]} & addresses(second.words)


def test_another_call_has_its_own_memory_between_the_kernels(gpu, monkeypatch):
    run(gpu, monkeypatch, stream=1)
    run(gpu, monkeypatch, stream=2)
    assert len({pointer for pointer, _, _ in gpu.allocated}) == 2
    assert [s for _, s in gpu.freed] == [1, 2]
    assert len(launch._known_of(scaled_product.tile(T=tl.f16)).compiled) == 1


def test_memory_that_is_not_there_is_an_error_and_nothing_runs(gpu, monkeypatch):
    gpu.fail["cuMemAllocAsync"] = Status.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(CompileError, match="between two kernels"):
        run(gpu, monkeypatch)
    assert gpu.launches == [] and gpu.freed == []


def test_code_is_shared_only_where_what_lies_between_is_aligned_alike():
    """Within a bucket of extents; rows of 250 floats are no multiples of 16 bytes, so that threads write them."""
    program = planned("h200")
    near = {**DIMS, "N": 250}
    assert bucket(250) == bucket(256)
    assert between_facts(program, DIMS) != between_facts(program, near)
    facts = packed_facts_of(program, DIMS)
    assert launch._serves(program, facts, DIMS, {**DIMS, "K": 2040})
    assert not launch._serves(program, facts, DIMS, near)


@pytest.mark.slow
def test_exported_kernels_are_one_kernel():
    dims = {"M": 16, "N": 512, "K": 8192}
    kernel = product.tile(T=tl.f16)
    options = {"breadth": 1, "most": 2}
    assert plan(kernel, dims, "h200", splits=True, **options).best.combine is not None
    assert plan(kernel, dims, "h200", splits=False, **options).best.combine is None
