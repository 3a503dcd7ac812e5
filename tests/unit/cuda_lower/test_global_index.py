"""Which sums of indices are known not to wrap, and at which launches the version that says so is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from threadloom.cuda.optimize.global_index import unwrapped
from threadloom.cuda.optimize.specialize import Specialize
from threadloom.par.interp import interpret
from threadloom.par.ops import Module
from threadloom.par.passes import Declined, collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.walk import walk

KERNEL = """
define exported void @k(ptr %x, i32 %n, i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes) {{
  parallel blocks (%blockIdx.z, %blockIdx.y, %blockIdx.x) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {{
    parallel threads (%threadIdx.z, %threadIdx.y, %threadIdx.x) = (i32 0, i32 0, i32 0) to (i32 {z}, i32 {y}, i32 {x}) {{
      {index}
      %in = icmp slt i32 %i, %n
      if i1 %in {{
        %p = getelementptr i32, ptr %x, i32 %i
        store i32 %i, ptr %p
        yield
      }} else {{
        yield
      }}
    }}
  }}
  return
}}
"""  # noqa: E501
USUAL = "%b = mul i32 %blockIdx.x, %block.x\n %i = add i32 %b, %threadIdx.x"


def _kernel(index: str, extents: tuple[str, str, str] = ("%block.z", "%block.y", "%block.x")) -> str:
    return KERNEL.format(index=index, z=extents[0], y=extents[1], x=extents[2])


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (USUAL, {"b", "i"}),
        ("%r = mul i32 %grid.x, %blockIdx.y\n %s = add i32 %r, %blockIdx.x\n %b = mul i32 %s, %block.x\n"
         "%i = add i32 %b, %threadIdx.x", {"r", "s", "b", "i"}),
        (USUAL.replace("%i =", "%h =") + "\n %i = add i32 %h, 1000", {"b", "h", "i"}),
        (USUAL.replace("%i =", "%h =") + "\n %i = add i32 %h, -1", {"b", "h"}),  # may be negative
        (USUAL.replace("%i =", "%h =") + "\n %i = mul i32 %h, 4", {"b", "h", "i"}),
        (USUAL.replace("%i =", "%h =") + "\n %i = mul i32 %h, 5", {"b", "h"}),  # more than 2^31 with 2^28 threads
        (USUAL.replace("%i =", "%h =") + "\n %i = add i32 %h, %n", {"b", "h"}),  # nothing is known of %n
        ("%b = mul i32 %blockIdx.x, %blockIdx.x\n %i = add i32 %b, %threadIdx.x", set()),  # a square
    ],
)  # fmt: skip
def test_what_cannot_wrap(index: str, names: set[str]) -> None:
    assert unwrapped(parse(_kernel(index)).functions[0]) == names


def test_extents_that_are_numbers_count_as_threads() -> None:
    index = "%b = mul i32 %blockIdx.x, 512\n %i = add i32 %b, %threadIdx.x"
    assert unwrapped(parse(_kernel(index, ("1", "1", "512"))).functions[0]) == {"b", "i"}
    assert unwrapped(parse(_kernel(index, ("1", "1", "64"))).functions[0]) == set()


def test_the_version_is_for_launches_of_few_threads() -> None:
    text = _kernel(USUAL)
    module = Specialize().apply(parse(text))
    apart, general = print_module(module).split("define void @k.apart")[1].split("define void @k.general")
    assert "add nuw nsw" in apart and "nsw" not in general
    for grid, block, marked in ((1, 8, True), (1 << 20, 1024, False), (1 << 18, 1023, True), (1 << 18, 1024, False)):
        chosen = []
        watched = parse(print_module(module).replace("call void @k.apart", "call void @seen.1").replace(
            "call void @k.general", "call void @seen.0") + "".join(
            f"\ndeclare void @seen.{i}(ptr, i32, i32, i32, i32, i32, i32, i32, i32)" for i in (0, 1)))  # fmt: skip
        watchers = {f"seen.{i}": lambda *_, i=i, chosen=chosen: chosen.append(i) for i in (0, 1)}
        interpret(watched, "k", [np.zeros(1, np.int32), 1, grid, 1, 1, block, 1, 1, 0], externals=watchers)
        assert chosen == [int(marked)]


def test_a_file_with_many_kernels_has_second_versions_of_the_first_ones_only() -> None:
    first, second = (parse(_kernel(USUAL).replace("@k(", f"@{name}(")).functions[0] for name in ("k", "l"))
    module = replace(parse(_kernel(USUAL)), functions=(first, second))
    size = sum(1 for _ in walk(first.body))
    with collected_declines() as declined:
        names = [function.name for function in Specialize(most_ops_of_module=2 * size - 1).apply(module).functions]
    assert "k.apart" in names and "l.apart" not in names
    assert [(one.reason, one.detail) for one in declined] == [
        ("the file has second versions of many kernels already", "l")
    ]
    assert not any("many" in one.reason for one in _declined(Specialize(most_ops_of_module=2 * size), module))


def _declined(one: Specialize, module: Module) -> list[Declined]:
    with collected_declines() as declined:
        one.apply(module)
    return declined
