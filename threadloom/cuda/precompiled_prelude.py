"""Our prelude, which comes before every CUDA file, compiled once for each set of flags and kept in the cache.

    clang++ -include prelude.h -I. -DN=16 file.cu  ->  clang++ -include-pch KEY.pch -I. -DN=16 file.cu

Reading the prelude and the headers of C and C++ that it includes is three quarters of clang's time for a small file;
from the precompiled form the IR is the same. It is made without the user's include folders and macros, but for those
whose names system headers may ask for (`_...`, NDEBUG); where a folder holds a header or folder of a name that the
prelude includes, the plain way is taken. Headers of the C++ library that a project asks for again (its second file, or
the first one once more) are compiled behind the prelude for it. clang itself checks version, flags and every header's
date: where it refuses, or the source has errors, the plain way is taken as well, so that messages are always those of
the plain way.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

from threadloom import env
from threadloom.cuda.clang import Compiler
from threadloom.cuda.standard_headers import standard_headers

_FOLDERS = ("-I", "-isystem")  # searched before the system's
_OTHERS = ("-iquote", "-idirafter", "-include", "-MF", "-MT", "-MQ", "-o")  # with a value, and without an influence
_OUTPUT = ("-emit-llvm", "-S", "-MD", "-MMD", "-MP")
_ENVIRONMENT = ("CPATH", "CPLUS_INCLUDE_PATH")
_ASKED_FOR = re.compile(r"-[DU](?:_|NDEBUG|LOOM_)")  # macros that headers of the system or ours may look at


def run(compiler: Compiler, arguments: list[str], prelude: Path, cwd: str | None) -> subprocess.CompletedProcess[str]:
    """clang with `arguments`, which say `-include prelude` and end with the source."""
    made = _made(compiler, arguments, prelude, cwd)
    if made is not None:
        made = _with_headers(compiler, arguments, prelude, cwd, made) or made
        at = _place(arguments, prelude)
        quick = [*arguments[:at], "-Xclang", "-include-pch", "-Xclang", str(made), *arguments[at + 2 :]]
        done = compiler.run(quick, cwd)
        if done.returncode == 0:
            return done
    done = compiler.run(arguments, cwd)
    if made is not None and done.returncode == 0:
        for part in (made, made.with_suffix(".names")):  # it is of older headers, or of another clang
            part.unlink(missing_ok=True)
    return done


def _place(arguments: list[str], prelude: Path) -> int:
    return next(i for i, word in enumerate(arguments[:-1]) if (word, arguments[i + 1]) == ("-include", str(prelude)))


def _with_headers(
    compiler: Compiler, arguments: list[str], prelude: Path, cwd: str | None, made: Path
) -> Path | None:
    """The same as `made` with the library's headers that the source asks for, from the second time on."""
    _, folders = _split(arguments[:-1])
    base = Path(cwd or "")
    wanted = standard_headers(base / arguments[-1], (base / folder for folder in folders))
    try:
        there = set(json.loads(made.with_suffix(".names").read_text()))
    except (OSError, ValueError):  # another process has found it stale
        return None
    headers = tuple(name for name in wanted if name not in there)
    return _made(compiler, arguments, prelude, cwd, headers) if headers else None


def _made(
    compiler: Compiler, arguments: list[str], prelude: Path, cwd: str | None, headers: tuple[str, ...] = ()
) -> Path | None:
    """The precompiled prelude for these flags, with `headers` behind it; None where there is no cache or it must not
    be used, or is asked for with these headers for the first time."""
    base = env.cache_folder()
    if base is None:
        return None
    at = _place(arguments, prelude)
    flags, folders = _split([*arguments[:at], *arguments[at + 2 : -1]])
    own = str(prelude.parent.parent)
    key = hashlib.sha256(repr((compiler, flags, str(prelude), *headers)).encode()).hexdigest()[:32]
    place = base / "precompiled-headers" / f"{key}.pch"
    names = place.with_suffix(".names")
    if not names.exists():  # where it is there alone, this clang cannot precompile
        if headers and not _asked_before(place):
            return None
        _compile(compiler, [*flags, "-isystem", own], prelude, place, headers)
    if not place.exists():
        return None
    try:
        included = set(json.loads(names.read_text()))
    except (OSError, ValueError):
        return None
    searched = [*folders, *(f for name in _ENVIRONMENT for f in os.environ.get(name, "").split(os.pathsep) if f)]
    hidden = (_entries(Path(cwd or "") / folder) & included for folder in searched if folder != own)
    return None if any(hidden) else place


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The flags that a precompiled header must share, and the folders that come before the system's."""
    flags: list[str] = []
    folders: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _FOLDERS:
            folders.append(next(rest))
        elif word in _OTHERS:
            next(rest)
        elif word.startswith(_FOLDERS):
            folders.append(word.removeprefix("-isystem").removeprefix("-I"))
        elif word not in _OUTPUT and (not word.startswith(("-D", "-U")) or _ASKED_FOR.match(word)):
            flags.append(word)
    return flags, folders


def _entries(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _asked_before(place: Path) -> bool:
    asked = place.with_suffix(".asked")
    if asked.exists():
        return True
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time only
        asked.touch()
    return False


def _compile(compiler: Compiler, flags: list[str], prelude: Path, made: Path, headers: tuple[str, ...]) -> None:
    """Written aside and renamed; beside it the names of all headers that are in it and of their folders. While another
    process makes it, the plain way is taken."""
    try:
        env.make_private(made.parent)
        with open(made.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: another one makes it
            if not made.with_suffix(".names").exists():
                _write(compiler, flags, _source(prelude, made, headers), prelude.parent, made)
    except OSError:
        return  # a cache that cannot be written costs time only


def _source(prelude: Path, made: Path, headers: tuple[str, ...]) -> Path:
    """What is compiled: the prelude, or a file beside `made` that includes it and `headers`."""
    if not headers:
        return prelude
    lines = [f'#include "{prelude}"', *(f"#include <{name}>" for name in headers)]
    source = made.with_suffix(".h")
    source.write_text("\n".join(lines) + "\n")
    return source


def _write(compiler: Compiler, flags: list[str], source: Path, own: Path, made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=made.parent, prefix="writing-") as folder:
        part, rule = Path(folder) / "made.pch", Path(folder) / "rule"
        options = ["-Xclang", "-emit-pch", "-MD", "-MF", str(rule), "-w"]
        done = compiler.run([*flags, *options, "-c", str(source), "-o", str(part)])
        if done.returncode:
            made.with_suffix(".names").write_text("[]")
            return
        paths = [Path(word) for word in rule.read_text().replace("\\\n", " ").split()[1:]]
        paths = [path for path in paths if own not in path.parents and path != source]
        names = {name for path in paths for name in (path.name, path.parent.name)}
        part.with_suffix(".names").write_text(json.dumps(sorted(names)))
        part.replace(made)
        part.with_suffix(".names").replace(made.with_suffix(".names"))
