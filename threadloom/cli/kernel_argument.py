"""KERNEL on the command line: `file.py:function`, `file.py` (its only kernel) or an example's name; and `--shape`.

What a file may offer beside the kernel (SHAPE, inputs, reference) is told in examples/README.md.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import sys
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from threadloom.cli import UsageError
from threadloom.dtypes import ALL
from threadloom.errors import CompileError, ThreadloomError, slug
from threadloom.source import Loc

if TYPE_CHECKING:
    from threadloom.lang.kernel import Kernel
    from threadloom.sched.candidate import Scheduler

Setting = bool | int | float
KERNEL_FILE = slug("kernel-file", "the Python file that should hold the kernel does not run")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The kernel that KERNEL names, the module it stands in, the extents that `--shape` gives and the scalars and
    compile-time constants that `--set` gives."""

    name: str
    module: ModuleType
    kernel: Kernel
    shape: dict[str, int]
    settings: dict[str, Setting] = field(default_factory=dict)


def add_kernel_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    parser.add_argument(
        "kernel",
        metavar="KERNEL",
        nargs="?" if optional else None,
        help="file.py:function, or an example: " + ", ".join(example_names()),
    )
    add_choice_arguments(parser)


def add_choice_arguments(parser: argparse.ArgumentParser) -> None:
    """What goes with KERNEL: its extents and settings."""
    parser.add_argument(
        "--shape",
        metavar="M=4096,N=4096",
        type=parse_shape,
        default={},
        help="extents of the kernel's named dimensions (default: the file's SHAPE)",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=parse_setting,
        action="append",
        default=[],
        dest="settings",
        help="a scalar or compile-time constant of the kernel, as in --set causal=true",
    )


def add_dtype_argument(parser: argparse.ArgumentParser) -> None:
    names = [name for name, dtype in ALL.items() if dtype.is_float]
    parser.add_argument(
        "--dtype",
        metavar="TYPE",
        choices=names,
        help="element type, where the kernel leaves it open: " + ", ".join(names),
    )


def parse_shape(text: str) -> dict[str, int]:
    """The type of `--shape`: NAME=EXTENT, separated by commas."""
    shape: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, equals, extent = part.partition("=")
        if not equals or not name.strip().isidentifier() or not extent.strip().isdigit():
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=EXTENT, as in M=4096,N=4096")
        if name.strip() in shape:
            raise argparse.ArgumentTypeError(f"{name.strip()} is given twice")
        shape[name.strip()] = int(extent)
    return shape


def parse_setting(text: str) -> tuple[str, Setting]:
    """The type of `--set`."""
    name, equals, value = text.partition("=")
    if equals and name.isidentifier():
        if value.lower() in ("true", "false"):
            return name, value.lower() == "true"
        for number in (int, float):
            try:
                return name, number(value)
            except ValueError:
                continue
    raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a number, true or false")


def choose_from(args: argparse.Namespace) -> Chosen:
    """What the arguments of `add_kernel_arguments` mean together."""
    chosen = choose(args.kernel, args.shape)
    parameters = chosen.kernel.signature.python.parameters
    settings = dict(args.settings)
    if unknown := settings.keys() - parameters.keys():
        raise UsageError(f"{chosen.name} has no parameter {', '.join(sorted(unknown))}\n  try: {', '.join(parameters)}")
    return replace(chosen, settings=settings)


def choose(text: str, shape: dict[str, int]) -> Chosen:
    """Find what KERNEL means; UsageError where it can mean nothing."""
    file, _, function = text.partition(":")
    if file.endswith(".py"):
        path = Path(file)
        if not path.is_file():
            raise UsageError(f"{file}: no such file")
    else:
        path = _examples_folder() / f"{file}.py"
        if file not in example_names():
            close = difflib.get_close_matches(file, example_names(), n=1)
            names = ", ".join(example_names())
            known = f"did you mean {close[0]}?" if close else f"file.py:function, or one of: {names}"
            raise UsageError(f"no example is called {file!r}\n  try: {known}")
    module = load_module(path)
    name = function or _only_kernel(path, module)
    found = getattr(module, name, None)
    if not _is_kernel(found):
        raise UsageError(f"{path.name} has no kernel {name!r}; it has: {', '.join(_kernels(module)) or 'none'}")
    usual = getattr(module, "SHAPE", {})
    if usual and (unknown := shape.keys() - usual.keys()):
        raise UsageError(f"{name} has no dimension {', '.join(sorted(unknown))}\n  try: {', '.join(usual)}")
    return Chosen(name, module, found, {**usual, **shape})


def add_policy_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        default="joint",
        help="joint (default), decoupled (tiles first), optimal (solver), or file.py:function (docs/howto-policy.md)",
    )


def policy_of(text: str) -> str | Scheduler:
    """A policy's name, or the function that `file.py:function` names."""
    file, colon, function = text.partition(":")
    if not colon or not file.endswith(".py"):
        return text
    if not Path(file).is_file():
        raise UsageError(f"{file}: no such file")
    found = getattr(load_module(Path(file)), function, None)
    if not callable(found):
        raise UsageError(f"{file} has no function {function!r}")
    return found


def example_names() -> list[str]:
    return sorted(p.stem for p in _examples_folder().glob("*.py") if not p.stem.startswith("_"))


def load_module(path: Path) -> ModuleType:
    """Run the file, which may import its neighbours; whatever it raises becomes one message that points into it."""
    folder = str(path.parent.absolute())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python FILE` has it
    spec = importlib.util.spec_from_file_location(f"loom_kernel_file_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ThreadloomError:
        raise
    except SyntaxError as error:
        raise CompileError(KERNEL_FILE, error.msg, loc=Loc(str(path), error.lineno or 1, error.offset or 1)) from error
    except Exception as error:
        raise _failed(error, path) from error
    return module


def ask_file(chosen: Chosen, name: str, *args: object, **kwargs: object) -> object:
    """What the file's own function `name` returns; whatever it raises becomes one message that points into the file."""
    try:
        return getattr(chosen.module, name)(*args, **kwargs)
    except ThreadloomError:
        raise
    except Exception as error:
        raise _failed(error, Path(chosen.module.__file__), f"its function {name}: ") from error


def _failed(error: Exception, path: Path, where: str = "") -> CompileError:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path.absolute())]
    loc = Loc(str(path), frames[-1].lineno or 1, (frames[-1].colno or 0) + 1) if frames else None
    return CompileError(KERNEL_FILE, f"{where}{type(error).__name__}: {error}", loc=loc)


def _examples_folder() -> Path:
    return Path(__file__).parents[1] / "examples"


def _kernels(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if _is_kernel(value)]


def _is_kernel(value: object) -> bool:
    from threadloom.lang.kernel import Kernel

    return isinstance(value, Kernel)


def _only_kernel(path: Path, module: ModuleType) -> str:
    """The kernel called like the file, or the file's only one."""
    names = _kernels(module)
    if path.stem in names:
        return path.stem
    if len(names) == 1:
        return names[0]
    raise UsageError(f"{path.name} has {len(names)} kernels: say which, {path.name}:{names[0] if names else 'NAME'}")
