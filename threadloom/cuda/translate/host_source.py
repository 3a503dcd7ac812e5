"""The user's source without its device code: kernels become declarations, launches become calls.

    __global__ void scale(float *x, int n) { ... }   ->   void scale(float *x, int n);
    scale<<<grid, block>>>(x, n);                    ->   loom::launch(grid, block), scale(x, n);
    __device__ float twice(float x) { ... }          ->   float twice(float x);

A kernel template hands over to its instance, which stands behind the host's text and is found by its tag:

    template <class T> struct scale_kernel {};
    template <class T> void scale(T *x, int n) { run_on_cpu(scale_kernel<T>(), x, n); }

A device lambda gets a number, by which the instance of a kernel that takes it is found, as its type has no name:

    k<<<1, 32>>>(x, [=] __device__(int i) { ... });
    ->  loom::launch(1, 32), k(x, loom::device<0>([=] __device__(int i) { ... }));

and in a template its parameters, for each instance has a lambda of its own: `loom::device<0, loom::Of<T>>(...)`.

Everything else keeps its text and place. Methods of classes keep an empty body instead (they may be virtual), functions
for both sides keep theirs. Quoted includes that hold device code are put in place of their #include.
Not handled: device code that macros spell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from threadloom.cuda.translate.cxx_tokens import Token, closing, closing_angle, opening_angle, split_commas, tokens

_QUALIFIERS = {"__global__", "__device__", "__host__", "__forceinline__", "__noinline__", "__shared__"}
_WITH_ARGUMENTS = {"__launch_bounds__", "__attribute__", "__align__", "__cluster_dims__", "__maxnreg__", "alignas"}
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_DEVICE_CODE = re.compile(r"__global__|__device__|__shared__|__constant__|<<\s?<")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel as the source declares it."""

    name: str
    parameters: tuple[str, ...]  # whole, without default arguments
    names: tuple[str, ...]
    is_template: bool
    dynamic_shared: str = ""  # its `extern __shared__` array


@dataclass(slots=True)
class HostSource:
    text: str
    kernels: list[KernelText] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)  # device functions whose bodies have gone


def host_source(path: Path, includes: tuple[str, ...] = ()) -> HostSource:
    """The host's part of the file `path`."""
    return _Rewriter(includes).file(path, top=True)


def numbered_lambdas(text: str) -> str:
    """`text` with its device lambdas numbered as in the host's part; the same lines."""
    return _apply(text, lambda_edits(tokens(text)))


def lambda_edits(toks: list[Token]) -> list[tuple[int, int, str]]:
    edits: list[tuple[int, int, str]] = []
    ends: set[int] = set()
    templates = _templates(toks) if any(token.text == "__device__" for token in toks) else []
    for at, token in enumerate(toks):
        if token.text not in ("__device__", "__host__") or not _is_lambda(toks, at):
            continue
        opening = next((i for i in range(at - 1, -1, -1) if toks[i].text == "]"), 0)
        body = next((i for i in range(at, len(toks)) if toks[i].text == "{"), len(toks))
        end = closing(toks, body)
        if end in ends or end == len(toks):  # `__host__ __device__`: seen already
            continue
        ends.add(end)
        start = toks[_opening(toks, opening)].start
        around = [argument for first, last, names in templates if first < at < last for argument in names]
        instance = f", loom::Of<{', '.join(around)}>" if around else ""
        edits += [(start, start, f"loom::device<{len(ends) - 1}{instance}>("), (toks[end].end, toks[end].end, ")")]
    return edits


def _templates(toks: list[Token]) -> list[tuple[int, int, list[str]]]:
    """Where each template's declaration begins and ends, and its parameters as arguments of loom::Of."""
    found = []
    for at in range(len(toks) - 1):
        if toks[at].text != "template" or toks[at + 1].text != "<":
            continue
        close = closing_angle(toks, at + 1)
        end = close + 1
        while end < len(toks) and toks[end].text not in (";", "{"):
            end = closing(toks, end) + 1 if toks[end].text in ("(", "[") else end + 1
        if end < len(toks) and toks[end].text == "{":
            end = closing(toks, end)
        found.append((at, end, [_of(toks, *item) for item in split_commas(toks, at + 2, close)]))
    return found


def _of(toks: list[Token], start: int, end: int) -> str:
    name = _template_parameter(toks, start, end)
    if toks[start].text in ("class", "typename", "template"):
        return name
    return f"loom::Value<{name.removesuffix('...')}>{'...' if name.endswith('...') else ''}"


