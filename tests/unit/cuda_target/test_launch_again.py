"""Repeated calls with torch tensors: what makes two calls one form. CPU tensors stand for those of a GPU."""

from __future__ import annotations

from dataclasses import fields

import pytest

import threadloom as tl
from tests.unit.cuda_target.fake_driver import CONTEXTS
from tests.unit.cuda_target.test_gpu_calls import scaled, summed
from threadloom.arrays_device import of_torch
from threadloom.lang.bind import Call
from threadloom.targets.cuda import driver_calls, launch, launch_again, launch_written
from threadloom.targets.cuda.launch_again import Again

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True, scope="module")
def with_torch():
    """Every worker collects this file; importing PyTorch takes seconds."""
    global torch
    import torch


@pytest.fixture(params=["PyTorch's test", "ours"])
def again(gpu, monkeypatch, request):
    """A function that calls like the kernel, through `Again` alone: it learns what it does not know. With either test
    of whether tensors are as those of the last call."""
    if request.param == "ours":
        monkeypatch.setattr(launch_written, "_has_test", lambda: False)
    monkeypatch.setattr(launch, "torch_state", lambda: (lambda ordinal: 500 + ordinal, lambda: call.device))
    made: dict[object, Again] = {}

    def call(kernel, *args, **kwargs):
        known = made.setdefault(kernel, Again(kernel.signature))
        results = NotImplemented if known.last is None else known.last(args, kwargs)
        call.written += results is not NotImplemented
        if results is NotImplemented:
            results = known.run(args, kwargs)
        if results is NotImplemented:
            bound = kernel.bind(*args, **kwargs)
            tensors = dict(zip(kernel.signature.positional, args, strict=False)) | kwargs
            outputs = dict(zip((o.name for o in kernel.signature.outputs), bound.results, strict=True))
            arrays = {t.name: of_torch({**outputs, **tensors}[t.name]) for t in bound.kernel.tensors}
            on_gpu = Call(bound.kernel, arrays, bound.dims, bound.scalars, bound.results, "cuda:0")
            launch.launch_on_gpu(on_gpu)
            known.learn(args, kwargs, on_gpu)
            call.learnt += 1
            results = bound.results[0]
        return results

    call.learnt, call.written, call.device = 0, 0, 0
    return call


def test_same_form_is_learnt_once(gpu, again):
    x = torch.randn(64, 128)
    first, second = again(scaled, x, 2.0), again(scaled, x.clone(), 3.0)
    assert again.learnt == 1 and first is not second and second.shape == (64, 128)
    assert [entry.stream for entry in gpu.launches] == [500, 500]


def test_from_the_third_call_on_a_form_is_a_function_of_its_own(gpu, again):
    x, y = torch.randn(64, 128), torch.randn(32, 128)
    for _ in range(4):
        again(scaled, x, 2.0)
    assert (again.learnt, again.written) == (1, 2)
    again(scaled, y, 2.0), again(scaled, y, 2.0), again(scaled, x, 2.0), again(scaled, x, 3.0)
    assert (again.learnt, again.written) == (2, 3)  # another form in between is looked for by its key
    assert len(gpu.launches) == 8 and gpu.launches[-1].blocks == gpu.launches[0].blocks


def test_pytorchs_own_test_of_tensors_tells_forms_apart():
    assert launch_written._has_test() in (True, False)
    if not launch_written._has_test():
        pytest.skip("this PyTorch has none, or another")
    same = launch_written._torchs_test([torch.zeros(4, 8)])
    assert same(torch.ones(4, 8)) and not same(torch.ones(4, 8)[:, ::2]) and not same(torch.ones(8, 4).T)
    assert launch_written._torchs_test([torch.zeros(4, 8, requires_grad=True)]) is None


def test_addresses_and_scalars_are_the_calls(gpu, again):
    x = torch.randn(64, 128)
    again(scaled, x, 2.0)
    y = torch.randn(64, 128)
    out = again(scaled, y, 7.0)
    words = gpu.launches[-1].words
    assert {y.data_ptr(), out.data_ptr()} <= set(words)
    assert torch.tensor([words[-1] & 0xFFFFFFFF]).to(torch.int32).view(torch.float32).item() == 7.0


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x[:32],
        lambda x: x.T.contiguous().T,
        lambda x: torch.randn(64, 256)[:, ::2],
        lambda x: torch.randn(64 * 128 + 1)[1:].view(64, 128),
        lambda x: torch.randn(64, 256),
    ],
    ids=["shape", "strides", "gaps", "alignment", "extent"],
)
def test_other_forms_are_not_taken_for_known_ones(gpu, again, other):
    x = torch.randn(64, 128)
    again(scaled, x, 2.0)
    again(scaled, other(x), 2.0)
    assert again.learnt == 2


def test_what_the_long_way_has_to_refuse_goes_the_long_way(gpu, again):
    x = torch.randn(64, 128)
    again(scaled, x, 2.0)
    known = Again(scaled.signature)
    assert known.key((x.requires_grad_(), 2.0), {}) is None
    with torch.no_grad():
        assert known.key((x, 2.0), {}) is not None
    assert known.run((x.detach(), [1]), {}) is NotImplemented  # cannot be hashed
    negative = torch.zeros(4, dtype=torch.complex64).conj().imag
    assert negative.is_neg() and known.key((negative, 2.0), {}) is None


