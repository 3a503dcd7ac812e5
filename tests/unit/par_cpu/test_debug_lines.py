"""Line tables: instructions keep the user's lines through optimisation; other emission is unchanged."""

import re

from threadloom.par.text import parse
from threadloom.targets.cpu import jit
from threadloom.targets.cpu.emit import EmitOptions, emit_llvm
from threadloom.targets.cpu.host import X86_64_V3

SOURCE = """
declare i32 @puts(ptr)

define exported void @k(ptr %x, i64 %n) loc("/src/k.cu":3:1) {
  parallel blocks (%i) = (i64 0) to (i64 %n) loc("/src/k.cu":4:3) {
    %tile = alloca shared i64, i64 8 loc("/src/k.cu":5:3)
    %p = getelementptr i64, ptr %x, i64 %i loc("/src/k.cu":6:10)
    %v = load i64, ptr %p loc("/src/k.cu":6:14)
    store i64 %v, ptr %tile loc("/src/header.h":70:5)
    %c = icmp eq i64 %v, 7
    if i1 %c loc("/src/k.cu":8:5) {
      %r = call i32 @puts(ptr %x)
      yield
    } else {
      yield
    }
  }
  return
}
"""


def test_lines_reach_the_assembly():
    text = emit_llvm(parse(SOURCE), EmitOptions(debug_lines=True, standalone=True))
    for options in (jit.EXPLICIT, jit.OPTIMIZED):
        assembly = jit.compile_assembly(text, X86_64_V3, options)
        files = {name: number for number, name in re.findall(r'\.file\t(\d+) "/src" "(.*)"', assembly)}
        for file, line, column in [("k.cu", 6, 14), ("header.h", 70, 5), ("k.cu", 8, 5)]:
            assert f".loc\t{files[file]} {line} {column}" in assembly


def test_without_them_nothing_changes():
    assert "!dbg" not in emit_llvm(parse(SOURCE))
