"""The part of the checker that is inlined into instrumented kernels: a comparison or two that end most accesses.

The shadow of memory (runtime/check.h) has a number per word and per byte, its *quick* number. It tells who may access
the word without telling the checker anything new:

    position            any thread at this position may read (two others have, and the last write is before a barrier)
    position | 2t + 2   thread t may read
    position | 2t + 3   thread t may read and write (it has written the word since the last barrier)

Between the two parts may stand the site of an access, all that is known of the word then (runtime/check_quick.h).
On a shared array that is disjoint (disjoint.py) it is the position at which the block began, once the word has been
written. A position is the interval between barriers, the thread's __syncwarp and its fences. All else goes to the
runtime. The functions are par text and so work wherever the kernels do.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.lower.runtime_calls import (
    CHECK_ACCESS,
    CHECK_OUTSIDE,
    CHECK_PASSED,
    CHECK_PRIVATE,
    CHECK_TOGETHER,
)
from threadloom.par.ops import Function
from threadloom.par.text import parse

_WORDS = {4: 1, 8: 2, 16: 4}  # bytes of an access: quick numbers it covers, one per word
_BYTES = {1: 1, 2: 2}  # the same, one per byte
SIZES = (*_BYTES, *_WORDS)
SHADOW_BITS = 32  # a shadow is that of 4 GiB
_SITE_MASK = 0x3FFF << 12  # of a quick number: the site of the one access that it stands for
_BYTE_QUICK_AT = 8 << 30  # in a shadow, behind the quick numbers of words

_OBJECT = ", ptr %base, i64 %extent, ptr %quick"
_ARGUMENTS = "ptr %block, i32 %thread, i64 %position, i64 %own, ptr %address, ptr %site"
_SLOW = f"call ptr @{CHECK_ACCESS}(ptr %block, i32 %thread, i64 %position, ptr %address, ptr %site)"


def name(kind: str, bytes_: int) -> str:
    """kind: read, write: of a known object; find-read, find-write: of any; bounds: of an object nobody writes;
    disjoint-read, disjoint-write: of a disjoint array, if the launch is as the proof wants it (else %proved,
    its extent for that, is 0); seldom-read, seldom-write: as read and write, not worth a place in the loop."""
    return f"__loom_check_{kind.replace('-', '_')}_{bytes_}"


def definitions(names: set[str]) -> tuple[Function, ...]:
    """Those functions, for a module that calls them, and the declarations that they need."""
    names = names | {one.replace("disjoint_", "seldom_") for one in names}  # what those fall back on
    texts = [_text(kind, bytes_) for kind in _BODIES for bytes_ in SIZES if name(kind, bytes_) in names]
    texts += [_PASSED.replace(CHECK_PASSED, one) for one in (CHECK_PASSED, CHECK_TOGETHER) if one in names]
    texts += [_PRIVATE] * (CHECK_PRIVATE in names)
    return parse("\n".join((_DECLARATIONS, *texts)), "inline_calls.par").functions


def _text(kind: str, bytes_: int) -> str:
    extra = ", ptr %shadows" if kind.startswith("find") else _OBJECT + ", i1 %watch" * (kind == "bounds")
    extra += ", i64 %proved, i64 %start" * kind.startswith("disjoint")
    inlined = "noinline cold" if kind.startswith("seldom") else "alwaysinline"
    head = f"define ptr @{name(kind, bytes_)}({_ARGUMENTS}{extra}) {inlined} nounwind"
    return f"{head} {{\n{_BODIES[kind](bytes_)}\n}}"


def _inside(bytes_: int, extent: str = "%extent") -> str:
    """%offset from the object's base, and %inside: whether all of the access lies in the object."""
    return f"""  %to = ptrtoint ptr %address to i64
  %from = ptrtoint ptr %base to i64
  %offset = sub i64 %to, %from
  %fits = icmp uge i64 {extent}, {bytes_}
  %less = sub i64 {extent}, {bytes_ - 1}
  %limit = select i1 %fits, i64 %less, i64 0
  %inside = icmp ult i64 %offset, %limit"""


def _compared(bytes_: int, writes: bool) -> str:
    """%known: every cell's quick number lets this thread pass; %at is the first one's offset from %quick."""
    lines = []
    for cell in range(_WORDS.get(bytes_) or _BYTES[bytes_]):
        lines.append(f"""    %place.{cell} = add i64 %at, {cell * 8}
    %p.{cell} = getelementptr i8, ptr %quick, i64 %place.{cell}
    %q.{cell} = load i64, ptr %p.{cell}, align 8""")
        lines.append(f"    %who.{cell} = and i64 %q.{cell}, {~_SITE_MASK}")
        if writes:
            lines.append(f"    %ok.{cell} = icmp eq i64 %who.{cell}, %own")
        else:
            lines.append(f"""    %all.{cell} = icmp eq i64 %q.{cell}, %position
    %even.{cell} = or i64 %who.{cell}, 1
    %mine.{cell} = icmp eq i64 %even.{cell}, %own
    %ok.{cell} = or i1 %all.{cell}, %mine.{cell}""")
        before = f"%known.{cell - 1}" if cell else "true"
        lines.append(f"    %known.{cell} = and i1 %ok.{cell}, {before}")
    last = (_WORDS.get(bytes_) or _BYTES[bytes_]) - 1
    return "\n".join(lines) + f"\n    yield i1 %known.{last}"


