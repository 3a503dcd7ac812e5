"""Orders of a loop's sTasks: those that the dependences of one iteration allow."""

from __future__ import annotations

from types import SimpleNamespace

from threadloom.sched.order_count import MOST_TASKS, order_count


def loops(edges: list[tuple[str, str, int]], *names: str) -> SimpleNamespace:
    tasks = [SimpleNamespace(name=n, loop=1) for n in names] + [SimpleNamespace(name="store", loop=0)]
    made = [SimpleNamespace(src=src, dst=dst, distance=distance) for src, dst, distance in edges]
    return SimpleNamespace(loops=[SimpleNamespace(id=0), SimpleNamespace(id=1)], tasks=tasks, edges=made)


def test_orders_that_respect_the_dependences():
    assert order_count(loops([], "a", "b", "c", "d")) == 24
    assert order_count(loops([("a", "b", 0)], "a", "b", "c", "d")) == 12
    assert order_count(loops([("a", "b", 0), ("b", "c", 0), ("c", "d", 0)], "a", "b", "c", "d")) == 1


def test_what_an_earlier_iteration_made_is_there_in_any_order():
    assert order_count(loops([("a", "b", 0), ("d", "a", 1)], "a", "b", "c", "d")) == 12


def test_loops_of_very_many_tasks_are_not_counted():
    assert order_count(loops([], *(f"t{n}" for n in range(MOST_TASKS + 1)))) == 1
