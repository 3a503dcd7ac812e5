"""What the host code of a unit fixes about its launches: block sizes and arguments that are one constant everywhere.

    dim3 block(16, 16);
    k<<<blocks, block>>>(out, in, n, 4);      ->   k: block.x 16, block.y 16, block.z 1, parameter 3 is 4

Read off clang's host IR after constants have been propagated between functions (LLVM's always-inline, sroa, ipsccp,
simplifycfg, instcombine, sccp on a copy). For that every function that is called in the unit is taken to be called
nowhere else: a guess, which is allowed because the version made for these facts tests them at every launch
(optimize/specialize_launch.py). What only a run tells (block sizes from the command line, sizes of inputs) a second
compilation takes from what the run wrote: `--launches=FILE`; kernels called from Python are compiled for
their first launch (program.py). Launches through cudaLaunchKernel with a stub's address
are not seen in the host IR.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from threadloom.cuda.host_stubs import Stub, top_level_parts
from threadloom.cuda.kernel import BLOCK
from threadloom.cuda.raise_cfg_to_par import Raised
from threadloom.errors import CompileError, InternalError, slug
from threadloom.par.constants import int_text
from threadloom.par.ops import Function, Int

ATTRIBUTE = "loom.launched"  # of a kernel's parameter: the constant that it is in every launch
BAD_RECORD = slug("cuda-launches-file", "--launches names a file that no run under LOOM_PROFILE wrote")
CONFIGURE = "__cudaPushCallConfiguration"
_CALL = re.compile(r"(?:call|invoke) [^@\n]*@([-\w$.]+|\"[^\"]*\")\((.*)\)[^()]*$")
_CONSTANT = re.compile(r"-?\d+|-?\d+\.\d+e[+-]\d+|0x[0-9A-F]+|true|false")


def with_launch_facts(raised: Raised, host_ir: str, stubs: tuple[Stub, ...]) -> Raised:
    """`raised` with the attribute on those kernels' parameters that `host_ir` fixes."""
    found = launch_facts(host_ir, stubs)
    functions = tuple(_marked(f, found[f.name]) if f.name in found else f for f in raised.module.functions)
    return replace(raised, module=replace(raised.module, functions=functions))


