"""What LLVM text par becomes (tests/files/par_cpu); LLVM must accept every one."""

from pathlib import Path

import pytest
from files.ir_checks import check_text

from threadloom.errors import InternalError
from threadloom.par.text import parse
from threadloom.par.verify import verify
from threadloom.targets.cpu import jit
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import X86_64_V3

FILES = sorted((Path(__file__).parent / "par_cpu").glob("*.par"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_emitted_file(path):
    source = path.read_text()
    module = parse(source, str(path))
    verify(module)
    text = emit_llvm(module)
    check_text(text, source)
    assert text == emit_llvm(parse(source)), "same module, same text"
    for options in (jit.EXPLICIT, jit.OPTIMIZED):
        jit.compile_object(text, X86_64_V3, options)


def test_a_barrier_must_be_lowered_before():
    body = "parallel threads (%t) = (i64 0) to (i64 4) {\n barrier threads\n}\n return"
    with pytest.raises(InternalError, match="must be lowered"):
        emit_llvm(parse(f"define void @f() {{\n{body}\n}}\n"))


def test_text_that_llvm_refuses_shows_the_line():
    with pytest.raises(InternalError, match="%r = add i32 %x, %y"):
        jit.compile_object("define i32 @f(i32 %x) {\n  %r = add i32 %x, %y\n  ret i32 %r\n}\n", X86_64_V3)
