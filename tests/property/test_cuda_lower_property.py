"""Random kernels with barriers give the same results in the interpreter before and after every pass, and compiled."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace

import numpy as np
import pytest
from property.cuda_lower_kernels import make_kernel
from quick import some

from threadloom.cuda.check.rendezvous import cuda_rendezvous
from threadloom.cuda.host_launches import ATTRIBUTE
from threadloom.cuda.lower import pipeline
from threadloom.cuda.lower.outline_loops import OutlineLoops
from threadloom.cuda.lower.pipeline import lower
from threadloom.cuda.lower.runtime_calls import DIVERGENT_BARRIER
from threadloom.cuda.optimize.pipeline import PASSES
from threadloom.cuda.optimize.specialize import DISTINCT
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.ops import Level, Module
from threadloom.par.text import print_module
from threadloom.par.verify import verify
from threadloom.par.walk import walk
from threadloom.targets.cpu.jit import CompileOptions, compile_module

SHAPES = [(1, 1), (1, 5), (1, 33), (2, 20), (1, 64), (3, 7), (4, 16)]
BLOCKS = 2
OPTIMIZATIONS = {*(one.name for one in PASSES), "move-barriers"}


def _arguments(seed: int) -> tuple[np.ndarray, np.ndarray, int, int, int]:
    chosen = random.Random(seed)
    ny, nx = chosen.choice(SHAPES)
    x = np.array([chosen.randint(-50, 50) for _ in range(BLOCKS * ny * nx)], np.int32)
    same = np.full(16, chosen.randint(0, 9), np.int32)
    return x, same, chosen.randint(0, 4), ny, nx


def _diverged(file: int, line: int) -> int:
    raise AssertionError(f"threads diverged at line {line}")


def _interpreted(module: Module, seed: int, clean: bool = False) -> np.ndarray:
    x, same, m, ny, nx = _arguments(seed)
    out = np.zeros(len(x), np.int32)
    outcome = interpret(module, "k", [x, same, out, m, BLOCKS, 1, 1, nx, ny, 1, 0], rendezvous=cuda_rendezvous(),
                        externals={DIVERGENT_BARRIER: _diverged, DISTINCT: lambda *_: 1})  # fmt: skip
    assert not clean or not outcome.findings, "\n".join(map(str, outcome.findings)) + print_module(module)
    return out


def _compiled(module: Module, seed: int, optimize: bool) -> np.ndarray:
    x, same, m, ny, nx = _arguments(seed)
    out, report = np.zeros(len(x), np.int32), []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(lambda file, line: report.append(line))
    distinct = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(lambda *_: seed % 3 != 0)
    imports = {DIVERGENT_BARRIER: ctypes.cast(callback, ctypes.c_void_p).value,
               DISTINCT: ctypes.cast(distinct, ctypes.c_void_p).value}  # fmt: skip
    code = compile_module(module, CompileOptions(optimize=optimize), imports)
    kernel = code.function("k", None, *[ctypes.c_void_p] * 3, *[ctypes.c_int] * 8)
    kernel(x.ctypes.data, same.ctypes.data, out.ctypes.data, m, BLOCKS, 1, 1, nx, ny, 1, 0)
    assert not report, f"threads diverged at lines {report}"
    return out


def _runs_alone(module: Module) -> bool:
    """Between the two passes on warps, barriers among lanes stand in divergent code, which only the split gives a
    meaning."""
    return not any(
        getattr(op, "level", None) is Level.LANES or getattr(op, "scope", None) is Level.LANES
        for function in module.functions
        if function.body
        for op in walk(function.body)
    )


def _with_launch_facts(module: Module, seed: int) -> Module:
    """Marks for specialize-launch: none, right ones, or a wrong one that the launch must refuse."""
    *_, ny, nx = _arguments(seed)
    marks = ({}, {"block.x": nx, "block.y": ny, "block.z": 1}, {"block.x": nx + 1})[seed % 3]
    kernel = next(function for function in module.functions if function.name == "k")
    params = tuple(replace(param, attrs=(*param.attrs, f'"{ATTRIBUTE}"="{marks[param.value.name]}"'))
                   if param.value.name in marks else param for param in kernel.params)  # fmt: skip
    return replace(module, functions=tuple(replace(f, params=params) if f is kernel else f for f in module.functions))


def check_kernel(seed: int, warps: bool, every_pass: bool = True, optimize: bool = False) -> None:
    module = _with_launch_facts(make_kernel(seed, warps), seed)
    expected = _interpreted(module, seed, clean=not warps)

    def hook(name: str, before: Module, after: Module) -> None:
        if every_pass and (name == "split-lanes" or _runs_alone(after)):
            unlowered = name in OPTIMIZATIONS and not warps  # there a barrier too few is a race
            assert np.array_equal(_interpreted(after, seed, clean=unlowered), expected), f"{name} changes seed {seed}"

    lowered = lower(module, hook=hook).module
    assert np.array_equal(_compiled(lowered, seed, optimize), expected), f"compiled code differs on seed {seed}"


@pytest.mark.parametrize("seed", some(range(16), [0, 1]))
def test_kernels_with_barriers(seed: int) -> None:
    check_kernel(seed, warps=False)


@pytest.mark.parametrize("seed", some(range(8), range(2)))
def test_kernels_with_warp_operations(seed: int) -> None:
    check_kernel(seed, warps=True)


@pytest.mark.parametrize("seed", some(range(100, 104), [100]))
def test_optimised_code(seed: int) -> None:
    check_kernel(seed, warps=bool(seed % 2), every_pass=False, optimize=True)


@pytest.mark.parametrize("seed", some(range(300, 308), [300, 301]))
def test_every_value_that_crosses_a_barrier_kept(seed: int) -> None:
    module = make_kernel(seed, warps=bool(seed % 2))
    lowered = lower(module, without={"minimum-cut"}).module
    verify(lowered)
    assert np.array_equal(_compiled(lowered, seed, optimize=False), _interpreted(module, seed))


@pytest.mark.parametrize("seed", some(range(200, 212), [200, 205]))
def test_narrow_vectors_wherever_possible(seed: int) -> None:
    """Four lanes, whether it pays or not: full vectors, left-over threads, masks, gathers."""
    module = make_kernel(seed, warps=seed % 3 == 0)
    expected = _interpreted(module, seed)
    lowered = lower(module, without={"vectorize-threads"}).module
    vectors = VectorizeThreads(width=4, worth_it=1e9, two_versions_ops=200 * (seed % 2)).apply(lowered)
    verify(vectors)
    assert np.array_equal(_interpreted(vectors, seed), expected)
    assert np.array_equal(_compiled(vectors, seed, optimize=seed % 2 == 0), expected)


@pytest.mark.parametrize("seed", some(range(300, 312), [301]))
def test_every_loop_as_a_function(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in very large kernels: the passes behind see one loop, or a few small ones, at a time."""
    all_loops = OutlineLoops(fewest_ops=1, worth_a_call=2 + 10 * (seed % 2), most_ops_of_group=20)
    passes = tuple(all_loops if isinstance(one, OutlineLoops) else one for one in pipeline.PASSES)
    monkeypatch.setattr(pipeline, "PASSES", passes)
    assert all_loops in passes
    check_kernel(seed, warps=seed % 3 == 0, optimize=seed % 4 == 0)


FOUND = {
    1317: "LLVM took a masked index for an affine one",
    1002: "x - x is uniform though x is not",
    1068: "what an absent lane computes must not reach a mask",
}


@pytest.mark.parametrize("seed", some(FOUND, [1002]), ids=FOUND.get)
def test_found_seeds(seed: int) -> None:
    check_kernel(seed, warps=bool(seed % 2), every_pass=False, optimize=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_kernels(seed: int) -> None:
    check_kernel(seed, warps=bool(seed % 2), every_pass=seed % 4 < 2, optimize=seed % 3 == 0)
