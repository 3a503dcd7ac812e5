"""A file is there whole or not at all."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from threadloom.whole_file import write_whole


def test_writes_into_new_folders_with_usual_permissions(tmp_path):
    write_whole(tmp_path / "a" / "b.txt", "text\n")
    assert (tmp_path / "a" / "b.txt").read_text() == "text\n"
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a" / "b.txt").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path):
    path = tmp_path / "b.txt"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]
    assert path.read_text() == "old"


def test_a_write_that_fails_names_its_file(tmp_path):
    path, (soft, hard) = tmp_path / "b.txt", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(OSError, match=r"b\.txt"):
            write_whole(path, "more than eight bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_said_by_the_files_name():
    with pytest.raises(OSError, match=r"/proc/b\.txt'"):
        write_whole(Path("/proc/b.txt"), "text")


def test_what_is_no_file_is_written_to_and_stays(tmp_path):
    """As root a renamed file took the place of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "text\n")
        assert os.read(reader, 100) == b"text\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo() and [p.name for p in tmp_path.iterdir()] == ["pipe"]
