"""The command line `loom`.

One module per command, imported only when its command is called. A command's module has

    add_arguments(parser: argparse.ArgumentParser) -> None
    run(args: argparse.Namespace) -> int          # the exit status

or, where it parses its own arguments (`cc` takes nvcc's flags; what `bench` takes depends on the first word),

    main(argv: list[str]) -> int

Exit status: 0 good, 1 the thing asked about failed, 2 usage. A command that a script may read calls
`json_output.add_json_argument(parser)` and `json_output.write(args, schema, record)`.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from types import ModuleType

from threadloom import __version__, env
from threadloom.errors import CompileError, ThreadloomError


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name, the module that has it, and its line in `loom --help`."""

    name: str
    module: str
    help: str

    @property
    def is_present(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


COMMANDS = (
    Command("demo", "threadloom.cli.demo", "compile and run the example kernels on this machine and check them"),
    Command("run", "threadloom.cli.run", "run a kernel on random data and compare it with its meaning in float64"),
    Command("tune", "threadloom.cli.tune", "measure candidate plans of a kernel here and keep the best"),
    Command("schedule", "threadloom.cli.schedule", "plan a kernel for any device, GPU present or not, and draw it"),
    Command("dump", "threadloom.cli.dump", "write every stage of a kernel, from tiles to assembly"),
    Command("export", "threadloom.cli.export", "compile a kernel for a GPU: machine code and a C header"),
    Command("bench", "threadloom.cli.bench", "time an operator, or your own kernel, beside NumPy and PyTorch"),
    Command("doctor", "threadloom.cli.doctor", "say what this machine has and what each missing piece enables"),
    Command("cache", "threadloom.cli.cache", "show or clear what is stored"),
    Command("cc", "threadloom.cli.cc", "compile CUDA C++ for this CPU (takes nvcc's flags; also: loom-nvcc)"),
    Command("cuda-home", "threadloom.cli.cuda_home", "make a CUDA root (bin/nvcc, include, lib64) for build systems"),
    Command("translate", "threadloom.cli.translate", "turn CUDA C++ into readable C++ with OpenMP"),
    Command("check", "threadloom.cli.check", "run a CUDA program and report races, divergent barriers, bad accesses"),
    Command("explain", "threadloom.cli.explain", "say what was done with each CUDA kernel, and why"),
)

FULL = (errno.ENOSPC, errno.EDQUOT)

# Errors of the library that, here, are about what the command line or the environment says.
USAGE_SLUGS = (env.UNKNOWN, env.BAD_VALUE, "unknown-device", "unknown-policy")

EPILOG = """\
KERNEL is file.py:function or an example's name (loom run --list). Exit status: 0 good, 1 the thing asked about
failed, 2 usage. LOOM_DEBUG=1 shows tracebacks."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Descriptions as they are written, lines up to 110 columns."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=18, width=110)


class UsageError(ThreadloomError):
    """The command line asks for something that cannot be meant; exit status 2."""


def main(argv: list[str] | None = None) -> int:
    """Run `loom`; every way out is an exit status and at most one message on stderr."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        try:
            status = _dispatch(argv)
        except SystemExit as end:  # argparse: --help, --version, usage errors
            status = end.code
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone: nothing is left to say, and Python must not say it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _report(error)


def _dispatch(argv: list[str]) -> int:
    commands = [c for c in COMMANDS if c.is_present]
    chosen = next((a for a in argv if not a.startswith("-")), None)
    command = next((c for c in commands if c.name == chosen), None)
    if command is not None:
        env.check()
        env.threads()
        env.compile_seconds()
    module = command.load() if command else None
    if module is not None and hasattr(module, "main"):
        return module.main(argv[argv.index(command.name) + 1 :])
    made = parser(commands, command, module)
    args = made.parse_args(argv)
    if module is None:
        made.print_help()
        return 2
    return module.run(args)


def parser(commands: list[Command], chosen: Command | None, module: ModuleType | None) -> argparse.ArgumentParser:
    """The parser of all of `loom`; only the `chosen` command, whose `module` is loaded, has its arguments."""
    made = argparse.ArgumentParser(
        prog="loom",
        description="threadloom: tile kernels and CUDA C++ compiled for the machine you have.",
        epilog=EPILOG,
        formatter_class=_Formatter,
    )
    made.add_argument("--version", action="version", version=f"loom {__version__}")
    subparsers = made.add_subparsers(title="commands", metavar="COMMAND")
    for command in commands:
        sub = subparsers.add_parser(
            command.name,
            help=command.help,
            description=(module.__doc__ if command is chosen else command.help),
            formatter_class=_Formatter,
        )
        if command is chosen:
            module.add_arguments(sub)
    return made


def own_parser(prog: str, module: ModuleType) -> argparse.ArgumentParser:
    """The parser of `module`'s arguments alone, for a `main` that has several to choose from."""
    made = argparse.ArgumentParser(prog=prog, description=module.__doc__, formatter_class=_Formatter)
    module.add_arguments(made)
    return made


def _report(error: Exception) -> int:
    """Print `error` as one message and say the exit status. The traceback comes only where LOOM_DEBUG asks for it
    (read raw: the error may be about the variables themselves)."""
    if os.environ.get("LOOM_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    else:
        print(f"loom: {_message(error)}", file=sys.stderr)
    misused = isinstance(error, CompileError) and error.slug in USAGE_SLUGS
    return 2 if isinstance(error, UsageError) or misused else 1


def _message(error: Exception) -> str:
    if isinstance(error, CompileError | UsageError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in FULL:  # of a write: it does not know its file
        return f"{error.strerror}\n  try: free some, or another folder; the results of earlier runs are as they were"
    what = str(error) if isinstance(error, ThreadloomError) else f"{type(error).__name__}: {error}"
    return f"internal error: {what}\n  a bug of threadloom's: LOOM_DEBUG=1 shows where, LOOM_DUMP=DIR keeps every stage"
