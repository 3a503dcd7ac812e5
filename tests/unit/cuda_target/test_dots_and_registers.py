"""Products planned for wgmma or for lanes, registers that vector code needs at once, and workers in step."""

from __future__ import annotations

import pytest

import threadloom as tl
from threadloom.dtypes import ALL
from threadloom.examples.attention_backward import attention_backward
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.live_registers import live_bytes
from threadloom.sched.ops import Issue
from threadloom.sched.search import plan
from threadloom.sched.sizes import Sizes
from threadloom.targets.cuda.dot import plan_dot, wanted_rows
from threadloom.task.build import build_task_graph
from threadloom.task.ops import Kind
from threadloom.tile.ops import Dot
from threadloom.tile.uses import walk


@tl.kernel
def product(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


def dot_of(dtype: str) -> Dot:
    return next(op for op in walk(product.tile(T=ALL[dtype]).body) if isinstance(op, Dot))


def planned(dtype: str = "f16", m: int = 128, n: int = 256, k: int = 64, split: str = "m", computed: str = "", **along):
    op = dot_of(dtype)
    extents = {"m": m, "n": n, "k": k}
    workers = extents | ({split: extents[split] // 2} if split else {})
    names = {"a": op.a.name, "b": op.b.name}
    contiguous = {names[t]: axis for t, axis in {"a": "k", "b": "n", **along}.items()}
    return plan_dot(op, extents, workers, frozenset({names[computed]} if computed else ()), contiguous), names


def test_rows_are_what_workers_split():
    plan_, names = planned()
    assert plan_.row_operand.name == names["a"] and (plan_.m, plan_.n, plan_.k) == (64, 256, 64)
    plan_, names = planned(split="n")
    assert plan_.row_operand.name == names["b"] and (plan_.m_axis, plan_.m, plan_.n) == ("n", 128, 128)


def test_a_computed_operand_gives_the_rows():
    plan_, names = planned(computed="b", split="")
    assert plan_.row_operand.name == names["b"] and plan_.m_axis == "n"
    plan_, names = planned(computed="a")
    assert plan_.row_operand.name == names["a"] and not plan_.simt


def test_extents_are_padded_to_whole_instructions():
    plan_, _ = planned(m=50, n=20, k=10, split="")
    assert (plan_.m, plan_.n, plan_.k) == (64, 24, 16)
    plan_, _ = planned(m=64, n=264, k=64, split="")  # wider than an instruction: two equal pieces
    assert (plan_.m, plan_.n) == (64, 272) or plan_.m_axis == "n"


@pytest.mark.parametrize(
    ("dtype", "along", "lanes"),
    [
        ("f16", {}, False), ("bf16", {"a": "m"}, False), ("f32", {}, True),
        ("f8e4m3", {"b": "k"}, False), ("f8e4m3", {}, True), ("i8", {"b": "k"}, False),
    ],
)  # fmt: skip
def test_what_the_tensor_cores_take(dtype: str, along: dict[str, str], lanes: bool):
    plan_, _ = planned(dtype, **along)
    assert plan_.simt == lanes


@tl.kernel
def batched(
    a: tl.Tensor["M", "H", "J", "K", tl.f16], b: tl.Tensor["H", "J", "K", "N", tl.f16]
) -> tl.Tensor["M", "H", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        h, j, k = tl.axis("H"), tl.axis("J"), tl.axis("K")
        out[m, h, n] = tl.dot(a[m, h, j, k], b[h, j, k, n], over=(j, k))


def batched_plan(contiguous: tuple[str, str], **fastest: str):
    op = next(op for op in walk(batched.tile().body) if isinstance(op, Dot))
    extents = {"m": 128, "n": 32, "h": 3, "j": 2, "k": 48}
    names = {"a": op.a.name, "b": op.b.name}
    columns = {op.a.name: contiguous[0], op.b.name: contiguous[1]}
    return plan_dot(op, extents, extents, frozenset(), columns, {names[t]: axis for t, axis in fastest.items()})


def test_further_axes_are_products_of_their_own():
    p = batched_plan(("k", "n"))
    assert (p.m_axis, p.n_axis, p.k_axis, p.simt) == ("m", "n", "k", False)
    assert p.others == (("h", 3), ("j", 2)) and p.summed == ("k", "j")
    assert p.result_layout.registers == 3 * p.slice_layout.registers
    assert p.row_operand_layout.registers == 3 * 2 * p.row_slice_layout.registers


def test_parts_that_are_no_matrices_are_multiplied_by_lanes():
    assert batched_plan(("h", "n")).simt  # the rows of a part do not lie along its depth
    assert not batched_plan(("j", "n")).simt  # j is as good a depth as k
    assert batched_plan(("j", "n")).k_axis == "j"
    assert not batched_plan(("k", "n"), a="m").simt
    assert batched_plan(("k", "n"), a="h").simt  # another product needs other rows one after the other


@tl.kernel
def by_vector(a: tl.Tensor["K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["N", tl.f32]:
    for n in tl.grid("N"):
        k = tl.axis("K")
        out[n] = tl.dot(a[k], b[k, n])


def test_a_vector_is_the_column_and_lanes_multiply():
    op = next(op for op in walk(by_vector.tile().body) if isinstance(op, Dot))
    extents = {"n": 64, "k": 64}
    p = plan_dot(op, extents, extents, frozenset(), {op.a.name: "k", op.b.name: "n"})
    assert (p.row_operand, p.m_axis, p.n_axis, p.simt) == (op.b, "n", "", True)


# ---------------------------------------------------------------- registers of vector code


@tl.kernel
def centred(x: tl.Tensor["M", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        wide = tl.cast(x[m, n], tl.f32)
        low = wide - tl.max(wide, n)
        out[m, n] = low / tl.sum(low, n)


def test_only_what_outlasts_a_reduction_takes_registers():
    graph = build_task_graph(centred.tile(), "fused")
    (task,) = [t for t in graph.tasks if t.kind is Kind.VECTOR]
    sizes = Sizes({"m": 4, "n": 1000}, {"m": 64, "n": 1000}, "", 1)
    whole = 4 * 1000 * 4
    assert whole <= live_bytes(task, sizes, False) <= whole + 2 * 4 * 4  # one tile (f16 counts as 4 bytes), two columns
    shared = Sizes({"m": 4, "n": 1000}, {"m": 64, "n": 1000}, "m", 2)
    assert live_bytes(task, shared, True) * 2 == pytest.approx(live_bytes(task, sizes, False), rel=0.01)


# ---------------------------------------------------------------- workers in step


def test_workers_do_the_same_in_the_same_order():
    dims = {"B": 4, "H": 16, "HKV": 16, "SQ": 4096, "SK": 4096, "D": 128}
    program = plan(flash_attention.tile(T=tl.f16), dims, "h200").best
    workers = [r.name for r in program.roles if r.kind == "worker"]
    assert len(workers) >= 2
    for loop in {s.loop for s in program.sections}:
        orders = {
            tuple((i.task, i.stage) for s in program.sections if (s.role, s.loop) == (name, loop)
                  for i in s.instrs if isinstance(i, Issue))
            for name in workers
        }  # fmt: skip
        assert len(orders) == 1, orders


def test_rows_are_what_a_product_behind_elementwise_code_wants():
    """Scores that a product takes with keys for rows are made with keys for rows. On an H200 they had queries for rows,
    and were packed as they lay: the gradients were wrong."""
    ops = [op for op in walk(attention_backward.tile(T=ALL["f16"], causal=False).body)]
    dots = [op for op in ops if isinstance(op, Dot)]
    scores, gradients, *sums = dots
    computed = frozenset(dot.a.name for dot in sums)
    rows = wanted_rows(ops, computed)
    assert {rows[scores.result.name], rows[gradients.result.name]} == {"n"}
    extents = {"m": 64, "n": 64, scores.over[0]: 64}
    assert plan_dot(scores, extents, extents, frozenset(), {}, rows="n").m_axis == "n"
    split = plan_dot(scores, extents, extents | {"m": 32}, frozenset(), {}, rows="n")
    assert split.m_axis == "m"  # what workers split comes first
