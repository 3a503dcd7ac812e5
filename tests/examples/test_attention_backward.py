"""Both kernels of the gradient of attention, causal too, beside float64 and beside differences of the forward pass."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from quick import some

from threadloom.comparison import compare
from threadloom.examples import attention_backward as example

SHAPE = {"B": 1, "H": 2, "SQ": 30, "SK": 45, "D": 8}


@pytest.mark.parametrize("causal", some([False, True], [True]))
def test_all_three_gradients(causal: bool):
    arguments = example.inputs(np.random.default_rng(0), **SHAPE) | {"causal": causal}
    dq, dk, dv = example.gradients(**arguments)
    call = example.query_gradient.bind(**arguments)
    found = compare(call.kernel, call.dims, {"out": example.query_gradient(**arguments)}, {"out": dq})
    call = example.attention_backward.bind(**arguments)
    ours = dict(zip(("dk", "dv"), example.attention_backward(**arguments), strict=True))
    found += compare(call.kernel, call.dims, ours, {"dk": dk, "dv": dv})
    assert all(c.holds for c in found), found


@pytest.mark.parametrize("name", some("qkv", "v"))
def test_the_reference_is_the_derivative_of_attention(name: str):
    """A small step of one operand changes sum(do * attention) as its gradient says."""
    rng = np.random.default_rng(1)
    arguments = example.inputs(rng, **SHAPE)
    gradient = dict(zip("qkv", example.gradients(**arguments), strict=True))[name]
    step = rng.standard_normal(gradient.shape) * 1e-4
    sides = []
    for sign in (1, -1):
        q, k, v = (arguments[x] + (sign * step if x == name else 0) for x in "qkv")
        sides.append((example._forward(q, k, v, arguments["scale"], False)[0] * arguments["do"]).sum())
    assert np.isclose((sides[0] - sides[1]) / 2, (gradient * step).sum(), rtol=1e-4)


def test_the_kernels_are_short():
    """60 lines of user code with the helper."""
    with open(example.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    names = ("score_gradient", "attention_backward", "query_gradient")
    kernels = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
    lines = sum(n.end_lineno - min([n.lineno, *(d.lineno for d in n.decorator_list)]) + 1 for n in kernels)
    assert len(kernels) == 3 and lines <= 60
