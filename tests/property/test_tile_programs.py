"""Random tile programs mean the same for every cut, as text, in canonical form and as sTask-graph."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from generators.tile_programs import LOOPS, WIDE, Program, program, report
from quick import some

from threadloom.comparison import tolerance
from threadloom.launch import logical_arrays
from threadloom.task.build import GRANULARITIES, build_task_graph
from threadloom.task.interp import interpret_graph
from threadloom.task.verify import verify_graph
from threadloom.tile.canonicalize import canonicalize
from threadloom.tile.interp import interpret
from threadloom.tile.ops import Access
from threadloom.tile.text import parse_text, print_kernel
from threadloom.tile.verify import verify
from threadloom.tolerance import worst_error

KEPT: list[int] = []  # seeds that once failed


def results(p: Program, **how: object) -> dict[str, np.ndarray]:
    """The outputs that the interpreter makes, by name."""
    made = p.kernel.interpret(**p.arguments, **how)
    outputs = [t.name for t in p.kernel.bind(**p.arguments).kernel.tensors if t.access is not Access.IN]
    return dict(zip(outputs, made if isinstance(made, tuple) else (made,), strict=True))


def check(p: Program) -> None:
    exact = results(p, exact=True)
    cut = results(p, exact=True, tiles=p.tiles)
    assert all(worst_error(cut[n], exact[n]) <= 1e-12 for n in exact), "the result depends on the cut"
    call = p.kernel.bind(**p.arguments)
    want = results(p, tiles=p.tiles)
    for name, array in exact.items():
        allowed = tolerance(call.kernel, call.dims, next(t.dtype for t in call.kernel.tensors if t.name == name), array)
        assert worst_error(want[name], array) <= allowed, "rounding errors are too large"
    assert parse_text(print_kernel(call.kernel, locations=True)) == call.kernel
    simple = canonicalize(call.kernel)
    verify(simple)
    for kernel in (simple, parse_text(print_kernel(simple))):
        tensors = logical_arrays(call)
        interpret(kernel, tensors, call.scalars, call.dims, p.tiles)
        for name in want:
            np.testing.assert_array_equal(tensors[name], want[name])
    for granularity in GRANULARITIES:
        tensors = logical_arrays(call)
        graph = build_task_graph(call.kernel, granularity)
        verify_graph(graph)
        interpret_graph(graph, tensors, call.scalars, call.dims, p.tiles)
        for name in want:
            np.testing.assert_array_equal(tensors[name], want[name])


def check_all(seeds: range | list[int]) -> None:
    features: Counter[str] = Counter()
    for seed in seeds:
        p = program(seed)
        features += p.features
        try:
            check(p)
        except Exception as error:
            raise AssertionError(f"seed {seed}, tiles {p.tiles}\n{p.text}") from error
    print(report(features))


@pytest.mark.parametrize("first", some([0, 20, 40, WIDE, WIDE + 20, WIDE + 40, LOOPS], [0, WIDE]))
def test_programs(first: int):
    check_all(range(first, first + 20))


def test_programs_that_failed_once():
    check_all(KEPT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [*range(60, 2000, 20), *range(WIDE + 60, WIDE + 2000, 20), *range(LOOPS + 20, LOOPS + 400, 20)]
)
def test_more_programs(first: int):
    check_all(range(first, first + 20))


def test_programs_cover_the_language():
    seeds = [*range(60), *range(WIDE, WIDE + 60)]
    features = sum((program(seed).features for seed in seeds), Counter())
    needed = "atomic add,axis whole,dot f8e4m3,dot tf32,extent 0,grid nested,if in stream,load gather,stream each,"
    needed += "grid ranges,load u4,stream several axes,dot i8"
    missing = [name for name in needed.split(",") if not features[name]]
    assert not missing and len(features) > 90, report(features)
