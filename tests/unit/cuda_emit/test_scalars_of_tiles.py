"""Scalars that are computed of tiles, and place loads, operands of products among them, bound loops and choose: each
has code on both architectures. On Hopper the role that fills operands has no such scalar, so warps do the products."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np
import pytest
from quick import slow, some

import threadloom as tl
from benchmarks.gpu_cases import chosen_operands
from tests.unit.cuda_emit.test_products import is_right_on_cpu
from threadloom.machine.devices import device
from threadloom.machine.shares import by_warps
from threadloom.sched.worker_scalars import known_to_workers
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.best_plan import programs_for
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.emit_for import emit
from threadloom.targets.cuda.launch import device_tensors
from threadloom.task.build import build_task_graph

rng = np.random.default_rng(0)


def floats(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def integers(least: int, beyond: int, *shape: int) -> np.ndarray:
    return rng.integers(least, beyond, shape).astype(np.int32)


@tl.kernel
def routed(
    scores: tl.Tensor["B", "E", tl.f32], a: tl.Tensor["B", "M", "K", tl.f16], w: tl.Tensor["E", "K", "N", tl.f16]
) -> tl.Tensor["B", "M", "N", tl.f32]:
    for b, m, n in tl.grid(tl.each("B"), "M", "N"):
        e = tl.axis("E")
        best = tl.argmax(scores[b, e], e)
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(a[b, m, k], w[best, k, n])
        out[b, m, n] = acc


@tl.kernel
def carried(
    a: tl.Tensor["M", "K", tl.f16], w: tl.Tensor["E", "K", "N", tl.f16], s: tl.Tensor["S", "E", "E", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        e, k = tl.axis("E"), tl.axis("K")
        acc = tl.zeros(m, n)
        at = tl.cast(0, tl.i64)
        for i in tl.stream(tl.each("S")):
            acc += tl.dot(a[m, k], w[at, k, n])
            at = tl.argmax(s[i, at, e], e)
        out[m, n] = acc


@tl.kernel
def followed(
    s: tl.Tensor["B", "E", tl.f32], link: tl.Tensor["E", tl.i32], x: tl.Tensor["E", "M", "K", tl.f16],
    w: tl.Tensor["K", "N", tl.f16], steps: tl.Tensor["S", tl.i8],
) -> tl.Tensor["B", "M", "N", tl.f32]:  # fmt: skip
    for b, m, n in tl.grid(tl.each("B"), "M", "N"):
        e, k = tl.axis("E"), tl.axis("K")
        at = tl.cast(tl.argmax(s[b, e], e), tl.i32)
        acc = tl.zeros(m, n)
        for _ in tl.stream(tl.each("S")):
            acc += tl.dot(x[at, m, k], w[k, n])
            at = link[at]
        out[b, m, n] = acc


@tl.kernel
def looked_up(
    s: tl.Tensor["B", "E", tl.f32], table: tl.Tensor["E", tl.i32], x: tl.Tensor["P", "M", "K", tl.f16],
    w: tl.Tensor["K", "N", tl.f16],
) -> tl.Tensor["B", "M", "N", tl.f32]:  # fmt: skip
    for b, m, n in tl.grid(tl.each("B"), "M", "N"):
        e, k = tl.axis("E"), tl.axis("K")
        at = table[tl.argmax(s[b, e], e)] + 1
        out[b, m, n] = tl.dot(x[at, m, k], w[k, n])


@tl.kernel
def bounded(
    lengths: tl.Tensor["B", "E", tl.i32], a: tl.Tensor["M", "K", tl.f16], w: tl.Tensor["K", "N", tl.f16]
) -> tl.Tensor["B", "M", "N", tl.f32]:
    for b, m, n in tl.grid(tl.each("B"), "M", "N"):
        e = tl.axis("E")
        acc = tl.zeros(m, n)
        for k in tl.stream(tl.span("K", 0, tl.sum(lengths[b, e], e))):
            acc += tl.dot(a[m, k], w[k, n])
        out[b, m, n] = acc


@tl.kernel
def guarded(
    s: tl.Tensor["S", "E", tl.f32], a: tl.Tensor["M", "K", tl.f16], w: tl.Tensor["S", "K", "N", tl.f16]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        e, k = tl.axis("E"), tl.axis("K")
        acc = tl.zeros(m, n)
        for i in tl.stream(tl.each("S")):
            if tl.any(s[i, e] > 1.0, e):
                acc += tl.dot(a[m, k], w[i, k, n])
        out[m, n] = acc


@tl.kernel
def masked(
    lengths: tl.Tensor["B", "E", tl.i32], low: tl.Tensor["B", "E", tl.f32], x: tl.Tensor["B", "M", "N", tl.f32]
) -> tl.Tensor["B", "M", "N", tl.f32]:
    for b, m in tl.grid(tl.each("B"), "M"):
        e, n = tl.axis("E"), tl.axis("N")
        stop = tl.sum(lengths[b, e], e)
        out[b, m, n] = tl.where(n < stop, tl.exp(x[b, m, n]), tl.min(low[b, e], e))


@tl.kernel
def stepped(
    first: tl.Tensor["B", "E", tl.i32], link: tl.Tensor["P", tl.i32], x: tl.Tensor["P", "N", tl.f32],
    steps: tl.Tensor["S", tl.i8],
) -> tl.Tensor["B", "N", tl.f32]:  # fmt: skip
    for b, n in tl.grid(tl.each("B"), "N"):
        e = tl.axis("E")
        page = tl.max(first[b, e], e)
        acc = tl.zeros(n)
        for _ in tl.stream(tl.each("S")):
            acc += x[page, n]
            page = link[page]
        out[b, n] = acc


STEPS = np.zeros(4, np.int8)
PRODUCTS = {
    routed: (floats(3, 8, dtype=np.float32), floats(3, 40, 48), floats(8, 48, 24)),
    carried: (floats(40, 32), floats(8, 32, 24), floats(5, 8, 8, dtype=np.float32)),
    followed: (floats(3, 5, dtype=np.float32), integers(0, 5, 5), floats(5, 40, 32), floats(32, 24), STEPS),
    looked_up: (floats(3, 5, dtype=np.float32), integers(0, 7, 5), floats(8, 40, 32), floats(32, 24)),
    bounded: (integers(0, 20, 3, 8), floats(40, 160), floats(160, 24)),
    guarded: (floats(5, 8, dtype=np.float32) / 2, floats(40, 32), floats(5, 32, 24)),
}
VECTORS = {
    masked: (integers(0, 9, 3, 5), floats(3, 5, dtype=np.float32), floats(3, 20, 40, dtype=np.float32)),
    stepped: (integers(0, 6, 3, 5), integers(0, 6, 6), floats(6, 48, dtype=np.float32), STEPS),
}
ALL = PRODUCTS | VECTORS


def name_of(kernel) -> str:
    return getattr(kernel, "name", "")


def code(kernel, name: str) -> tuple[str, str]:
    """The device of the best plan, and its code."""
    call = kernel.bind(*ALL[kernel])
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    (program,) = islice(programs_for(call.kernel, call.dims, facts, device(name)), 1)
    source = emit(program, facts, call.dims)
    assert source.arch == device(name).arch
    assert not nvrtc.compile_source(source.text, source.arch).spill_bytes
    return program.device, source.text


@pytest.mark.parametrize("kernel", some(PRODUCTS, (routed, bounded)), ids=name_of)
def test_warps_do_the_products_whose_operands_a_scalar_of_tiles_places(kernel):
    planned, text = code(kernel, "h200")
    assert planned == "h200/warps" and "mma_f16(" in text and "copy_async" in text


@pytest.mark.parametrize("name", ["h200", "a100"])
@pytest.mark.parametrize("kernel", some(ALL, (routed, guarded, masked)), ids=name_of)
def test_no_array_of_one_register_stands_for_its_scalar(kernel, name):
    """`(i64)(best)` of an array is its address: wrong, and no compiler says so."""
    _, text = code(kernel, name)
    arrays = set(re.findall(r"^ +(?:i32|i64|float|bool) (\w+)\[1\];", text, flags=re.MULTILINE))
    assert arrays
    for array in arrays:
        bare = rf"\((?:i32|i64|u32)\)\({array}\)|[(!] ?{array} ?(?:\)|&&|\|\|)|[?:] {array}[ ;)]"
        assert not re.search(bare, text), array


@pytest.mark.clang
@pytest.mark.parametrize("kernel", some(ALL, (guarded, masked)), ids=name_of)
def test_on_the_cpu(kernel):
    assert is_right_on_cpu(kernel, *ALL[kernel])


@pytest.mark.clang
@pytest.mark.parametrize("shape", [*map(slow, chosen_operands.SHAPES)], ids=str)
def test_the_case_for_a_device_on_the_cpu(shape):
    given = chosen_operands.inputs(rng, **shape, dtype=np.float16)
    assert is_right_on_cpu(chosen_operands.chosen_operands, *given.values())


def test_what_depends_on_a_bound_of_tiles_is_known_to_workers_alone():
    graph = build_task_graph(bounded.tile())
    loads = {t.name for t in graph.tasks if t.loop and t.name.startswith("load_")}
    assert loads and loads <= known_to_workers(graph)
    assert not known_to_workers(build_task_graph(plain.tile()))


@tl.kernel
def plain(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


def test_devices_by_warps():
    made = by_warps(device("h200"))
    assert made == device("h200/warps") and made.arch == "sm_90a" and made.eu_count == device("h200").eu_count
    assert by_warps(made) is None and by_warps(device("a100")) is None and by_warps(device("h200/2")) is None


def test_of_threads_that_stand_at_the_same_place_one_copies():
    """All 256 threads copied the same eight scores: the same bytes to the same place, which racecheck reports."""
    _, text = code(routed, "a100")
    copy = next(line for line in text.splitlines() if "copy_async" in line and "smem_scores" in line)
    assert copy.strip().startswith("if (") and "warp_in_group" in copy.partition("copy_async")[0]
