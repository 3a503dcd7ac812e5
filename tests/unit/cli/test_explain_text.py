"""loom explain: what is so of several lines is said once, below them."""

from pathlib import Path

from threadloom.cli.explain import text
from threadloom.cuda.explain import Explained, Remark
from threadloom.source import Loc


def test_lines_of_which_the_same_is_said_share_it(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("first\nsecond\nbarrier\nthird\n")
    at = {line: Loc(str(source), line, 1) for line in range(1, 5)}
    vector, removed = "4 threads at a time", Remark("barrier removed", at[3])
    remarks = (Remark("vectorised", at[1], vector), Remark("vectorised", at[2], vector), removed,
               Remark("kept", at[4], "%x"), Remark("vectorised", at[4], vector))  # fmt: skip
    shown = [line.split() for line in text(Explained("_Z1kv", "", at[1], remarks, 0)).splitlines()]
    assert shown == [
        ["kernel", "k()"],
        ["1", "|", "first"],
        ["2", "|", "second"],
        ["vectorised:", "4", "threads", "at", "a", "time"],
        ["3", "|", "barrier"],
        ["barrier", "removed"],
        ["4", "|", "third"],
        ["kept:", "%x"],
        ["vectorised:", "4", "threads", "at", "a", "time"],
    ]
