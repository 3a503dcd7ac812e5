"""`@tl.kernel` and the object it makes: a kernel that is parsed once for each choice of constants and dtypes."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.dtypes import Dtype
from threadloom.errors import CompileError, slug
from threadloom.lang.bind import Call, bind_call, sort_arguments
from threadloom.lang.parse_kernel import Parsed, parse_kernel
from threadloom.lang.signature import ConstParam, FunctionParam, Signature, read_signature
from threadloom.lang.source_of import Origin, find_source, visible_names

if TYPE_CHECKING:
    from threadloom.sched.tune import Tuned
    from threadloom.targets.cuda.export import Exported
    from threadloom.targets.cuda.launch_again import Again
    from threadloom.tile.ops import Kernel as TileKernel

UNDETERMINED = slug("undetermined", "a kernel is asked for without the constants or dtypes it depends on")
NOT_A_FUNCTION = slug("not-a-function", "tl.kernel is used on something else than a Python function")


def kernel(function: Callable[..., object] | None = None) -> Kernel:
    """Decorator: make a kernel of a Python function. Its text is read now, and parsed when it is first used, so that it
    may use what is defined below it."""
    if isinstance(function, Kernel):
        return function
    written_in_python = isinstance(function, types.FunctionType)
    if not written_in_python or hasattr(function, "__wrapped__"):
        what = function.__qualname__ if written_in_python else f"a {type(function).__name__}"
        raise CompileError(
            NOT_A_FUNCTION,
            f"tl.kernel is given {what + ', made by another decorator' if written_in_python else what}",
            why="it reads the text of a Python function",
            try_="@tl.kernel, without parentheses, right above the `def`, below other decorators",
        )
    return Kernel(function)


class Kernel:
    """Call it like the function; `tile()` gives its tile IR, `interpret(...)` runs its definition in NumPy.

    Whatever cannot be done is a `CompileError` whose `slug` docs/errors.md explains: where the kernel's text is at
    fault, with the line; `arguments`, `two-devices` and `not-an-array`, where a call is.
    """

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self._origin = find_source(function)
        self._signature: Signature | None = None
        self._parsed: dict[tuple[object, ...], Parsed] = {}
        self._again: Again | None = None
        functools.update_wrapper(self, function)

    def __reduce__(self) -> str:
        """Pickled by name, like the function it stands for."""
        return self.function.__qualname__

    def __repr__(self) -> str:
        return f"<threadloom kernel {self.name}>"

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def signature(self) -> Signature:
        if self._signature is None:
            self._signature = read_signature(self.function, self._current_origin())
        return self._signature

    def _current_origin(self) -> Origin:
        """The text as it was when the kernel was defined, with the names as they are now."""
        return replace(self._origin, names=visible_names(self.function))

    # ------------------------------------------------------------ compile

    def tile(self, **choices: object) -> TileKernel:
        """The kernel's tile IR for compile-time constants, functions and dtype variables given by name; constants
        with a default may be left out."""
        return self.parsed(**choices).kernel

    def parsed(self, **choices: object) -> Parsed:
        """`tile(**choices)` with the formulas of its dimensions, such as "2 * P"."""
        consts, dtypes, missing = {}, {}, []
        python = self.signature.python.parameters
        for param in self.signature.params:
            if isinstance(param, ConstParam | FunctionParam):
                consts[param.name] = choices.pop(param.name, python[param.name].default)
                missing += [param.name] if consts[param.name] is python[param.name].empty else []
        for variable in self.signature.dtype_variables():
            dtypes[variable] = choices.pop(variable, None)
            missing += [variable] if not isinstance(dtypes[variable], Dtype) else []
        if missing or choices:
            what = f"needs {', '.join(missing)}" if missing else f"has no constant {', '.join(choices)}"
            raise CompileError(UNDETERMINED, f"kernel {self.name} {what}", try_=f"{self.name}.tile(name=value, ...)")
        return self._specialize(consts, dtypes)

    def _specialize(self, consts: Mapping[str, object], dtypes: Mapping[str, Dtype]) -> Parsed:
        key = (*((n, type(v), v) for n, v in consts.items()), *dtypes.items())
        if key not in self._parsed:
            origin = self._current_origin()
            self._parsed[key] = parse_kernel(self.name, origin, self.signature, consts, dtypes)
        return self._parsed[key]

    # ------------------------------------------------------------ run

    def bind(self, *args: object, **kwargs: object) -> Call:
        """Check the arguments of a call and make what it needs to run: the kernel's tile IR, arrays, dimensions."""
        given = sort_arguments(self.name, self.signature, args, kwargs)
        parsed = self._specialize(given.consts, given.dtypes)
        return bind_call(parsed.kernel, parsed.formulas, parsed.extents, given)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run on arrays of the signature's element types and dimensions, all on the CPU or all on one GPU (u4: arrays
        of u8, two elements to a byte along the last dimension). Returns the output, or a tuple of them in the
        signature's order: new arrays of the inputs' framework, or those given by the output's name (`out=...`)."""
        again = self._again
        if again is not None:  # there was a call on a GPU
            if again.last is not None and (results := again.last(args, kwargs)) is not NotImplemented:
                return results
            results = again.run(args, kwargs)
            if results is not NotImplemented:
                return results
        from threadloom.launch import launch

        call = self.bind(*args, **kwargs)
        launch(call)
        if call.device != "cpu":
            from threadloom.targets.cuda.launch_again import Again

            self._again = self._again or Again(self.signature)
            self._again.learn(args, kwargs, call)
        return call.results[0] if len(call.results) == 1 else call.results

    def tune(self, *args: object, **kwargs: object) -> Tuned:
        """Measure plans for the shapes and the device of these arguments, and keep the fastest for later calls. Takes
        seconds to a minute; `loom tune` does the same from the command line. `nothing-kept` where LOOM_CACHE=off."""
        from threadloom.launch import tune_call

        self._again = None
        return tune_call(self.bind(*args, **kwargs))

    def export(self, folder: str | Path, *args: object, device: str = "h200", **kwargs: object) -> Exported:
        """Compile for the shapes, strides and element types of these arguments on `device` (that of GPU arrays is taken
        from them) and write machine code, source and a C header that launches it to `folder`. Needs no GPU."""
        from threadloom.launch import export_call

        return export_call(self.bind(*args, **kwargs), Path(folder), device)

    def torch_op(self, name: str, **constants: object) -> Callable[..., object]:
        """Register the kernel as the PyTorch operator `name` ("namespace::operator") and return it: torch.compile and
        torch.export take it, on the CPU and on a GPU. `constants`: compile-time constants and functions by name."""
        from threadloom.lang.torch_op import register

        return register(self, name, constants)

    def interpret(
        self,
        *args: object,
        tiles: Mapping[str, int] | int | None = None,
        exact: bool = False,
        **kwargs: object,
    ) -> object:
        """Run the definition in NumPy on arguments as for a call, on the CPU (else `host-only`): with tile sizes by
        axis (others whole), or random ones from the seed that `tiles` then is; and in float64 throughout if `exact`
        (float results are then new float64 arrays)."""
        from threadloom.launch import random_tiles, run_interpreter

        call = self.bind(*args, **kwargs)
        tiles = random_tiles(call, tiles) if isinstance(tiles, int) else tiles
        made = run_interpreter(call, tiles, exact)
        if not exact:
            made = call.results
        return made[0] if len(made) == 1 else made
