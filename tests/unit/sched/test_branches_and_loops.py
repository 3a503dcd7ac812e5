"""Carried tiles that are read late, or in one branch only, beside loops that overwrite them: once without a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from quick import some

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_sm80.test_on_cpu import generated
from threadloom.sched.check import check
from threadloom.sched.search import plan

J, C, M, N = 5, 2, 16, 128


@tl.kernel
def both_change(
    f: tl.Tensor["J", tl.i32], y: tl.Tensor["J", "C", "M", "N", tl.f32], z: tl.Tensor["J", "M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        v = tl.zeros(m, n)
        for j in tl.stream(tl.each("J")):
            if f[j] % 2 == 0:
                v = v * 0.5
                for c in tl.stream(tl.each("C")):
                    v = v + y[j, c, m, n]
            else:
                v = v * 3.0
            for c in tl.stream(tl.each("C")):
                v = tl.minimum(v, z[j, m, n] + y[j, c, m, n])
        out[m, n] = v


@tl.kernel
def one_changes(
    f: tl.Tensor["J", tl.i32], y: tl.Tensor["J", "C", "M", "N", tl.f32], z: tl.Tensor["J", "M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        v = tl.zeros(m, n)
        for j in tl.stream(tl.each("J")):
            if f[j] % 2 == 0:
                v = v * 0.5
                for c in tl.stream(tl.each("C")):
                    v = v + y[j, c, m, n]
            for c in tl.stream(tl.each("C")):
                v = tl.minimum(v, z[j, m, n] + y[j, c, m, n])
        out[m, n] = v


@tl.kernel
def read_in_the_other(
    f: tl.Tensor["J", tl.i32], y: tl.Tensor["J", "C", "M", "N", tl.f32], z: tl.Tensor["J", "M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        v = tl.zeros(m, n)
        u = tl.zeros(m, n)
        for j in tl.stream(tl.each("J")):
            if f[j] % 2 == 0:
                v = v * 0.5
                for c in tl.stream(tl.each("C")):
                    v = v + y[j, c, m, n]
            else:
                u = u + v * 0.5
                v = v * 3.0
            u += z[j, m, n]
        out[m, n] = v + u


@tl.kernel
def read_late(
    f: tl.Tensor["J", tl.i32], y: tl.Tensor["J", "C", "M", "N", tl.f32], z: tl.Tensor["J", "M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        v = tl.zeros(m, n)
        u = tl.zeros(m, n)
        for j in tl.stream(tl.each("J")):
            u = u * 0.5 + v * 0.25
            if f[j] % 2 == 0:
                v = v * 0.5
            for c in tl.stream(tl.each("C")):
                v = v + y[j, c, m, n]
            u += z[j, m, n]
        out[m, n] = v + u


@tl.kernel
def loops_in_loops(
    f: tl.Tensor["J", tl.i32], y: tl.Tensor["J", "C", "M", "N", tl.f32], z: tl.Tensor["J", "M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        v = tl.zeros(m, n)
        u = tl.zeros(m, n)
        for j in tl.stream(tl.each("J")):
            if f[j] % 2 == 0:
                v = v * 0.5 + u * 0.25
            else:
                u = u * 0.5 + v * 0.25
            for c in tl.stream(tl.each("C")):
                for i in tl.stream(tl.each("J")):
                    v = tl.maximum(v, y[i, c, m, n])
            u += z[j, m, n]
        out[m, n] = v + u


@tl.kernel
def scalar_of_tiles(
    f: tl.Tensor["J", tl.i32], y: tl.Tensor["J", "C", "M", "N", tl.f32], z: tl.Tensor["J", "M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for n in tl.grid("N"):
        m = tl.axis("M")
        s = tl.cast(0.5, tl.f32)
        v = tl.zeros(m, n)
        for j in tl.stream(tl.each("J")):
            for c in tl.stream("C"):
                s = s + tl.sum(y[j, c, 0, 0], c)
        for j in tl.stream(tl.each("J")):
            if f[j] % 2 == 0:
                v = v * 0.5 + s * 0.25
            v += z[j, m, n]
        out[m, n] = v


KERNELS = [both_change, one_changes, read_in_the_other, read_late, loops_in_loops, scalar_of_tiles]


def bound(kernel):
    rng = np.random.default_rng(0)
    given = {
        "f": np.array([0, 1, 1, 0, 3], np.int32),
        "y": rng.standard_normal((J, C, M, N)).astype(np.float32),
        "z": rng.standard_normal((J, M, N)).astype(np.float32),
    }
    return kernel.bind(**given), given


@pytest.mark.parametrize("kernel", some(KERNELS, [read_in_the_other, read_late, scalar_of_tiles]), ids=lambda k: k.name)
def test_what_cores_compute(kernel):
    call, given = bound(kernel)
    np.testing.assert_allclose(kernel(**given), kernel.interpret(**given, exact=True), rtol=1e-5, atol=1e-5)
    assert source_of(call)


# compiling both_change for the CPU takes longest
@pytest.mark.parametrize("kernel", some([read_in_the_other, both_change], [read_in_the_other]), ids=lambda k: k.name)
def test_what_the_gpu_code_computes(kernel):
    call, given = bound(kernel)
    wanted = kernel.interpret(**given, exact=True)
    out = np.full_like(call.arrays["out"], np.nan)
    run_on_cpu(generated(call), call.kernel, call.arrays | {"out": out}, call.dims, call.scalars)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


def test_only_opposite_branches_are_exclusive():
    call, _ = bound(both_change)
    made = plan(call.kernel, call.dims, "h200", splits=False).best
    assert not check(made)
    alike = tuple(replace(g, wanted=True) for g in made.graph.guards)
    found = check(replace(made, graph=replace(made.graph, guards=alike)))
    assert found and found[0].slug == "overwrite"
