"""Structures passed by value reach par as the fields that the source has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from threadloom.cuda.cfg import parsing
from threadloom.cuda.cfg.fold_packed import fold_packed
from threadloom.cuda.compile_unit import raise_unit
from threadloom.cuda.front import SourceOptions, compile_source
from threadloom.cuda.split_coerced import split_coerced
from threadloom.par.ops import Leaf, Vector
from threadloom.par.walk import walk

BEFORE = """
%struct.Pair = type { float, i32 }

define i64 @f(<2 x float> %v.coerce, i64 %p.coerce) {
entry:
  %v = alloca %struct.float2, align 8
  %p = alloca %struct.Pair, align 8
  store <2 x float> %v.coerce, ptr %v, align 8, !dbg !7
  store i64 %p.coerce, ptr %p, align 8
  %0 = load i64, ptr %p, align 8
  %1 = load volatile i64, ptr %p, align 8
  ret i64 %0
}

%struct.float2 = type { float, float }
"""

AFTER = """
define i64 @f(<2 x float> %v.coerce, i64 %p.coerce) {
entry:
  %v = alloca %struct.float2, align 8
  %p = alloca %struct.Pair, align 8
  %loom.field.0 = extractelement <2 x float> %v.coerce, i32 0, !dbg !7
  store float %loom.field.0, ptr %v, align 8, !dbg !7
  %loom.field.1 = extractelement <2 x float> %v.coerce, i32 1, !dbg !7
  %loom.field.2 = getelementptr inbounds i8, ptr %v, i64 4, !dbg !7
  store float %loom.field.1, ptr %loom.field.2, align 4, !dbg !7
  %loom.field.3 = bitcast i64 %p.coerce to <2 x i32>
  %loom.field.4 = extractelement <2 x i32> %loom.field.3, i32 0
  %loom.field.5 = bitcast i32 %loom.field.4 to float
  store float %loom.field.5, ptr %p, align 8
  %loom.field.6 = extractelement <2 x i32> %loom.field.3, i32 1
  %loom.field.7 = getelementptr inbounds i8, ptr %p, i64 4
  store i32 %loom.field.6, ptr %loom.field.7, align 4
  %loom.field.8 = load float, ptr %p, align 8
  %loom.field.9 = bitcast float %loom.field.8 to i32
  %loom.field.10 = insertelement <2 x i32> poison, i32 %loom.field.9, i32 0
  %loom.field.11 = getelementptr inbounds i8, ptr %p, i64 4
  %loom.field.12 = load i32, ptr %loom.field.11, align 4
  %loom.field.13 = insertelement <2 x i32> %loom.field.10, i32 %loom.field.12, i32 1
  %0 = bitcast <2 x i32> %loom.field.13 to i64
  %1 = load volatile i64, ptr %p, align 8
  ret i64 %0
}
"""


def test_accesses_become_those_of_fields():
    assert AFTER.strip() in split_coerced(BEFORE)


FOLDED = """
define float @f(float %a, float %b) {
entry:
  %v = insertelement <2 x float> poison, float %a, i32 0
  %w = insertelement <2 x float> %v, float %b, i32 1
  %i = bitcast <2 x float> %w to i64
  %p = insertvalue { i64, i32 } poison, i64 %i, 0
  %q = insertvalue { i64, i32 } %p, i32 7, 1
  %j = extractvalue { i64, i32 } %q, 0
  %x = bitcast i64 %j to <2 x float>
  %y = extractelement <2 x float> %x, i32 0
  %z = extractelement <2 x float> %x, i32 1
  %r = fsub float %y, %z
  ret float %r
}
"""


def test_what_was_put_in_is_taken_out():
    (block,) = fold_packed(parsing.parse(FOLDED)).functions[0].blocks
    (leaf,) = block.body
    assert leaf.opcode == "fsub" and [operand.name for operand in leaf.operands] == ["a", "b"]


def test_a_bool_in_a_byte_is_its_condition():
    text = """
define i1 @f(i32 %a, i1 %d) {
entry:
  %c = icmp slt i32 %a, 3
  %s = zext i1 %c to i8
  %l = trunc i8 %s to i1
  %r = and i1 %l, %d
  %u = zext i1 %r to i32
  %v = trunc i32 %u to i8
  %w = icmp eq i8 %v, 1
  ret i1 %w
}
"""
    (block,) = fold_packed(parsing.parse(text)).functions[0].blocks
    assert [leaf.opcode for leaf in block.body] == ["icmp", "and", "zext", "trunc", "icmp"]
    assert [operand.name for operand in block.body[1].operands] == ["c", "d"]


def test_a_lane_chosen_at_run_time_stays():
    text = FOLDED.replace("float %b, i32 1", "float %b, i32 %n").replace("float %b)", "float %b, i32 %n)")
    (block,) = fold_packed(parsing.parse(text)).functions[0].blocks
    assert [leaf.opcode for leaf in block.body].count("extractelement") == 2


KERNEL = """
struct State {{ {type} v; int n; }};
__device__ {type} next({type} a, {type} b) {{ {type} c = a; {body} return c; }}
__global__ void k(State* s, const {type}* x, int n) {{
  {type} v = s[threadIdx.x].v;
  for (int i = 0; i < n; i++) v = i & 1 ? next(v, x[i]) : next(x[i], v);
  s[threadIdx.x].v = v;
}}
int main() {{ k<<<1, 32>>>(nullptr, nullptr, 3); }}
"""
ADD = {4: "c.x += b.y; c.y -= b.x; c.z *= b.w; c.w += b.z;", 3: "c.x += b.y; c.y -= b.z; c.z *= b.x;"}


@pytest.mark.parametrize("type_", ["float3", "int4", "uchar4"])
def test_vector_types_come_as_scalars(type_: str, tmp_path: Path):
    source = tmp_path / "k.cu"
    source.write_text(KERNEL.format(type=type_, body=ADD[int(type_[-1])]))
    raised, _ = raise_unit(compile_source(str(source), SourceOptions()))
    kernel = next(f for f in raised.module.functions if f.name in raised.kernels)
    leaves = [op for op in walk(kernel.body) if isinstance(op, Leaf)]
    assert leaves and not any(isinstance(leaf.result and leaf.result.type, Vector) for leaf in leaves)
    assert not any(re.fullmatch("lshr|shl|insertvalue|extractvalue", leaf.opcode) for leaf in leaves)
