"""`loom translate`: what g++ builds from it does what the CUDA program does, and reads like it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from threadloom import cli
from threadloom.cuda.front import SourceOptions
from threadloom.cuda.translate import program
from threadloom.cuda.translate.cxx_leaves import _icmp
from threadloom.cuda.translate.cxx_values import PRIMARY, Expr, literal
from threadloom.cuda.translate.host_source import host_source
from threadloom.cuda.translate.widen_integers import WidenIntegers, odd_bits
from threadloom.par.interp import interpret
from threadloom.par.ops import F32, I1, I32, Attrs, Const, Leaf, Value, Vector
from threadloom.par.text import parse
from threadloom.par.verify import verify
from threadloom.par.walk import operands, results, walk

CASES = Path(__file__).parents[2] / "cuda_cases"
QUICK = ("vector_add",)
OTHERS = (
    "calls class_arguments counting_barriers exited_threads generic_types grid_barrier group_by_key inline_ptx "
    "intrinsics lambdas_and_tables last_block runtime_api shared_names "
    "shuffle_edges translated_forms tree_reduction uniform_loops"
).split()
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

SCALE = """\
#include <cstdio>
#include <new>
struct Range { int first, last; };
__constant__ float factor;
__device__ __forceinline__ float twice(float x) { return 2 * x; }

template <class T> __global__ void __launch_bounds__(64) scale(T *values, const Range range, int by = 1) {
  int index = range.first + blockIdx.x * blockDim.x + threadIdx.x;
  if (index < range.last) values[index] = values[index] * T(by) + T(twice(factor));
}
__global__ void reverse(unsigned *keys, int n) {
  extern __shared__ unsigned reversed[];
  unsigned t = threadIdx.x;
  reversed[n - 1 - t] = keys[t] / 3;
  __syncthreads();
  keys[t] = reversed[t] >> 1;
}
__global__ void turn(int *out, int n) {
  int a = threadIdx.x, b = 7;
  for (int i = 0; i < n; ++i) {
    int old = a;
    a = b;
    b = old;
  }
  out[threadIdx.x] = a * 100 + b;
}
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
template <class F> __global__ void each(int *out, F f) { out[threadIdx.x] = f(threadIdx.x); }
struct Row {
  int *cells, count;
  Row(int *c, int n) : cells(c), count(n) {}
  Row(const Row &) = delete;
};
__global__ void fill(Row &row, const int &by) {
  if (threadIdx.x < row.count) row.cells[threadIdx.x] += threadIdx.x * by;
}
#define LAUNCH(k, blocks, ...) k<<<blocks, 64>>>(__VA_ARGS__)