def test_given_outputs_must_be_apart(gpu, again):
    memory = torch.zeros(192, 128)
    x = memory[:64]
    out = memory[64:128]
    assert again(scaled, x, 2.0, out=out) is out
    assert again(scaled, memory[128:], 2.0, out=out) is out and again.learnt == 1
    before = len(gpu.launches)
    with pytest.raises(Exception, match="shares memory"):
        again(scaled, memory[32:96], 2.0, out=out)
    assert len(gpu.launches) == before


def test_targets_of_atomics_begin_at_zero(gpu, again):
    x = torch.randn(64, 128)
    for _ in range(2):
        assert not again(summed, x).any()
    out = torch.ones(128)
    assert again(summed, x, out=out) is out and not out.any()
    out.fill_(3)
    again(summed, x, out=out)
    assert not out.any() and again.learnt == 2


def test_forgets_when_there_are_too_many(gpu, again, monkeypatch):
    monkeypatch.setattr(launch_again, "MOST_FORMS", 2)
    for rows in (1, 2, 3):
        again(scaled, torch.randn(rows, 128), 2.0)
    again(scaled, torch.randn(3, 128), 2.0)
    assert again.learnt == 3


def test_a_thread_without_a_context_or_with_another_device(gpu, again):
    x = torch.randn(64, 128)
    again(scaled, x, 2.0)
    gpu.current = 0
    again(scaled, x, 2.0)
    assert gpu.launches[-1].context == CONTEXTS[0] and gpu.current == 0
    again.device, gpu.current = 1, CONTEXTS[1]
    known = Again(scaled.signature)
    bound = scaled.bind(x, 2.0)
    arrays = {"x": of_torch(x), "out": of_torch(bound.results[0])}
    call = Call(bound.kernel, arrays, bound.dims, bound.scalars, bound.results, "cuda:0")
    launch.launch_on_gpu(call)
    known.learn((x, 2.0), {}, call)
    assert known.run((x, 2.0), {}) is not NotImplemented
    assert [entry.context for entry in gpu.launches[-2:]] == [CONTEXTS[0]] * 2 and gpu.current == CONTEXTS[1]


def test_a_repeated_launch_is_one_call_of_the_driver(gpu, again, monkeypatch):
    """What costs host time is counted, not timed: tensor maps stay as they are while addresses do."""
    x, out = torch.randn(64, 128), torch.empty(64, 128)
    calls, made = [], gpu.calls()

    def counted(name):
        call = getattr(made, name)
        return lambda *arguments: (calls.append(name), call(*arguments))[1]

    watched = driver_calls.Calls(*(counted(field.name) for field in fields(made)))
    monkeypatch.setattr(driver_calls, "calls", lambda: watched)
    again(scaled, x, 2.0, out=out)
    calls.clear()
    for by in (2.0, 3.0):
        again(scaled, x, by, out=out)
    assert calls == ["launch_ex"] * 2
    calls.clear()
    again(scaled, x.clone(), 3.0, out=out)
    assert calls.count("launch_ex") == 1 and calls.count("replace_address") <= 1 and len(calls) <= 2


@pytest.mark.parametrize("shape", [(3, 4), (1, 8), (8, 1), (4, 0)], ids=str)
def test_outputs_are_made_without_gaps(gpu, again, shape):
    x = torch.randn(*shape)
    again(scaled, x, 2.0)
    first, second = again(scaled, x, 2.0), again(scaled, x, 2.0)
    assert again.learnt == 1 and second.stride() == torch.empty(shape).stride() and second.dtype == x.dtype
    assert first.untyped_storage().nbytes() == 4 * x.numel()
    assert not x.numel() or first.data_ptr() != second.data_ptr()


def test_strides_of_single_indices_make_no_other_form(gpu, again):
    x = torch.randn(1, 128)
    again(scaled, x, 2.0)
    again(scaled, torch.randn(3, 256)[1:2, :128], 2.0)
    assert again.learnt == 1


@tl.kernel
def added(x: tl.Tensor["M", "N", tl.f32], y: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n] + y[m, n]


def test_a_tensor_given_twice_is_a_known_form_too(gpu, again):
    """PyTorch's test of tensors refuses one that is given twice, so that such calls went the way of unknown forms."""
    a, b = torch.randn(64, 128), torch.randn(64, 128)
    for _ in range(4):
        again(added, a, a)
    assert (again.learnt, again.written) == (1, 2)
    assert gpu.launches[-1].words.count(a.data_ptr()) == 2
    again(added, a, b)  # looked for by its key; a function of its own from then on
    again(added, b, a)
    assert (again.learnt, again.written) == (1, 3)
    assert {a.data_ptr(), b.data_ptr()} <= set(gpu.launches[-1].words)
    again(added, b, b), again(added, a, a), again(added, b, b)
    assert again.learnt == 1 and again.written >= 5 and gpu.launches[-1].words.count(b.data_ptr()) == 2
