"""A known form of a call as a function of its own, written out: the same tests and steps as `launch_again.Again.run`,
without a key and without loops, in less than half the time.

    def call(args, kwargs):
        if len(args) != 2 or len(kwargs) != 1: return NotImplemented
        a0, a1 = args
        a2 = kwargs.get(name2)
        if type(a0) is not type0 or a0.dtype is not dtype0 or ...: return NotImplemented
        p0 = a0.data_ptr() ...
        launch([p0, p2], [a1], stream(0), device() == 0)
        return a2

Names that stand for values of the form (type0, dtype0 ...) are globals of the function. It gives NotImplemented for
every call of another form, or of another pattern of tensors given more than once; forms with targets of atomic adds
have none. Where this PyTorch has the test by which its
compiler knows tensors again, and it does what we need, that stands in place of ours: one call for all tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadloom.targets.cuda.launch_again import Form

Written = Callable[[tuple, Mapping[str, object]], object]


def write_call(
    form: Form,
    args: tuple,
    kwargs: Mapping[str, object],
    free_floats: tuple[bool, ...],
    torch: ModuleType,
    torch_state: tuple[Callable[[int], int], Callable[[], int]],
    apart: Callable[[list[int], Form], bool],
) -> Written | None:
    """`args`, `kwargs`: of a call of the form; `free_floats`: for each argument whether it is a float whose value does
    not belong to the form; `torch_state`: as `launch.torch_state`; `apart`: whether outputs are apart from the rest."""
    if form.cleared:
        return None
    known: dict[str, object] = {"empty_like": torch.empty_like, "grad": torch.is_grad_enabled, "form": form}
    known |= {"stream": torch_state[0], "device": torch_state[1], "launch": form.prepared.launch, "apart": apart}
    lines = [f"if len(args) != {len(args)} or len(kwargs) != {len(kwargs)}: return NotImplemented"]
    if args:
        lines.append(f"{', '.join(f'a{at}' for at in range(len(args)))}, = args")
    for at, name in enumerate(kwargs, len(args)):
        known[f"name{at}"] = name
        lines.append(f"a{at} = kwargs.get(name{at})")
    values = (*args, *kwargs.values())
    first = first_places(values)
    tensors = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
    once = [at for at in tensors if first[at] == at]  # PyTorch's test refuses tensors given twice
    floats = [at for at, free in enumerate(free_floats) if free]
    tests = _form_tests(values, tensors, floats, known)
    lines.append(f"if {' or '.join(tests)}: return NotImplemented")
    lines += [f"p{at} = a{at}.data_ptr()" if first[at] == at else f"p{at} = p{first[at]}" for at in tensors]
    low = [f"p{at} & 15 != {values[at].data_ptr() & 15}" for at in once]
    lines.append(f"if {' or '.join(low) or 'False'}: return NotImplemented")
    if form.written:
        lines.append(f"pointers = [{', '.join(f'p{at}' for at in tensors)}]")
        lines.append("if pointers != form.apart[0]:")
        lines.append("    if not apart(pointers, form): return NotImplemented")
        lines.append("    form.apart[0] = pointers")
    for at, pattern in enumerate(form.made):
        known[f"like{at}"] = pattern
        lines.append(f"m{at} = empty_like(like{at})")
    places = [f"p{tensors[at]}" if at >= 0 else f"m{-1 - at}.data_ptr()" for at in form.order]
    scalars = [f"scalar{at}" for at in range(len(form.scalars))]
    known |= {name: value for name, value in zip(scalars, form.scalars, strict=True)}
    for place, at in form.floats:
        scalars[place] = f"a{floats[at]}"
    if form.prepared.blocks:
        current = f"stream({form.ordinal}), device() == {form.ordinal}"
        lines.append(f"launch([{', '.join(places)}], [{', '.join(scalars)}], {current})")
    results = [f"a{tensors[at]}" if at >= 0 else f"m{-1 - at}" for at in form.results]
    lines.append(f"return {results[0] if len(results) == 1 else ', '.join(results)}")
    exec("def call(args, kwargs):\n" + "".join(f"    {line}\n" for line in lines), known)
    return known["call"]


def _form_tests(values: Sequence[object], tensors: list[int], floats: list[int], known: dict[str, object]) -> list[str]:
    """Expressions that are true where arguments a0 ... are of another form than `values`, of which `tensors` are
    tensors and the `floats` any floats; what they name is put into `known`."""
    first, tests = first_places(values), []
    once = [at for at in tensors if first[at] == at]
    if (same := _torchs_test([values[at] for at in once])) is not None:
        known["same"] = same
        tests.append(f"not same({', '.join(f'a{at}' for at in once)})")
    for at, value in enumerate(values):
        if at in tensors and first[at] != at:
            tests.append(f"a{at} is not a{first[at]}")
            continue
        if at not in tensors or same is None:
            known[f"type{at}"] = type(value)
            tests.append(f"type(a{at}) is not type{at}")
        if at in tensors:
            tests += _tensor_tests(at, value, known) if same is None else []
        elif at not in floats:
            known[f"value{at}"] = value
            tests.append(f"a{at} != value{at}")
    return tests


def first_places(values: Sequence[object]) -> tuple[int, ...]:
    """For each value the first place at which that object stands."""
    seen: dict[int, int] = {}
    return tuple([seen.setdefault(id(value), at) for at, value in enumerate(values)])


def _tensor_tests(at: int, value: object, known: dict[str, object]) -> list[str]:
    known[f"dtype{at}"], known[f"shape{at}"] = value.dtype, value.shape
    tests = [f"a{at}.dtype is not dtype{at}", f"a{at}.shape != shape{at}"]
    if value.is_contiguous():
        tests.append(f"not a{at}.is_contiguous()")
    else:
        known[f"strides{at}"] = value.stride()
        tests.append(f"a{at}.stride() != strides{at}")
    tests += [f"a{at}.get_device() != {value.get_device()}", f"a{at}.is_neg()"]
    return [*tests, f"(a{at}.requires_grad and grad())"]


def _torchs_test(tensors: Sequence[object]) -> Callable[..., bool] | None:
    """Whether other tensors have the types, element types, devices, shapes and strides of `tensors`, and neither ask
    for gradients nor stand for negatives; None where this version of PyTorch has no such test."""
    if not tensors or any(t.requires_grad or t.is_neg() for t in tensors) or not _has_test():
        return None
    return _guards(tensors)


def _guards(tensors: Sequence[object]) -> Callable[..., bool]:
    import torch

    shapes, strides = [[*t.shape] for t in tensors], [[*t.stride()] for t in tensors]
    return torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check


@lru_cache(maxsize=1)
def _has_test() -> bool:
    """It is no public part of PyTorch, so it is tried on all that a form must tell apart."""
    import torch

    one = torch.zeros(2, 3)
    others = [torch.zeros(2, 3, dtype=torch.float64), torch.zeros(3, 2), torch.zeros(3, 2).T, torch.zeros(2, 6)[:, :3],
              torch.zeros(2, 3, requires_grad=True), torch._neg_view(one), torch.nn.Parameter(one, False)]  # fmt: skip
    try:
        same = _guards([one, one])
        return same(one, torch.ones(2, 3)) and not any(same(one, other) or same(other, one) for other in others)
    except Exception:  # whatever another version makes of it
        return False