int main() {
  float *x, half = 0.5f;
  unsigned *keys;
  cudaMallocManaged(&x, 100 * sizeof(float));
  cudaMallocManaged(&keys, 64 * sizeof(unsigned));
  cudaMemcpyToSymbol(factor, &half, sizeof half);
  for (int i = 0; i < 100; ++i) x[i] = i;
  for (unsigned i = 0; i < 64; ++i) keys[i] = 4000000000u + i;
  scale<<<2, 64>>>(x, Range{10, 90}, 3);
  LAUNCH(scale<float>, 1, x, (Range{0, 10}), 2);
  if (x) reverse<<<dim3(1), dim3(64), 64 * sizeof(unsigned)>>>(keys, 64); else return 3;
  int wrong = 0, *turned;
  cudaMallocManaged(&turned, 4 * sizeof(int));
  turn<<<1, 4>>>(turned, 3);
  for (int i = 0; i < 4; ++i) wrong += turned[i] != 700 + i;
  for (int i = 0; i < 100; ++i) wrong += x[i] != (i < 10 ? 2 * i + 1 : i < 90 ? 3 * i + 1 : i);
  for (unsigned i = 0; i < 64; ++i) wrong += keys[i] != (4000000000u + 63 - i) / 3 >> 1;
  short by = 3;
  each<<<1, 4>>>(turned, [=] __device__(int i) { return by * fib(i + 5); });
  for (int i = 0; i < 4; ++i) wrong += turned[i] != 3 * (int[]){5, 8, 13, 21}[i];
  int *cells, *by_seven;
  void *room;
  cudaMallocManaged(&cells, 64 * sizeof(int));
  cudaMallocManaged(&by_seven, sizeof(int));
  cudaMallocManaged(&room, sizeof(Row));
  *by_seven = 7;
  Row &row = *new (room) Row(cells, 40);
  fill<<<1, 64>>>(row, *by_seven);
  cudaDeviceSynchronize();
  for (int i = 0; i < 64; ++i) wrong += cells[i] != (i < 40 ? 7 * i : 0);
  scale<<<0, 64>>>(x, Range{0, 10}, 3);
  wrong += cudaGetLastError() != cudaErrorInvalidConfiguration;
  if (wrong) printf("%d wrong\\n", wrong);
  return wrong != 0;
}
"""


def build_and_run(text: str, folder: Path, include: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.cpp").write_text(text)
    command = ["g++", "-O1", "-fopenmp", "-I", str(include), str(folder / "program.cpp"), *program.link_flags()]
    built = subprocess.run([*command, "-o", str(folder / "program")], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:3000]
    return subprocess.run([folder / "program"], capture_output=True, text=True, timeout=60, check=False)


@needs_gxx
@pytest.mark.clang
@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_translated_cases_check_themselves(case: str, tmp_path: Path) -> None:
    text = program.translate(str(CASES / f"{case}.cu"), SourceOptions(includes=(str(CASES),)))
    done = build_and_run(text, tmp_path, CASES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def scale_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("translate")
    (folder / "scale.cu").write_text(SCALE)
    assert cli.main(["translate", str(folder / "scale.cu"), "-o", str(folder / "scale.cpp")]) == 0
    return (folder / "scale.cpp").read_text()


@needs_gxx
@pytest.mark.clang
def test_templates_structs_macros_symbols_and_unsigned_numbers_keep_their_meaning(
    scale_text: str, tmp_path: Path
) -> None:
    done = build_and_run(scale_text, tmp_path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.clang
def test_kernels_have_the_users_names(scale_text: str) -> None:
    kernels = scale_text[scale_text.index("// ---- the kernels of") :]
    assert "void run_on_cpu(scale_kernel<float>, float* values, Range range, int by) {" in kernels
    assert "int index = " in kernels and "values[index] = " in kernels
    assert "void reverse(unsigned *keys, int n) {" in kernels
    assert "reversed[" in kernels and "keys[" in kernels
    assert "int fib_on_cpu(int n) {" in kernels
    assert "run_on_cpu(each_kernel<loom::Device<0, loom::Of<>, Lambda0> >" in kernels
    assert kernels.count("#pragma omp parallel for") == 5


@pytest.mark.clang
def test_same_input_gives_the_same_text(scale_text: str, tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SCALE)
    assert program.translate(str(tmp_path / "scale.cu"), SourceOptions()) == scale_text


def rewritten(text: str, tmp_path: Path) -> str:
    (tmp_path / "x.cu").write_text(text)
    return host_source(tmp_path / "x.cu").text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int f() { k<<<1, 2>>>(); }", "int f() { loom::launch(1, 2), k(); }"),
        ("if (a) k <<<g, b, 0, s>>>(x, f(y)); else z();", "if (a) loom::launch(g, b, 0, s), k(x, f(y)); else z();"),
        ("CHECK(k<<<1, 2>>>(x));", "CHECK((loom::launch(1, 2), k(x)));"),
        ("ns::k<A<B<int>>, 3><<<g, 8>>>(x);", "loom::launch(g, 8), ns::k<A<B<int>>, 3>(x);"),
        ("table[i].run<<<1, 1>>>();", "loom::launch(1, 1), table[i].run();"),
        ("#define L(k) \\\n  k<<<1, 1>>>()\n", "#define L(k) \\\n  (loom::launch(1, 1), k())\n"),
        ("__global__ void k(int n = 3);", "void k(int n = 3);"),
        ("extern \"C\" __global__ void __launch_bounds__(64, 2) k(int n) { f(\"}\"); }", "extern \"C\" void k(int n);"),
        ("namespace a { static __global__ void k() { /* } */ } }", "namespace a { static void k(); }"),
        ("template __global__ void k<int>(int);", ""),
        (
            "template <class T, int N = 2> __global__ void k(T *x, int n = 1) { f(); }",
            "template <class T, int N = 2> struct k_kernel {};\n"
            "template <class T, int N = 2> void k(T *x, int n = 1) { run_on_cpu(k_kernel<T, N>(), x, n); }",
        ),
        (
            "template <> __global__ void k<int>(int *x) { f(); }",
            "void run_on_cpu(k_kernel<int>, int *x);\n"
            "template <> void k<int>(int *x) { run_on_cpu(k_kernel<int>(), x); }",
        ),
        ("__device__ float f(float x) { return x; } int g;", "__device__ float f(float x); int g;"),
        (  # of an undefined static function g++ 13 says the local name, g++ 12 the other
            "static __device__ int f(int x);\ninline static __device__ int f(int x) { return x; }",
            "__device__ int f(int x);\ninline __device__ int f(int x);",
        ),
        ("struct S { static __device__ int f(); };", "struct S { static __device__ int f(); };"),
        (
            "struct S { int a; __device__ S() : a{1} { f(); } };",
            "struct S { int a; __device__ S() : a{1} { __builtin_trap(); } };",
        ),
        ("__host__ __device__ int f() { return 1; }", "__host__ __device__ int f() { return 1; }"),
        (
            "__constant__ float c[2] = {1, 2};\n__device__ int d;",
            "__constant__ float c[2] = {1, 2};\n__device__ int d;",
        ),
        (
            "auto f = [=] __device__(int x) { return x; };",
            "auto f = loom::device<0>([=] __device__(int x) { return x; });",
        ),
        (
            "template <class T, int N, auto... M> void f() { k([] __device__ { return N; }); } "
            "void g() { k([] __device__ {}); }",
            "template <class T, int N, auto... M> void f() { k(loom::device<0, loom::Of<T, loom::Value<N>, "
            "loom::Value<M>...>>([] __device__ { return N; })); } void g() { k(loom::device<1>([] __device__ {})); }",
        ),
        (
            "f([] __host__ __device__ { return a[i]; }, [&](int x) { return x; }, "
            "[b = c[0]] __device__() mutable { g(); });",
            "f(loom::device<0>([] __host__ __device__ { return a[i]; }), [&](int x) { return x; }, "
            "loom::device<1>([b = c[0]] __device__() mutable { g(); }));",
        ),
        (
            "cout << a <<b; x = 1 << 2 >> 3; s = R\"(k<<<1, 1>>>())\";",
            "cout << a <<b; x = 1 << 2 >> 3; s = R\"(k<<<1, 1>>>())\";",
        ),
    ],
)  # fmt: skip
def test_host_text(before: str, after: str, tmp_path: Path) -> None:
    assert rewritten(before, tmp_path) == after


def test_included_device_code_becomes_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "kernels.cuh").write_text("#pragma once\n__global__ void k() { g(); }\n")
    (tmp_path / "all.h").write_text('#include "kernels.cuh"')
    (tmp_path / "host.h").write_text("int h();\n")
    text = rewritten('#include "all.h"\n#include "kernels.cuh"\n#include "host.h"\nint x;\n', tmp_path)
    inner = "// ---- kernels.cuh\nvoid k();\n// ---- end of kernels.cuh"
    assert text == f'// ---- all.h\n{inner}\n// ---- end of all.h\n\n#include "host.h"\nint x;\n'


def test_float_literals_are_short_and_exact() -> None:
    shown = {
        text: literal(Const(F32, text)).text for text in ("1.000000e+00", "0x3FB99999A0000000", "0x47EFFFFFE0000000")
    }
    assert list(shown.values()) == ["1.0f", "0.1f", "3.4028235e+38f"]


def test_usage_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["translate"]) == 2
    assert cli.main(["translate", "a.cu", "b.cu"]) == 2
    assert "one CUDA file" in capsys.readouterr().err


def test_vectors_are_compared_with_or_without_their_sign() -> None:
    four = Vector(4, I32)
    a, b = Expr("a", PRIMARY, four), Expr("b", PRIMARY, four)
    leaf = Leaf("icmp", (Value("%a", four), Value("%b", four)), Value("%r", Vector(4, I1)), Attrs(predicate="slt"))
    assert _icmp(leaf, a, b).text == "a < b"
    unsigned = replace(leaf, attrs=Attrs(predicate="uge"))
    vector = "(loom::Vector<unsigned, 4>)"
    assert _icmp(unsigned, a, b).text == f"{vector}a >= {vector}b"


BIT_FIELDS = """
define exported i64 @k(ptr %p, i48 %q) {
  %a = load i24, ptr %p, align 1
  %b = sext i24 %a to i32
  %c = mul i24 %a, 5
  %at = getelementptr i8, ptr %p, i64 3
  store i24 %c, ptr %at, align 1
  %v = bitcast i24 %c to <3 x i8>
  %byte = extractelement <3 x i8> %v, i32 1
  %w = insertelement <3 x i8> %v, i8 7, i32 2
  %d = bitcast <3 x i8> %w to i24
  %less = icmp slt i24 %a, %d
  %r = if i1 %less {
    yield i24 %d
  } else {
    yield i24 -3
  }
  %e = zext i24 %r to i64
  %f = sext i32 %b to i64
  %g = trunc i64 %f to i48
  %h = xor i48 %g, %q
  %i = sext i48 %h to i64
  %j = zext i8 %byte to i64
  %s = add i64 %e, %i
  %t = add i64 %s, %j
  return i64 %t
}
"""


@pytest.mark.parametrize("bytes_", [b"\x01\x02\x03", b"\xff\xff\xff", b"\x00\x00\x80", b"\x10\xf0\x7f"])
def test_odd_integers_become_wider_ones_with_the_same_values(bytes_: bytes) -> None:
    before = parse(BIT_FIELDS)
    after = WidenIntegers().apply(before)
    verify(after)
    values = [value for op in walk(after.functions[0].body) for value in (*results(op), *operands(op))]
    assert not any(odd_bits(value.type) for value in values)
    found = []
    for module in (before, after):
        memory = np.frombuffer(bytes_ + bytes(5), np.uint8).copy()
        found.append((interpret(module, "k", [memory, 0xF23456789ABC]), bytes(memory)))
    assert found[0] == found[1]
