"""Transposition of vectors: right for every width and element, and one instruction a step on AVX2."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import F32, F64, I8, I16, I32, PTR, Vector
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import CpuTarget
from threadloom.targets.cpu.jit import compile_assembly, compile_module
from threadloom.targets.cpu.lower.vectors import transposed

ELEMENTS = {"f32": (F32, np.float32), "f64": (F64, np.float64), "i8": (I8, np.int8), "i16": (I16, np.int16)}


def module(element: object, lanes: int) -> object:
    built = ModuleBuilder()
    with built.function("turn", [("source", PTR), ("target", PTR)], exported=True) as b:
        source, target = b.args
        rows = [b.load(Vector(lanes, element), b.gep(element, source, lanes * row)) for row in range(lanes)]
        for at, column in enumerate(transposed(b, rows)):
            b.store(column, b.gep(element, target, lanes * at))
        b.ret()
    return built.build()


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("name", ELEMENTS)
def test_columns(name: str, lanes: int):
    element, dtype = ELEMENTS[name]
    source = np.arange(lanes * lanes).reshape(lanes, lanes).astype(dtype)
    target = np.zeros_like(source)
    code = compile_module(module(element, lanes))
    code.function("turn", None, ctypes.c_void_p, ctypes.c_void_p)(source.ctypes.data, target.ctypes.data)
    assert np.array_equal(target, source.T)


@pytest.mark.parametrize("element", [F32, I32])
def test_a_step_is_one_instruction(element: object):
    target = CpuTarget("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma")
    text = compile_assembly(emit_llvm(module(element, 8)), target)
    shuffles = re.findall(r"^\s+v(?:unpck|perm|shuf|insert|blend|mov[sd]|pshuf|palign|punpck)\S*", text, re.MULTILINE)
    assert len(shuffles) <= 24
