"""`loom cc` ends with one message and status 1 where it cannot compile (the errors themselves: test_cuda_front)."""

from __future__ import annotations

import pytest

from threadloom import cli


@pytest.mark.clang
def test_source_that_does_not_compile(tmp_path, capsys):
    source = tmp_path / "x.cu"
    source.write_text("__global__ void k(int *out) {\n    out[0] = undeclared;\n}\n")
    assert cli.main(["cc", str(source), "-c", "-o", str(tmp_path / "x.o")]) == 1
    said = capsys.readouterr().err
    assert "x.cu:2:" in said and "error[cuda-source]" in said and "Traceback" not in said
    assert not (tmp_path / "x.o").exists()


@pytest.mark.parametrize("args", [["-O2"], ["missing.cu", "-o", "x"]])
def test_no_input(capsys, args):
    assert cli.main(["cc", *args]) == 1
    assert "error[nvcc-no-input]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["rodinia"], ["rodinia", "--path", "/nowhere"], ["rodinia", "--path", "ROOT", "--only", "x"]]
)
def test_bench_rodinia_wants_a_checkout_and_names_of_pairs(words, tmp_path, capsys):
    (tmp_path / "openmp").mkdir()
    assert cli.main(["bench", *(str(tmp_path) if word == "ROOT" else word for word in words)]) == 2
    said = capsys.readouterr().err
    assert "--path" in said or "no pair is called x; there are backprop" in said
