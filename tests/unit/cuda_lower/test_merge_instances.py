"""Large kernels that differ in constants become one with parameters, with the same results; others stay apart."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.lower.merge_instances import MergeInstances
from threadloom.par.interp import interpret
from threadloom.par.ops import Alloca, Array
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify
from threadloom.par.walk import walk

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes"


def _kernel(name: str, width: int, scale: str = "2.0", body: str = "", selects: tuple[str, str] = ("n", "w")) -> str:
    """out[i] = tile[width - 1 - x] * scale + the two selects, over a tile of `width` elements."""
    first, second = selects
    return f"""
define exported void @{name}(ptr %in, ptr %out, i32 %n, i32 %w, {GEOMETRY}) {{
  parallel blocks (%z, %y, %b) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {{
    %tile.{name} = alloca shared [{width} x float], i64 1
    parallel threads (%tz, %ty, %x) = (i32 0, i32 0, i32 0) to (i32 %block.z, i32 %block.y, i32 %block.x) {{
      %start = mul i32 %b, {width}
      %i = add i32 %start, %x
      %from = getelementptr float, ptr %in, i32 %i
      %v = load float, ptr %from
      %to = getelementptr [{width} x float], ptr %tile.{name}, i64 0, i32 %x
      store float %v, ptr %to
      barrier threads
      %other = sub i32 {width - 1}, %x
      %at = getelementptr [{width} x float], ptr %tile.{name}, i64 0, i32 %other
      %u = load float, ptr %at
      %scaled = fmul float %u, {scale}
      %small = icmp slt i32 %x, %n
      %{first} = select i1 %small, i32 %{first[0]}, i32 0
      %{second} = select i1 %small, i32 %{second[0]}, i32 0
      %sum = add i32 %{selects[0]}, %{selects[1]}
      %float = sitofp i32 %sum to float
      %result = fadd float %scaled, %float
      {body}
      %place = getelementptr float, ptr %out, i32 %i
      store float %result, ptr %place
    }}
  }}
  return
}}
"""


def _two(**options) -> str:
    return _kernel("a", 8, selects=("n.s", "w.s")) + _kernel("c", 6, "3.0", selects=("n.s", "w.s"), **options)


def _merged(text: str):
    with collected_declines() as declined:
        module = MergeInstances(fewest_ops=5).apply(parse(text))
    verify(module)
    return module, [one.reason for one in declined]


def _run(module, name: str, width: int) -> np.ndarray:
    source, out = np.arange(48, dtype=np.float32), np.zeros(48, np.float32)
    interpret(module, name, [source, out, 3, 10, 4, 1, 1, width, 1, 1, 0])
    return out


def _defined(module) -> list[str]:
    return [function.name for function in module.functions if function.body is not None]


def test_instances_become_one_with_the_same_results():
    module, _ = _merged(_two())
    assert _defined(module) == ["a", "c", "a.instances"]
    for name, width in (("a", 8), ("c", 6)):
        assert (_run(module, name, width) == _run(parse(_two()), name, width)).all()
        assert _run(module, name, width).any()
    assert print_module(module).count("parallel threads") == 1


def test_equal_constants_share_a_parameter_and_shared_arrays_get_the_largest_size():
    module, _ = _merged(_two())
    whole = next(function for function in module.functions if function.name == "a.instances")
    constants = [param.value for param in whole.params[4:-7]]
    assert [value.type.kind if hasattr(value.type, "kind") else "int" for value in constants] == ["int", "int", "float"]
    assert [op.element for op in walk(whole.body) if isinstance(op, Alloca)] == [Array(8, constants[2].type)]


def test_selects_of_one_condition_may_stand_in_any_order():
    text = _kernel("a", 8, selects=("n.s", "w.s"))
    other = _kernel("c", 6, selects=("w.s", "n.s")).replace("add i32 %w.s, %n.s", "add i32 %n.s, %w.s")
    module, _ = _merged(text + other)
    assert _defined(module) == ["a", "c", "a.instances"]
    assert (_run(module, "c", 6) == _run(parse(other), "c", 6)).all()


@pytest.mark.parametrize(
    "body",
    [
        "%more = add i32 %x, 1",  # an operation more
        "call void @f(i32 7)",  # what a call gets says what it does
    ],
)
def test_what_differs_in_more_than_constants_stays_apart(body: str):
    declared = "declare void @f(i32)\n"
    text = declared + _kernel("a", 8, selects=("n.s", "w.s"), body="call void @f(i32 6)" if "call" in body else "")
    module, _ = _merged(text + _kernel("c", 6, selects=("n.s", "w.s"), body=body))
    assert _defined(module) == ["a", "c"]


LOOP = """%r = for %j = i32 0 to %n step 1 carry (%c = i32 0) {{
        %d = {operation} i32 {dividend}, {divisor}
        %e = add i32 %c, %d
        yield i32 %e
      }}"""


@pytest.mark.parametrize(("dividend", "merges"), [("%x", False), ("%w", True)])
def test_threads_do_not_divide_by_parameters_in_loops(dividend: str, merges: bool):
    one, other = (LOOP.format(operation="sdiv", dividend=dividend, divisor=n) for n in (8, 6))
    text = _kernel("a", 8, selects=("n.s", "w.s"), body=one) + _kernel("c", 6, selects=("n.s", "w.s"), body=other)
    module, declined = _merged(text)
    assert ("a.instances" in _defined(module)) == merges
    assert ("threads divide by what differs between instances" in declined) != merges


def test_small_kernels_stay_apart():
    module = parse(_two())
    assert MergeInstances().apply(module) is module