class _Rewriter:
    def __init__(self, includes: tuple[str, ...]):
        self.includes = includes
        self.kernels: list[KernelText] = []
        self.declared: set[str] = set()
        self.once: set[Path] = set()
        self.tagged: set[str] = set()  # templates whose tag is declared

    def file(self, path: Path, top: bool = False) -> HostSource:
        text = re.sub(r"<<[ \t]+<(?!<)|<[ \t]+<<", "<<<", path.read_text(errors="replace"))
        text = re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*$", "", text, flags=re.M)
        toks = tokens(text)
        numbered = lambda_edits(toks) if top else []
        return HostSource(self._rewritten(text, toks, numbered, path.parent), self.kernels, self.declared)

    def _rewritten(self, text: str, toks: list[Token], edits: list[tuple[int, int, str]], folder: Path) -> str:
        classes: list[int] = []  # token indices where class bodies end
        at = 0
        while at < len(toks):
            token = toks[at]
            while classes and at >= classes[-1]:
                classes.pop()
            if token.kind == "directive":
                edits += self._directive(token, folder)
            elif token.text in ("class", "struct", "union") and (body := _class_body(toks, at)) is not None:
                classes.append(closing(toks, body))
            elif token.text in ("__global__", "__device__", "__host__") and not _is_lambda(toks, at):
                change, after = self._declaration(text, toks, at, bool(classes))
                edits += change
                at = after
                continue
            elif token.text == "<<<":
                edits += _launch(text, toks, at)
            at += 1
        return _apply(text, edits)

    # ------------------------------------------------------------ directives

    def _directive(self, token: Token, folder: Path) -> list[tuple[int, int, str]]:
        if re.match(r"\s*#\s*define\b", token.text) and "<<<" in token.text:
            inner = tokens(token.text.replace("#", " ", 1))
            places = [at for at, one in enumerate(inner) if one.text == "<<<"]
            edits = [edit for at in places for edit in _launch(token.text, inner, at)]
            return [(token.start, token.end, _apply(token.text, edits))]
        found = _INCLUDE.match(token.text)
        place = self._resolved(found[1], folder) if found else None
        if place is None or not self._has_device_code(place, set()):
            return []
        content = place.read_text(errors="replace")
        if place in self.once:
            return [(token.start, token.end, "")]
        if re.search(r"^\s*#\s*pragma\s+once", content, re.M):
            self.once.add(place)
        inner_text = self.file(place).text.strip("\n")
        name = found[1] if found else ""
        return [(token.start, token.end, f"// ---- {name}\n{inner_text}\n// ---- end of {name}")]

    def _has_device_code(self, path: Path, seen: set[Path]) -> bool:
        """In the file, or in one that it includes."""
        seen.add(path)
        content = path.read_text(errors="replace")
        if _DEVICE_CODE.search(content):
            return True
        named = (self._resolved(name, path.parent) for name in re.findall(_INCLUDE.pattern, content, re.M))
        return any(self._has_device_code(one, seen) for one in named if one is not None and one not in seen)

    def _resolved(self, name: str, folder: Path) -> Path | None:
        for base in (folder, *map(Path, self.includes)):
            if (base / name).is_file():
                return (base / name).resolve()
        return None

    # ------------------------------------------------------------ declarations

    def _declaration(
        self, text: str, toks: list[Token], at: int, in_class: bool
    ) -> tuple[list[tuple[int, int, str]], int]:
        """What becomes of the declaration around the qualifier at `at`, and the token behind it."""
        first = _declaration_start(toks, at)
        head = _Head(toks, first)
        if head.parameters is None:
            return [], at + 1  # a variable
        words = {toks[i].text for i in range(first, head.parameters)}
        end = head.body if head.body is not None else head.end
        after = closing(toks, head.body) + 1 if head.body is not None else head.end + 1
        stop = toks[min(after, len(toks)) - 1].end
        if "__global__" in words:
            return [(toks[first].start, stop, self._kernel(text, toks, first, head))], after
        if "__host__" in words or "constexpr" in words or "__device__" not in words:
            return [], (head.body if head.body is not None else head.end) + 1
        if head.body is None:
            return [] if in_class else _without_static(toks, first, head.end), head.end + 1
        if in_class or toks[head.parameters - 2].text == "::" or "operator" in words or "~" in words:
            return [(toks[head.body].start, stop, "{ __builtin_trap(); }")], after
        self.declared.add(toks[head.name].text)
        return [*_without_static(toks, first, head.parameters), (toks[end - 1].end, stop, ";")], after

    def _kernel(self, text: str, toks: list[Token], first: int, head: _Head) -> str:
        assert head.parameters is not None
        if toks[first].text == "template" and toks[first + 1].text != "<":
            return ""  # an explicit instantiation
        opening, end = head.parameters, closing(toks, head.parameters)
        items = [_parameter(text, toks, *item) for item in split_commas(toks, opening + 1, end)]
        items = [item for item in items if item[0] != "void"]
        if any(toks[i].kind == "directive" for i in range(opening, end)):
            items = []  # which parameters there are is the preprocessor's to say
        name = toks[head.name].text
        body = text[toks[head.body].start : toks[closing(toks, head.body)].start] if head.body is not None else ""
        dynamic = re.search(r"\bextern\s+__shared__[^;]*?(\w+)\s*\[\s*\]", body)
        kernel = KernelText(
            name,
            tuple(whole for whole, _ in items),
            tuple(own for _, own in items),
            toks[first].text == "template",
            dynamic[1] if dynamic else "",
        )
        if head.body is not None or all(known.name != name for known in self.kernels):
            self.kernels = [
                known for known in self.kernels if known.parameters != kernel.parameters or known.name != name
            ]
            self.kernels.append(kernel)
        declared = f"{_without_qualifiers(text, toks, first, opening)}{text[toks[opening].start : toks[end].end]}"
        if not kernel.is_template or head.body is None:
            return declared + ";"
        return self._handing_over(text, toks, first, head, kernel, declared)

    def _handing_over(
        self, text: str, toks: list[Token], first: int, head: _Head, kernel: KernelText, declared: str
    ) -> str:
        """A template's definition: a call of its instance."""
        close = closing_angle(toks, first + 1)
        parameters = [_template_parameter(toks, *item) for item in split_commas(toks, first + 2, close)]
        given = ", ".join(parameters)
        if toks[head.name + 1].text == "<":  # a specialisation says them itself
            given = text[toks[head.name + 1].end : toks[closing_angle(toks, head.name + 1)].start]
        tag = f"{kernel.name}_kernel"
        lines = []
        if parameters and tag not in self.tagged:
            self.tagged.add(tag)
            lines.append(f"{text[toks[first].start : toks[close].end]} struct {tag} {{}};")
        if not parameters:  # no template any more, so what it calls must be known here
            lines.append(f"void run_on_cpu({', '.join((f'{tag}<{given}>', *kernel.parameters))});")
        passed = "".join(f", {name}" for name in kernel.names)
        lines.append(f"{declared} {{ run_on_cpu({tag}<{given}>(){passed}); }}")
        return "\n".join(lines)


