"""GPU semantics on raw IR: changed as the table in semantics.py says, LLVM computes the device's values."""

from __future__ import annotations

import ctypes

import pytest

from threadloom.cuda import semantics

FUNCTION = "define {t} @f({t} %a, {t} %b) {{\nentry:\n  %r = {op} {t} %a, %b\n  ret {t} %r\n}}\n"


def run(op: str, bits: int, a: int, b: int) -> int:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = semantics.restore(FUNCTION.format(t=f"i{bits}", op=op))
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    integer = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    return ctypes.CFUNCTYPE(integer, integer, integer)(engine.get_function_address("f"))(a, b)


@pytest.mark.parametrize(
    ("op", "bits", "a", "b", "expected"),
    [
        ("shl", 32, 1, 31, -(2**31)),
        ("shl", 32, 1, 32, 0),
        ("lshr", 32, -1, 33, 0),
        ("lshr", 64, -1, 63, 1),
        ("ashr", 32, -8, 40, -1),
        ("ashr", 32, 8, 40, 0),
        ("sdiv", 32, 7, -2, -3),
        ("sdiv", 32, 7, 0, -1),
        ("sdiv", 32, -(2**31), -1, -(2**31)),
        ("srem", 32, -(2**31), -1, 0),
        ("srem", 32, 7, 0, 7),
        ("udiv", 64, 7, 0, -1),
        ("urem", 64, 7, 0, 7),
    ],
)
def test_value_is_the_devices(op: str, bits: int, a: int, b: int, expected: int) -> None:
    assert run(op, bits, a, b) == expected


CONVERSION = (
    "declare {t} @llvm.fpto{sign}i.sat.{t}.f32(float)\n"
    "define i32 @f(float %a) {{\nentry:\n  %r = call {t} @llvm.fpto{sign}i.sat.{t}.f32(float %a)\n"
    "  %w = zext {t} %r to i32\n  ret i32 %w\n}}\n"
)


@pytest.mark.parametrize(
    ("sign", "type_", "value", "expected"),
    [
        ("u", "i8", 260.9, 4),
        ("u", "i8", -3.0, 0),
        ("u", "i8", 1e20, 255),
        ("s", "i8", 130.0, 130),
        ("s", "i8", -1.5, 255),
        ("u", "i16", 65537.0, 1),
        ("s", "i16", float("nan"), 0),
    ],
)
def test_conversions_to_narrow_integers_go_through_32_bits(sign: str, type_: str, value: float, expected: int) -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = semantics.restore(CONVERSION.format(sign=sign, t=type_))
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_float)(engine.get_function_address("f"))(value) == expected


def test_copies_become_intrinsics_where_no_function_of_the_users_has_their_name() -> None:
    call = "  %r = call ptr @memset(ptr noundef %p, i32 noundef %v, i64 noundef %n) #5, !dbg !7\n"
    changed = semantics.restore(f"{call}declare !dbg !3 ptr @memset(ptr noundef, i32 noundef, i64 noundef) #1\n")
    assert "  %r = getelementptr i8, ptr %p, i64 0, !dbg !7\n  %r.byte = trunc i32 %v to i8, !dbg !7\n" in changed
    assert "  call void @llvm.memset.p0.i64(ptr %p, i8 %r.byte, i64 %n, i1 false), !dbg !7\n" in changed
    assert "\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n" in changed
    own = f"{call}define ptr @memset(ptr %p, i32 %v, i64 %n) {{\n"
    assert semantics.restore(own) == own


def test_constant_amounts_are_left_alone() -> None:
    text = FUNCTION.format(t="i32", op="shl").replace("%a, %b", "%a, 3")
    assert semantics.restore(text) == text


def test_printf_returns_how_many_arguments_it_was_given() -> None:
    call = "  %r = call i32 (ptr, ...) @printf(ptr @s, i32 %a, ptr getelementptr (i8, ptr @s, i64 1)) #2, !dbg !7"
    lines = semantics.restore(call).splitlines()
    assert lines[0] == call.replace("%r", "%r.printed")
    assert lines[1:] == ["  %r.failed = icmp slt i32 %r.printed, 0, !dbg !7",
                         "  %r = select i1 %r.failed, i32 -1, i32 2, !dbg !7"]  # fmt: skip
