"""Kernels that are compiled when they are first launched, for libraries that Python loads (threadloom.torch).

    build:  host IR -> object whose table of kernels has no entries; device IR -> STORE, a text for each kernel
    load:   attach(library) tells the library's runtime to ask Python for entries
    launch: the kernel's text -> raised, lowered, loaded by the JIT; what was emitted is kept beside the store

A file with a thousand instances of a template takes hours to compile, and a program launches a few dozen of them.
Only for files in which device and host share no variables, since these belong to the library. The kernels are compiled
without versions for separate arrays: the runtime knows nothing of PyTorch's allocations and would never choose them.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import pickle
import re
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

from threadloom.cuda import compile_unit, entry, link_host
from threadloom.cuda.compile_unit import UnitOptions
from threadloom.cuda.front import FrontIr
from threadloom.cuda.host_stubs import Stub, find_stubs
from threadloom.cuda.separate import separate
from threadloom.errors import CompileError, InternalError
from threadloom.whole_file import write_whole

FEWEST_KERNELS = 48  # of a file; fewer are compiled at once, many by one run of LLVM
_WITHOUT = ("specialize", "specialize-launch")
_REGISTER = "__loom_compile_with"
_Compiler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))


def is_worth_it(ir: FrontIr) -> bool:
    """Many kernels, and no variables or textures that the host knows, too."""
    if "externally_initialized" in ir.device or link_host.shadow_names(ir.host):
        return False
    return ir.host.count(" @cudaLaunchKernel(") > FEWEST_KERNELS  # a stub each, and the declaration


def compile_host(ir: FrontIr, options: UnitOptions, store: Path) -> bytes:
    """The object of the unit's host side; the kernels' texts go to `store`."""
    stubs = find_stubs(ir.host)
    _keep(ir, stubs, store)
    records = tuple(link_host.KernelRecord(stub, "") for stub in stubs)
    host = ir.host + "\n" + link_host.declared_sizes(records)
    host += link_host.registration_ir(records, (), options.source.arch)
    module = compile_unit.linked((link_host.explicit_constructors(host),), frozenset())
    return compile_unit.emit_object(module, replace(options, optimize=1))  # what launches a thousand kernels is long


def _keep(ir: FrontIr, stubs: tuple[Stub, ...], store: Path) -> None:
    by_name = {stub.kernel: stub for stub in stubs}
    part = store.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for kernel, text in separate(ir.device, tuple(by_name)):
            archive.writestr(f"{_short(kernel)}.ll", text)
            archive.writestr(f"{_short(kernel)}.stub", pickle.dumps(by_name[kernel]))
    part.replace(store)


def _short(kernel: str) -> str:
    return hashlib.sha256(kernel.encode()).hexdigest()[:32]


# ---------------------------------------------------------------- in the process that launches

_attached: dict[str, Kernels] = {}


def attach(library: Path, stores: list[Path]) -> None:
    """Compile the kernels in `stores`, which were made with `library`, when they are launched."""
    if stores and str(library) not in _attached:
        _attached[str(library)] = Kernels(library, stores)


class Kernels:
    """The kernels of one library; keeps code and callback alive."""

    def __init__(self, library: Path, stores: list[Path]):
        self._library = ctypes.CDLL(str(library))
        self._stores = stores
        self._known: dict[str, tuple[int, int]] = {}  # address of the entry, bytes of static shared memory
        self._code: list[object] = []
        self._lock = threading.Lock()
        self._callback = _Compiler(self._entry)
        getattr(self._library, _REGISTER)(self._callback)

    def _entry(self, name: bytes, static_bytes) -> int | None:
        """Called by the runtime, in the thread that launches; errors cannot leave, so they are printed."""
        kernel = name.decode()
        try:
            with self._lock:
                if kernel not in self._known:
                    self._known[kernel] = self._compiled(kernel)
            address, static_bytes[0] = self._known[kernel]
            return address
        except (CompileError, InternalError) as error:
            print(f"threadloom: kernel {kernel} cannot be compiled\n{error}", file=sys.stderr, flush=True)
            return None

    def _compiled(self, kernel: str) -> tuple[int, int]:
        from threadloom.targets.cpu import jit

        text, static_bytes = self._emitted(kernel)
        symbols = set(re.findall(r"^declare [^@\n]*@(__loom_\w+)\(", text, re.MULTILINE))
        own = {name: self._address(name) for name in symbols if hasattr(self._library, name)}
        name = entry.ENTRY_PREFIX + kernel
        code = jit.load(text, [name], jit.OPTIMIZED, own)
        self._code.append(code)
        return code.addresses[name], static_bytes

    def _address(self, symbol: str) -> int:
        return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0

    def _emitted(self, kernel: str) -> tuple[str, int]:
        """LLVM text of the kernel and its entry, from the disk where it was compiled before."""
        short = _short(kernel)
        store = next((one for one in self._stores if f"{short}.ll" in zipfile.ZipFile(one).namelist()), None)
        if store is None:
            raise InternalError(f"no text of kernel {kernel} was kept")
        kept = store.with_suffix("") / f"{short}.json"
        if kept.exists():
            record = json.loads(kept.read_text())
            return record["llvm"], record["static_bytes"]
        with zipfile.ZipFile(store) as archive:
            device, stub = archive.read(f"{short}.ll").decode(), pickle.loads(archive.read(f"{short}.stub"))
        with compile_unit.uncollected():
            unit = compile_unit.lower_unit(compile_unit.raise_device([device], (kernel,)), (stub,), without=_WITHOUT)
            text = compile_unit.device_text(unit, (), (), UnitOptions(standalone=False), for_process=True)
        kept.parent.mkdir(exist_ok=True)
        static_bytes = unit.static_shared_bytes[kernel]
        write_whole(kept, json.dumps({"kernel": kernel, "llvm": text, "static_bytes": static_bytes}))
        return text, static_bytes
