"""The limit of rows per second, by a clock of the test's own."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from pyspark_ternmq.sink.pace import WritePace, remove_pace
from tests.support.hand_clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_tasks_share_the_rate_of_their_write(tmp_path: Path, clock: Clock) -> None:
    with (
        closing(WritePace("write", 10, folder=tmp_path, now_s=clock)) as one,
        closing(WritePace("write", 10, folder=tmp_path, now_s=clock)) as other,
    ):
        waits = [one.take_rows(5), other.take_rows(5), one.take_rows(20), other.take_rows(1)]
    assert waits == pytest.approx([0, 0.5, 1, 3])


def test_another_write_has_its_own_rate(tmp_path: Path, clock: Clock) -> None:
    with (
        closing(WritePace("write", 10, folder=tmp_path, now_s=clock)) as one,
        closing(WritePace("another", 10, folder=tmp_path, now_s=clock)) as other,
    ):
        assert [one.take_rows(5), other.take_rows(5)] == [0, 0]


def test_time_that_passed_unused_is_not_made_up_for(tmp_path: Path, clock: Clock) -> None:
    with closing(WritePace("write", 10, folder=tmp_path, now_s=clock)) as pace:
        pace.take_rows(1)
        clock.now_s += 60
        assert [pace.take_rows(10), pace.take_rows(10)] == pytest.approx([0, 1])


def test_a_clock_that_began_anew_stops_nothing(tmp_path: Path, clock: Clock) -> None:
    with closing(WritePace("write", 10, folder=tmp_path, now_s=clock)) as pace:
        clock.now_s = 10_000_000
        pace.take_rows(1)
        clock.now_s = 1
        assert pace.take_rows(1) == 0


def test_files_of_the_day_before_are_removed(tmp_path: Path, clock: Clock) -> None:
    for number in range(3):
        WritePace(f"write {number}", 10, folder=tmp_path, now_s=clock).close()
    files = sorted(tmp_path.iterdir())
    for path in files[:2]:
        os.utime(path, (0, 0))
    WritePace("another", 10, folder=tmp_path, now_s=clock).close()
    assert len(files) == 3
    assert files[2].exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_the_end_of_a_write_removes_its_file(tmp_path: Path, clock: Clock) -> None:
    for name in ("write", "another"):
        WritePace(name, 10, folder=tmp_path, now_s=clock).close()
    remove_pace("write", folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    remove_pace("write", folder=tmp_path)  # of a task on another machine, it isn't here
    remove_pace("another", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_somebody_put_there_is_not_followed(tmp_path: Path, clock: Clock) -> None:
    WritePace("write", 10, folder=tmp_path, now_s=clock).close()
    [path] = tmp_path.iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        WritePace("write", 10, folder=tmp_path, now_s=clock)
