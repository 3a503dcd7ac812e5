"""The text of an sTask-graph parses back to the same graph."""

from __future__ import annotations

import pytest

from threadloom.cli.inputs import planning_problem
from threadloom.cli.kernel_argument import choose, example_names
from threadloom.errors import CompileError
from threadloom.sched.search import plan
from threadloom.task.build import build_task_graph
from threadloom.task.ops import TaskGraph
from threadloom.task.text import BAD_TEXT, parse_graph, print_graph


def graph_of(name: str, granularity: str = "fused") -> TaskGraph:
    return build_task_graph(planning_problem(choose(name, {}), None, "f32").kernel, granularity)


@pytest.mark.parametrize("granularity", ["fused", "split"])
@pytest.mark.parametrize("name", example_names())
def test_round_trip(name, granularity):
    graph = graph_of(name, granularity)
    assert parse_graph(print_graph(graph, locations=True)) == graph
    text = print_graph(graph)
    assert print_graph(parse_graph(text)) == text


def test_graph_that_the_scheduler_changed():
    problem = planning_problem(choose("flash_attention", {"SQ": 64, "SK": 64}), None, "f16")
    graph = plan(problem.kernel, problem.dims, "h100").best.graph
    assert parse_graph(print_graph(graph, locations=True)) == graph


@pytest.mark.parametrize(
    ("old", "new", "line_holds"),
    [
        ("edge load_x -> ", "edge load_x => ", "edge load_x =>"),
        ("task vector_t vector ", "task vector_t magic ", None),
        ("load_x load in loop 0 by bulk-copy", "load_x load in loop 0 by carrier-pigeon", None),
        ("tile row:", "till row:", "till row:"),
        ("loop 0 of none: m", "loop 0 of none: q", None),
    ],
)
def test_bad_text_is_pointed_at(old, new, line_holds):
    text = print_graph(graph_of("softmax"))
    assert old in text
    broken = text.replace(old, new)
    with pytest.raises(CompileError) as caught:
        parse_graph(broken, "x.task")
    assert caught.value.slug == BAD_TEXT
    if line_holds:
        assert broken.splitlines()[caught.value.loc.line - 1].startswith(line_holds)


def test_bad_operation_is_pointed_at():
    text = print_graph(graph_of("softmax"))
    at = text.index("task vector_t")
    broken = text[:at] + text[at:].replace(" = reduce ", " = reduse ", 1)
    with pytest.raises(CompileError) as caught:
        parse_graph(broken, "x.task")
    assert "reduse" in broken.splitlines()[caught.value.loc.line - 1]


@pytest.mark.parametrize("text", ["", "softmax\n", "kernel f() {\n}\n\nnonsense\n"])
def test_text_that_is_no_graph(text):
    with pytest.raises(CompileError):
        parse_graph(text)
