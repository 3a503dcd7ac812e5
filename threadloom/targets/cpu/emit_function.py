"""One par function to LLVM basic blocks.

Structured operations become blocks and phis. A result that merely renames a register (a loop's result is its phi at
exit) gets no instruction: `registers` maps a value's name to the text that stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.errors import InternalError
from threadloom.par.constants import int_value
from threadloom.par.intrinsics import effect_of
from threadloom.par.opcodes import Effect
from threadloom.par.ops import (
    Alloca,
    Barrier,
    Block,
    Condition,
    For,
    If,
    Leaf,
    Level,
    Op,
    Operand,
    Parallel,
    Return,
    Space,
    Value,
    While,
    Yield,
)
from threadloom.par.printing import leaf_text, quoted, type_text
from threadloom.par.result_types import align_bytes
from threadloom.par.walk import defined
from threadloom.source import Loc
from threadloom.targets.cpu import outline, take_turns
from threadloom.targets.cpu.access_groups import independent_accesses
from threadloom.targets.cpu.debug_variables import CALLS as DEBUG_CALLS
from threadloom.targets.cpu.debug_variables import DebugVariables
from threadloom.targets.cpu.emit_module import ModuleText


@dataclass(frozen=True, slots=True)
class Carried:
    """A phi to open: its register, and the value it starts with."""

    register: str
    type: str
    init: str


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """A counting loop whose body is being emitted."""

    iv: Carried
    hint: str
    step: str
    phis: tuple[int, ...]  # lines to complete at the back edge
    head: str
    end: str


@dataclass(frozen=True, slots=True)
class ArenaSlice:
    """Where in the worker's arena an allocation lies: a register or number of bytes from `base`."""

    base: str
    offset_bytes: str


