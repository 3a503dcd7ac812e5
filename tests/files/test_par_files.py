"""canonicalize on IR text (tests/files/par)."""

from pathlib import Path

import pytest
from files.ir_checks import check_file, check_text

from threadloom.par.canonicalize import Canonicalize

FILES = sorted((Path(__file__).parent / "par").glob("*.par"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_par_file(path):
    check_file(path, {"canonicalize": Canonicalize()})


@pytest.mark.parametrize(
    "wrong", ["; expect: sub", "; never: add", "; count: 1 add", "; expect: add 2\n; expect: add 1"]
)
def test_a_wrong_check_is_noticed(wrong):
    with pytest.raises(AssertionError):
        check_text("add 1\nadd 2\n", wrong)
