"""Small files of Delta tables merged by delta-rs, and files that no version needs any more removed.

Which partitions are merged is decided as for plain files (`compaction_plan.py`). Readers see the old files or the new
ones: the commit that adds these removes those. The files themselves stay for `retention`, for readers that began before
and for travels in time; then they are deleted.

Files that were never in a table are left alone: they are those of a batch that is being committed.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from pyspark_ternmq.pipelines.lake.commits import KINDS, LakeBroken
from pyspark_ternmq.pipelines.lake.compaction_plan import hour_has_ended, is_small
from pyspark_ternmq.pipelines.lake.options import CompactionReport
from pyspark_ternmq.pipelines.lake.registration import table_uri

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.lake.options import CompactionOptions

_HOUR_S = 3600


@dataclass(frozen=True, slots=True, order=True)
class TablePartition:
    """The values of one partition of a table."""

    topic: str
    date: date
    hour: int

    def delta_filters(self) -> list[tuple[str, str, Any]]:
        """Return the filters in the form of delta-rs."""
        return [("topic", "=", self.topic), ("date", "=", str(self.date)), ("hour", "=", str(self.hour))]


def compact_delta(
    root: str,
    options: "CompactionOptions",
    *,
    now: datetime,
    on_group: Callable[[CompactionReport], None] = lambda report: None,
) -> CompactionReport:
    """Compact the tables of a lake; LakeBroken if a table refuses, which changes nothing in it."""
    report, storage = CompactionReport(), dict(options.storage_options)
    for kind in KINDS:
        uri = f"{table_uri(root)}/{kind}"
        if not DeltaTable.is_deltatable(uri, storage):
            continue
        try:
            table = DeltaTable(uri, storage_options=storage)
            for partition in partitions_to_merge(_list_files(table), now=now, options=options):
                _merge_partition(table, partition, options, report)
                on_group(report)
            table.vacuum(
                retention_hours=int(options.retention.total_seconds() // _HOUR_S),
                dry_run=False,
                # The check refuses less than the table's default of a week, but the operator chose this value.
                enforce_retention_duration=False,
            )
        except DeltaError as error:
            raise LakeBroken(f"table {uri} could not be compacted: {error}") from error
    return report


def partitions_to_merge(
    files: Sequence[Mapping[str, Any]], *, now: datetime, options: "CompactionOptions"
) -> list[TablePartition]:
    """Partitions whose hour ended long enough ago, with enough small files."""
    small: defaultdict[TablePartition, int] = defaultdict(int)
    for file in files:
        if is_small(file["size_bytes"], options):
            small[TablePartition(file["partition.topic"], file["partition.date"], file["partition.hour"])] += 1
    return [
        partition
        for partition, count in sorted(small.items())
        if count >= options.min_files and hour_has_ended(partition.date, partition.hour, now - options.older_than)
    ]


def _list_files(table: DeltaTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return found


def _merge_partition(
    table: DeltaTable, partition: TablePartition, options: "CompactionOptions", report: CompactionReport
) -> None:
    found = table.optimize.compact(partition_filters=partition.delta_filters(), target_size=options.target_bytes)
    report.partitions += 1
    report.removed += found["numFilesRemoved"]
    report.added += found["numFilesAdded"]
    report.bytes += json.loads(found["filesRemoved"])["totalSize"]
