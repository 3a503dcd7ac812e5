"""The text form of `par`: LLVM-flavoured leaves inside structured regions. `parse(print_module(m, locs=True)) == m`.

    define exported void @scale(ptr noalias %x, i64 %n) {
      parallel blocks (%i) = (i64 0) to (i64 %n) schedule(static) {
        %p = getelementptr inbounds float, ptr %x, i64 %i
        %v = load float, ptr %p, align 4
        %w = fmul float %v, 2.0
        store float %w, ptr %p, align 4
      }
      return
    }

Locations print as a trailing `loc("file.cu":12:3)` when asked for. See docs/par.md for the whole grammar.
"""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.par.ops import (
    Alloca,
    Barrier,
    Block,
    Condition,
    For,
    Function,
    Global,
    If,
    Leaf,
    Module,
    Op,
    Operand,
    Parallel,
    Param,
    Return,
    Value,
    While,
    Yield,
)
from threadloom.par.parsing import parse
from threadloom.par.printing import leaf_text, operand_text, quoted, type_text, typed, value_name
from threadloom.source import Loc

__all__ = ["parse", "print_function", "print_module", "print_op"]


def print_module(module: Module, locs: bool = False) -> str:
    """The text of `module`; with `locs`, source locations too (then parsing gives back exactly the same module)."""
    lines = [f"{name} = type {body}" for name, body in module.named_types]
    lines += [_global_text(variable) for variable in module.globals]
    parts = ["\n".join(lines)] if lines else []
    for function in module.functions:
        if function.body is None and parts and parts[-1].startswith("declare"):
            parts[-1] += "\n" + print_function(function, locs)
        else:
            parts.append(print_function(function, locs))
    if module.metadata:
        parts.append("\n".join(f"{name} = {node}" for name, node in module.metadata))
    return "\n\n".join(parts) + "\n"


def print_function(function: Function, locs: bool = False) -> str:
    if function.body is None:
        return _signature("declare", function) + _loc(function.loc, locs)
    head = _signature("define exported" if function.exported else "define", function)
    return "\n".join([f"{head}{_loc(function.loc, locs)} {{", *_block_lines(function.body, 1, locs), "}"])


def print_op(op: Op, locs: bool = False) -> str:
    """One operation with its regions; for error messages and dumps."""
    return "\n".join(_op_lines(op, 0, locs))


def _global_text(variable: Global) -> str:
    kind = "constant" if variable.constant else "global"
    init = f" {variable.init}" if variable.init is not None else ""
    align = f", align {variable.align_bytes}" if variable.align_bytes else ""
    return f"{quoted('@', variable.name)} = {variable.linkage} {kind} {type_text(variable.type)}{init}{align}"


def _signature(keyword: str, function: Function) -> str:
    params = [_param_text(param) for param in function.params] + (["..."] if function.variadic else [])
    attrs = "".join(f" {attr}" for attr in function.attrs)
    return f"{keyword} {type_text(function.result)} {quoted('@', function.name)}({', '.join(params)}){attrs}"


def _param_text(param: Param) -> str:
    return " ".join((type_text(param.value.type), *param.attrs, value_name(param.value)))


def _loc(loc: Loc | None, locs: bool) -> str:
    if loc is None or not locs:
        return ""
    end = f"-{loc.end_column}" if loc.end_column else ""
    file = loc.file.replace("\\", "\\5C").replace('"', "\\22")
    return f' loc("{file}":{loc.line}:{loc.column}{end})'


def _block_lines(block: Block, depth: int, locs: bool) -> list[str]:
    return [line for op in block.ops for line in _op_lines(op, depth, locs)]


def _names(values: tuple[Value, ...]) -> str:
    return ", ".join(value_name(value) for value in values)


def _list(operands: tuple[Operand, ...]) -> str:
    return ", ".join(typed(operand) for operand in operands)


def _results(results: tuple[Value, ...]) -> str:
    return f"{_names(results)} = " if results else ""


def _bindings(args: tuple[Value, ...], inits: tuple[Operand, ...]) -> str:
    return ", ".join(f"{value_name(arg)} = {typed(init)}" for arg, init in zip(args, inits, strict=True))


def _op_lines(op: Op, depth: int, locs: bool) -> list[str]:
    pad = "  " * depth
    match op:
        case Leaf():
            result = (op.result,) if op.result else ()
            return [f"{pad}{_results(result)}{leaf_text(op)}{_loc(op.loc, locs)}"]
        case Parallel():
            grain = f", {op.grain}" if op.grain > 1 else ""
            schedule = f" schedule({op.schedule}{grain})" if op.level == "blocks" or op.schedule == "turns" else ""
            head = f"parallel {op.level} ({_names(op.ivs)}) = ({_list(op.lowers)}) to ({_list(op.uppers)}){schedule}"
            return _region(pad + head + _loc(op.loc, locs), op.body, depth, locs)
        case For():
            carry = f" carry ({_bindings(op.args, op.inits)})" if op.args else ""
            bounds = f"{value_name(op.iv)} = {typed(op.lower)} to {operand_text(op.upper)} step {operand_text(op.step)}"
            head = f"{_results(op.results)}for {bounds}{carry}"
            return _region(pad + head + _loc(op.loc, locs), op.body, depth, locs)
        case While():
            head = f"{pad}{_results(op.results)}while ({_bindings(op.args, op.inits)}){_loc(op.loc, locs)} {{"
            middle = f"{pad}}} do ({_names(op.after_args)}) {{"
            before, after = _block_lines(op.before, depth + 1, locs), _block_lines(op.after, depth + 1, locs)
            return [head, *before, middle, *after, pad + "}"]
        case If():
            head = f"{pad}{_results(op.results)}if {typed(op.cond)}{_loc(op.loc, locs)} {{"
            then, otherwise = _block_lines(op.then, depth + 1, locs), _block_lines(op.otherwise, depth + 1, locs)
            return [head, *then, pad + "} else {", *otherwise, pad + "}"]
        case Barrier():
            return [f"{pad}barrier {op.scope}{_loc(op.loc, locs)}"]
        case Alloca():
            align = f", align {op.align_bytes}" if op.align_bytes else ""
            head = f"{value_name(op.result)} = alloca {op.space} {type_text(op.element)}, {typed(op.count)}{align}"
            return [pad + head + _loc(op.loc, locs)]
        case Yield(values):
            return [f"{pad}yield {_list(values)}".rstrip()]
        case Condition(cond, values):
            return [f"{pad}condition {_list((cond, *values))}"]
        case Return(value):
            return [f"{pad}return {typed(value)}" if value else f"{pad}return"]
    raise InternalError(f"not a par operation: {op!r}")


def _region(head: str, body: Block, depth: int, locs: bool) -> list[str]:
    return [head + " {", *_block_lines(body, depth + 1, locs), "  " * depth + "}"]
