"""threadloom: tile kernels and CUDA C++ compiled for the machine you have.

`import threadloom as tl` is quick: names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from threadloom.sched.complete import completes

if TYPE_CHECKING:  # what editors and type checkers see
    from threadloom.dtypes import *  # noqa: F403
    from threadloom.errors import *  # noqa: F403
    from threadloom.lang.annotations import *  # noqa: F403
    from threadloom.lang.builtins import *  # noqa: F403
    from threadloom.lang.kernel import kernel as kernel
    from threadloom.lang.library import *  # noqa: F403

__version__ = "0.1.0"

_LANGUAGE = (
    "grid stream each span axis index dim zeros full cast dot atomic_add sum prod max min any all argmax argmin "
    "cumsum cumprod cummax cummin exp exp2 log log2 sqrt rsqrt tanh erf sin cos floor ceil round abs isnan "
    "maximum minimum where"
)
_HOME: dict[str, str] = {
    "kernel": "threadloom.lang.kernel",
    **dict.fromkeys(("Tensor", "Const", "Function", "outputs"), "threadloom.lang.annotations"),
    **dict.fromkeys(_LANGUAGE.split(), "threadloom.lang.builtins"),
    **dict.fromkeys(("relu", "sigmoid", "silu", "gelu", "softplus", "identity"), "threadloom.lang.library"),
    **dict.fromkeys("f64 f32 tf32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i8 u8 u4".split(), "threadloom.dtypes"),
    **dict.fromkeys(("CompileError", "InternalError", "ThreadloomError"), "threadloom.errors"),
}

completes("cpu", "threadloom.targets.cpu.choices:with_core_choices")

__all__ = ["__version__", *sorted(["bool_", "cuda", *_HOME])]


def __getattr__(name: str) -> object:
    if name == "bool_":
        home, own = "threadloom.dtypes", "bool_"
    elif name == "cuda":
        return import_module("threadloom.cuda")
    elif name in _HOME:
        home, own = _HOME[name], name
    else:
        raise AttributeError(f"module 'threadloom' has no attribute {name!r}")
    value = getattr(import_module(home), own)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
