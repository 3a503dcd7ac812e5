"""Plans that come with the package: used for their shape, lent to near ones, ignored where stale."""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from quick import some

from tests.unit.sched import kernels
from threadloom.dtypes import bf16, f16
from threadloom.examples.flash_attention import flash_attention
from threadloom.machine.devices import device
from threadloom.sched import reuse, shipped
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.reuse import Origin, Recipe, choose, key_of, recipe_text
from threadloom.store import Store, StoredPlan, shape_text
from threadloom.targets.cuda import best_plan
from threadloom.targets.cuda.compile import compile_program
from threadloom.targets.cuda.time_plan import packed_facts

KERNEL = kernels.matmul.tile(T=f16)
DIMS = {"M": 4096, "N": 4096, "K": 512}
H200 = device("h200")
TILES = (AxisTile("m", 256, 128), AxisTile("n", 64, 64), AxisTile("k", 64, 64))
RECIPE = recipe_text(Recipe(Partition(TILES, workers=2, order=("m", "n"), persistent=True), "joint", "fused"))


@pytest.fixture
def ship(tmp_path, monkeypatch):
    """ship(recipe, **changes to the head of the file): as if the package came with that one plan."""

    def do(recipe: str = RECIPE, **head):
        path = tmp_path / "h200.json"
        key = key_of(KERNEL, DIMS, H200)
        shipped.write(path, "h200", [(key, StoredPlan(shape_text(DIMS), RECIPE, 1e5, 9e4))], {"commit": "abc"})
        record = json.loads(path.read_text()) | head
        record["plans"][0]["plan"] = json.loads(recipe)
        made = shipped.read(json.dumps(record))
        monkeypatch.setattr(reuse, "shipped", lambda name: made if name == "h200" else shipped.Shipped())

    return do


def test_used_for_its_shape(ship):
    ship()
    found = choose(KERNEL, DIMS, H200, None)
    assert found.origin is Origin.TUNED and found.measured_ns == 1e5
    assert found.program.partition.tiles == TILES


def test_the_users_own_plan_comes_first(ship, tmp_path):
    ship()
    with Store(tmp_path) as store:
        other = RECIPE.replace('"extent":64,"worker_extent":64}', '"extent":128,"worker_extent":128}', 1)
        store.set_plan(key_of(KERNEL, DIMS, H200), other, 5e4, 4e4)
        assert choose(KERNEL, DIMS, H200, store).measured_ns == 5e4


def test_lent_to_a_near_shape(ship, monkeypatch):
    ship()
    monkeypatch.setattr(reuse, "WORSE", 100.0)
    found = choose(KERNEL, {**DIMS, "M": 3000}, H200, None)
    assert found.origin is Origin.BORROWED and found.measured_ns == 0.0


def test_plans_of_far_shapes_come_before_the_models_second_choice(ship, monkeypatch):
    ship()
    far = {**DIMS, "M": 32 * DIMS["M"]}
    assert list(reuse.from_afar(KERNEL, DIMS, H200, 1e9)) == []  # its own shape, and near ones, are looked at before
    (found,) = reuse.from_afar(KERNEL, far, H200, 1e9)
    assert found.partition.tiles == TILES and ("borrowed_from", shape_text(DIMS)) in found.decisions
    assert list(reuse.from_afar(KERNEL, far, H200, found.predicted_ns / 2)) == []  # the model thinks much less of it
    varied = replace(found, partition=replace(found.partition, begins_ahead=True))
    monkeypatch.setattr(reuse, "_remade", lambda *_: varied)
    assert list(reuse.from_afar(KERNEL, far, H200, 1e9)) == []


@pytest.mark.slow
def test_a_call_tries_them_in_that_order(ship, monkeypatch):
    ship()
    monkeypatch.setattr(reuse, "WORSE", 100.0)
    far = {**DIMS, "M": 32 * DIMS["M"]}
    own, lent, *_ = itertools.islice(best_plan.programs_for(KERNEL, far, packed_facts(KERNEL, far), H200), 3)
    assert own.partition.tiles != TILES and not any(key == "borrowed_from" for key, _ in own.decisions)
    assert lent.partition.tiles == TILES