class FunctionEmitter:
    def __init__(self, text: ModuleText, name: str, loc: Loc | None = None, users: bool = False):
        self.text, self.name, self.loc = text, name, loc
        self.own_loc = loc or Loc("<generated>", 0)
        self.subprogram = ""
        if text.debug:
            self.subprogram = (text.debug.users_subprogram if users else text.debug.subprogram)(name, loc)
        self.lines: list[str] = []
        self.entry_allocas: list[str] = []
        self.entry_stores: list[str] = []  # behind them
        self.registers: dict[str, str] = {}
        self.attrs_of: dict[str, tuple[str, ...]] = {}  # LLVM attributes of parameters, kept when outlined
        self.arena_slices: dict[str, ArenaSlice] = {}  # Alloca result -> its slice, planned by outline.py
        self.quick = False  # only hands out work: code for that need not be good
        self.kept_attrs: tuple[str, ...] = ()  # of the par function: those that its outlined parts need too
        self.block = "entry"
        self.in_blocks = False  # inside a parallel region that already runs on workers
        self._taken: dict[str, int] = {"entry": 0}
        self._groups: list[tuple[str, frozenset[int]]] = []  # access group, ids of leaves that may carry it
        self._arenas_held: list[str] = []

    # ------------------------------------------------------------ names and lines

    def reserve(self, name: str) -> None:
        self._taken.setdefault(name, 0)

    def reserve_all(self, block: Block) -> None:
        for name in defined(block):
            self.reserve(name)

    def fresh(self, hint: str) -> str:
        """An unused local name, for a register or a label."""
        name, count = hint, self._taken.get(hint, -1)
        while name in self._taken:
            count += 1
            name = f"{hint}.{count}"
        self._taken[hint], self._taken[name] = max(count, 0), 0
        return name

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}{self._location()}")

    def _location(self) -> str:
        """The debug location of the operation that is being emitted."""
        if self.text.debug is None or not self.subprogram:
            return ""
        node = self.text.debug.location(self.subprogram, self.own_loc.file, self.loc or self.own_loc)
        return f", !dbg {node}"

    def assign(self, hint: str, expression: str) -> str:
        """A helper register; returns its text."""
        register = quoted("%", self.fresh(hint))
        self.line(f"{register} = {expression}")
        return register

    def label(self, name: str) -> None:
        self.lines.append(quoted("%", name)[1:] + ":")
        self.block = name

    def branch(self, target: str, metadata: str = "") -> None:
        self.line(f"br label {quoted('%', target)}{metadata}")

    def branch_if(self, cond: str, yes: str, no: str) -> None:
        self.line(f"br i1 {cond}, label {quoted('%', yes)}, label {quoted('%', no)}")

    def outlined_attrs(self) -> str:
        return " ".join(("nounwind", *self.kept_attrs))

    def finish(self, head: str) -> None:
        """Hand the function to the module; `head` is its first line up to the brace."""
        attachment = f" !dbg {self.subprogram}" if self.subprogram else ""
        lines = [f"{head}{attachment} {{", "entry:", *self.entry_allocas, *self.entry_stores, *self.lines, "}", ""]
        self.text.functions.append("\n".join(lines))

    def of(self, operand: Operand) -> str:
        """The text that stands for an operand."""
        if not isinstance(operand, Value):
            return operand.text
        return self.registers.get(operand.name) or quoted("%", operand.name)

    def typed(self, operand: Operand) -> str:
        return f"{type_text(operand.type)} {self.of(operand)}"

    # ------------------------------------------------------------ operations

    def body(self, block: Block) -> None:
        """Emit all but the region's closing operation, which the caller reads by `block.ops[-1]`."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        outer, self.loc = self.loc, getattr(op, "loc", None) or self.loc
        self._op(op)
        self.loc = outer

    def _op(self, op: Op) -> None:
        match op:
            case Leaf():
                self._leaf(op)
            case For():
                self._for(op)
            case While():
                self._while(op)
            case If():
                self._if(op)
            case Alloca():
                self._alloca(op)
            case Parallel(level=Level.BLOCKS) if not self.in_blocks:
                outline.emit_blocks(self, op)
            case Parallel(schedule="turns"):
                take_turns.emit_turns(self, op)
            case Parallel():
                self.parallel_loops(op)
            case Return(value):
                for held in self._arenas_held:
                    self.line(f"call void @{outline.ARENA_RELEASE}(ptr {held})")
                self.line("ret void" if value is None else f"ret {self.typed(value)}")
            case Yield() | Condition():
                pass  # read by the loop or branch that owns the region
            case Barrier():
                raise InternalError(f"{self.name}: a barrier reached emission; it must be lowered before ({op.loc})")

    def _leaf(self, leaf: Leaf) -> None:
        if leaf.attrs.callee in DEBUG_CALLS:
            if isinstance(self.text.debug, DebugVariables):
                self.text.debug.call(self, leaf)
            return
        metadata = list(leaf.attrs.metadata)
        flags = leaf.attrs.flags
        if "nontemporal" in flags and leaf.opcode in ("load", "store"):
            flags = tuple(flag for flag in flags if flag != "nontemporal")
            metadata.append(("nontemporal", self.text.nontemporal()))
        if groups := self._groups_of(leaf):
            metadata.append(("llvm.access.group", groups))
        if metadata != list(leaf.attrs.metadata):
            leaf = replace(leaf, attrs=replace(leaf.attrs, flags=flags, metadata=tuple(metadata)))
        function_type = self.text.function_type(leaf.attrs.callee) if leaf.opcode == "call" else ""
        result = f"{quoted('%', leaf.result.name)} = " if leaf.result else ""
        self.line(result + leaf_text(leaf, self.of, function_type))
        if leaf.opcode == "unreachable":
            self.label(self.fresh("after.unreachable"))

    def _groups_of(self, leaf: Leaf) -> str:
        if not self._groups or effect_of(leaf) not in (Effect.READ, Effect.WRITE, Effect.CALL):
            return ""
        if leaf.attrs.volatile or leaf.attrs.ordering:  # LLVM would vectorise them
            return ""
        groups = [group for group, leaves in self._groups if id(leaf) in leaves]
        if len(groups) > 1:
            return self.text.shared_metadata(f"!{{{', '.join(groups)}}}")
        return groups[0] if groups else ""

    def _open_phis(self, values: list[Carried], predecessor: str) -> tuple[int, ...]:
        first = len(self.lines)
        for value in values:
            self.lines.append(f"  {value.register} = phi {value.type} [ {value.init}, {quoted('%', predecessor)} ]")
        return tuple(range(first, first + len(values)))

    def _close_phis(self, phis: tuple[int, ...], values: list[str]) -> None:
        for place, value in zip(phis, values, strict=True):
            self.lines[place] += f", [ {value}, {quoted('%', self.block)} ]"

    def _carried(self, args: tuple[Value, ...], inits: tuple[Operand, ...]) -> list[Carried]:
        return [Carried(quoted("%", arg.name), type_text(init.type), self.of(init))
                for arg, init in zip(args, inits, strict=True)]  # fmt: skip

    def _for(self, op: For) -> None:
        carried = self._carried(op.args, op.inits)
        for arg, result in zip(op.args, op.results, strict=True):
            self.registers[result.name] = quoted("%", arg.name)
        mark = self.stack_mark(op.body)
        loop = self.open_loop(op.iv, self.of(op.lower), self.of(op.upper), self.of(op.step), carried)
        self.body(op.body)
        self.restore_stack(mark)
        self.close_loop(loop, self._yielded(op.body))

    def _yielded(self, block: Block) -> list[str]:
        last = block.ops[-1] if block.ops else None
        return [self.of(value) for value in last.values] if isinstance(last, Yield) else []

    def open_loop(self, iv: Value, lower: str, upper: str, step: str, carried: list[Carried]) -> OpenLoop:
        head, inside, end = (self.fresh(f"{part}.{iv.name}") for part in ("for", "body", "end"))
        before, counter = self.block, Carried(quoted("%", iv.name), type_text(iv.type), lower)
        self.branch(head)
        self.label(head)
        phis = self._open_phis([counter, *carried], before)
        more = self.assign(f"{iv.name}.more", f"icmp slt {counter.type} {counter.register}, {upper}")
        self.branch_if(more, inside, end)
        self.label(inside)
        return OpenLoop(counter, iv.name, step, phis, head, end)

    def close_loop(self, loop: OpenLoop, yielded: list[str], metadata: str = "") -> None:
        iv = loop.iv
        following = self.assign(f"{loop.hint}.next", f"add nsw {iv.type} {iv.register}, {loop.step}")
        self._close_phis(loop.phis, [following, *yielded])
        self.branch(loop.head, f", !llvm.loop {metadata}" if metadata else "")
        self.label(loop.end)

    def _while(self, op: While) -> None:
        head, inside, end = (self.fresh(part) for part in ("while", "while.body", "while.end"))
        before = self.block
        self.branch(head)
        self.label(head)
        phis = self._open_phis(self._carried(op.args, op.inits), before)
        self.body(op.before)
        test = op.before.ops[-1]
        if not isinstance(test, Condition):
            raise InternalError(f"{self.name}: the test region of a while does not end with condition")
        for value, inner, result in zip(test.values, op.after_args, op.results, strict=True):
            self.registers[inner.name] = self.registers[result.name] = self.of(value)
        self.branch_if(self.of(test.cond), inside, end)
        self.label(inside)
        mark = self.stack_mark(op.after)
        self.body(op.after)
        self.restore_stack(mark)
        self._close_phis(phis, self._yielded(op.after))
        self.branch(head)
        self.label(end)

    def _if(self, op: If) -> None:
        then, otherwise, join = (self.fresh(part) for part in ("then", "else", "join"))
        empty_else = len(op.otherwise.ops) == 1 and isinstance(op.otherwise.ops[0], Yield)
        start = self.block
        self.branch_if(self.of(op.cond), then, join if empty_else else otherwise)
        incoming: list[tuple[list[str], str]] = []
        for label, block in ((then, op.then), (otherwise, op.otherwise)):
            if label == otherwise and empty_else:
                from_block = start
            else:
                self.label(label)
                self.body(block)
                from_block = self.block
                self.branch(join)
            incoming.append((self._yielded(block), from_block))
        self.label(join)
        for index, result in enumerate(op.results):
            sources = ", ".join(f"[ {values[index]}, {quoted('%', block)} ]" for values, block in incoming)
            self.line(f"{quoted('%', result.name)} = phi {type_text(result.type)} {sources}")

    # ------------------------------------------------------------ memory

    def _alloca(self, op: Alloca) -> None:
        register = quoted("%", op.result.name)
        align = op.align_bytes or align_bytes(op.element)
        if op.space is not Space.PRIVATE:
            self._arena_alloca(op, register)
        elif (count := int_value(op.count)) is not None:
            number = f", i64 {count}" if count != 1 else ""
            self.entry_allocas.append(f"  {register} = alloca {type_text(op.element)}{number}, align {align}")
        else:
            self.line(f"{register} = alloca {type_text(op.element)}, {self.typed(op.count)}, align {align}")

    def _arena_alloca(self, op: Alloca, register: str) -> None:
        place = self.arena_slices.get(op.result.name)
        if place is None:  # serial code: an arena of its own until the function returns
            bytes_ = outline.bytes_of(self, op)
            base = outline.acquire_arena(self, bytes_, "0")
            self._arenas_held.append(base.slot)
            place = ArenaSlice(base.memory, "0")
        self.line(f"{register} = getelementptr inbounds i8, ptr {place.base}, i64 {place.offset_bytes}")

    # ------------------------------------------------------------ parallel loops inside one worker

    def parallel_loops(self, op: Parallel) -> None:
        """A nest of plain loops, last variable innermost; the innermost one says that its accesses are independent."""
        mark = self.stack_mark(op.body)
        opened = []
        for iv, lower, upper in zip(op.ivs, op.lowers, op.uppers, strict=True):
            opened.append(self.open_loop(iv, self.of(lower), self.of(upper), "1", []))
        self.enter_group(op.body)
        self.body(op.body)
        self.restore_stack(mark)
        metadata = self.leave_group(_few_iterations(op))
        for loop in reversed(opened):
            self.close_loop(loop, [], metadata)
            metadata = ""

    def enter_group(self, body: Block) -> None:
        """Accesses emitted from here on are independent between iterations of the loop around `body`."""
        self._groups.append((self.text.new_metadata("distinct !{}"), independent_accesses(body)))

    def leave_group(self, rolled: bool = False) -> str:
        """The loop metadata that says so. `rolled`: LLVM must not unroll the loop before it has tried to vectorise it,
        after which it may."""
        group, _ = self._groups.pop()
        parts = [self.text.new_metadata(f'!{{!"llvm.loop.parallel_accesses", {group}}}')]
        if rolled:
            vectorised = self.text.new_metadata('!{!"llvm.loop.isvectorized", i32 1}')
            follow = f'!{{!"llvm.loop.vectorize.followup_vectorized", {vectorised}}}'
            parts += [self.text.new_metadata('!{!"llvm.loop.unroll.disable"}'), self.text.new_metadata(follow)]
        return self.text.new_metadata(f"distinct !{{SELF, {', '.join(parts)}}}")

    def stack_mark(self, block: Block) -> str:
        """Where `block` allocates a run-time number of elements: the stack pointer to return to each iteration."""
        return self.assign("stack", "call ptr @llvm.stacksave.p0()") if _grows_stack(block) else ""

    def restore_stack(self, mark: str) -> None:
        if mark:
            self.line(f"call void @llvm.stackrestore.p0(ptr {mark})")


_FEWEST_LANES = 8  # a shorter loop is better unrolled


def _few_iterations(op: Parallel) -> bool:
    """The innermost loop runs a known number of times, which LLVM would unroll wholly where that is small."""
    first, end = int_value(op.lowers[-1]), int_value(op.uppers[-1])
    return first is not None and end is not None and end - first >= _FEWEST_LANES


def _grows_stack(block: Block) -> bool:
    """Whether `block` itself, not a loop in it (which cleans up after itself), allocates a run-time number."""
    for op in block.ops:
        match op:
            case Alloca(space=Space.PRIVATE) if int_value(op.count) is None:
                return True
            case If() if _grows_stack(op.then) or _grows_stack(op.otherwise):
                return True
    return False