def _end(otherwise: str = "") -> str:
    return f"""  %result = if i1 %known {{
    yield ptr %address
  }} else {{
    %slow = {otherwise or _SLOW}
    yield ptr %slow
  }}
  return ptr %result"""


def _access(writes: bool) -> Callable[[int], str]:
    def body(bytes_: int) -> str:
        scale = 1 if bytes_ in _WORDS else 3
        return f"""{_inside(bytes_)}
  %known = if i1 %inside {{
    %at = shl i64 %offset, {scale}
{_compared(bytes_, writes)}
  }} else {{
    yield i1 false
  }}
{_end()}"""

    return body


def _bounds(bytes_: int) -> str:
    scale = 1 if bytes_ in _WORDS else 3
    return f"""{_inside(bytes_)}
  %alone = xor i1 %watch, true
  %done = and i1 %inside, %alone
  %look = and i1 %inside, %watch
  %seen = if i1 %look {{
    %at = shl i64 %offset, {scale}
{_compared(bytes_, False)}
  }} else {{
    yield i1 false
  }}
  %known = or i1 %done, %seen
{_end()}"""


def _find(writes: bool) -> Callable[[int], str]:
    def body(bytes_: int) -> str:
        words = bytes_ in _WORDS
        begin = "%quick.base" if words else "%quick.bytes"
        return f"""  %to = ptrtoint ptr %address to i64
  %number = lshr i64 %to, {SHADOW_BITS}
  %inside = icmp ult i64 %number, 65536
  %known = if i1 %inside {{
    %shadow.at = getelementptr ptr, ptr %shadows, i64 %number
    %quick.base = load ptr, ptr %shadow.at, align 8
    %quick.bytes = getelementptr i8, ptr %quick.base, i64 {_BYTE_QUICK_AT}
    %quick = getelementptr i8, ptr {begin}, i64 0
    %offset = and i64 %to, {(1 << SHADOW_BITS) - 1}
    %at = shl i64 %offset, {1 if words else 3}
{_compared(bytes_, writes)}
  }} else {{
    yield i1 false
  }}
{_end()}"""

    return body


def _disjoint(writes: bool) -> Callable[[int], str]:
    general = "seldom-write" if writes else "seldom-read"

    def body(bytes_: int) -> str:
        lines = ["    %done.0 = icmp eq i1 true, true"]
        for cell in range(_WORDS[bytes_]):
            lines.append(f"""    %place.{cell} = add i64 %at, {cell * 8}
    %p.{cell} = getelementptr i8, ptr %quick, i64 %place.{cell}""")
            if writes:
                lines.append(f"    store i64 %start, ptr %p.{cell}, align 8")
            else:
                lines.append(f"""    %q.{cell} = load i64, ptr %p.{cell}, align 8
    %ok.{cell} = icmp eq i64 %q.{cell}, %start
    %done.{cell + 1} = and i1 %ok.{cell}, %done.{cell}""")
        return f"""{_inside(bytes_, "%proved")}
  %known = if i1 %inside {{
    %at = shl i64 %offset, 1
{chr(10).join(lines)}
    yield i1 %done.{0 if writes else _WORDS[bytes_]}
  }} else {{
    yield i1 false
  }}
{_end(f"call ptr @{name(general, bytes_)}({_ARGUMENTS}{_OBJECT})")}"""

    return body


_BODIES = {
    "read": _access(False),
    "write": _access(True),
    "find-read": _find(False),
    "find-write": _find(True),
    "bounds": _bounds,
    "disjoint-read": _disjoint(False),
    "disjoint-write": _disjoint(True),
    "seldom-read": _access(False),
    "seldom-write": _access(True),
}

_DECLARATIONS = f"""declare ptr @{CHECK_ACCESS}(ptr, i32, i64, ptr, ptr) cold nounwind
declare ptr @{CHECK_OUTSIDE}(ptr, ptr, i64, ptr, ptr, ptr) cold nounwind
"""

# A thread has passed a barrier: the block's last interval so far stands at the start of its record.
_PASSED = f"""define void @{CHECK_PASSED}(ptr %block, i64 %position) alwaysinline nounwind {{
  store i64 %position, ptr %block, align 8
  return
}}"""

_PRIVATE_ARGUMENTS = "ptr %block, ptr %base, i64 %size, i64 %last, ptr %address, ptr %site, ptr %name"
_PRIVATE = f"""define ptr @{CHECK_PRIVATE}({_PRIVATE_ARGUMENTS}) alwaysinline nounwind {{
  %to = ptrtoint ptr %address to i64
  %from = ptrtoint ptr %base to i64
  %offset = sub i64 %to, %from
  %inside = icmp ule i64 %offset, %last
  %result = if i1 %inside {{
    yield ptr %address
  }} else {{
    %slow = call ptr @{CHECK_OUTSIDE}(ptr %block, ptr %base, i64 %size, ptr %address, ptr %site, ptr %name)
    yield ptr %slow
  }}
  return ptr %result
}}"""
