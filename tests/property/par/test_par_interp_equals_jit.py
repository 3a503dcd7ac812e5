"""Random programs: the interpreter, compiled explicit code and optimised code agree bit for bit (NaNs count as one)."""

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from property.par.par_programs import CELLS, random_module

from threadloom.par.interp import interpret
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify
from threadloom.targets.cpu import jit

BLOCKS = 3
POINTER = ctypes.c_void_p


def cells_with_one_nan(out: np.ndarray) -> np.ndarray:
    """The bytes, with each 4- or 8-byte NaN pattern made the same one."""
    words = out.copy().view(np.uint32)
    singles = words.view(np.float32)
    words[np.isnan(singles)] = 0x7FC00000
    doubles = words.view(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    return words


def outputs(module, source):
    results = []
    expected = np.zeros((BLOCKS, 2 * CELLS), np.int64)
    outcome = interpret(module, "f", [expected, source, BLOCKS, 77, 1.5])
    assert outcome.findings == (), outcome.findings[0]
    results.append(expected)
    for options in (jit.EXPLICIT, jit.OPTIMIZED):
        out = np.zeros_like(expected)
        run = jit.compile_module(module, options).function(
            "f", None, POINTER, POINTER, ctypes.c_int64, ctypes.c_int32, ctypes.c_float
        )
        run(out.ctypes.data, source.ctypes.data, BLOCKS, 77, 1.5)
        results.append(out)
    return results


@pytest.fixture(autouse=True, scope="module")
def _no_cache():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOM_CACHE", "off")
        yield


def check_seed(seed):
    module = random_module(seed)
    verify(module)
    assert parse(print_module(module, locs=True)) == module
    source = np.random.default_rng(seed).integers(-(2**62), 2**62, CELLS + 8)
    expected, *compiled = [cells_with_one_nan(out) for out in outputs(module, source)]
    for out in compiled:
        assert np.array_equal(expected, out)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_interpreter_and_compiled_code_agree(seed):
    check_seed(seed)


@pytest.mark.slow
def test_interpreter_and_compiled_code_agree_on_many():
    for seed in range(150):
        check_seed(seed)
