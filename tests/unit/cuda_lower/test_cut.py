"""The minimum vertex cut: small graphs, ties, and agreement with exhaustive search."""

from __future__ import annotations

import itertools
import random

from threadloom.cuda.lower.cut import minimum_cut


def test_two_loads_are_cheaper_than_three_results() -> None:
    weights = {"x": 4, "y": 4, "xx": 4, "yy": 4, "d": 4}
    operands = {"xx": ["x"], "yy": ["y"], "d": ["x", "y"]}
    assert minimum_cut(weights, operands, ["x", "y"], ["xx", "yy", "d"]) == {"x", "y"}


def test_a_tie_is_cut_next_to_the_use() -> None:
    assert minimum_cut({"x": 4, "f": 4}, {"f": ["x"]}, ["x"], ["f"]) == {"f"}


def test_bytes_count_not_values() -> None:
    weights = {"x": 4, "y": 4, "wide": 16}
    operands = {"wide": ["x", "y"]}
    assert minimum_cut(weights, operands, ["x", "y"], ["wide"]) == {"x", "y"}
    assert minimum_cut(weights | {"wide": 1}, operands, ["x", "y"], ["wide"]) == {"wide"}


def test_a_source_that_is_used_itself_must_be_kept() -> None:
    assert minimum_cut({"x": 8, "f": 1}, {"f": ["x"]}, ["x"], ["x", "f"]) == {"x"}


def test_nothing_crosses() -> None:
    assert minimum_cut({"x": 4, "f": 4}, {"f": ["x"]}, ["x"], []) == frozenset()


def _separates(kept: set[str], operands: dict[str, list[str]], sources: list[str], sinks: list[str]) -> bool:
    def reached(name: str) -> bool:
        return name not in kept and (name in sources or any(reached(operand) for operand in operands.get(name, [])))

    return not any(reached(name) for name in sinks)


def test_agrees_with_exhaustive_search() -> None:
    for seed in range(60):
        chosen = random.Random(seed)
        names = [f"v{index}" for index in range(8)]
        weights = {name: chosen.randint(1, 4) for name in names}
        operands = {
            name: chosen.sample(names[:index], chosen.randint(0, min(2, index))) for index, name in enumerate(names)
        }
        sources, sinks = chosen.sample(names[:5], 2), chosen.sample(names[3:], 3)
        best = min(
            sum(weights[name] for name in kept)
            for count in range(len(names) + 1)
            for kept in itertools.combinations(names, count)
            if _separates(set(kept), operands, sources, sinks)
        )
        found = minimum_cut(weights, operands, sources, sinks)
        assert _separates(set(found), operands, sources, sinks)
        assert sum(weights[name] for name in found) == best, seed