def with_recorded_launches(raised: Raised, stubs: tuple[Stub, ...], path: str) -> Raised:
    """`raised` with the attribute on what the first launches of a run under LOOM_PROFILE had, and all others with them,
    where the host code did not fix it. `path`: what the run wrote."""
    try:
        recorded = {one["name"]: one["first"] for one in json.loads(Path(path).read_text())["kernels"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CompileError(BAD_RECORD, f"{path} is no record of launches", why=str(error),
                           try_="LOOM_PROFILE=FILE ./program writes one") from error  # fmt: skip
    return with_first_launches(raised, stubs, recorded)


def with_first_launches(raised: Raised, stubs: tuple[Stub, ...], first: Mapping[str, Sequence[str]]) -> Raised:
    """The same for launches that are known. `first`: kernel -> three block extents, then the bytes of each argument in
    hexadecimal digits, lowest first; "" where nothing is known."""
    known = {stub.kernel: stub for stub in stubs if stub.kernel in first}
    functions = tuple(
        _marked(f, _recorded_facts(f, known[f.name], first[f.name])) if f.name in known else f
        for f in raised.module.functions
    )
    return replace(raised, module=replace(raised.module, functions=functions))


def _recorded_facts(kernel: Function, stub: Stub, first: Sequence[str]) -> dict[str, str]:
    """Extents and integer arguments that the host code left open."""
    facts = {extent.name: text for extent, text in zip(BLOCK, first, strict=False) if text}
    for position, source in enumerate(stub.params):
        text = first[len(BLOCK) + source.argument] if len(BLOCK) + source.argument < len(first) else ""
        type_ = kernel.params[position].value.type
        if not text or source.by_pointer or not isinstance(type_, Int) or type_ != source.stored:
            continue
        raw = bytes.fromhex(text)[source.offset_bytes :][: type_.bits // 8]
        if len(raw) * 8 == type_.bits:
            facts[str(position)] = int_text(int.from_bytes(raw, "little"), type_.bits)
    marked = [any(ATTRIBUTE in attr for attr in param.attrs) for param in kernel.params]
    taken = {str(i) for i, one in enumerate(marked) if one} | {
        param.value.name for param, one in zip(kernel.params, marked, strict=True) if one
    }
    return {what: text for what, text in facts.items() if what not in taken}


def _marked(kernel: Function, facts: dict[str, str]) -> Function:
    """`facts` by position of the kernel's own parameters, or by the name of a block extent."""
    params = []
    for position, param in enumerate(kernel.params):
        text = facts.get(str(position), facts.get(param.value.name))
        mark = () if text is None else (f'"{ATTRIBUTE}"="{text}"',)
        params.append(replace(param, attrs=(*param.attrs, *mark)))
    return replace(kernel, params=tuple(params))


def launch_facts(host_ir: str, stubs: tuple[Stub, ...]) -> dict[str, dict[str, str]]:
    """Kernel -> what all its launches in `host_ir` agree on."""
    kernels = {stub.name: stub.kernel for stub in stubs}
    if not kernels or f"@{CONFIGURE}(" not in host_ir:
        return {}
    agreed: dict[str, dict[str, str]] = {}
    for stub, facts in _launches(_propagated(host_ir, kernels), kernels):
        kernel = kernels[stub]
        before = agreed.get(kernel, facts)
        agreed[kernel] = {what: text for what, text in before.items() if facts.get(what) == text}
    return {kernel: facts for kernel, facts in agreed.items() if facts}


def _propagated(host_ir: str, stubs: dict[str, str]) -> str:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    try:
        module = llvm.parse_assembly(host_ir)
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the host IR: {error}") from error
    called = set(re.findall(r"(?:call|invoke) [^@\n]*@([-\w$.]+)\(", host_ir))
    for function in module.functions:
        if function.is_declaration or function.name in stubs:
            continue
        if function.name in called:
            function.linkage = "internal"
        if function.name.startswith(("_ZN4dim3C", "_ZN4dim3c")):
            function.add_function_attribute("alwaysinline")
    target = llvm.Target.from_triple(module.triple or llvm.get_process_triple())
    builder = llvm.create_pass_builder(target.create_target_machine(), llvm.create_pipeline_tuning_options(1))
    passes = llvm.create_new_module_pass_manager()
    for name in ("always_inliner", "sroa", "ipsccp", "simplify_cfg", "instruction_combine", "sccp"):
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return str(module)


def _launches(text: str, stubs: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """(stub, facts) of each launch: the stub's call that follows a configuration in the same function."""
    configured: dict[str, str] | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            configured = None
        found = _CALL.search(line) if "call" in line or "invoke" in line else None
        if found is None:
            continue
        callee = found[1].strip('"')
        if callee == CONFIGURE:
            configured = _configuration([_last_word(part) for part in top_level_parts(found[2])])
        elif callee in stubs:
            yield callee, {**(configured or {}), **_arguments(found[2])}
            configured = None


def _configuration(words: list[str]) -> dict[str, str]:
    """dim3 arrives as i64 (y << 32 | x) and i32 z."""
    facts = {}
    if words[2].isdigit():
        packed = int(words[2])
        facts |= {BLOCK[0].name: str(packed & 0xFFFFFFFF), BLOCK[1].name: str(packed >> 32)}
    if words[3].isdigit():
        facts[BLOCK[2].name] = words[3]
    return facts


def _arguments(text: str) -> dict[str, str]:
    words = enumerate(_last_word(part) for part in top_level_parts(text)) if text else ()
    return {str(position): word for position, word in words if _CONSTANT.fullmatch(word)}


def _last_word(part: str) -> str:
    words = part.split()
    return words[-1] if words else ""
