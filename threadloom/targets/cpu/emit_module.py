"""What the functions of one module share while they are emitted: metadata numbers, outlined functions, callees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from threadloom.par.ops import Module
from threadloom.par.printing import type_text
from threadloom.targets.cpu.debug_lines import DebugLines
from threadloom.targets.cpu.debug_variables import DebugVariables

if TYPE_CHECKING:
    from threadloom.targets.cpu.emit import EmitOptions


class ModuleText:
    def __init__(self, module: Module, options: EmitOptions):
        self.module, self.threads, self.standalone = module, options.threads, options.standalone
        self.functions: list[str] = []
        self.forks = False  # whether some function starts OpenMP workers
        self.takes_turns = False  # whether some region runs by turns
        self.uses_arena = False
        self._by_name = {function.name: function for function in module.functions}
        self._outlined: set[str] = set()
        numbers = [int(match) for name, _ in module.metadata for match in re.findall(r"^!(\d+)$", name)]
        self._next_metadata = max(numbers, default=-1) + 1
        self._metadata: list[str] = [f"{name} = {node}" for name, node in module.metadata]
        self._shared_nodes: dict[str, str] = {}
        self.debug = DebugLines(self) if options.debug_lines else None
        if options.debug_nodes is not None:
            self.debug = DebugVariables(self, options.debug_nodes)

    def new_metadata(self, node: str) -> str:
        """A new node; SELF in `node` stands for its own name."""
        name = self.reserve_metadata()
        self.set_metadata(name, node.replace("SELF", name))
        return name

    def reserve_metadata(self) -> str:
        """The name of a node whose text comes later, by set_metadata."""
        self._next_metadata += 1
        return f"!{self._next_metadata - 1}"

    def set_metadata(self, name: str, node: str) -> None:
        self._metadata.append(f"{name} = {node}")

    def shared_metadata(self, node: str) -> str:
        """The node with this text, made when first asked for."""
        if node not in self._shared_nodes:
            self._shared_nodes[node] = self.new_metadata(node)
        return self._shared_nodes[node]

    def nontemporal(self) -> str:
        return self.shared_metadata("!{i32 1}")

    def metadata_lines(self) -> list[str]:
        named = self.debug.named_lines() if self.debug else []
        return [*named, *self._metadata]

    def unique_function_name(self, wanted: str) -> str:
        name, count = wanted, 0
        while name in self._by_name or name in self._outlined:
            count += 1
            name = f"{wanted}.{count}"
        self._outlined.add(name)
        return name

    def knows(self, name: str) -> bool:
        """Whether the module defines or declares `name` itself."""
        return name in self._by_name

    def function_type(self, callee: str) -> str:
        """How a call must spell the type of `callee`: "" for plain functions, the full type for variadic ones."""
        function = self._by_name.get(callee)
        if function is None or not function.variadic:
            return ""
        params = ", ".join([*(type_text(param.value.type) for param in function.params), "..."])
        return f"{type_text(function.result)} ({params})"
