"""Debug records of the user's variables on their way through inlining, for `-g` without optimisation.

    raw:      #dbg_declare(ptr %i, !45, !DIExpression(), !80)         # LLVM promotes %i to registers and loses it
    kept:     call void @loom.debug.declare(ptr %i) nomerge, !dbg !80, !loom.variable !45
    numbered: call void @loom.debug.declare(ptr %i, i32 45, i32 80), !dbg !80

The call holds a variable in memory and travels with it into callers. Variables of our own headers and groups of threads
are left out. Numbers are those of the nodes in the text behind inlining, which `DebugRecords` holds; debug_frame.py
takes the calls away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadloom.cuda.cfg.debug_info import HEADERS_DIR, DebugInfo
from threadloom.par.lexing import unquoted

DECLARE = "loom.debug.declare"

_RECORD = re.compile(
    r"^( +)#dbg_declare\(ptr (%(?:[-\w$.]+|\"[^\"]*\")), (!\d+), !DIExpression\(\), (!\d+)\)$", re.MULTILINE
)
_CALL = re.compile(
    rf"call void @{re.escape(DECLARE)}\(ptr [^%\n]*(%(?:[-\w$.]+|\"[^\"]*\"))\)(?: #\d+)?(.*)$", re.MULTILINE
)
_ATTACHED = re.compile(r"!([\w.]+) !(\d+)")
_NODE = re.compile(r"^(!\d+) = (.*)$", re.MULTILINE)
_VARIABLE_SCOPE = re.compile(r"^(!\d+) = !DILocalVariable\(.*?\bscope: (!\d+)", re.MULTILINE)
_TYPE = re.compile(r"\b(?:type|baseType): (!\d+)")
_GROUP = re.compile(r'!DICompositeType\(.*identifier: "_ZTSN18cooperative_groups')
_GLOBAL = re.compile(r"^@(\"[^\"]*\"|[-\w$.]+) = .*!dbg (!\d+)", re.MULTILINE)
_OF_EXPRESSION = re.compile(r"!DIGlobalVariableExpression\(var: (!\d+)")


@dataclass(frozen=True, slots=True)
class DebugRecords:
    """Debug nodes by name, as LLVM spells them, and the nodes of global variables by the globals' names."""

    nodes: dict[str, str]
    of_global: dict[str, str]


def keep_variables(device_ir: str) -> str:
    """clang's device IR with calls in place of the records of the user's variables."""
    known = DebugInfo(device_ir)
    scopes = dict(_VARIABLE_SCOPE.findall(device_ir))
    nodes = dict(_NODE.findall(device_ir))

    def kept(match: re.Match[str]) -> str:
        indent, pointer, variable, place = match.groups()
        file = known.file_of(scopes.get(variable, ""))
        if not file or file.startswith(HEADERS_DIR) or _is_group(variable, nodes):
            return ""
        return f"{indent}call void @{DECLARE}(ptr {pointer}) nomerge, !dbg {place}, !loom.variable {variable}"

    return _RECORD.sub(kept, device_ir) + f"\ndeclare void @{DECLARE}(ptr)\n"


def _is_group(variable: str, nodes: dict[str, str]) -> bool:
    """Whether the variable is a group of threads (or a reference to one), which must be known where it meets."""
    node = variable
    while found := _TYPE.search(nodes.get(node, "")):
        node = found[1]
    return _GROUP.search(nodes.get(node, "")) is not None


def numbered(inlined: str) -> str:
    """The inlined text with the nodes' numbers as arguments of the calls."""

    def call(match: re.Match[str]) -> str:
        attached = dict(_ATTACHED.findall(match[2]))
        variable, place = attached.get("loom.variable", "0"), attached.get("dbg", "0")
        return f"call void @{DECLARE}(ptr {match[1]}, i32 {variable}, i32 {place}), !dbg !{place}"

    text = _CALL.sub(call, inlined)
    return text.replace(f"declare void @{DECLARE}(ptr)", f"declare void @{DECLARE}(ptr, i32, i32)")


def records(text: str) -> DebugRecords:
    nodes = dict(_NODE.findall(text))
    variables = ((unquoted(name), _OF_EXPRESSION.match(nodes.get(node, ""))) for name, node in _GLOBAL.findall(text))
    return DebugRecords(nodes, {name: found[1] for name, found in variables if found})
