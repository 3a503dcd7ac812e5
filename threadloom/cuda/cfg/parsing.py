"""LLVM assembly as llvmlite prints it -> cfg. Leaves are read by par's leaf parser; here are blocks, phis and calls.

Not handled, with a located error: `switch`, `indirectbr` and exception handling (never in device code after
lower-switch), inline assembly that `cuda/ptx.py` does not know, `va_arg`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from threadloom.cuda.cfg.common_lines import CommonLines
from threadloom.cuda.cfg.debug_info import DebugInfo
from threadloom.cuda.cfg.hints import without_hints
from threadloom.cuda.cfg.ops import BasicBlock, Branch, Function, Jump, Module, Phi, Ret, Stop, Terminator
from threadloom.errors import CompileError, InternalError, slug
from threadloom.par.leaf_parsing import TAIL_WORDS, LeafParser
from threadloom.par.lexing import Cursor, Token, unquoted
from threadloom.par.opcodes import FAST_MATH_FLAGS
from threadloom.par.ops import PTR, VOID, Alloca, Attrs, Const, Global, Int, Leaf, Operand, Param, Space, Type, Value
from threadloom.par.printing import type_text
from threadloom.source import Loc

UNSUPPORTED = slug("cuda-unsupported-instruction", "device code uses an LLVM instruction that has no meaning here")

_FUNCTION = re.compile(r"^(define|declare) [^\n]*", re.MULTILINE)
_GLOBAL = re.compile(r"^@[^\n]*", re.MULTILINE)
_NAMED_TYPE = re.compile(r'^(%(?:[-\w$.]+|"[^"]*")) = type ([^\n]*)', re.MULTILINE)
_LINKAGES = (
    "private", "internal", "available_externally", "linkonce", "linkonce_odr", "weak", "weak_odr", "common",
    "external", "extern_weak", "appending",
)  # fmt: skip
_GLOBAL_WORDS = (
    "dso_local", "dso_preemptable", "hidden", "protected", "default", "thread_local", "unnamed_addr",
    "local_unnamed_addr", "externally_initialized",
)  # fmt: skip
SHARED_DECLARED_ALIGN_BYTES = 64  # of __shared__ in headers/loom/host_defines.h
_RESULT_ATTRS = (
    "noundef", "zeroext", "signext", "nonnull", "noalias", "align", "range", "dereferenceable", "nofpclass",
    "dereferenceable_or_null", "inreg",
)  # fmt: skip
_LABEL = re.compile(r'("[^"]*"|[-\w$.]+):')
_ANNOTATION = re.compile(r"ptr @(\"[^\"]*\"|[-\w$.]+), ptr @(\"[^\"]*\"|[-\w$.]+), ptr @")


def parse(text: str, file: str = "<llvm>", debug_nodes: bool = False) -> Module:
    """The module that LLVM assembly `text` spells. debug_nodes: places know their nodes."""
    types = named_types(text)
    debug = DebugInfo(text, debug_nodes)
    functions = tuple(_functions(text, file, types, debug))
    variables = tuple(variable for line in _GLOBAL.findall(text) if (variable := _global(line, file, types)))
    return Module(functions, variables, tuple(_annotations(text)))


def named_types(text: str) -> dict[str, Type]:
    """Named struct types, resolved; pointers are untyped, so there are no cycles."""
    bodies = dict(_NAMED_TYPE.findall(text))
    resolved: dict[str, Type] = {}

    def resolve(name: str) -> Type:
        if name not in resolved:
            body = bodies[name]
            if body == "opaque":
                resolved[name] = VOID
            else:
                for used in re.findall(r'%(?:[-\w$.]+|"[^"]*")', body):
                    resolve(used)
                resolved[name] = parse_type(body, resolved)
        return resolved[name]

    for name in bodies:
        resolve(name)
    return resolved


def parse_type(text: str, known: dict[str, Type]) -> Type:
    """The type that `text` spells; `known`: what named types stand for."""
    parser = LlvmParser(Cursor(text, "<type>"), DebugInfo(""))
    parser.named_types = known
    return parser.type()


def _annotations(text: str) -> Iterator[tuple[str, str]]:
    """What __attribute__((annotate)) says; `extern __shared__` arrays have only their alignment to tell."""
    declared = r'^@("[^"]*"|[-\w$.]+) = external (?:\w+ )*global \[0 x .*\], align (\d+)'
    for name, align in re.findall(declared, text, re.MULTILINE):
        if int(align) >= SHARED_DECLARED_ALIGN_BYTES:
            yield unquoted(name), "loom.shared"
    line = re.search(r"^@llvm\.global\.annotations = .*$", text, re.MULTILINE)
    for variable, note in _ANNOTATION.findall(line[0]) if line else ():
        value = re.search(rf'^@{re.escape(note)} = .* c"([^"]*)\\00"', text, re.MULTILINE)
        if value:
            yield unquoted(variable), value[1]


def _functions(text: str, file: str, types: dict[str, Type], debug: DebugInfo) -> Iterator[Function]:
    groups = dict(re.findall(r"^attributes (#\d+) = \{ ([^\n]*) \}", text, re.MULTILINE))
    for match in _FUNCTION.finditer(text):
        if match[1] == "declare":
            if "metadata" in match[0]:  # hints such as noalias scopes: their calls are dropped
                continue
            source = match[0]
        else:
            source = text[match.start() : text.index("\n}", match.start()) + 2]
        yield parse_function(source, file, types, debug, groups)


def parse_function(
    source: str, file: str, types: dict[str, Type], debug: DebugInfo, groups: dict[str, str]
) -> Function:
    """One `define` or `declare`; `groups`: what attributes `#0` and so on stand for."""
    head, *lines = source.split("\n")
    parser = LlvmParser(Cursor(without_hints(head), file), debug)
    parser.named_types = types
    return parser.function(groups, lines)


def _register(text: str) -> str:
    """The value's name; LLVM's numbered ones get a letter, for numbers are only valid in LLVM's own order."""
    name = unquoted(text)
    return f"t${name}" if name.isdigit() else name


