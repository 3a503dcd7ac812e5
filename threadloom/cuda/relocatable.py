"""Separate compilation (-rdc, -dc): device code of several files is compiled together when they are linked.

    compile:  the object holds the host code and, in a section, the device IR as clang made it
    link:     the device IR of all objects is linked, inlined, raised and lowered as one unit (like nvcc's -dlink)

So functions and variables of other files work everywhere, barriers inside them too. The host code refers to kernels'
entries and to device variables by name; `static` ones get a suffix of their file, for two files may use one name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from threadloom.cuda import compile_unit, entry, link_host
from threadloom.cuda.cfg.parsing import parse_type
from threadloom.cuda.compile_unit import Dump, UnitOptions, no_dump
from threadloom.cuda.front import FrontIr
from threadloom.cuda.host_stubs import ParamSource, Stub, find_stubs
from threadloom.cuda.object_sections import members, section
from threadloom.par.printing import type_text

SECTION = ".loom_device"
LINKED_SECTION = ".loom_linked"  # in what a device link made: its device code is not to be linked again
_END = b"\n"  # between the payloads that a linker concatenated


@dataclass(frozen=True, slots=True)
class DevicePart:
    """The device side of one relocatable object."""

    device: str  # LLVM assembly
    stubs: tuple[Stub, ...]
    variables: tuple[str, ...]  # device variables that host code of this file knows
    arch: int


def compile_relocatable(ir: FrontIr, options: UnitOptions, dump: Dump = no_dump) -> bytes:
    """The object of one file: host code with its registration, and the device part in a section."""
    suffix = "." + hashlib.sha256(f"{Path(ir.source).resolve()} {options.source.defines}".encode()).hexdigest()[:8]
    stubs = find_stubs(ir.host)
    shadows = _shadows(ir.host)
    statics = {name for name, linkage in shadows.items() if linkage == "internal" and _is_static(name)}
    static_kernels = {
        s.kernel for s in stubs if re.search(rf"^define internal [^\n]*{re.escape(s.name)}", ir.host, re.M)
    }
    device = _renamed(_with_instances(ir.device), statics | static_kernels, suffix)
    host = _renamed(ir.host, statics, suffix)
    stubs = tuple(replace(s, kernel=s.kernel + suffix) if s.kernel in static_kernels else s for s in stubs)
    variables = tuple(name + suffix if name in statics else name for name in shadows)
    part = DevicePart(device, stubs, variables, options.source.arch)
    dump("host.ll", host)
    dump("device.ll", device)
    texts = (_host_text(host, part) + _payload_ir(part),)
    return compile_unit.emit_object(compile_unit.linked(texts, frozenset()), options)


def _shadows(host_ir: str) -> dict[str, str]:
    """Host shadows of device variables defined in this file, with their linkage."""
    found = re.findall(r'^@("[^"]*"|[-\w$.]+) = (?!external)(\w+) [^\n]* undef(?:,|$)', host_ir, re.MULTILINE)
    return {name.strip('"'): linkage for name, linkage in found}


def _with_instances(device_ir: str) -> str:
    """`template __device__ float f<3>(float);` serves other files; clang makes it internal, for it compiles for one."""
    return re.sub(r"^define internal (?=[^\n]*\) [^\n]*\bcomdat\b)", "define weak_odr ", device_ir, flags=re.MULTILINE)


def _is_static(name: str) -> bool:
    """clang makes every shadow internal; the mangled name tells `static` and function-local variables."""
    if name.startswith(("_ZL", "_ZZ")) or "12_GLOBAL__N_1" in name:
        return True
    rest = name.removeprefix("_ZN")  # `static` in a namespace: _ZN2nsL1vE
    while rest != name and (length := re.match(r"\d+", rest)):
        rest = rest[length.end() + int(length[0]) :]
    return rest != name and rest.startswith("L")


def _renamed(text: str, names: set[str], suffix: str) -> str:
    if not names:
        return text
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"([@$])({listed})(?![-\w$.])", rf"\g<1>\g<2>{suffix}", text)


def _host_text(host_ir: str, part: DevicePart) -> str:
    """Host IR whose shadows are declarations and whose registration refers to entries of the device link."""
    host_ir = re.sub(
        r'^@("[^"]*"|[-\w$.]+) = (?!external)\w+ (?:\w+ )*(?:global|constant) ([^\n]*?) undef(?:,[^\n]*)?$',
        lambda m: f"@{m[1]} = external global {m[2]}" if m[1].strip('"') in part.variables else m[0],
        host_ir,
        flags=re.MULTILINE,
    )
    records = tuple(link_host.KernelRecord(s, entry.ENTRY_PREFIX + s.kernel) for s in part.stubs)
    tables = link_host.declared_sizes(records) + link_host.registration_ir(records, (), part.arch)
    return link_host.explicit_constructors(host_ir + "\n" + tables)


# ---------------------------------------------------------------- the section


def _payload_ir(part: DevicePart) -> str:
    record = {
        "device": part.device,
        "stubs": [_stub_record(stub) for stub in part.stubs],
        "variables": part.variables,
        "arch": part.arch,
    }
    data = base64.b64encode(zlib.compress(json.dumps(record).encode())) + _END
    text = data.decode().replace("\n", "\\0A")
    return f'\n@loom.device = private constant [{len(data)} x i8] c"{text}", section "{SECTION}", align 1\n{_USED}\n'


_USED = '@llvm.compiler.used = appending global [1 x ptr] [ptr @loom.device], section "llvm.metadata"'


def _stub_record(stub: Stub) -> list[object]:
    params = [[p.argument, p.offset_bytes, type_text(p.stored), p.by_pointer] for p in stub.params]
    return [stub.name, stub.kernel, params, list(stub.argument_bytes), stub.most_threads]


def _stub_of(record: list) -> Stub:
    name, kernel, params, sizes, most_threads = record
    sources = (
        ParamSource(argument, offset, parse_type(text, {}), by_pointer)
        for argument, offset, text, by_pointer in params
    )
    return Stub(name, kernel, tuple(sources), tuple(sizes), most_threads)


def device_parts(objects: list[str]) -> list[DevicePart]:
    """The device parts of objects and archives that no device link has taken yet."""
    parts: dict[bytes, DevicePart] = {}
    for path in objects:
        if not Path(path).is_file() or ".so" in Path(path).suffixes:
            continue
        for data in members(Path(path)):
            if section(data, LINKED_SECTION) is not None:
                return []
            for payload in (section(data, SECTION) or b"").split(_END):
                if payload.strip(b"\0"):
                    parts.setdefault(payload, _part_of(payload))
    return list(parts.values())


def _part_of(payload: bytes) -> DevicePart:
    record = json.loads(zlib.decompress(base64.b64decode(payload.strip(b"\0"))))
    stubs = tuple(_stub_of(stub) for stub in record["stubs"])
    return DevicePart(record["device"], stubs, tuple(record["variables"]), record["arch"])


# ---------------------------------------------------------------- the device link


def link_device(parts: list[DevicePart], options: UnitOptions, dump: Dump = no_dump) -> bytes:
    """One object with the kernels of all `parts`."""
    stubs = {stub.kernel: stub for part in parts for stub in part.stubs}
    known = frozenset(name for part in parts for name in part.variables)
    with compile_unit.uncollected():
        devices = [part.device for part in parts]
        raised = compile_unit.raise_device(devices, tuple(stubs), known, dump, options.variables)
        kernels = tuple(stubs.values())
        unit = compile_unit.lower_unit(raised, kernels, dump, options.check, options.without, options.fibers)
    shared = tuple(v for v in unit.lowered.globals if v.name in known)
    text = compile_unit.device_text(unit, shared, (), options, dump)
    marker = f'@loom.linked = private constant [1 x i8] c"1", section "{LINKED_SECTION}"\n'
    used = '@llvm.compiler.used = appending global [1 x ptr] [ptr @loom.linked], section "llvm.metadata"\n'
    return compile_unit.emit_object(compile_unit.linked((text + marker + used,), frozenset(), hide=False), options)
