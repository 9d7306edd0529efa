"""Which files are merged."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_ternmq.pipelines.files import FileEntry
from pyspark_ternmq.pipelines.lake.compaction_plan import FileGroup, has_ended, plan_groups
from pyspark_ternmq.pipelines.lake.options import CompactionOptions

PARTITION = "data/topic=orders/date=2026-08-01/hour=07"
OPTIONS = CompactionOptions(older_than=timedelta(hours=1), target_bytes=1000, min_files=3)
NOW = datetime(2026, 8, 1, 9, tzinfo=UTC)


def plan(
    *sizes: int, now: datetime = NOW, partition: str = PARTITION, unfinished: set[str] | None = None
) -> list[FileGroup]:
    files = [
        FileEntry(path=f"{partition}/q-{number}-00001.zstd.parquet", size_bytes=size)
        for number, size in enumerate(sizes)
    ]
    return plan_groups(files, unfinished=unfinished or set(), now=now, options=OPTIONS)


def test_small_files_of_a_partition_become_one() -> None:
    (group,) = plan(100, 200, 300)
    assert (group.partition, len(group.paths), group.size_bytes) == (PARTITION, 3, 600)


def test_few_files_stay() -> None:
    assert plan(100, 200) == []


def test_large_files_stay() -> None:
    assert plan(500, 600, 700, 800) == []


def test_files_of_unfinished_batches_stay() -> None:
    (group,) = plan(1, 1, 1, 1, unfinished={"q-1"})
    assert [path.rpartition("/")[2][:3] for path in group.paths] == ["q-0", "q-2", "q-3"]


@pytest.mark.parametrize(("minutes", "is_planned"), [(0, True), (-1, False)])
def test_an_hour_is_taken_when_it_ended_long_enough_ago(minutes: int, is_planned: bool) -> None:
    assert bool(plan(1, 1, 1, now=NOW + timedelta(minutes=minutes))) == is_planned


@pytest.mark.parametrize(
    "partition", ["data/topic=a", "data/topic=a/date=2026-02-30/hour=01", "data/date=9999-12-31/hour=23"]
)
def test_folders_that_are_no_hours_stay(partition: str) -> None:
    assert not has_ended(partition, NOW)
    assert plan(1, 1, 1, partition=partition) == []


@given(st.lists(st.integers(0, 499), max_size=40))
def test_no_group_is_too_large_and_no_file_is_in_two(sizes: list[int]) -> None:
    groups = plan(*sizes)
    paths = [path for group in groups for path in group.paths]
    assert len(paths) == len(set(paths)) <= len(sizes)
    assert all(group.size_bytes <= OPTIONS.target_bytes and len(group.paths) > 1 for group in groups)
    if len(sizes) >= OPTIONS.min_files:
        # What is left over is one file that did not fit with its neighbours, here and there.
        assert sum(sizes) <= OPTIONS.target_bytes * (2 * len(groups) + 2)
