"""Groups in a role's FIFO: how many are younger at a moment, and where a release finds the group done."""

from __future__ import annotations

from threadloom.sched.lines import Item, Line
from threadloom.sched.ops import Inner, Issue, Reason, Wait, Why
from threadloom.sched.queued import Queued
from threadloom.task.ops import Method

REASON = Reason(Why.DEPENDENCE, "dot", "vector", "s")


def issue(task: str, start: int, stage: int = 0, group: str = "") -> Item:
    unit, method = ("tc", Method.MATRIX) if group else ("vec", Method.VECTOR)
    return Item(Issue(task, unit, method, stage, group), start, start + 100)


def queued(*items: Item, came: int = 0, ii: int = 100, joins: tuple[int | None, ...] = ()) -> Queued:
    counted = tuple(int(item.instr.completes == "mma") for item in items if isinstance(item.instr, Issue))
    return Queued(Line(1, "worker0", ii, list(items)), "mma", came, joins or counted)


def two_products() -> Queued:
    return queued(issue("dot", 0, 0, "mma"), issue("vector", 40), issue("dot2", 60, 1, "mma"), issue("other", 80))


def test_younger_groups_are_counted_over_iterations():
    group = two_products()
    assert [group.younger(0, at) for at in (1, 2, 3)] == [0, 0, 1]
    assert [group.younger(1, at) for at in range(4)] == [1, 2, 2, 3]
    assert group.younger(3, 0) == 5


def test_an_inner_loop_that_adds_groups_leaves_none_pending():
    group = queued(issue("dot", 0, 0, "mma"), Item(Inner(2), 1, 2), issue("last", 2), joins=(1, None, 0))
    assert group.younger(0, 1) == 0 and group.younger(0, 2) == 0
    assert group.younger(1, 0) == 0


def test_a_wait_counts_only_in_its_stage_and_with_as_few_pending():
    group = two_products()
    vector = group.line.items[1]
    assert not group.waits_before(1, 1)
    vector.before.append(Wait("mma", REASON, stage=1, pending=2))
    assert group.waits_before(1, 1) and not group.waits_before(0, 1) and not group.waits_anyway(1, 1)
    vector.before[:] = [Wait("mma", REASON, stage=1, pending=3)]
    assert not group.waits_before(1, 1), "the group itself may be pending"
    vector.before[:] = [Wait("other", REASON, stage=1, pending=0)]
    assert not group.waits_before(1, 1), "another FIFO"
    vector.after.append(Wait("mma", REASON, stage=1, pending=2))
    assert group.waits_behind(1, 1) and not group.waits_before(1, 1)


def test_done_is_where_the_role_waits_anyway():
    group = two_products()
    group.line.items[3].before.append(Wait("mma", REASON, stage=0, pending=1))
    assert group.done(slots=2) == (0, 3)
    group.line.items[3].before[:] = [Wait("mma", REASON, stage=0, pending=0)]  # of its own iteration
    group.line.items[1].before.append(Wait("mma", REASON, stage=1, pending=0))
    assert group.done(slots=2) == (0, 3), "the first of them"


def test_else_done_is_behind_the_next_product_or_when_its_time_is_over():
    assert two_products().done(slots=2) == (1, 0)
    group = queued(issue("dot", 0, 0, "mma"), issue("vector", 40), issue("other", 120))
    assert group.done(slots=2) == (0, 1), "the other item comes when the product is over"
    assert group.done(slots=3) == (1, 0), "with slots to spare its release waits for the next product"
