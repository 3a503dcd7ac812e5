"""The store of tuning results: what it keeps, whom it serves, what it survives."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from threadloom.errors import CompileError
from threadloom.store import FILE, Key, PlanTime, Store, parse_shape, shape_text

ROOT = Path(__file__).parents[3]
KEY = Key("cpu-x2", "matmul-1", "K=64,M=64", "a:f32")


def test_keeps_times_for_exactly_their_shape(tmp_path):
    other = Key(KEY.device, KEY.kernel, "K=64,M=128", KEY.dtypes)
    with Store(tmp_path) as store:
        store.add_plan_time(KEY, PlanTime("p", "ok", 5.0))
        store.set_plan(KEY, "p", 5.0, 6.0)
        assert store.plan_times(other) == {}
        assert store.plan(other) is None
        assert [p.shape for p in store.plans_of_other_shapes(other)] == [KEY.shape]
        assert store.plans_of_other_shapes(KEY) == []
    with Store(tmp_path) as store:
        assert store.plan_times(KEY)["p"].ns == 5.0
        assert store.plan(KEY).plan == "p"


def test_keeps_times_of_tasks(tmp_path):
    with Store(tmp_path) as store:
        store.add_task_time("d", "dot", "m=64", "tc", 12.5)
        assert store.task_time("d", "dot", "m=64", "tc") == 12.5
        assert store.task_time("d", "dot", "m=128", "tc") is None
        assert store.task_time("e", "dot", "m=64", "tc") is None


def test_shapes_have_one_text():
    assert shape_text({"N": 3, "M": 2}) == shape_text({"M": 2, "N": 3}) == "M=2,N=3"
    assert parse_shape("M=2,N=3") == {"M": 2, "N": 3}
    assert parse_shape("") == {}


def test_is_private(tmp_path):
    with Store(tmp_path / "a"):
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def _run(code: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


WRITER = """
    import sys
    from pathlib import Path
    from threadloom.store import Key, PlanTime, Store
    key = Key("cpu-x2", "matmul-1", "K=64,M=64", "a:f32")
    with Store(Path(sys.argv[1])) as store:
        for i in range(int(sys.argv[3])):
            store.add_plan_time(key, PlanTime(f"{sys.argv[2]}-{i}", "ok", 1.0 + i))
            print(i, flush=True)
"""


def test_several_processes_write_at_once(tmp_path):
    writers = [_run(WRITER, str(tmp_path), name, "60") for name in "abc"]
    assert [w.wait(60) for w in writers] == [0, 0, 0]
    for writer in writers:
        writer.communicate()
    with Store(tmp_path) as store:
        assert len(store.plan_times(KEY)) == 180


def test_killed_process_loses_nothing_it_has_recorded(tmp_path):
    writer = _run(WRITER, str(tmp_path), "a", "1000000")
    reported = [int(writer.stdout.readline()) for _ in range(50)][-1]
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    with Store(tmp_path) as store:
        kept = store.plan_times(KEY)
    assert {f"a-{i}" for i in range(reported + 1)} <= kept.keys()


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_corrupt_store_is_set_aside_with_one_message(tmp_path, capsys, content):
    (tmp_path / FILE).write_bytes(content)
    with Store(tmp_path) as store:
        store.add_plan_time(KEY, PlanTime("p", "ok", 5.0))
        assert store.plan_times(KEY)["p"].ns == 5.0
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "is no usable store" in lines[0]
    kept = [p for p in tmp_path.iterdir() if ".bad-" in p.name]
    assert len(kept) == 1 and kept[0].read_bytes() == content


def test_damaged_pages_are_found(tmp_path, capsys):
    with Store(tmp_path) as store:
        for i in range(2000):
            store.add_plan_time(KEY, PlanTime(f"plan-{i}", "ok", 1.0))
    file = tmp_path / FILE
    damaged = bytearray(file.read_bytes())
    damaged[8192:12288] = b"\xa5" * 4096
    file.write_bytes(bytes(damaged))
    with Store(tmp_path) as store:
        assert store.plan_times(KEY) == {}
    assert "is no usable store" in capsys.readouterr().err


def test_full_disk_is_told_and_keeps_what_was_there(tmp_path):
    with Store(tmp_path) as store:
        store.add_plan_time(KEY, PlanTime("first", "ok", 1.0))
        store._connection.execute("PRAGMA max_page_count=1")  # SQLite keeps the present size as the limit
        with pytest.raises(CompileError) as error:
            for i in range(2000):
                store.add_plan_time(KEY, PlanTime(f"plan-{i}" * 50, "ok", 1.0))
        assert error.value.slug == "store-full"
        assert store.plan_times(KEY)["first"].ns == 1.0


def test_unusable_place_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CompileError) as error:
        Store(tmp_path / "file" / "below")
    assert error.value.slug == "store-unusable"
