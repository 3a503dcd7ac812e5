"""par -> LLVM IR text.

    for %i = i64 0 to %n step 1 carry (%acc = ...)    ->   top-tested loop; %i and %acc are phis, never memory
    parallel blocks (%b) = ... schedule(dynamic)      ->   an outlined function, run by OpenMP workers (outline.py)
    parallel threads (%t) = ...                       ->   loops whose accesses are marked as independent
    alloca private / shared, worker                   ->   stack / a slice of the worker's arena

Needs: verified par without barriers (lowered before). Explicit vectors come out as written, so the result needs no
LLVM middle-end; scalar loops profit from it. Same module, same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from threadloom.errors import InternalError
from threadloom.par.ops import Alloca, Function, Global, Module, Space
from threadloom.par.printing import quoted, type_text, value_name
from threadloom.par.walk import walk
from threadloom.targets.cpu import arena, debug_variables, outline
from threadloom.targets.cpu.emit_function import FunctionEmitter
from threadloom.targets.cpu.emit_module import ModuleText


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """threads: fork workers for BLOCKS (else everything runs in the caller). standalone: the object brings the
    arena and the thread limit itself (executables, shared libraries); else the JIT provides them. debug_lines: line
    tables from the operations' locations. debug_nodes: clang's debug nodes by name; those of variables that calls of
    loom.debug.* name are described to a debugger."""

    threads: bool = True
    standalone: bool = False
    debug_lines: bool = False
    debug_nodes: Mapping[str, str] | None = None


def emit_llvm(module: Module, options: EmitOptions = EmitOptions()) -> str:
    """The LLVM IR text of `module`; the target's triple and data layout are set when it is compiled."""
    if options.standalone and _has_shared_allocas(module):
        module = _with_arena(module)
    text = ModuleText(module, options)
    for function in module.functions:
        if function.body is not None:
            _emit_function(text, function)
    support = outline.support_text(text, options.standalone)
    parts = [_header(module), "\n".join(text.functions), support, "\n".join(text.metadata_lines())]
    return "\n".join(part for part in parts if part) + "\n"


def _has_shared_allocas(module: Module) -> bool:
    return any(
        isinstance(op, Alloca) and op.space is not Space.PRIVATE
        for function in module.functions
        if function.body is not None
        for op in walk(function.body)
    )


def _with_arena(module: Module) -> Module:
    """`module` with its own copy of the arena functions."""
    from threadloom.par.text import parse

    support, known = parse(arena.SOURCE, "arena.par"), {function.name for function in module.functions}
    added = [replace(function, exported=False) for function in support.functions if function.name not in known]
    return replace(module, functions=module.functions + tuple(added), globals=module.globals + support.globals)


def _emit_function(text: ModuleText, function: Function) -> None:
    if function.body is None:
        raise InternalError(f"{function.name} has no body")
    emitter = FunctionEmitter(text, function.name, function.loc, users=debug_variables.is_users(function))
    emitter.quick = "optnone" in function.attrs
    emitter.kept_attrs = tuple(attr for attr in function.attrs if attr.startswith('"'))  # "prefer-vector-width"="512"
    params = []
    for param in function.params:
        emitter.reserve(param.value.name)
        emitter.attrs_of[param.value.name] = param.attrs
        params.append(" ".join((type_text(param.value.type), *param.attrs, value_name(param.value))))
    params += ["..."] if function.variadic else []
    emitter.reserve_all(function.body)
    emitter.body(function.body)
    linkage = "" if function.exported else "internal "
    attrs = "".join(f" {attr}" for attr in function.attrs)
    signature = f"{type_text(function.result)} {quoted('@', function.name)}({', '.join(params)}){attrs}"
    emitter.finish(f"define {linkage}{signature}")


def _header(module: Module) -> str:
    lines = [f"{name} = type {body}" for name, body in module.named_types]
    lines += [_global_text(variable) for variable in module.globals]
    for function in module.functions:
        if function.body is None and not function.name.startswith("llvm."):
            lines.append(_declaration(function))
    return "\n".join(lines) + ("\n" if lines else "")


def _global_text(variable: Global) -> str:
    kind = "constant" if variable.constant else "global"
    init = f" {variable.init}" if variable.init is not None else ""
    align = f", align {variable.align_bytes}" if variable.align_bytes else ""
    return f"{quoted('@', variable.name)} = {variable.linkage} {kind} {type_text(variable.type)}{init}{align}"


def _declaration(function: Function) -> str:
    params = [" ".join((type_text(param.value.type), *param.attrs)) for param in function.params]
    listed = ", ".join(params + (["..."] if function.variadic else []))
    attrs = "".join(f" {attr}" for attr in function.attrs)
    return f"declare {type_text(function.result)} {quoted('@', function.name)}({listed}){attrs}"
