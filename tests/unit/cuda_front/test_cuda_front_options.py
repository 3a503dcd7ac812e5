"""nvcc's command lines become plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import some

from threadloom.cli import nvcc
from threadloom.cuda import build, front, nvcc_options
from threadloom.cuda.nvcc_options import parse
from threadloom.errors import CompileError


def test_a_makefile_line() -> None:
    line = (
        "-ccbin g++ -m64 -gencode arch=compute_70,code=sm_70 -gencode arch=compute_86,code=sm_86 -O3 -Iinc "
        "-I ../common -DN=3 -D M -Xcompiler -fopenmp,-Wall -Xptxas -v -lineinfo -o a.o -c a.cu"
    )
    plan = parse(line.split())
    assert plan.action == "compile"
    assert plan.inputs == [("a.cu", "cu")]
    assert plan.includes == ["inc", "../common"]
    assert plan.defines == ["-DN=3", "-DM"]
    assert plan.host_flags == ["-fopenmp", "-Wall"]
    assert (plan.output, plan.optimize, plan.arch) == ("a.o", "3", 860)


def test_long_names_and_values_after_equals() -> None:
    plan = parse(["--output-file=x", "--gpu-architecture=sm_80", "--relocatable-device-code=true", "--std=c++20",
                  "--compiler-options=-O2", "b.cpp", "c.o", "-lm", "-L/opt/lib", "--shared"])  # fmt: skip
    assert plan.output == "x"
    assert plan.relocatable
    assert plan.shared
    assert (plan.arch, plan.standard, plan.optimize) == (800, "c++20", "2")
    assert plan.inputs == [("b.cpp", "c++"), ("c.o", "object")]
    assert plan.libraries == ["-lm", "-L/opt/lib"]


def test_passes_can_be_left_out_by_name() -> None:
    assert parse("--without=jam-rows,forward-stores --without hoist-invariant-blocks a.cu".split()).without == (
        "jam-rows", "forward-stores", "hoist-invariant-blocks"
    )  # fmt: skip
    with pytest.raises(CompileError, match="no pass of that name can be left out"):
        parse(["--without=split-threads", "a.cu"])


def test_further_options_stand_in_nvccs_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("threadloom.cli.main", lambda argv: seen.extend(argv) or 0)
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-O2 -I 'a b'")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "--no-fibers")
    assert nvcc.main(["a.cu"]) == 0
    assert seen == ["cc", "-O2", "-I", "a b", "a.cu", "--no-fibers"]


def test_kernels_that_wait_can_be_forbidden() -> None:
    assert parse(["a.cu"]).fibers and not parse(["--no-fibers", "a.cu"]).fibers


@pytest.mark.parametrize("option", ["--extra-device-vectorization", "-w", "--use_fast_math"])
def test_what_has_no_meaning_here_may_be_asked_for(option: str) -> None:
    assert parse([option, "a.cu"]).inputs == [("a.cu", "cu")]


def test_every_long_name_stands_for_an_option_that_is_known() -> None:
    for long, short in nvcc_options._ALIASES.items():
        value = ["1"] if short in nvcc_options._VALUED - nvcc_options._OPTIONAL_VALUE - {"-optf"} else []
        if short != "-optf":
            parse([long, *value, "a.cu"])


def test_language_is_forced_for_what_follows() -> None:
    assert parse(["-x", "cu", "kernel.cpp"]).inputs == [("kernel.cpp", "cu")]


@pytest.mark.parametrize("option", ["-ptx", "--fatbin", "-cubin"])
def test_modules_are_asked_for_by_their_kind(option: str) -> None:
    plan = parse([option, "a.cu", "-o", "a.image"])
    assert (plan.action, plan.module, plan.output) == ("module", option.replace("--", "-"), "a.image")


@pytest.mark.parametrize("line", ["-optix-ir a.cu", "--no-such-option a.cu", "a.cu -o", "a.xyz"])
def test_what_cannot_be_meant_is_an_error(line: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(line.split())
    assert caught.value.slug == "nvcc-option"


def test_kernels_in_python_have_other_commands() -> None:
    with pytest.raises(CompileError, match="loom schedule, dump or run"):
        parse(["kernel.py"])


@pytest.mark.clang
@pytest.mark.parametrize(("options", "strict"), some(
    [("", False), ("-O1", False), ("-O2", True), ("-O3", True), ("-O3 -Xcompiler -fno-strict-aliasing", False)],
    [("", False), ("-O2", True), ("-O3 -Xcompiler -fno-strict-aliasing", False)],
))  # fmt: skip
def test_host_code_tells_arrays_apart_by_their_types_where_it_is_optimised(
    options: str, strict: bool, tmp_path: Path
) -> None:
    source = tmp_path / "x.cu"
    source.write_text("void add(float** sums, float* x, int n) { for (int i = 0; i < n; i++) sums[0][i] += x[i]; }")
    host = front.compile_source(str(source), build.source_options(parse(options.split()))).host
    assert ("!tbaa" in host) == strict
