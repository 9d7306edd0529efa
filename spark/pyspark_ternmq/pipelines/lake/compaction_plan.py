"""Plans which files of a lake are merged. Pure: files and the time in, groups of files out.

A partition is taken when its hour ended long enough ago and it has enough small files: ones of less than half the
target, so that no file is merged twice for nothing. Files of batches that are not finished are not there yet.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark_ternmq.pipelines.lake.commits import batch_of_file, is_data

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileEntry
    from pyspark_ternmq.pipelines.lake.options import CompactionOptions

_PARTITION = re.compile(r"(?:.*/)?date=(\d{4})-(\d{2})-(\d{2})/hour=(\d{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of one partition that become one."""

    partition: str
    paths: Sequence[str]
    size_bytes: int


def plan_groups(
    files: "Iterable[FileEntry]", *, unfinished: Set[str], now: datetime, options: "CompactionOptions"
) -> list[FileGroup]:
    """Return the groups of files to merge; `unfinished` are names of batches whose files must stay."""
    partitions: defaultdict[str, list[FileEntry]] = defaultdict(list)
    for file in files:
        if is_small(file.size_bytes, options) and is_data(file.path) and batch_of_file(file.path) not in unfinished:
            partitions[file.path.rpartition("/")[0]].append(file)
    return [
        group
        for partition, small in sorted(partitions.items())
        if len(small) >= options.min_files and has_ended(partition, now - options.older_than)
        for group in _group_files(partition, small, options.target_bytes)
    ]


def has_ended(partition: str, moment: datetime) -> bool:
    """Whether the hour of `.../date=2026-08-01/hour=07` was over at a moment; False for any other folder."""
    match = _PARTITION.fullmatch(partition)
    if match is None:
        return False
    year, month, day, hour = map(int, match.groups())
    try:
        return hour_has_ended(date(year, month, day), hour, moment)
    except ValueError:
        return False


def hour_has_ended(day: date, hour: int, moment: datetime) -> bool:
    """Whether an hour of a day in UTC was over at a moment; ValueError for a 25th hour."""
    try:
        return datetime(day.year, day.month, day.day, hour, tzinfo=UTC) + timedelta(hours=1) <= moment
    except OverflowError:
        return False


def is_small(size_bytes: int, options: "CompactionOptions") -> bool:
    """Whether a file is to be merged with others."""
    return 2 * size_bytes < options.target_bytes


def _group_files(partition: str, files: "Sequence[FileEntry]", target_bytes: int) -> list[FileGroup]:
    """Fill one group after the other; the last may be a single file, which stays as it is."""
    groups, current, size_bytes = list[FileGroup](), list[str](), 0
    for file in sorted(files, key=lambda file: file.path):
        if current and size_bytes + file.size_bytes > target_bytes:
            groups.append(FileGroup(partition=partition, paths=current, size_bytes=size_bytes))
            current, size_bytes = [], 0
        current.append(file.path)
        size_bytes += file.size_bytes
    groups.append(FileGroup(partition=partition, paths=current, size_bytes=size_bytes))
    return [group for group in groups if len(group.paths) > 1]
