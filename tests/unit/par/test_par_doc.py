"""The example in docs/par.md is valid, prints back as written, and does what the text says."""

import re
from pathlib import Path

import numpy as np

from threadloom.par.interp import interpret
from threadloom.par.opcodes import OPCODES
from threadloom.par.ops import Level, Space
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify

DOC = (Path(__file__).parents[3] / "docs" / "par.md").read_text()


def block(kind):
    return re.search(rf"```{kind}\n(.*?)```", DOC, re.DOTALL)[1]


def test_the_example_parses_and_prints_back():
    module = parse(block("par"), "docs/par.md")
    verify(module)
    assert print_module(module) == block("par")


def test_the_example_gives_what_the_text_says():
    rows, sums = (np.array(eval(part), dtype=np.float32) for part in re.findall(r"\[.*?\](?=\s|$)", block("run")))
    got = np.zeros_like(sums)
    outcome = interpret(parse(block("par")), "row_sums", [rows, got, *rows.shape])
    assert outcome.findings == () and np.array_equal(got, sums)


def test_the_text_names_what_there_is():
    for word in (*Level, *Space, "canonicalize", "schedule(dynamic)", "condition", "carry"):
        assert word in DOC
    assert "load" in OPCODES and "branch" not in OPCODES