def _without_static(toks: list[Token], first: int, end: int) -> list[tuple[int, int, str]]:
    """A function whose definition stands behind the host's text must have a name that the linker finds."""
    return [(toks[i].start, toks[i + 1].start, "") for i in range(first, end) if toks[i].text == "static"]


def _template_parameter(toks: list[Token], start: int, end: int) -> str:
    stop = next((i for i in range(start, end) if toks[i].text == "="), end)
    pack = any(toks[i].text == "." for i in range(start, stop))
    return toks[stop - 1].text + ("..." if pack else "")


class _Head:
    """The parts of a declaration that starts at a token: `name`, its parameter list, its body or its end."""

    def __init__(self, toks: list[Token], first: int):
        self.name = first
        self.parameters: int | None = None
        self.body: int | None = None
        self.end = len(toks) - 1
        at = first
        while at < len(toks):
            text = toks[at].text
            if text == "template" and toks[at + 1].text == "<":
                at = closing_angle(toks, at + 1)
            elif text in _WITH_ARGUMENTS and toks[at + 1].text == "(":
                at = closing(toks, at + 1)
            elif text == "operator" and self.parameters is None:
                at += 2 if toks[at + 1].text == "(" else 1
                while toks[at + 1].text != "(":
                    at += 1
            elif text == "(" and self.parameters is None:
                self.name, self.parameters = at - 1, at
                if toks[at - 1].text == ">":
                    self.name = opening_angle(toks, at - 1) - 1
                at = closing(toks, at)
            elif text == "(":
                at = closing(toks, at)
            elif text == "=" and self.parameters is None:
                return  # a variable with its value
            elif text == "{" and self.parameters is not None and self._is_body(toks, at):
                self.body = at
                return
            elif text == "{":
                at = closing(toks, at)
            elif text == ";":
                self.end = at
                return
            at += 1

    def _is_body(self, toks: list[Token], at: int) -> bool:
        """Not the braces of a member's initialiser."""
        colon = any(toks[i].text == ":" for i in range(closing(toks, self.parameters or 0), at))
        return not (colon and toks[at - 1].kind == "word")