@pytest.mark.slow
def test_batches_and_heads_may_differ_more_than_what_tiles_cut():
    """Attention of 64 wide heads has 0.97 of the best peer's rate by its shipped plan, 0.86 by the model's own."""
    attention = flash_attention.tile(T=bf16)
    near = {"B": 1, "H": 8, "HKV": 8, "SQ": 8192, "SK": 8192, "D": 64}
    assert choose(attention, near, H200, None).borrowed_from == "B=2,D=64,H=32,HKV=32,SK=8192,SQ=8192"
    assert reuse._limits(attention, near) == {"B": 8.0, "H": 8.0, "HKV": 8.0, "SQ": 2.0, "SK": 2.0, "D": 2.0}
    assert set(reuse._limits(KERNEL, DIMS).values()) == {2.0}


@pytest.mark.slow
def test_code_of_the_plan_for_narrow_heads_spills_nothing():
    """The model's own choice spills 128 bytes, and so did the plan that shipped before."""
    attention = flash_attention.tile(T=bf16)
    dims = {"B": 2, "H": 32, "HKV": 32, "SQ": 8192, "SK": 8192, "D": 64}
    found = choose(attention, dims, H200, None)
    assert found.origin is Origin.TUNED
    assert compile_program(found.program, packed_facts(attention, dims), dims).cubin.spill_bytes == 0


STALE = {
    "form": (RECIPE, {"form": shipped.FORM + 1}),
    "tile": (RECIPE.replace('"extent":256', '"extent":65536'), {}),
    "schema": (RECIPE, {"schema": "other"}),
    "no partition": ('{"partition":3}', {}),
    "axis": (RECIPE.replace('"axis":"k"', '"axis":"q"'), {}),
    "field": (RECIPE.replace('"workers":2', '"workers":2,"colour":"red"'), {}),
}


@pytest.mark.parametrize(("recipe", "head"), some(STALE.values(), list(STALE.values())[:3]), ids=STALE)
def test_stale_ones_are_ignored(ship, recipe, head):
    ship(recipe, **head)
    assert choose(KERNEL, DIMS, H200, None).origin is Origin.MODEL


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": "threadloom.plans/1", "form": 1}'])
def test_a_file_that_is_none_is_empty(text):
    assert not shipped.read(text).plans


def test_no_file_for_a_device():
    assert not shipped.shipped("no-such-device").plans and not shipped.shipped("../h200").plans


def test_the_plans_that_came_along_are_of_todays_examples():
    """Another text of the kernel, or of recipes, needs them measured anew (benchmarks/hopper_tune.py)."""
    from threadloom.dtypes import bf16
    from threadloom.examples.matmul import matmul

    found = choose(matmul.tile(T=bf16), {"M": 8192, "N": 8192, "K": 8192}, H200, None)
    assert found.origin is Origin.TUNED and found.measured_ns > 1e6


def test_every_plan_that_came_along_can_be_read():
    for name in ("h200",):
        for (kernel, _), plans in shipped.shipped(name).plans.items():
            for plan in plans.values():
                assert reuse.recipe_from_text(plan.plan).partition.tiles, kernel


def test_plans_that_ship_are_those_of_the_shapes_that_are_tuned(monkeypatch):
    """A kernel whose text or types changed would not find its plan any more, and nobody would notice."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    tuned = importlib.import_module("hopper_tune")
    keys = {}
    for case in tuned.CASES:
        kernel, dims, _, _ = tuned.problem(case)
        keys[key_of(kernel, dims, H200)] = case.label
    came = {(kernel, dtypes, shape) for (kernel, dtypes), p in shipped.shipped("h200").plans.items() for shape in p}
    assert came <= {(key.kernel, key.dtypes, key.shape) for key in keys}
    without = [label for key, label in keys.items() if shipped.shipped("h200").plan(key) is None]
    assert without == []
