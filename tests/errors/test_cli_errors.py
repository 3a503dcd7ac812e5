"""Errors of the command line's own."""

from __future__ import annotations

import pytest

from threadloom.cli.kernel_argument import KERNEL_FILE, choose
from threadloom.errors import CompileError


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("x = 1\ny = 1 / 0\n", "ZeroDivisionError: division by zero", 2),
        ("def f(:\n", "invalid syntax", 1),
        ("import no_such_module_here\n", "ModuleNotFoundError: No module named 'no_such_module_here'", 1),
    ],
)
@pytest.mark.parametrize("is_relative", [False, True])
def test_kernel_file_that_does_not_run(tmp_path, monkeypatch, text, what, line, is_relative):
    path = tmp_path / f"broken{len(text)}.py"  # the text of a file is kept by its name
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompileError) as caught:
        choose(path.name if is_relative else str(path), {})
    assert (caught.value.slug, caught.value.what, caught.value.loc.line) == (KERNEL_FILE, what, line)
    assert text.splitlines()[line - 1] in str(caught.value)
