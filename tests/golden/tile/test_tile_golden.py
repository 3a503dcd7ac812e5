"""The tile IR and sTask-graph of six examples, as text to read when they change (`--update-golden`)."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import threadloom as tl
from threadloom.task.build import build_task_graph
from threadloom.task.text import print_graph
from threadloom.tile.canonicalize import canonicalize
from threadloom.tile.text import print_kernel

HERE = Path(__file__).parent
CHOICES = {
    "matmul": {"T": tl.f16},
    "softmax": {"T": tl.f16},
    "flash_attention": {"T": tl.f16, "causal": True},
    "chunk_scan": {"T": tl.f16},
    "grouped_matmul": {"T": tl.f16},
    "block_sparse_matmul": {"T": tl.f16},
}


@pytest.mark.parametrize("name", CHOICES)
def test_text_is_as_stored(name: str, golden):
    kernel = getattr(importlib.import_module(f"threadloom.examples.{name}"), name).tile(**CHOICES[name])
    text = print_kernel(canonicalize(kernel))
    golden(HERE / f"{name}.tile", text)
    golden(HERE / f"{name}.task", print_graph(build_task_graph(kernel)).removeprefix(text).lstrip("\n"))
