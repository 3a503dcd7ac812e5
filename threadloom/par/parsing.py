"""Parser of the par text form (see text.py): a recursive descent over regions; leaves are in leaf_parsing.py."""

from __future__ import annotations

from threadloom.par.leaf_parsing import LeafParser
from threadloom.par.lexing import Cursor, unquoted
from threadloom.par.ops import (
    I1,
    I64,
    PTR,
    Alloca,
    Barrier,
    Block,
    Condition,
    Const,
    For,
    Function,
    Global,
    If,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Param,
    Return,
    Space,
    Type,
    Value,
    While,
    Yield,
)

_LEVELS = tuple(str(level) for level in Level)
_SPACES = tuple(str(space) for space in Space)


def parse(source: str, file: str = "<par>") -> Module:
    """The module that `source` spells; a mistake is a CompileError with slug `par-syntax` and its place."""
    return _ModuleParser(Cursor(source, file)).module()


class _ModuleParser(LeafParser):
    def module(self) -> Module:
        functions: list[Function] = []
        variables: list[Global] = []
        named: list[tuple[str, str]] = []
        metadata: list[tuple[str, str]] = []
        cursor = self.cursor
        while cursor.token.kind != "end":
            if cursor.token.kind == "local":
                named.append(self._named_type())
            elif cursor.token.kind == "global":
                variables.append(self._global())
            elif cursor.token.kind == "metadata":
                metadata.append(self._metadata_node())
            elif cursor.at("define", "declare"):
                functions.append(self._function())
            else:
                cursor.fail(f"expected define, declare, a global or a type here, found {cursor.token.text!r}")
        return Module(tuple(functions), tuple(variables), tuple(named), tuple(metadata))

    def _named_type(self) -> tuple[str, str]:
        name = self.cursor.advance()
        self.cursor.expect("=")
        self.cursor.expect("type")
        first = self.cursor.token
        self.named_types[name.text] = self.type()
        return name.text, self.text_since(first)

    def _metadata_node(self) -> tuple[str, str]:
        name = self.cursor.advance().text
        self.cursor.expect("=")
        first = self.cursor.token
        self.cursor.accept("distinct")
        if self.cursor.token.text == "!":
            self.cursor.advance()
        if not self.cursor.at("{"):
            self.cursor.fail("expected a metadata node such as !{!1, !2}")
        self.cursor.balanced()
        return name, self.text_since(first)

    def _global(self) -> Global:
        cursor = self.cursor
        name = unquoted(cursor.advance().text)
        cursor.expect("=")
        words = [cursor.expect_kind("word", "a linkage such as internal").text]
        while not cursor.at("constant", "global"):  # private unnamed_addr, thread_local ...
            words.append(cursor.expect_kind("word", "constant or global").text)
        linkage = " ".join(words)
        constant = cursor.one_of(("constant", "global"), "constant or global") == "constant"
        type_ = self.type()
        init = None
        if not cursor.at(",") and cursor.on_same_line():
            init = self.constant(type_).text
        align = cursor.integer("an alignment in bytes") if cursor.accept(",") and cursor.expect("align") else 0
        return Global(name, type_, init, constant, align, linkage)

    # ------------------------------------------------------------ functions

    def _function(self) -> Function:
        cursor = self.cursor
        defined = cursor.advance().text == "define"
        exported = defined and cursor.accept("exported")
        result = self.type()
        name = unquoted(cursor.expect_kind("global", "a function name such as @f").text)
        self.values = {}
        params, variadic = self._params()
        attrs = tuple(self._attrs(stop=("{", "loc")))
        loc = self.opt_loc()
        body = self._block() if defined else None
        return Function(name, params, result, body, exported, attrs, variadic, loc)

    def _params(self) -> tuple[tuple[Param, ...], bool]:
        cursor, params, variadic = self.cursor, [], False
        cursor.expect("(")
        while not cursor.accept(")"):
            if cursor.accept("..."):
                variadic = True
            else:
                params.append(self._param(len(params)))
            if not cursor.at(")"):
                cursor.expect(",")
        return tuple(params), variadic

    def _param(self, index: int) -> Param:
        type_ = self.type()
        attrs = []
        while self.cursor.token.kind in ("word", "string"):
            attrs.append(self.attribute())
        if self.cursor.token.kind == "local":
            return Param(self.define(type_), tuple(attrs))
        return Param(Value(f"arg{index}", type_), tuple(attrs))

    def _attrs(self, stop: tuple[str, ...]) -> list[str]:
        attrs = []
        while self.cursor.token.kind in ("word", "string") and not self.cursor.at(*stop) and self.cursor.on_same_line():
            attrs.append(self.attribute())
        return attrs

    # ------------------------------------------------------------ regions

    def _block(self) -> Block:
        cursor, opening = self.cursor, self.cursor.expect("{")
        ops: list[Op] = []
        while not cursor.accept("}"):
            if cursor.token.kind == "end":
                cursor.fail(f"the region opened in line {opening.line} is never closed", opening)
            ops.append(self._op())
        return Block(tuple(ops))

    def _op(self) -> Op:
        cursor = self.cursor
        names = []
        while cursor.token.kind == "local":
            names.append(cursor.advance())
            if not cursor.accept(","):
                cursor.expect("=")
                break
        self.result_names = names
        match cursor.token.text:
            case "parallel":
                return self._parallel()
            case "for":
                return self._for()
            case "while":
                return self._while()
            case "if":
                return self._if()
            case "alloca":
                return self._alloca()
            case "barrier":
                cursor.advance()
                self.results(())
                return Barrier(Level(cursor.one_of(_LEVELS, "a level")), self.opt_loc())
            case "yield":
                cursor.advance()
                return Yield(self._operands_on_line())
            case "condition":
                cursor.advance()
                cond, *forwarded = self._operands_on_line()
                return Condition(cond, tuple(forwarded))
            case "return":
                cursor.advance()
                values = self._operands_on_line()
                return Return(values[0] if values else None)
        return self.leaf()

    def _operands_on_line(self) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while self.cursor.on_same_line() and not self.cursor.at("}"):
            operands.append(self.operand())
            if not self.cursor.accept(","):
                break
        return tuple(operands)

    def _operand_list(self) -> tuple[Operand, ...]:
        self.cursor.expect("(")
        operands: list[Operand] = []
        while not self.cursor.accept(")"):
            operands.append(self.operand())
            if not self.cursor.at(")"):
                self.cursor.expect(",")
        return tuple(operands)

    def _parallel(self) -> Parallel:
        cursor, result_names = self.cursor, self.result_names
        cursor.advance()
        level = Level(cursor.one_of(_LEVELS, "a level"))
        names = self._name_list()
        cursor.expect("=")
        lowers = self._operand_list()
        cursor.expect("to")
        uppers = self._operand_list()
        if not len(names) == len(lowers) == len(uppers):
            cursor.fail(f"{len(names)} variables, {len(lowers)} lower and {len(uppers)} upper bounds: must be as many")
        schedule, grain = "static", 1
        if cursor.accept("schedule"):
            cursor.expect("(")
            schedule = cursor.one_of(("static", "dynamic", "turns"), "a schedule")
            if cursor.accept(","):
                grain = cursor.integer("a grain")
            cursor.expect(")")
        loc = self.opt_loc()
        ivs = tuple(self.define(lower.type, name) for name, lower in zip(names, lowers, strict=True))
        body = self._block()
        self.result_names = result_names
        self.results(())
        return Parallel(level, ivs, lowers, uppers, body, schedule, loc, grain)

    def _name_list(self) -> list:
        cursor, names = self.cursor, []
        cursor.expect("(")
        while not cursor.accept(")"):
            names.append(cursor.expect_kind("local", "a name such as %i"))
            if not cursor.at(")"):
                cursor.expect(",")
        return names

    def _bindings(self) -> tuple[tuple[Operand, ...], list]:
        """`(%a = T x, %b = U y)`: the inits, and the names still to be defined."""
        cursor, names, inits = self.cursor, [], []
        cursor.expect("(")
        while not cursor.accept(")"):
            names.append(cursor.expect_kind("local", "a name such as %acc"))
            cursor.expect("=")
            inits.append(self.operand())
            if not cursor.at(")"):
                cursor.expect(",")
        return tuple(inits), names

    def _for(self) -> For:
        cursor, result_names = self.cursor, self.result_names
        cursor.advance()
        iv_name = cursor.expect_kind("local", "the loop variable")
        cursor.expect("=")
        lower = self.operand()
        cursor.expect("to")
        upper = self.operand_of(lower.type)
        cursor.expect("step")
        step = self.operand_of(lower.type)
        inits, names = self._bindings() if cursor.accept("carry") else ((), [])
        loc = self.opt_loc()
        iv = self.define(lower.type, iv_name)
        args = tuple(self.define(init.type, name) for init, name in zip(inits, names, strict=True))
        body = self._block()
        self.result_names = result_names
        return For(iv, lower, upper, step, inits, args, body, self.results([init.type for init in inits]), loc)

    def _while(self) -> While:
        cursor, result_names = self.cursor, self.result_names
        cursor.advance()
        inits, names = self._bindings()
        loc = self.opt_loc()
        args = tuple(self.define(init.type, name) for init, name in zip(inits, names, strict=True))
        before = self._block()
        forwarded = self._last_types(before)
        cursor.expect("do")
        after_names = self._name_list()
        if len(after_names) != len(forwarded):
            cursor.fail(f"{len(after_names)} names for {len(forwarded)} forwarded values")
        after_args = tuple(self.define(type_, name) for type_, name in zip(forwarded, after_names, strict=True))
        after = self._block()
        self.result_names = result_names
        return While(inits, args, before, after_args, after, self.results(forwarded), loc)

    def _if(self) -> If:
        cursor, result_names = self.cursor, self.result_names
        cursor.advance()
        cond = self.operand()
        if cond.type != I1:
            cursor.fail("the condition of `if` must be an i1")
        loc = self.opt_loc()
        then = self._block()
        otherwise = Block((Yield(),))
        if cursor.accept("else"):
            otherwise = self._block()
        self.result_names = result_names
        return If(cond, then, otherwise, self.results(self._last_types(then)), loc)

    @staticmethod
    def _last_types(block: Block) -> list[Type]:
        match block.ops[-1] if block.ops else None:
            case Yield(values) | Condition(_, values):
                return [value.type for value in values]
        return []

    def _alloca(self) -> Alloca:
        cursor, names = self.cursor, self.result_names
        cursor.advance()
        space = Space(cursor.one_of(_SPACES, "a space"))
        element = self.type()
        count: Operand = Const(I64, "1")
        align = 0
        if cursor.accept(",") and not cursor.at("align"):
            count = self.operand()
            cursor.accept(",")
        if cursor.accept("align"):
            align = cursor.integer("an alignment in bytes")
        loc = self.opt_loc()
        self.result_names = names
        (result,) = self.results((PTR,))
        return Alloca(result, element, count, space, align, loc)
