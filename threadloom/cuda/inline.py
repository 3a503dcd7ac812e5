"""Device IR with everything inlined and in SSA form: the input of `cfg`.

    before:  clang's raw device IR: one alloca per variable, calls to every helper
    after:   kernels whose only calls are intrinsics, loom.*, the C library and functions that cannot be inlined

Passes (llvmlite, LLVM 22): sroa, always-inline, globaldce, sroa, sccp, simplifycfg, lower-switch. Not O1 or more:
rotation, unswitching and speculation would undo the structure that the raise looks for; LLVM optimises after it.
The first sroa halves the time: what is inlined many times is then short. sccp folds what became constant, such as the
guards of divisions whose divisor is a function's argument: a sixth of the operations of Rodinia's dwt2d. Dead reads
stay, for `loom check` watches them.

Where a kernel would become very long (functions that call functions many times each), long functions in which threads
do not meet stay functions, as recursive ones do (raise_functions.py).
"""

from __future__ import annotations

import re

from threadloom.cuda.kernel import COLLECTIVES
from threadloom.cuda.raise_functions import SYNCTHREADS
from threadloom.errors import InternalError


def inline_device(device_irs: list[str], kernels: tuple[str, ...], keep: frozenset[str] = frozenset()) -> str:
    """The device IR of one or more files (semantics restored) as one module, with all but `kernels` inlined and dropped
    where unused. `keep`: variables that host code knows, whether kernels use them or not."""
    module, *others = (_parsed(_inlinable(text, keep)) for text in device_irs)
    for other in others:
        module.link_in(other)
    apart = long_functions(device_irs, kernels)
    for function in module.functions:
        if function.name in apart:
            function.linkage = "internal"
        elif not function.is_declaration and function.name not in kernels:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    _run_passes(module)
    return str(module)


LONG_KERNEL_LINES = 100_000  # Rodinia's longest has 9 000, CUDA samples' 2 000
LONG_FUNCTION_LINES = 400
_DEFINE = re.compile(r'^define [^\n]*?@("[^"]+"|[-\w$.]+)\([^\n]*\{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'@("[^"]+"|[-\w$.]+)')
_ANNOTATED = re.compile(r"^@llvm\.global\.annotations = .*$", re.MULTILINE)


def long_functions(device_irs: list[str], kernels: tuple[str, ...]) -> frozenset[str]:
    """Functions that are better not inlined, where a kernel with all of them would have over LONG_KERNEL_LINES."""
    bodies = {name: body for text in device_irs for name, body in _DEFINE.findall(text)}
    own = {name: body.count("\n") for name, body in bodies.items()}
    used = {name: [one for one in _NAME.findall(body) if one != name] for name, body in bodies.items()}
    if max((_lines(name, own, used, {}) for name in kernels if name in own), default=0) <= LONG_KERNEL_LINES:
        return frozenset()
    shared = {name for text in device_irs for line in _ANNOTATED.findall(text) for name in _NAME.findall(line)}
    meeting = {*shared, *COLLECTIVES, SYNCTHREADS}
    meets: dict[str, bool] = {}
    apart: set[str] = set()
    for name in _callees_first(kernels, used):
        meets[name] = any(one in meeting or meets.get(one, False) for one in used.get(name, ()))
        own[name] = own.get(name, 0) + sum(own.get(one, 0) for one in used.get(name, ()) if one not in apart)
        if own[name] > LONG_FUNCTION_LINES and name not in kernels and not meets[name]:
            apart.add(name)
    return frozenset(name.strip('"') for name in apart)


def _lines(name: str, own: dict[str, int], used: dict[str, list[str]], known: dict[str, int]) -> int:
    """How long `name` is with all that it calls; what calls itself counts once."""
    if name not in known:
        known[name] = own.get(name, 0)
        known[name] += sum(_lines(one, own, used, known) for one in used.get(name, ()) if one in own)
    return known[name]


def _callees_first(names: tuple[str, ...], used: dict[str, list[str]]) -> list[str]:
    order: dict[str, None] = {}
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in used and name not in seen:
            seen.add(name)
            for one in used[name]:
                visit(one)
            order[name] = None

    for name in names:
        visit(name)
    return list(order)


def _inlinable(text: str, keep: frozenset[str]) -> str:
    """`__noinline__` is advice about registers; here a function apart cannot meet a barrier."""
    text = re.sub(
        r"^(attributes #\d+ = \{.*)$", lambda m: re.sub(r" (?:noinline|optnone)\b", "", m[1]), text, flags=re.M
    )
    text = re.sub(r"^@llvm\.(?:compiler\.)?used = .*$", "", text, flags=re.M)
    if not keep:
        return text
    # A `static` variable would be dropped or folded; outside this module host code may write it.
    pattern = rf"^(@(?:{'|'.join(re.escape(name) for name in keep)}) = )internal ((?:\w+ )*global)"
    return re.sub(pattern, r"\1\2", text, flags=re.M)


def _parsed(text: str):
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    try:
        return llvm.parse_assembly(text)
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the device IR: {error}") from error


def _run_passes(module) -> None:
    import llvmlite.binding as llvm

    target = llvm.Target.from_triple(module.triple or llvm.get_process_triple())
    builder = llvm.create_pass_builder(target.create_target_machine(), llvm.create_pipeline_tuning_options(1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_sccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_lower_switch_pass()
    passes.run(module, builder)
