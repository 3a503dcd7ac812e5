"""Sizes that change with each call share code within a bucket of extents, where it is right for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from quick import some

import threadloom as tl
from tests.unit.cuda_target.fake_driver import OnGpu
from tests.unit.cuda_target.machine_code import example_call
from threadloom.machine.devices import device as find_device
from threadloom.sched.search import plan
from threadloom.targets.cuda import best_plan, launch
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.serves import bucket, serves

pytest.importorskip("cuda.bindings.nvrtc")


@tl.kernel
def added(x: tl.Tensor["M", "N", tl.f32], by: tl.f32) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m, n] = x[m, n] + by


@tl.kernel
def shifted_product(
    a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16], scale: tl.Tensor["R", tl.f16]
) -> tl.Tensor["R", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m + 1, n] = acc * scale[m + 1]


def call(gpu, rows: int, columns: int = 128) -> None:
    x = np.zeros((rows, columns), np.float32)
    added(OnGpu(x), 1.0, out=OnGpu(np.empty_like(x)))


def codes(kernel) -> list[launch.CudaKernel]:
    return list({id(k): k for k in launch._known_of(kernel.tile()).compiled.values()}.values())


def test_buckets():
    assert [bucket(n) for n in (0, 1, 5, 127, 128, 129, 4096, 4097, 5120)] == [1, 1, 5, 128, 128, 160, 4096, 5120, 5120]


def test_sizes_of_a_bucket_share_code(gpu):
    launch.forget(added.tile())
    sizes = (1001, 900, 1024, 1001)
    for rows in sizes:
        call(gpu, rows)
    (kernel,) = codes(added)
    places = 132 * kernel.source.blocks_per_eu
    assert [n.blocks for n in gpu.launches[-4:]] == [min(kernel.tiles({"M": m, "N": 128}), places) for m in sizes]
    at = len(kernel.source.maps) + 3 * len(kernel.source.direct) + kernel.source.dims.index("M")
    assert [n.words[at] & 0xFFFFFFFF for n in gpu.launches[-4:]] == list(sizes)


def test_another_bucket_or_a_whole_axis_is_planned_anew(gpu):
    launch.forget(added.tile())
    call(gpu, 1001)
    call(gpu, 1100)
    assert len(codes(added)) == 2
    call(gpu, 1001, 124)  # N is taken whole: its extent is compiled in
    assert len(codes(added)) == 3


def test_a_plan_measured_for_the_extents_comes_first(gpu, monkeypatch):
    launch.forget(added.tile())
    monkeypatch.setattr("threadloom.sched.reuse.is_measured", lambda kernel, dims, device: dims["M"] == 900)
    for rows in (1001, 900, 950):
        call(gpu, rows)
    assert len(codes(added)) == 2


def test_old_forms_are_forgotten(gpu, monkeypatch):
    launch.forget(added.tile())
    monkeypatch.setattr(launch, "MOST_FORMS", 3)
    for rows in range(1000, 1010):
        call(gpu, rows)
    known = launch._known_of(added.tile())
    assert len(known.compiled) == len(known.prepared) == 3 and len(codes(added)) == 1


def test_a_store_that_needs_whole_tiles_does_not_serve_others():
    kernel = shifted_product.tile()
    shapes = [{"M": m, "K": 64, "N": 128, "R": m + 1} for m in (128, 120)]
    program = plan(kernel, shapes[0], "h200", splits=False).best
    shape = {"a": (128, 64), "b": (64, 128), "scale": (129,), "out": (129, 128)}
    arrays = {name: np.zeros(extents, np.float16) for name, extents in shape.items()}
    given = {n: replace(t, pointer=0) for n, t in device_tensors(kernel, arrays).items()}
    facts = {t.name: facts_of(t, given[t.name]) for t in kernel.tensors}
    assert serves(program, facts, shapes[0], shapes[0])
    assert not serves(program, facts, shapes[0], shapes[1])


@pytest.mark.parametrize("name", some(["matmul", "flash_attention"], ["matmul"]))
def test_code_that_serves_is_the_code_that_would_be_made(name: str):
    """The text for other extents of the bucket, by the same plan, is the same."""
    fixed = {"matmul": dict(N=512, K=256), "flash_attention": dict(B=1, H=2, HKV=2, SK=510, D=64)}[name]
    varied = {"matmul": "M", "flash_attention": "SQ"}[name]
    calls = [example_call(name, {**fixed, varied: extent}) for extent in (1000, 961)]
    texts, program = [], plan(calls[0].kernel, calls[0].dims, "h200", splits=False).best
    for one in calls:
        given = {n: replace(t, pointer=0) for n, t in device_tensors(one.kernel, one.arrays).items()}
        facts = {t.name: facts_of(t, given[t.name]) for t in one.kernel.tensors}
        assert serves(program, facts, calls[0].dims, one.dims)
        texts.append(emit(program, facts, one.dims).text)
    assert texts[0] == texts[1]


# ---------------------------------------------------------------- plans with faults


def test_further_partitions_are_scheduled_where_all_have_faults(monkeypatch):
    """Where the code of everything that the search scheduled spills, smaller tiles are tried."""
    kernel, dims = added.tile(), {"M": 4096, "N": 1024}
    monkeypatch.setattr(best_plan, "compile_program", lambda program, *rest: program)
    facts = {t.name: TensorFacts(t, 1, True) for t in kernel.tensors}
    scheduled = len(plan(kernel, dims, "h200").candidates)
    found = list(best_plan.compiled(kernel, dims, facts, find_device("h200"), ()))
    assert best_plan.MOST_TRIED >= len(found) > scheduled
    assert len({(p.partition, p.device, p.decisions) for p in found}) == len(found)
    rows = [next(t.worker_extent for t in p.partition.tiles if t.axis == "m") for p in found]
    assert rows[scheduled] <= min(rows[:scheduled])
