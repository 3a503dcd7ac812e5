"""nvcc reads `k<< <1, 1> >>()` as a launch; text that looks like one inside strings and comments stays what it is."""

from __future__ import annotations

import pytest

from threadloom.cuda import front


@pytest.mark.parametrize(
    ("source", "read"),
    [
        (b"k<< <1, 1> >>(p);", b"k<<<1, 1>>>(p);"),
        (rb'puts("a << < b \" << <"); k<< <1>> >();', rb'puts("a << < b \" << <"); k<<<1>>>();'),
        (b"""c = '"'; k<< <1>> >(); d = '"';""", b"""c = '"'; k<<<1>>>(); d = '"';"""),
        (b'puts(R"x(" << < )" << < )x"); k< <<1>>>();', b'puts(R"x(" << < )" << < )x"); k<<<1>>>();'),
        (b"n = 1'000; k<< <n, 2'000>> >();", b"n = 1'000; k<<<n, 2'000>>>();"),
        (b"// it's << <\nk<< <1>>>();", b"// it's << <\nk<<<1>>>();"),
        (b'/* " << < */ k<< <1>>>();', b'/* " << < */ k<<<1>>>();'),
    ],
)
def test_only_launches_change(source: bytes, read: bytes) -> None:
    assert front._readable(source) == read


@pytest.mark.parametrize(
    ("source", "read"),
    [
        (b'asm volatile("mov.u64 %0, %clock64;" : "=l"(t));', b'asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));'),
        (b'asm("mov.u32 %0, %%smid;" : "=r"(s)); f("%smid");', b'asm("mov.u32 %0, %%smid;" : "=r"(s)); f("%smid");'),
        (b'asm("add.u32 %0, %1,"\n " %laneid;" : "=r"(a)', b'asm("add.u32 %0, %1,"\n " %%laneid;" : "=r"(a)'),
        (b'asm("mov %[out], %c1; // %=" : [out] "=r"(a)', b'asm("mov %[out], %c1; // %=" : [out] "=r"(a)'),
    ],
)
def test_special_registers_of_ptx_may_have_one_percent_sign(source: bytes, read: bytes) -> None:
    assert front._readable(source) == read
