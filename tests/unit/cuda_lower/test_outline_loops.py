"""Loops of large kernels become functions: equal ones once, with the same results; small kernels stay whole."""

from __future__ import annotations

import numpy as np

from threadloom.cuda.lower.outline_loops import OutlineLoops
from threadloom.par.interp import interpret
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes"
# 64 elements per block: tile = in; tile += tile (twice, equal loops); out = tile and an if of all threads
KERNEL = f"""
define exported void @k(ptr noalias %in, ptr noalias %out, i32 %n, {GEOMETRY}) {{
  parallel blocks (%z, %y, %b) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {{
    %tile = alloca shared [64 x float], i64 1
    %first = mul i32 %b, %block.x
    parallel threads (%x.0) = (i32 0) to (i32 %block.x) {{
      %i.0 = add i32 %first, %x.0
      %from = getelementptr float, ptr %in, i32 %i.0
      %v.0 = load float, ptr %from
      %to.0 = getelementptr float, ptr %tile, i32 %x.0
      store float %v.0, ptr %to.0
    }}
    parallel threads (%x.1) = (i32 0) to (i32 %block.x) {{
      %to.1 = getelementptr float, ptr %tile, i32 %x.1
      %v.1 = load float, ptr %to.1
      %w.1 = fadd float %v.1, %v.1
      store float %w.1, ptr %to.1
    }}
    parallel threads (%x.2) = (i32 0) to (i32 %block.x) {{
      %to.2 = getelementptr float, ptr %tile, i32 %x.2
      %v.2 = load float, ptr %to.2
      %w.2 = fadd float %v.2, %v.2
      store float %w.2, ptr %to.2
    }}
    %all = icmp slt i32 %b, %n
    if i1 %all {{
      parallel threads (%x.3) = (i32 0) to (i32 %block.x) {{
        %i.3 = add i32 %first, %x.3
        %from.3 = getelementptr float, ptr %tile, i32 %x.3
        %v.3 = load float, ptr %from.3
        %to.3 = getelementptr float, ptr %out, i32 %i.3
        store float %v.3, ptr %to.3
      }}
      yield
    }} else {{
      yield
    }}
  }}
  return
}}
"""


def _outlined(**options):
    module = OutlineLoops(**{"fewest_ops": 10, "worth_a_call": 4} | options).apply(parse(KERNEL))
    verify(module)
    return module


def _run(module) -> np.ndarray:
    source, out = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    interpret(module, "k", [source, out, 2, 3, 1, 1, 64, 1, 1, 0])
    return out


def test_the_results_are_the_same_and_equal_loops_become_one_function():
    module = _outlined()
    assert (_run(module) == _run(parse(KERNEL))).all()
    assert [function.name for function in module.functions] == ["k", "k.loop.0", "k.loop.1", "k.loop.2"]
    assert print_module(module).count("call void @k.loop.1(") == 2
    assert all("noinline" in function.attrs and not function.exported for function in module.functions[1:])


def test_neighbours_too_small_for_a_call_share_a_function():
    module = _outlined(worth_a_call=6)  # the second and third loop have five operations each
    assert (_run(module) == _run(parse(KERNEL))).all()
    shared = next(function for function in module.functions if function.name == "k.loop.1")
    assert len(shared.body.ops) == 3  # two loops and the return


def test_pointers_that_alone_lead_to_their_object_are_noalias():
    copy, double, *_ = _outlined().functions[1:]
    assert {param.value.name for param in copy.params if "noalias" in param.attrs} == {"in", "tile"}
    assert {param.value.name for param in double.params if "noalias" in param.attrs} == {"tile"}


def test_two_pointers_into_one_object_may_alias():
    again = "%all = icmp slt i32 %b, %n\n    %second = getelementptr float, ptr %tile, i32 1"
    use = "%from.3 = getelementptr float, ptr %second, i32 %x.3\n        store float 0.0, ptr %tile"
    text = KERNEL.replace("%all = icmp slt i32 %b, %n", again).replace(
        "%from.3 = getelementptr float, ptr %tile, i32 %x.3", use
    )
    module = OutlineLoops(fewest_ops=10, worth_a_call=4).apply(parse(text))
    last = module.functions[-1]
    assert {param.value.name for param in last.params if "noalias" in param.attrs} == {"out"}


def test_a_kernel_of_the_usual_size_stays_whole_and_a_large_one_says_that_it_does_not():
    module = parse(KERNEL)
    with collected_declines() as declined:
        assert OutlineLoops().apply(module) is module
    assert not declined
    with collected_declines() as declined:
        OutlineLoops(fewest_ops=10).apply(module)
    assert [one.reason for one in declined] == ["kernel not compiled as a whole"]
