"""A lowered kernel as C++ statements: loops over blocks and threads, ifs, variables with the user's names.

    parallel blocks (%b) ... {                         #pragma omp parallel for collapse(3)
      parallel threads (%t) ... {                      for (unsigned blockIdx_x = 0; ...)
        %p = getelementptr float, ptr %x, i64 %i   ->    for (unsigned threadIdx_x = 0; ...)
        %v = load float, ptr %p                            x[i] = x[i] * a;
        ...

A value that is used once is written where it is used, unless a store comes between; others become variables. Carried
values of loops are variables that the end of the body assigns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from threadloom.cuda.kernel import BLOCK, GRID, SHARED_BYTES
from threadloom.cuda.translate.cxx_leaves import ATOMICS, OWN_DIVISIONS, OWN_SHIFTS, expression, store_text
from threadloom.cuda.translate.cxx_values import (
    POSTFIX,
    PRIMARY,
    UNARY,
    Expr,
    call_text,
    innermost,
    literal,
    pointer_text,
    pointer_to,
    type_text,
    unsupported,
    with_sign,
)
from threadloom.cuda.translate.names import Names
from threadloom.cuda.translate.usage import pointees_in, signs_in
from threadloom.par.constants import int_value
from threadloom.par.intrinsics import effect_of
from threadloom.par.opcodes import Effect
from threadloom.par.ops import (
    I8,
    PTR,
    VOID,
    Alloca,
    Array,
    Barrier,
    Block,
    Condition,
    Const,
    For,
    If,
    Leaf,
    Level,
    Op,
    Operand,
    Parallel,
    Ptr,
    Return,
    Space,
    Struct,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import operands, regions, results, walk
from threadloom.writer import Writer

_ALWAYS_INLINE = {"sext", "zext", "trunc", "getelementptr", "freeze", "bitcast", "inttoptr", "ptrtoint"}
_LONGEST = 90
_C_MATH = re.compile(
    r"^(f?(abs|min|max|ma|mod)|sqrt|rsqrt|cbrt|exp\w*|log\w*|pow|hypot|erf\w*|[tl]gamma|a?(sin|cos|tan)h?|atan2|floor"
    r"|ceil|round|trunc|rint|nearbyint|copysign|remainder|fdim|l?lr(ound|int))f?$"
)


def _is_value(callee: str) -> bool:
    """A call for its result only."""
    return callee in OWN_SHIFTS or callee in OWN_DIVISIONS or _C_MATH.match(callee) is not None


class KernelText:
    """Writes the body of one function."""

    def __init__(self, body: Block, values: dict[str, Expr], constants: dict[str, Expr], names: Names, writer: Writer,
                 functions: Collection[str] = ()):  # fmt: skip
        self.functions = functions  # those that stay functions (device_functions.py)
        self.values, self.constants, self.names, self.writer = values, constants, names, writer
        self.body = body
        self.uses = Counter(o.name for op in walk(body) for o in operands(op) if isinstance(o, Value))
        self.depth: dict[str, tuple[int, ...]] = {}  # value -> the loops around its definition
        self.used_in: dict[str, set[tuple[int, ...]]] = {}
        self.pointees = pointees_in(body)
        self.signs = signs_in(body)
        self.at_ends = Counter(o.name for op in walk(body) if isinstance(op, Yield) for o in op.values
                               if isinstance(o, Value))  # fmt: skip
        self.pending: dict[str, Op] = {}  # written later, but they read memory
        self._measure(body, ())
        for extents, word in ((GRID, "gridDim"), (BLOCK, "blockDim")):
            for value, axis in zip(extents, "xyz", strict=True):
                self.values[value.name] = Expr(f"{word}.{axis}", POSTFIX, value.type, False, small=True)
        self.values[SHARED_BYTES.name] = Expr("(unsigned)launch.shared_bytes", UNARY, SHARED_BYTES.type, False)

    def write(self) -> None:
        self._block(self.body)

    def _measure(self, block: Block, loops: tuple[int, ...]) -> None:
        for op in block.ops:
            for value in results(op):
                self.depth[value.name] = loops
            for operand in operands(op):
                if isinstance(operand, Value):
                    self.used_in.setdefault(operand.name, set()).add(loops)
            inside = (*loops, id(op)) if isinstance(op, Parallel | For | While) else loops
            for region in regions(op):
                self._measure(region, inside)

    # ------------------------------------------------------------ operands

    def _expr(self, operand: Operand) -> Expr:
        if isinstance(operand, Const):
            return self._constant(operand)
        self.pending.pop(operand.name, None)
        return self.values[operand.name]

    def _is_known(self, operand: Operand) -> bool:
        """Not undefined, and not dropped because what it becomes is never read."""
        return operand.text not in ("undef", "poison") if isinstance(operand, Const) else operand.name in self.values

    def _constant(self, const: Const) -> Expr:
        known = literal(const)
        if known is not None:
            return known
        if const.text in self.constants:
            return self.constants[const.text]
        raise unsupported(f"the constant {const.text[:60]}")

    def _declare(self, value: Value, expr: Expr) -> None:
        """A variable for `value`, which is written as its name from now on."""
        name = self.names.take(value.name)
        if isinstance(value.type, Ptr):
            pointee = innermost(self.pointees.get(value.name) or expr.pointee or I8)
            pointee = I8 if isinstance(pointee, Struct) else pointee
            pointer = pointer_to(expr, pointee)
            self.writer.line(f"{pointer_text(pointee)}{name} = {pointer.text};")
            self.values[value.name] = Expr(name, PRIMARY, PTR, pointee=pointee)
            return
        signed = self.signs.get(value.name, expr.signed)
        self.writer.line(f"{type_text(value.type, signed)} {name} = {expr.text};")
        self.values[value.name] = Expr(name, PRIMARY, value.type, signed)

    def _flush(self) -> None:
        """What reads memory and stands nowhere yet becomes a variable: memory is about to change."""
        for name, op in list(self.pending.items()):
            if name in self.pending:
                value = next(value for value in results(op) if value.name == name)
                self._declare(value, self.values[name])
        self.pending.clear()

    # ------------------------------------------------------------ operations

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case Leaf():
                    self._leaf(op)
                case Alloca():
                    self._alloca(op)
                case If():
                    self._if(op)
                case For():
                    self._for(op)
                case While():
                    self._while(op)
                case Parallel():
                    self._flush()
                    with self.names.scope():
                        self._parallel(op)
                case Barrier():
                    raise unsupported("a barrier that was not lowered", op.loc)
                case Return(value=None) | Yield() | Condition():
                    pass
                case Return(value):
                    returned = self._expr(value)
                    text = pointer_to(returned, I8).text if isinstance(value.type, Ptr) else returned.text
                    self._flush()
                    self.writer.line(f"return {text};")

    def _leaf(self, op: Leaf) -> None:
        effect = effect_of(op)
        if op.opcode == "call" and _is_value(op.attrs.callee):
            effect = Effect.NONE
        if effect in (Effect.NONE, Effect.READ) and not op.attrs.volatile and not op.attrs.ordering:
            if op.result is not None and self.uses[op.result.name]:
                self._pure(op, op.result)
        else:
            self._effect(op)

    def _pure(self, op: Leaf, result: Value) -> None:
        expr = expression(op, [self._expr(operand) for operand in op.operands])
        same_loops = self.used_in.get(result.name, set()) == {self.depth[result.name]}
        once = self.uses[result.name] == 1 and same_loops
        always = op.opcode in _ALWAYS_INLINE and not expr.reads
        named = self.names.is_users(result.name) and not isinstance(result.type, Ptr) and not always
        named = named and self.uses[result.name] > self.at_ends[result.name]
        trivial = expr.precedence >= POSTFIX and not expr.reads and not expr.text.endswith(")")
        self.values[result.name] = expr
        short = len(expr.text) < (2 * _LONGEST if always else _LONGEST)
        if (short and (always or (once and not named))) or trivial:
            if expr.reads:
                self.pending[result.name] = op
        else:
            self._declare(result, expr)

    def _effect(self, op: Leaf) -> None:
        given = [self._expr(operand) for operand in op.operands]
        self._flush()
        match op.opcode:
            case "store":
                self.writer.line(store_text(op, given[0], given[1]))
            case "atomicrmw":
                self._finish(op, _atomic(op, *given))
            case "cmpxchg":
                type_ = op.operands[1].type
                pointer, listed = _exact(given[0], type_), ", ".join(one.text for one in given[1:])
                self._exchange(op, f"loom::compare_exchange<{type_text(type_)}>({pointer}, {listed})")
            case "fence":
                self.writer.line("__atomic_thread_fence(__ATOMIC_SEQ_CST);")
            case "load":
                self._finish(op, expression(op, given))
            case "unreachable":
                self.writer.line("__builtin_unreachable();")
            case _:
                self._finish(op, self._call(op, given))

    def _call(self, op: Leaf, given: list[Expr]) -> Expr:
        callee, type_ = op.attrs.callee, op.result.type if op.result else I8
        if callee.startswith(("llvm.memcpy", "llvm.memmove", "llvm.memset")):
            name = callee.split(".")[1]
            return Expr(f"{name}({', '.join(one.text for one in given[:3])})", POSTFIX, I8)
        if callee == "llvm.trap":  # where no object can come: the destructor of an abstract class
            return Expr("__builtin_trap()", POSTFIX, I8)
        if not callee or callee in self.functions:
            pointer, (context, *rest) = (None, given) if callee else (given[0], given[1:])
            name = self.constants[callee].text if callee else ""
            text = call_text(pointer, name, context, rest, op.result.type if op.result else VOID)
            return Expr(text, PRIMARY, type_, pointee=I8 if isinstance(type_, Ptr) else None)
        if callee not in self.constants:
            raise unsupported(f"a call of {callee}", op.loc)
        known = self.constants[callee]
        listed = ", ".join(one.text for one in given)
        made = Expr(f"{known.text}({listed})", POSTFIX, type_, pointee=I8)
        return replace(made, text=f"(char *){made.text}", precedence=UNARY) if isinstance(type_, Ptr) else made

    def _finish(self, op: Leaf, expr: Expr) -> None:
        if op.result is not None and self.uses[op.result.name]:
            self._declare(op.result, replace(expr, reads=False))
        else:
            self.writer.line(f"{expr.text};")

    def _exchange(self, op: Leaf, text: str) -> None:
        assert op.result is not None
        name = self.names.take(op.result.name)
        self.writer.line(f"auto {name} = {text};")
        self.values[op.result.name] = Expr(name, PRIMARY, op.result.type)

    def _alloca(self, op: Alloca) -> None:
        name, count = self.names.take(op.result.name.removesuffix(".shared")), int_value(op.count)
        if op.space is Space.WORKER or count is None:
            element = innermost(op.element)
            number = self._expr(op.count).text
            size = _length(op.element)
            if isinstance(element, Struct):
                size, element = size * size_bytes(element), I8
            kind = type_text(element)
            self.writer.line(f"loom::Array<{kind}> {name}({number}{f' * {size}' if size > 1 else ''});")
            self.values[op.result.name] = Expr(name, PRIMARY, PTR, pointee=element)
            return
        self.values[op.result.name] = self._fixed(op, name, count)

    def _fixed(self, op: Alloca, name: str, count: int) -> Expr:
        element, dimensions = op.element, [count] if count != 1 else []
        type_: Type = op.element if count == 1 else Array(count, op.element)
        while isinstance(element, Array):
            dimensions.append(element.length)
            element = element.element
        align = "alignas(64) " if op.space is Space.SHARED else ""
        if isinstance(element, Struct):
            self.writer.line(f"alignas(16) char {name}[{size_bytes(op.element) * count}];")
            return Expr(name, PRIMARY, PTR, pointee=I8)
        kind = "char *" if isinstance(element, Ptr) else type_text(element) + " "
        self.writer.line(f"{align}{kind}{name}{''.join(f'[{n}]' for n in dimensions)};")
        if dimensions:
            return Expr(name, PRIMARY, PTR, place=name, pointee=type_)
        return Expr(f"&{name}", UNARY, PTR, place=name, pointee=type_)

    # ------------------------------------------------------------ control flow

    def _variable(self, value: Value, init: Operand | None) -> str:
        """A variable that is assigned later, or now from `init`."""
        expr = self._expr(init) if init is not None and self._is_known(init) else None
        undefined = isinstance(init, Const) and init.text in ("undef", "poison")
        name = self.names.take(value.name)
        if isinstance(value.type, Ptr):
            pointee = innermost(self.pointees.get(value.name) or (expr.pointee if expr else None) or I8)
            pointee = I8 if isinstance(pointee, Struct) else pointee
            head = f"{pointer_text(pointee)}{name}"
            made = Expr(name, PRIMARY, PTR, pointee=pointee)
            expr = pointer_to(expr, pointee) if expr else None
        else:
            signed = self.signs.get(value.name, expr.signed if expr is not None else True)
            head, made = f"{type_text(value.type, signed)} {name}", Expr(name, PRIMARY, value.type, signed)
        self.writer.line(f"{head};" if expr is None or undefined else f"{head} = {expr.text};")
        self.values[value.name] = made
        return name

    def _assign(self, targets: Sequence[Value], sources: Sequence[Operand]) -> None:
        """All at once: a source that names an earlier target is read before."""
        pairs: list[tuple[str, str, Value, Expr]] = []
        for target, source in zip(targets, sources, strict=True):
            if target.name not in self.values or not self._is_known(source):
                continue
            place, expr = self.values[target.name], self._expr(source)
            expr = pointer_to(expr, place.pointee) if isinstance(target.type, Ptr) else with_sign(expr, place.signed)
            if expr.text != place.text:
                pairs.append((place.text, expr.text, target, place))
        self._flush()
        while pairs:
            free = next((one for one in pairs if not _read_by_others(one[0], pairs)), None)
            if free is not None:
                self.writer.line(_assignment(free[0], free[1]))
                pairs.remove(free)
                continue
            place_text, text, target, place = pairs[0]  # they read each other in a circle
            name = self.names.take(f"{target.name}.next")
            number = "" if isinstance(target.type, Ptr) else type_text(target.type, place.signed) + " "
            self.writer.line(f"{number or pointer_text(place.pointee)}{name} = {text};")
            pairs = [*pairs[1:], (place_text, name, target, place)]

    def _if(self, op: If) -> None:
        cond = self._expr(op.cond).text
        self._flush()
        for result in op.results:
            if self.uses[result.name]:
                self._variable(result, None)
        negate = len(op.then.ops) == 1 and not any(self.uses[r.name] for r in op.results)
        first, second = (op.otherwise, op.then) if negate else (op.then, op.otherwise)
        head = f"if ({cond})" if not negate else f"if (!{cond if re.fullmatch(r'[A-Za-z_]+', cond) else f'({cond})'})"
        with self.writer.block(head):
            self._side(op, first)
        mark = self.writer.mark()
        with self.writer.block("else"):
            self._side(op, second)
        if self.writer.mark() == mark + 2:
            self.writer.cut(mark)

    def _side(self, op: If, side: Block) -> None:
        with self.names.scope():
            self._in_side(op, side)

    def _in_side(self, op: If, side: Block) -> None:
        self._block(side)
        if side.ops and isinstance(side.ops[-1], Yield):
            used = [index for index, result in enumerate(op.results) if self.uses[result.name]]
            self._assign([op.results[i] for i in used], [side.ops[-1].values[i] for i in used])

    def _for(self, op: For) -> None:
        self._start(op.args, op.inits)
        low, high, step = (self._expr(one) for one in (op.lower, op.upper, op.step))
        self._flush()
        name = self.names.take(op.iv.name)
        self.values[op.iv.name] = Expr(name, PRIMARY, op.iv.type)
        advance = f"++{name}" if step.text == "1" else f"{name} += {step.text}"
        bound = with_sign(high, True).text
        head = f"for ({type_text(op.iv.type)} {name} = {low.text}; {name} < {bound}; {advance})"
        with self.writer.block(head), self.names.scope():
            self._block(op.body)
            self._assign(op.args, operands(op.body.ops[-1]))
        for arg, result in zip(op.args, op.results, strict=True):
            self.values[result.name] = self.values[arg.name]

    def _start(self, args: Sequence[Value], inits: Sequence[Operand]) -> None:
        for arg, init in zip(args, inits, strict=True):
            self._variable(arg, init)

    def _while(self, op: While) -> None:
        condition = op.before.ops[-1]
        assert isinstance(condition, Condition)
        self._start(op.args, op.inits)
        self._flush()
        args = {arg.name for arg in op.args}
        kept = []  # results that are no carried value: variables of their own
        for result, value in zip(op.results, condition.values, strict=True):
            is_arg = isinstance(value, Value) and value.name in args
            if not is_arg and self.uses[result.name]:
                self._variable(result, None)
                kept.append((result, value))
        mark = self.writer.mark()
        with self.writer.block("while (true)"), self.names.scope():
            inside = self.writer.mark()
            self._block(op.before)
            cond = self._expr(condition.cond)
            simple = self.writer.mark() == inside and not kept
            if not simple:
                self._leave(cond, kept)
            self._forward(op, condition, args)
            self._block(op.after)
            self._assign(op.args, operands(op.after.ops[-1]))
        if simple:
            self.writer.replace(mark, f"while ({cond.text}) {{")
        for result, value in zip(op.results, condition.values, strict=True):
            if isinstance(value, Value) and value.name in args:
                self.values[result.name] = self.values[value.name]

    def _leave(self, cond: Expr, kept: list[tuple[Value, Operand]]) -> None:
        self._flush()
        negated = f"!{cond.at(UNARY)}"
        if not kept:
            self.writer.line(f"if ({negated}) break;")
            return
        name = self.names.take("go")
        self.writer.line(f"bool {name} = {cond.text};")
        self._assign([result for result, _ in kept], [value for _, value in kept])
        self.writer.line(f"if (!{name}) break;")

    def _forward(self, op: While, condition: Condition, args: set[str]) -> None:
        for after_arg, value in zip(op.after_args, condition.values, strict=True):
            if not self.uses[after_arg.name]:
                continue
            if isinstance(value, Value) and value.name in args:
                self.values[after_arg.name] = self.values[value.name]
            else:
                self._declare(after_arg, self._expr(value))

    # ------------------------------------------------------------ parallel loops

    def _parallel(self, op: Parallel) -> None:
        if op.level is Level.BLOCKS:
            chunk = "dynamic" if op.schedule == "dynamic" else "static"
            self.writer.line(f"#pragma omp parallel for collapse({len(op.ivs)}) schedule({chunk})")
        heads = []
        for iv, low, high in zip(op.ivs, op.lowers, op.uppers, strict=True):
            first, last = self._expr(low), self._expr(high)
            name = self.names.take(iv.name)
            self.values[iv.name] = Expr(name, PRIMARY, iv.type, False, small=True)
            kind = type_text(iv.type, False)
            heads.append(f"for ({kind} {name} = {first.text}; {name} < {with_sign(last, False).text}; ++{name})")
        for head in heads[:-1]:
            self.writer.line(head)
        if op.level is not Level.BLOCKS:
            self.writer.line("#pragma GCC ivdep")
        with self.writer.block(heads[-1]):
            self._block(op.body)
            self._flush()


def _read_by_others(place: str, pairs: Sequence[tuple[str, str, Value, Expr]]) -> bool:
    return any(re.search(rf"\b{re.escape(place)}\b", text) for other, text, *_ in pairs if other != place)


def _atomic(op: Leaf, pointer: Expr, value: Expr) -> Expr:
    kind, type_ = op.attrs.predicate, op.operands[1].type
    if kind not in ATOMICS:
        raise unsupported(f"the atomic operation {kind}", op.loc)
    signed = not kind.startswith("u")
    text = type_text(type_, signed)
    target = _exact(pointer, type_) if signed else f"({text} *)({pointer.text})"
    listed = f"{target}, {with_sign(value, signed).text}"
    return Expr(f"loom::atomic_{ATOMICS[kind]}<{text}>({listed})", POSTFIX, type_, signed)


def _exact(pointer: Expr, type_: Type) -> str:
    """A pointer to a signed number."""
    return f"({pointer_text(type_)}){pointer.at(UNARY)}" if pointer.of_unsigned else pointer_to(pointer, type_).text


def _assignment(place: str, text: str) -> str:
    if text == f"{place} + 1":
        return f"++{place};"
    for sign in ("+", "-", "*"):
        if text.startswith(f"{place} {sign} ") and re.fullmatch(r"[\w.\[\]]+", text[len(place) + 3 :]):
            return f"{place} {sign}= {text[len(place) + 3 :]};"
    return f"{place} = {text};"


def _length(type_: Type) -> int:
    return type_.length * _length(type_.element) if isinstance(type_, Array) else 1
