"""Finding the OpenMP runtime, and facts about the host."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from threadloom.errors import CompileError
from threadloom.par.text import parse
from threadloom.targets.cpu import jit, openmp
from threadloom.targets.cpu.emit import EmitOptions, emit_llvm
from threadloom.targets.cpu.host import enable_amx, host_cpu, parse_size, target_cpu

FILL = """
define exported void @fill(ptr %x, i64 %n) {
  parallel blocks (%i) = (i64 0) to (i64 %n) schedule(dynamic) {
    %p = getelementptr i64, ptr %x, i64 %i
    store i64 %i, ptr %p
  }
  return
}
"""


def fill_with(symbols):
    text = emit_llvm(parse(FILL))
    code = jit.load(text, ["fill"], imports=symbols)
    out = np.full(100, -1, np.int64)
    code.function("fill", None, ctypes.c_void_p, ctypes.c_int64)(out.ctypes.data, out.size)
    return np.array_equal(out, np.arange(100))


def test_the_runtime_has_every_entry_point():
    runtime = openmp.runtime()
    assert runtime.path and {name for name, _ in runtime.addresses} >= set(openmp.ENTRY_POINTS)


def test_without_a_runtime_work_is_done_serially():
    code = jit._compile_support(openmp.SERIAL, {})
    assert fill_with(code.addresses)


def test_a_runtime_with_kmpc_alone_is_adapted():
    """libomp has both kinds of entry point: use its kmpc ones through the adapter."""
    library = ctypes.CDLL(next(path for path in openmp._installed_libraries() if "libomp" in path))
    names = ["__kmpc_fork_call", "__kmpc_global_thread_num", "__kmpc_push_num_threads", *openmp.ENTRY_POINTS[1:]]
    symbols = {name: openmp._address(library, name) for name in names}
    code = jit._compile_support(openmp.KMPC_ADAPTER, symbols)
    openmp.set_threads(3)
    try:
        assert fill_with({**symbols, **code.addresses})
    finally:
        openmp.set_threads(0)


@pytest.mark.slow
@pytest.mark.torch
def test_the_runtime_that_torch_loaded_is_used():
    script = "import torch\nfrom threadloom.targets.cpu import openmp\nprint(openmp.runtime().path)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "torch" in done.stdout


def test_a_standalone_object_needs_only_openmp():
    text = emit_llvm(parse(FILL), EmitOptions(standalone=True))
    assert "external global" not in text and "weak global" in text


def test_host_facts_are_sane():
    host = host_cpu()
    assert host.vector_bytes in (16, 32, 64) and host.vector_registers in (16, 32)
    assert 8 << 10 <= host.l1d_bytes < host.l2_bytes and host.cores >= 1
    assert host.target.cpu and "-" in host.target.triple
    assert host.has("amx-tile") or not enable_amx()


@pytest.mark.parametrize(("text", "bytes_"), [("48K", 49152), ("2M", 2 << 20), ("1G", 1 << 30), ("512", 512)])
def test_sizes_as_the_kernel_writes_them(text, bytes_):
    assert parse_size(text) == bytes_


def test_programs_can_be_compiled_for_another_cpu(monkeypatch):
    target_cpu.cache_clear()
    assert target_cpu() == host_cpu()
    x86 = host_cpu().target.triple.startswith("x86_64")
    names = ("x86-64-v4", 64, "avx512f") if x86 else ("neoverse-v1", 16, "neon")
    monkeypatch.setenv("LOOM_CPU", names[0])
    target_cpu.cache_clear()
    found = target_cpu()
    assert (found.target.cpu, found.vector_bytes, found.target.triple) == (*names[:2], host_cpu().target.triple)
    assert found.has(names[2]) and host_cpu().target.cpu != ""
    monkeypatch.setenv("LOOM_CPU", "z80")
    target_cpu.cache_clear()
    with pytest.raises(CompileError, match="z80"):
        target_cpu()
    monkeypatch.undo()
    target_cpu.cache_clear()