class LlvmParser(LeafParser):
    """One function. Values may be used before they are defined, and `!dbg` gives locations."""

    def __init__(self, cursor: Cursor, debug: DebugInfo):
        super().__init__(cursor)
        self.debug = debug
        self.defined: set[str] = set()
        self.function_loc: Loc | None = None
        self.place = ""  # `!dbg` of the leaf that is read

    def operand_of(self, type_: Type) -> Operand:
        cursor = self.cursor
        if cursor.token.kind != "local":
            return self.constant(type_)
        name = _register(cursor.advance().text)
        return self.values.setdefault(name, Value(name, type_))

    def constant(self, type_: Type) -> Const:
        constant = super().constant(type_)
        return Const(type_, self.expanded(constant.text)) if "%" in constant.text else constant

    def expanded(self, text: str) -> str:
        """Constant text with named struct types spelt out, since par has no named types in operands."""
        def spell(match: re.Match[str]) -> str:
            return type_text(self.named_types[match[0]]) if match[0] in self.named_types else match[0]

        return re.sub(r'%(?:[-\w$.]+|"[^"]*")', spell, text)

    def used(self, text: str, type_: Type) -> Value:
        """The value that `%name` is, defined already or later."""
        if (value := self.values.get(text[1:])) is None:  # the usual name is spelt as it is
            name = _register(text)
            value = self.values.setdefault(name, Value(name, type_))
        return value

    def type_of(self, text: str) -> Type:
        return parse_type(text, self.named_types)

    def define(self, type_: Type, token: Token | None = None) -> Value:
        return self.defined_as((token or self.cursor.advance()).text, type_)

    def defined_as(self, text: str, type_: Type) -> Value:
        """The value `%name` where it is defined: once in a function, and of one type."""
        name = _register(text)
        if name in self.defined:
            raise InternalError(f"LLVM defines {text} twice in a function")
        self.defined.add(name)
        value = Value(name, type_)
        if self.values.setdefault(name, value) != value:
            raise InternalError(f"{text} has another type where it is defined than where it is used")
        return value

    # ------------------------------------------------------------ functions

    def function(self, groups: dict[str, str], lines: list[str]) -> Function:
        """The cursor stands on the head of the function; `lines` are those below it."""
        cursor = self.cursor
        is_definition = cursor.advance().text == "define"
        node = self._skip_attached_metadata()
        internal = cursor.at("internal", "private")
        while cursor.at(*_LINKAGES, *_GLOBAL_WORDS):
            cursor.advance()
        while cursor.token.kind == "word" and cursor.token.text in _RESULT_ATTRS:
            self.attribute()
        result = self.type()
        name = unquoted(cursor.expect_kind("global", "a function name").text)
        params, variadic = self._params()
        words, debug_node = self._function_tail(groups)
        self.function_loc = loc = self.debug.function_loc(debug_node or node)
        blocks = self._blocks(lines) if is_definition else ()
        return Function(name.removeprefix("\\01"), params, result, blocks, words, variadic, internal, loc)

    def _skip_attached_metadata(self) -> str:
        """`declare !dbg !7 i32 @f()`"""
        node = ""
        while self.cursor.token.kind == "metadata":
            self.cursor.advance()
            node = self.cursor.advance().text
        return node

    def _function_tail(self, groups: dict[str, str]) -> tuple[tuple[str, ...], str]:
        cursor, words, node = self.cursor, [], ""
        while cursor.token.kind != "end" and not cursor.at("{"):
            token = cursor.advance()
            if token.text == "#":
                words += re.findall(r"(?<!\S)[a-z]\w*(?:\([^)]*\))?", groups.get("#" + cursor.advance().text, ""))
            elif token.kind == "metadata" and token.text == "!dbg":
                node = cursor.advance().text
        kept = tuple(word for word in words if word.split("(")[0] in ("noreturn", "nounwind", "memory", "noinline"))
        return kept, node

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
        type_, attrs = self.type(), []
        while self.cursor.token.kind == "word":
            attrs.append(self.expanded(self.attribute()))
        value = self.define(type_) if self.cursor.token.kind == "local" else Value(f"arg{index}", type_)
        return Param(value, tuple(attrs))

    # ------------------------------------------------------------ blocks

    def _blocks(self, lines: list[str]) -> tuple[BasicBlock, ...]:
        common, file = CommonLines(self), self.cursor.file
        blocks, label = [], "entry"
        phis: list[Phi] = []
        body: list[Leaf | Alloca] = []
        for line in lines:
            if not line.startswith("  "):
                if found := _LABEL.match(line):
                    label = unquoted(found[1])
                continue
            if (op := common.read(line)) is None:
                line = without_hints(line + "\n")
                if not line:
                    continue
                self.cursor = Cursor(line, file)
                op = self._instruction()
            match op:
                case Phi():
                    phis.append(op)
                case Leaf() | Alloca():
                    body.append(op)
                case list():
                    body += op
                case _:
                    blocks.append(BasicBlock(label, tuple(phis), tuple(body), op))
                    phis, body = [], []
        return tuple(blocks)

    def _instruction(self) -> Phi | Leaf | Alloca | list[Leaf] | Terminator:
        cursor = self.cursor
        self.result_names = []
        if cursor.token.kind == "local":
            self.result_names = [cursor.advance()]
            cursor.expect("=")
        match cursor.token.text:
            case "phi":
                return self._phi()
            case "br":
                return self._br()
            case "ret":
                return self._ret()
            case "unreachable":
                cursor.advance()
                return Stop(self._loc())
            case "alloca":
                return self._alloca()
            case "switch" | "indirectbr" | "invoke" | "resume" | "landingpad" | "va_arg" | "callbr":
                return self._unsupported()
        return self._asm() if self._is_asm() else self._leaf()

    def _loc(self) -> Loc | None:
        """Read the metadata attachments that end an instruction; `!dbg` is its place, the rest are hints."""
        return self.debug.loc(dict(self._attachments()).get("dbg", ""))

    def _attachments(self) -> Iterator[tuple[str, str]]:
        cursor = self.cursor
        while cursor.at(",") and cursor.peek().kind == "metadata":
            cursor.advance()
            kind = cursor.advance().text[1:]
            node = cursor.advance().text
            if node == "!" and cursor.at("{"):
                cursor.balanced()
            yield kind, node

    def _leaf(self) -> Leaf:
        self.place = ""
        leaf = self.leaf()
        return Leaf(leaf.opcode, leaf.operands, leaf.result, _tidied(leaf.attrs), self.debug.loc(self.place))

    def _metadata(self, attrs: Attrs) -> Attrs:
        """Of metadata only the place is read: TBAA and loop hints are for LLVM."""
        self.place = dict(self._attachments()).get("dbg", "")
        return attrs

    def _is_asm(self) -> bool:
        """Whether the instruction at the cursor is `call T asm ...`."""
        cursor = self.cursor
        if cursor.token.text not in ("call", *TAIL_WORDS):
            return False
        for index in range(cursor.index, len(cursor.tokens)):
            token = cursor.tokens[index]
            if token.line != cursor.token.line or token.text == "(" or token.kind in ("global", "local"):
                return False
            if token.text == "asm":
                return True
        return False

    def _asm(self) -> list[Leaf]:
        from threadloom.cuda import ptx

        cursor, names = self.cursor, self.result_names
        place = self._place()
        while not cursor.at("call"):
            cursor.advance()
        cursor.advance()
        while cursor.at(*FAST_MATH_FLAGS):
            cursor.advance()
        type_ = self.type()
        cursor.expect("asm")
        while cursor.token.kind == "word":  # sideeffect alignstack
            cursor.advance()
        text = _string_text(cursor.advance().text)
        cursor.expect(",")
        constraints = _string_text(cursor.advance().text)
        operands = self._asm_operands()
        result = self.define(type_, names[0]) if names and type_ != VOID else None
        dict(self._attachments())
        return ptx.translate(text, constraints, operands, result, f"asm.{len(self.defined)}", place)

    def _asm_operands(self) -> tuple[Operand, ...]:
        cursor, operands = self.cursor, []
        cursor.expect("(")
        while not cursor.accept(")"):
            type_ = self.type()
            while cursor.token.kind == "word" and cursor.token.text in ("elementtype", "noundef", "nonnull"):
                self.attribute()
            operands.append(self.operand_of(type_))
            if not cursor.at(")"):
                cursor.expect(",")
        return tuple(operands)

    def _phi(self) -> Phi:
        cursor = self.cursor
        cursor.advance()
        self.flags("select")
        type_ = self.type()
        incoming: dict[str, Operand] = {}
        while True:
            cursor.expect("[")
            value = self.operand_of(type_)
            cursor.expect(",")
            incoming[unquoted(cursor.advance().text)] = value
            cursor.expect("]")
            if not (cursor.at(",") and cursor.peek().text == "["):
                break
            cursor.advance()
        result = self.define(type_, self.result_names[0])
        return Phi(result, tuple(incoming.items()), self._loc())

    def _label(self) -> str:
        self.cursor.expect("label")
        return unquoted(self.cursor.expect_kind("local", "a label").text)

    def _br(self) -> Jump | Branch:
        cursor = self.cursor
        cursor.advance()
        if cursor.at("label"):
            return Jump(self._label(), self._loc())
        cond = self.operand()
        cursor.expect(",")
        then = self._label()
        cursor.expect(",")
        otherwise = self._label()
        loc = self._loc()
        return Jump(then, loc) if then == otherwise else Branch(cond, then, otherwise, loc)

    def _ret(self) -> Ret:
        self.cursor.advance()
        type_ = self.type()
        value = None if type_ == VOID else self.operand_of(type_)
        return Ret(value, self._loc())

    def _alloca(self) -> Alloca:
        cursor = self.cursor
        cursor.advance()
        element = self.type()
        count: Operand = Const(Int(64), "1")
        align = 0
        while cursor.at(",") and cursor.peek().kind != "metadata":
            cursor.advance()
            if cursor.accept("align"):
                align = cursor.integer("an alignment in bytes")
            else:
                count = self.operand()
        result = self.define(PTR, self.result_names[0])
        return Alloca(result, element, count, Space.PRIVATE, align, self._loc())

    # ------------------------------------------------------------ errors

    def _place(self) -> Loc | None:
        """The source position of the instruction at the cursor: its `!dbg` stands at the end of the line."""
        cursor = self.cursor
        line = cursor.token.line
        for index in range(cursor.index, len(cursor.tokens) - 1):
            if cursor.tokens[index].line != line:
                break
            if cursor.tokens[index].text == "!dbg":
                return self.debug.loc(cursor.tokens[index + 1].text)
        return self.function_loc

    def _unsupported(self) -> None:
        word = self.cursor.token.text
        if word == "switch":
            raise InternalError("a switch is left: lower-switch has not run")
        what = {"va_arg": "a variadic device function"}.get(word, f"`{word}`")
        raise CompileError(UNSUPPORTED, f"{what} is not supported in device code",
                           try_="rewrite it with a template or ordinary control flow", loc=self._place())  # fmt: skip


