"""Blocks list where their tiles stand before the first one: each tile once, the right one, and none is divided for."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.sched.text import parse, print_program
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import DeviceTensor, facts_of
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.time_plan import packed

DIMS = {"B": 2, "H": 9, "HKV": 9, "SQ": 1200, "SK": 1200, "D": 64}


@pytest.fixture(scope="module")
def program() -> SProgram:
    tiles = AxisTile("m", 128, 64), AxisTile("n", 64, 64)
    only = Partition(tiles, (), ("b", "h", "m"), workers=2, persistent=True)
    return plan(flash_attention.tile(T=tl.bf16, causal=True), DIMS, "h200", only=only).best


def text_of(program: SProgram) -> str:
    facts = {}
    for t in program.graph.kernel.tensors:
        shape = tuple(d if isinstance(d, int) else DIMS[d] for d in t.dims)
        facts[t.name] = facts_of(t, DeviceTensor(0, shape, packed(shape)))
    return emit(program, facts, DIMS).text


def places(text: str, counts: dict[str, int]) -> list[tuple[int, ...]]:
    """What `place_of` says of each tile, its C read as Python (all numbers are positive)."""
    body = text[text.index("const auto place_of") : text.index("return (u64)")].splitlines()[1:]
    lines = [re.sub(r"const i32 |i32 |;", "", line.replace(" /= ", " //= ").replace(" / ", " // ")).strip()
             for line in body if not line.strip().startswith("//")]  # fmt: skip
    found = []
    for tile in range(math.prod(counts.values())):
        names = {f"tiles_{axis}": n for axis, n in counts.items()} | {"tile": tile, "min": min}
        exec("\n".join(lines), names)
        found.append(tuple(names[f"index_{axis}"] for axis in counts))
    return found


@pytest.mark.parametrize("group", [1, 4, 5])
def test_each_tile_is_listed_once_from_long_to_short(program: SProgram, group: int):
    text = text_of(replace(program, partition=replace(program.partition, group=group)))
    counts = {"b": 2, "h": 9, "m": 10}
    found = places(text, counts)
    assert len(set(found)) == len(found) == 180
    assert all(0 <= index < n for place in found for index, n in zip(place, counts.values(), strict=True))
    rows = [m for _, _, m in found[: 10 * group if group > 1 else None]]
    assert rows == sorted(rows, reverse=True)


def test_roles_read_the_list(program: SProgram):
    assert ("walk", "listed") in program.decisions and parse(print_program(program), program.graph) == program
    text = text_of(program)
    roles = text[text.index("// producer") :]
    assert text.index("write_place(smem_places") < text.index("__syncthreads();", text.index("write_place(smem_places"))
    assert roles.count("round < 64 ? read_place(smem_places + 8 * round) : place_of(tile)") >= 2
    assert "% tiles_" not in roles and "/ height" not in roles
    made = nvrtc.compile_source(text, "sm_90a")
    assert made.spill_bytes == 0 and not made.serialised


def test_without_the_decision_roles_divide(program: SProgram):
    text = text_of(replace(program, decisions=tuple(d for d in program.decisions if d[0] != "walk")))
    assert "place_of" not in text and "% tiles_" in text[text.index("// producer") :]


def test_without_room_roles_divide(program: SProgram, monkeypatch: pytest.MonkeyPatch):
    from threadloom.targets.cuda import emit as emitting

    used = int(re.search(r"(\d+) bytes of shared", text_of(program))[1])
    monkeypatch.setattr(emitting, "_shared_capacity", lambda plan: used - 8)
    assert "place_of" not in text_of(program)
