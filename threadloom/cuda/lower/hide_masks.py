"""Keeps LLVM from taking a masked index for an affine one.

    %i = and i32 %t, 3                      %i = and i32 %t, 3
    %p = getelementptr i32, ptr %x, i32 %i  ->  %i.index = and i32 %i, %ones      # -1, but LLVM cannot know
                                            %p = getelementptr i32, ptr %x, i32 %i.index

LLVM 22 reads `and %t, 3` as an induction variable of type i2 and vectorises the loop under the assumption that it does
not wrap. Where the loop has a second assumption on a wider variable (any unflagged i32 index, so nearly every CUDA
kernel), it wrongly believes that one to cover the other (SCEVWrapPredicate::implies compares recurrences of different
widths), makes no check, and loads x[t] instead of x[t & 3]. The same holds for `urem` by a power of two, and for
values cut to fewer bits and widened again. Only values that reach an index are hidden. Found by tests/property, seed
1317. Needs: a kernel (its grid has at least one block, which gives the -1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import GRID
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.traverse import expand, value_flow, walk
from threadloom.par.constants import int_value
from threadloom.par.ops import I1, Block, Function, Int, Leaf, Module, Op, Operand, Value
from threadloom.par.passes import through_functions

_THROUGH = frozenset({"zext", "sext", "trunc", "add", "sub", "mul", "shl", "or", "xor", "and", "freeze"})


@dataclass(frozen=True, slots=True)
class HideMasks:
    name: str = "hide-masks"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        leaves = [op for op in walk(function.body.ops) if isinstance(op, Leaf)]
        definitions = {leaf.result.name: leaf for leaf in leaves if leaf.result is not None}
        indices = _index_values(leaves, definitions, value_flow(function.body.ops))
        masked = {name for name in indices if name in definitions and _is_narrow(definitions[name], definitions)}
        params = {param.value.name: param.value for param in function.params}
        if not masked or GRID[2].name not in params:
            return module
        editor = Editor(function, module)
        ones = _Ones(editor, params[GRID[2].name])
        renaming: dict[str, Value] = {}

        def hide(op: Op) -> list[Op] | None:
            if not isinstance(op, Leaf) or op.result is None or op.result.name not in masked:
                return None
            with editor.collect() as ops, editor.at(op.loc):
                opaque = ones.of(op.result.type)
                hidden = editor.leaf("and", (op.result, opaque), name=f"{op.result.name}.index")
            renaming[op.result.name] = hidden
            return [op, *ops]

        body = expand(function.body, hide)
        return editor.finish(replace(function, body=_use_in_indices(body, indices, renaming)))


class _Ones:
    """A -1 of each width that LLVM cannot see through, computed once at the start of the function."""

    def __init__(self, editor: Editor, grid: Value):
        self._editor, self._grid = editor, grid
        self._known: dict[int, Operand] = {}

    def of(self, type_: Int) -> Operand:
        if type_.bits not in self._known:
            with self._editor.collect() as ops:
                some = self._editor.icmp("ne", self._grid, 0, "some.blocks")
                self._known[type_.bits] = self._editor.cast("sext", some, type_, name="ones")
            self._editor.start.extend(ops)
        return self._known[type_.bits]


def _index_values(leaves: list[Leaf], definitions: dict[str, Leaf], flow: dict[str, tuple[Operand, ...]]) -> set[str]:
    """Names of values from which an index of a getelementptr is computed."""
    queue = [o for leaf in leaves if leaf.opcode == "getelementptr" for o in leaf.operands[1:]]
    found: set[str] = set()
    while queue:
        operand = queue.pop()
        if not isinstance(operand, Value) or operand.name in found:
            continue
        found.add(operand.name)
        queue.extend(flow.get(operand.name, ()))
        leaf = definitions.get(operand.name)
        if leaf is not None and (leaf.opcode in _THROUGH or leaf.opcode == "urem"):
            queue.extend(leaf.operands)
    return found


def _is_narrow(leaf: Leaf, definitions: dict[str, Leaf]) -> bool:
    """What LLVM may read as an induction variable of few bits."""
    if leaf.result is None or not isinstance(leaf.result.type, Int) or leaf.result.type == I1:
        return False
    match leaf.opcode:
        case "and":
            return any(_is_low_mask(operand) for operand in leaf.operands)
        case "urem":
            divisor = int_value(leaf.operands[1])
            return divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0
        case "zext" | "sext":
            source = leaf.operands[0]
            loaded = isinstance(source, Value) and definitions.get(source.name, leaf).opcode == "load"
            return isinstance(source.type, Int) and 1 < source.type.bits < 32 and not loaded
    return False


def _is_low_mask(operand: Operand) -> bool:
    value = int_value(operand)
    return value is not None and value > 0 and value & (value + 1) == 0


def _use_in_indices(body: Block, indices: set[str], renaming: dict[str, Value]) -> Block:
    """Indices, and what indices are computed from, read the hidden values; everything else the plain ones."""

    def change(op: Op) -> list[Op] | None:
        if not isinstance(op, Leaf) or op.result is None or op.result in renaming.values():
            return None
        if op.opcode == "getelementptr":
            kept, changed = op.operands[:1], op.operands[1:]
        elif op.opcode in _THROUGH and op.result.name in indices:
            kept, changed = (), op.operands
        else:
            return None
        swapped = tuple(renaming.get(o.name, o) if isinstance(o, Value) else o for o in changed)
        return [replace(op, operands=(*kept, *swapped))]

    return expand(body, change)
