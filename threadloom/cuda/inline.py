"""Device IR with everything inlined and in SSA form: the input of `cfg`.

    before:  clang's raw device IR: one alloca per variable, calls to every helper
    after:   kernels whose only calls are intrinsics, loom.*, the C library and functions that cannot be inlined

Passes (llvmlite, LLVM 22): sroa, always-inline, globaldce, sroa, sccp, simplifycfg, lower-switch. Not O1 or more:
rotation, unswitching and speculation would undo the structure that the raise looks for; LLVM optimises after it.
The first sroa halves the time: what is inlined many times is then short. sccp folds what became constant, such as the
guards of divisions whose divisor is a function's argument: a sixth of the operations of Rodinia's dwt2d. Dead reads
stay, for `loom check` watches them.
"""

from __future__ import annotations

import re

from threadloom.errors import InternalError


def inline_device(device_irs: list[str], kernels: tuple[str, ...], keep: frozenset[str] = frozenset()) -> str:
    """The device IR of one or more files (semantics restored) as one module, with all but `kernels` inlined and dropped
    where unused. `keep`: variables that host code knows, whether kernels use them or not."""
    module, *others = (_parsed(_inlinable(text, keep)) for text in device_irs)
    for other in others:
        module.link_in(other)
    for function in module.functions:
        if not function.is_declaration and function.name not in kernels:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    _run_passes(module)
    return str(module)


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
