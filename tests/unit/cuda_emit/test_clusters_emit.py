"""What the GPU generator writes for clusters, and how they are launched (no GPU; one test compiles)."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.unit.cuda_target.fake_driver import gpu  # noqa: F401
from tests.unit.cuda_target.machine_code import disassembler
from tests.unit.sched.test_clusters import planned, product
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, packed
from threadloom.targets.cuda.emit import KernelSource, emit
from threadloom.targets.cuda.nvrtc import Cubin, compile_source
from threadloom.targets.cuda.time_plan import packed_facts

DIMS = {"M": 4096, "N": 4096, "K": 4096}


@cache
def source(cluster: int, group: int = 16) -> KernelSource:
    return emit(planned(cluster, group), packed_facts(product.tile(), DIMS), DIMS)


@pytest.mark.parametrize("cluster", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_each_block_brings_its_rows_to_all(cluster):
    text, rows = source(cluster).text, 64 // cluster
    loads = re.findall(r"bulk_load_all\(smem_b.*\);", text)
    assert len(loads) == 2, "two panels of 64 columns"
    assert all(f"{hex(2**cluster - 1)}, n_at" in x and f"k_at + block_in_cluster * {rows})" in x for x in loads)
    assert all(f"block_in_cluster * {rows * 128}," in x for x in loads)
    assert dict(source(cluster).maps)["map_b"].box == (64, rows)
    assert "bulk_load(smem_a" in text and "barrier_expect(full_b" in text
    (expected,) = set(re.findall(r"barrier_expect\(full_b.*, (\d+)\);", text))
    assert int(expected) == 64 * 128 * 2, "its own phase counts the bytes that all blocks bring"


def test_slots_are_released_in_all_blocks():
    text = source(2).text
    releases = re.findall(r"if \((.*)\) barrier_arrive(_at)?\(empty_(\w)", text)
    assert {(name, at) for _, at, name in releases} == {("a", ""), ("b", "_at")}
    assert all(test == ("lane < 2" if at else "lane == 0") for test, at, _ in releases)
    arrivals = dict(re.findall(r"barrier_init\((empty_\w) \+ 0, (\d+)\);", text))
    assert arrivals == {"empty_a": "8", "empty_b": "16"}, "four warps of two workers, in two blocks"


def test_blocks_meet_before_they_begin_and_before_they_leave():
    text = source(2).text
    assert text.count("cluster_sync();") == 2 and "__syncthreads();" not in text
    assert text.index("barrier_init_done();") < text.index("cluster_sync();") < text.index("// producer")
    assert text.rindex("cluster_sync();") > text.rindex("store_wait_read")
    assert "cluster" not in source(1).text


def test_the_grid_has_whole_clusters(gpu):  # noqa: F811
    made = source(2)
    kernel = CudaKernel(planned(2), made, Cubin(b"", "sm_90a", 0, 0, 0, 0, ""), packed_facts(product.tile(), DIMS))
    assert "const i32 tiles_m = ceil_div(ceil_div(dim_M, 128), 2) * 2;" in made.text
    for m, tiles in ((4096, 1024), (4097, 34 * 32), (100, 2 * 32), (1, 2 * 32)):
        dims = DIMS | {"M": m}
        assert kernel.tiles(dims) == tiles
        shapes = {"a": (m, 4096), "b": (4096, 4096), "out": (m, 4096)}
        kernel.launch({n: DeviceTensor(256, s, packed(s)) for n, s in shapes.items()}, dims, {})
        assert (gpu.launches[-1].blocks, gpu.launches[-1].cluster) == (min(132, tiles), 2)
    gpu.active_clusters = 60  # groups of SMs of which one each is left over
    kernel._prepared.clear()
    kernel.launch({n: DeviceTensor(256, s, packed(s)) for n, s in shapes.items()}, DIMS, {})
    assert gpu.launches[-1].blocks == 120


@pytest.mark.slow
def test_groups_need_not_be_visited():
    """Without groups neighbours differ in n, so that they share a."""
    text = source(2, 1).text
    assert "bulk_load_all(smem_a" in text and "bulk_load(smem_b" in text
    assert "tiles_n = ceil_div(ceil_div(dim_N, 128), 2) * 2;" in text


@pytest.mark.slow
@pytest.mark.skipif(not disassembler(), reason="no nvdisasm")
def test_machine_code_multicasts(tmp_path):
    import subprocess

    made = compile_source(source(2).text, "sm_90a")
    assert made.spill_bytes == 0 and not made.serialised
    (tmp_path / "kernel.cubin").write_bytes(made.code)
    shown = subprocess.run([disassembler(), "-c", str(tmp_path / "kernel.cubin")], capture_output=True, text=True)
    code = shown.stdout
    assert len(re.findall(r"UTMALDG\.2D\.MULTICAST", code)) == 2 and len(re.findall(r"UTMALDG\.2D \[", code)) == 1
    assert code.count("UCGABAR_WAIT") == 2
    assert "MEMBAR.ALL.GPU" not in code[code.index("UCGABAR_WAIT") : code.rindex("UCGABAR_ARV")].rpartition("HGMMA")[0]