def _string_text(quoted: str) -> str:
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), quoted.strip('"'))


def _tidied(attrs: Attrs) -> Attrs:
    """Without what no later stage reads of a call: tail, and attributes that do not change how arguments are passed."""
    if not attrs.callee and not attrs.arg_attrs and not attrs.flags:
        return attrs
    kept = tuple(_kept_arg_attrs(text) for text in attrs.arg_attrs)
    flags = tuple(flag for flag in attrs.flags if flag not in TAIL_WORDS)
    callee, arg_attrs = attrs.callee.removeprefix("\\01"), kept if any(kept) else ()
    if (flags, callee, arg_attrs) == (attrs.flags, attrs.callee, attrs.arg_attrs):
        return attrs
    return replace(attrs, flags=flags, callee=callee, arg_attrs=arg_attrs)


def _kept_arg_attrs(text: str) -> str:
    """Only what changes how an argument is passed."""
    found = re.findall(r"byval\([^()]*(?:\([^()]*\)[^()]*)*\)|sret\([^()]*\)|signext|zeroext|(?<!\S)align \d+", text)
    return " ".join(found) if any(not word.startswith("align") for word in found) else ""


def _global(line: str, file: str, types: dict[str, Type]) -> Global | None:
    if line.startswith(("@llvm.", '@"llvm.')) or 'section "llvm.metadata"' in line:
        return None
    parser = LlvmParser(Cursor(line, file), DebugInfo(""))
    parser.named_types = types
    cursor = parser.cursor
    name = unquoted(cursor.advance().text)
    cursor.expect("=")
    linkage = "default"  # LLVM spells an external definition by saying nothing; this word is the same
    while not cursor.at("global", "constant", "alias", "ifunc"):
        token = cursor.advance()
        if token.text in _LINKAGES:
            linkage = token.text
    if cursor.at("alias", "ifunc"):
        raise InternalError(f"device module has an alias: {line}")
    constant = cursor.advance().text == "constant"
    type_ = parser.type()
    init = None
    if not cursor.at(",") and cursor.token.kind != "end":
        init = parser.constant(type_).text
    align = 0
    while cursor.accept(","):
        if cursor.accept("align"):
            align = cursor.integer("an alignment in bytes")
        else:
            cursor.advance()
            if cursor.at("("):
                cursor.balanced()
            elif cursor.token.kind in ("string", "metadata"):
                cursor.advance()
    return Global(name, type_, init, constant, align, linkage)
