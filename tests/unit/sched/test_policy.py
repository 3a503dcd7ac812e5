"""The mechanism that policies are written on, and the policies in docs/howto-policy.md as they stand there."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from quick import some

from tests.unit.sched import graphs, kernels
from tests.unit.sched.test_paper import attention
from threadloom.dtypes import f16
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.sched import greedy, search
from threadloom.sched.bounds import lower_bounds
from threadloom.sched.check import check
from threadloom.sched.mechanism import EU, Plan
from threadloom.sched.search import plan

PAGE = Path(__file__).parents[3] / "docs" / "howto-policy.md"
DIMS = {"M": 1024, "N": 1024, "K": 1024}


def page_code() -> dict[str, object]:
    """The page's code blocks, run in order."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {"kernel": kernels.matmul.tile(T=f16), "dims": DIMS}
    exec("\n".join(blocks), names)
    return names


def test_example_policy_is_short_and_its_plan_is_proved():
    names = page_code()
    outcome = names["outcome"]
    assert outcome.best.policy.startswith("own:")
    assert check(outcome.best, device("h100")) == []
    text = PAGE.read_text(encoding="utf-8")
    first = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    assert len(first.splitlines()) <= 30


@pytest.mark.parametrize("policy", some(["shortest_first", "in_program_order"], []))
def test_page_policies_stand_on_attention(policy):
    made = page_code()[policy](attention(2, 64).problems[1])
    assert made.ii >= max(made.bounds.values())
    outcome = plan(graphs.attention(), {"B": 1, "H": 8, "S": 1024, "T": 1024}, "h200", policy=page_code()[policy])
    assert check(outcome.best, device("h200")) == []


def problem():
    return attention(1, 64).problems[1]


def test_append_before_its_needs_is_refused():
    with pytest.raises(CompileError) as error:
        Plan(problem()).append("softmax@worker0", (EU, "vec"))
    assert error.value.slug == "bad-policy"
    assert "qk@worker0[0]" in str(error.value)


def test_append_on_another_unit_is_refused():
    with pytest.raises(CompileError) as error:
        Plan(problem()).append("load_k@producer", (EU, "tc"))
    assert error.value.slug == "bad-policy"


def test_wait_orders_what_data_does_not():
    free, held = Plan(problem()), Plan(problem())
    for made in (free, held):
        made.append("load_k@producer", (EU, "tma"))
    held.wait("load_v@producer", ["load_k@producer"])
    first = held.append("load_v@producer", (EU, "tma"))
    assert first.start >= held._placed[held.number("load_k@producer")][0].done
    assert free.append("load_v@producer", (EU, "tma")).start < first.start


def test_wait_for_what_never_started_is_refused():
    with pytest.raises(CompileError):
        Plan(problem()).wait("load_v@producer", ["load_k@producer"])


def test_barrier_separates():
    made = Plan(problem())
    before = made.append("load_k@producer", (EU, "tma"))
    made.barrier()
    assert made.append("load_v@producer", (EU, "tma")).start >= before.done


def test_check_valid_names_the_memory():
    made = Plan(problem(), slots={p.name: 99 for p in problem().pools})
    assert any(line.startswith("smem:") for line in made.check_valid())
    assert Plan(problem()).check_valid() == []


def test_no_unit_runs_two_exclusive_tasks_at_once():
    made = Plan(problem())
    for _ in range(6):
        for task in problem().tasks:
            made.append(task, (EU, made.node(task).seu.name))
    spans: dict[str, list[tuple[int, int]]] = {}
    for placed in made._placed:
        for one in placed:
            for use in made.problem.nodes[one.node].uses:
                if use.demand > 0.5:
                    spans.setdefault(use.resource, []).append((one.start, one.start + use.cycles))
    for found in spans.values():
        found.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(found))


@pytest.mark.parametrize(("workers", "n"), [(1, 64), (2, 128)])
def test_every_priority_respects_the_bounds(workers, n):
    case = attention(workers, n).problems[1]
    floor = max(lower_bounds(case).values())
    for key in greedy.KEYS:
        made = greedy.run(case, Plan(case).slots, key)
        if made is not None:
            assert made.ii >= floor
            assert _holds(made)


def _holds(made) -> bool:
    """Dependences and slots at the folded start times, written out for many iterations."""
    starts, ii, nodes = made.starts, made.ii, made.problem.nodes
    for arc in made.problem.arcs:
        if starts[arc.dst] + arc.distance * ii < starts[arc.src] + arc.latency:
            return False
    for pool in made.problem.pools:
        for reader, distance in pool.readers:
            if reader != pool.producer:
                free = starts[reader] + nodes[reader].latency - (made.slots[pool.name] - distance) * ii
                if starts[pool.producer] < free:
                    return False
    return True


def test_unknown_policy_is_refused():
    with pytest.raises(CompileError) as error:
        plan(kernels.matmul.tile(T=f16), DIMS, "h100", policy="best")
    assert error.value.slug == "unknown-policy"
    assert "joint" in str(error.value)


def test_policies_name_no_operator():
    """Policy code knows units and memories; an operator's name in it would be a special case."""
    folder = Path(search.__file__).parent
    names = re.compile(r"\b(matmul|gemm|attention|softmax|qk|pv|rmsnorm|layernorm|chunk_?scan|conv)\b", re.IGNORECASE)
    for file in ("greedy", "optimal", "fold", "bounds", "inter", "partition", "search", "placement", "pipeline"):
        text = (folder / f"{file}.py").read_text(encoding="utf-8")
        code = re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.DOTALL)
        assert not names.search(code), f"{file}.py: {names.search(code)}"


def test_serial_plan_is_the_last_resort():
    """A policy whose schedules cannot be proved does not leave the user without a plan."""

    def broken(problem):
        made = greedy.schedule(problem)
        return None if made is None else replace(made, slots={name: count + 1000 for name, count in made.slots.items()})

    outcome = plan(kernels.matmul.tile(T=f16), DIMS, "h100", policy=broken)
    assert outcome.reasons["unproved"] >= 1
    assert outcome.best.policy == "own:serial"
    assert check(outcome.best, device("h100")) == []


@pytest.mark.slow
def test_optimal_policy_through_the_search():
    pytest.importorskip("ortools")
    outcome = plan(kernels.matmul.tile(T=f16), DIMS, "h100", policy="optimal", limit_s=4.0)
    assert outcome.best.policy.startswith("optimal:")
    (loop,) = [p for p in outcome.best.loops if p.loop == 1]
    bounds = dict(loop.bounds_cycles)
    assert bounds["proved"] <= loop.ii_cycles
    assert {"recurrence", "capacity", "memory:smem"} <= bounds.keys() and any(b.startswith("resource:") for b in bounds)
