"""A second version of a kernel for the block size and the arguments that every launch in the host code has.

    define @k(ptr %x, i32 "loom.launched"="4" %step, ..., i32 "loom.launched"="16" %block.x, ...) { B }
 -> define @k(ptr %x, i32 %step, ..., i32 %block.x, ...) {
      %same = icmp eq i32 %block.x, 16 ; and %step == 4, ...
      if (%same) { call @k.launched(...) } else { call @k.general(...) }
    }
    define internal @k.launched(...) { B with %block.x = 16, %step = 4, folded }
    define internal @k.general(...) { B }

Needs: the attribute, which host_launches.py puts on parameters; it is tested at launch, so may be wrong. Extents that
are numbers tell barrier elimination and vectorisation how far threads reach, and LLVM that no row has a rest. Only
kernels with barriers or loops get a second version. Without the attribute it declines. Source: DESIGN.md, "CUDA on the
CPU", 3 (block-size specialisation); not in the paper, which inlines launches into the host code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from threadloom.cuda.host_launches import ATTRIBUTE
from threadloom.cuda.kernel import GENERAL, LAUNCHED, is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.separators import weight
from threadloom.cuda.lower.traverse import free_values, rename_block, walk
from threadloom.par.canonicalize import canonicalized
from threadloom.par.ops import (
    Barrier,
    Block,
    Const,
    For,
    Function,
    Int,
    Module,
    Operand,
    Param,
    Return,
    Value,
    While,
)
from threadloom.par.passes import decline

_HEAD = f'"{ATTRIBUTE}"="'


@dataclass(frozen=True, slots=True)
class SpecializeLaunch:
    name: str = "specialize-launch"
    most_ops: int = 1500  # a larger kernel would pay too much compile time for its second version
    most_ops_of_module: int = 12000  # of the kernels that get one, by weight, as in specialize.py

    def apply(self, module: Module) -> Module:
        left = self.most_ops_of_module
        for kernel in module.functions:
            if kernel.body is None or not is_kernel(kernel):
                continue
            facts = plan_launch(kernel)
            plain = replace(kernel, params=tuple(_unmarked(param) for param in kernel.params))
            if plain != kernel:
                module = replace(module, functions=tuple(plain if f is kernel else f for f in module.functions))
            reason = self._reason(kernel, facts)
            if not reason and weight(kernel) > left:
                reason = "the file has second versions of many kernels already"
            if reason:
                decline(reason, kernel.name, kernel.loc)
            else:
                left -= weight(kernel)
                module = _specialize(plain, facts, module)
        return module

    def _reason(self, kernel: Function, facts: tuple[tuple[Value, Const], ...]) -> str:
        ops = list(walk(kernel.body.ops if kernel.body else ()))
        if not facts:
            return "no block size or argument is the same constant in all launches"
        if not any(isinstance(op, Barrier | For | While) for op in ops):
            return "no barrier and no loop gains by a launch that is known"
        return "kernel too large for a second version" if len(ops) > self.most_ops else ""


def plan_launch(kernel: Function) -> tuple[tuple[Value, Const], ...]:
    """The parameters that the body reads and whose value in every launch is known."""
    used = free_values(kernel.body.ops) if kernel.body else {}
    known = ((param.value, _launched(param)) for param in kernel.params if param.value.name in used)
    return tuple((value, text) for value, text in known if text is not None)


def _launched(param: Param) -> Const | None:
    text = next((attr[len(_HEAD) : -1] for attr in param.attrs if attr.startswith(_HEAD)), None)
    return None if text is None else Const(param.value.type, text)


def _unmarked(param: Param) -> Param:
    return replace(param, attrs=tuple(attr for attr in param.attrs if not attr.startswith(_HEAD)))


def _specialize(kernel: Function, facts: tuple[tuple[Value, Const], ...], module: Module) -> Module:
    body = rename_block(kernel.body, {value.name: constant for value, constant in facts}) if kernel.body else None
    launched = canonicalized(replace(kernel, name=kernel.name + LAUNCHED, body=body, exported=False))
    general = replace(kernel, name=kernel.name + GENERAL, exported=False)
    chooser = Editor(replace(kernel, body=Block(())), module)
    chooser.defined_elsewhere |= {launched.name, general.name}
    with chooser.collect() as ops:
        tests = [_equal(chooser, value, constant) for value, constant in facts]
        holds = reduce(chooser.and_, tests)
        arguments = [param.value for param in kernel.params]
        with chooser.if_(holds) as branch:
            chooser.call(launched.name, arguments, kernel.result)
            branch.otherwise()
            chooser.call(general.name, arguments, kernel.result)
        ops.append(Return())
    module = chooser.finish(replace(kernel, body=Block(tuple(ops))))
    return replace(module, functions=(*module.functions, launched, general))


def _equal(editor: Editor, value: Value, constant: Const) -> Operand:
    """Bit by bit: a -0.0 is not 0.0."""
    if isinstance(value.type, Int):
        return editor.icmp("eq", value, constant, "same")
    bits = Int({"half": 16, "bfloat": 16, "float": 32, "double": 64}[value.type.kind])
    left, right = (editor.cast("bitcast", operand, bits) for operand in (value, constant))
    return editor.icmp("eq", left, right, "same")
