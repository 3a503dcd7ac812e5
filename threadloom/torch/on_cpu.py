"""What an extension says about CUDA tensors, said about CPU tensors.

    TORCH_CHECK(x.is_cuda());                     ->  x.is_cpu()
    torch::empty({n}, x.options().device(torch::kCUDA))   ->  torch::kCPU
    TORCH_LIBRARY_IMPL(mine, CUDA, m)             ->  registered under the key CPU

It is done on preprocessed text and only in what the user's own files say: macros of PyTorch's headers are expanded by
then, and the headers themselves keep their meaning.
"""

from __future__ import annotations

import re

_WORDS = {
    b"is_cuda": b"is_cpu",
    b"kCUDA": b"kCPU",
    b"AutogradCUDA": b"AutogradCPU",
    b"AutocastCUDA": b"AutocastCPU",
}
_TOKEN = re.compile(
    rb"\b(?P<word>" + b"|".join(_WORDS) + rb")\b"
    rb"|(?P<scoped>\b(?:DeviceType|DispatchKey|Backend|BackendComponent)\s*::\s*)CUDA(?P<bit>Bit)?\b"
    rb"|(?P<name>\"cuda(?::\d+)?\")"
    rb"|(?P<move>\.\s*cuda\s*\(\s*\))"
    rb"|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
)


def on_cpu(text: bytes) -> bytes:
    """`text`, preprocessed C++, with CUDA tensors, devices and registrations turned into the CPU's."""
    return _TOKEN.sub(_replacement, text)


def _replacement(match: re.Match[bytes]) -> bytes:
    if match["word"]:
        return _WORDS[match["word"]]
    if match["scoped"]:
        return match["scoped"] + b"CPU" + (match["bit"] or b"")
    if match["name"]:
        return b'"cpu"'
    if match["move"]:
        return b".cpu()"
    return match[0]  # any other string says what it says