def _declaration_start(toks: list[Token], at: int) -> int:
    first = at
    while first > 0:
        before = toks[first - 1]
        if before.kind == "directive" or before.text in (";", "}", "{"):
            break
        if before.text == ":" and toks[first - 2].text in ("public", "private", "protected"):
            break
        first -= 1
    if toks[first].text == "{" or (first and toks[first - 1].text == "{" and toks[first - 2].text == '"C"'):
        return first
    return first


def _is_lambda(toks: list[Token], at: int) -> bool:
    before = at - 1
    while before >= 0 and toks[before].text in _QUALIFIERS:
        before -= 1
    return before >= 0 and toks[before].text in ("]", ")")


def _class_body(toks: list[Token], at: int) -> int | None:
    """The `{` of the class whose keyword stands at `at`; None where only its name is used."""
    for index in range(at + 1, len(toks)):
        if toks[index].text == "{":
            return index
        if toks[index].text in (";", "(", ")", "=", ",", ">", "*", "&"):
            return None
    return None


def _parameter(text: str, toks: list[Token], start: int, end: int) -> tuple[str, str]:
    """A parameter without its default, and its name."""
    stop = next((i for i in range(start, end) if toks[i].text == "="), end)
    whole = text[toks[start].start : toks[stop - 1].end] if stop > start else ""
    words = [toks[i] for i in range(start, stop) if toks[i].kind == "word"]
    return " ".join(whole.split()), words[-1].text if len(words) > 1 else ""


def _without_qualifiers(text: str, toks: list[Token], first: int, end: int) -> str:
    """The declaration up to its parameters, less CUDA's words."""
    parts, position, at = [], toks[first].start, first
    while at < end:
        skip = at
        if toks[at].text in ("__launch_bounds__", "__cluster_dims__", "__maxnreg__"):
            skip = closing(toks, at + 1)
        elif toks[at].text not in _QUALIFIERS:
            at += 1
            continue
        parts.append(text[position : toks[at].start])
        position = toks[skip].end
        at = skip + 1
    parts.append(text[position : toks[end].start])
    return re.sub(r"[ \t]{2,}", " ", " ".join(part.strip() for part in parts if part.strip()))


# ---------------------------------------------------------------- launches


def _launch(text: str, toks: list[Token], at: int) -> list[tuple[int, int, str]]:
    """`k<<<grid, block>>>(a, b)` -> `loom::launch(grid, block), k(a, b)`; the arguments stay in place."""
    end = _launch_end(toks, at + 1)
    if end is None or end + 1 >= len(toks) or toks[end + 1].text != "(":
        return []
    configuration = text[toks[at].end : toks[end - 2].start].strip()
    callee = _callee_start(toks, at - 1)
    is_statement = callee == 0 or toks[callee - 1].text in (";", "{", "}", ")", ":", "else", "do")
    start, stop = toks[callee].start, toks[min(closing(toks, end + 1), len(toks) - 1)].end
    edits = [(start, start, f"{'' if is_statement else '('}loom::launch({configuration}), ")]
    edits.append((toks[at - 1].end, toks[end].end, ""))
    return edits if is_statement else [*edits, (stop, stop, ")")]


def _callee_start(toks: list[Token], at: int) -> int:
    """The first token of the expression that ends at `at` and names the kernel."""
    while at > 0:
        if toks[at].text == ">":
            at = opening_angle(toks, at) - 1
        elif toks[at].text in (")", "]"):
            at = _opening(toks, at)
            if toks[at - 1].kind != "word":
                return at
            at -= 1
        if at > 0 and toks[at - 1].text in ("::", ".", "->"):
            at -= 2 if at > 1 and (toks[at - 2].kind == "word" or toks[at - 2].text in (">", ")", "]")) else 1
            if toks[at].text == "::":
                return at
            continue
        return at
    return 0


def _opening(toks: list[Token], index: int) -> int:
    depth = 0
    for at in range(index, -1, -1):
        depth += (toks[at].text in _CLOSING) - (toks[at].text in _OPENING)
        if depth == 0:
            return at
    return 0


def _launch_end(toks: list[Token], at: int) -> int | None:
    """The last of the three `>` that end a configuration."""
    while at + 2 < len(toks):
        if toks[at].kind == "punct" and toks[at].text in "([{":
            at = closing(toks, at)
        elif [toks[at + i].text for i in range(3)] == [">", ">", ">"]:
            return at + 2
        elif toks[at].text == ";":
            return None
        at += 1
    return None


def _apply(text: str, edits: list[tuple[int, int, str]]) -> str:
    parts, position = [], 0
    for start, end, new in sorted(edits):
        if start < position:
            continue  # inside something that has gone
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
