"""Merges small files of a lake into larger ones; each row stays exactly once, even if it is killed at any moment.

Merge       the files of a group are read and written as one, into _staging/compact-<id>/; the rows of both are counted.
Commit      _commits/compact-<id>.json names the file to add and those to remove; before it, nothing has changed.
Swap        the merged file is renamed into place, the small ones are deleted, staging and manifest are removed. The
            next run finishes a swap whose manifest is there.
Readers     that list a partition between the rename and the last delete see old files and the new one: rows twice,
            never none. That takes a few calls to the file system, while `_commits/compact-*.json` exists. For readers
            that listed the old files before, and open them after, Spark reports a missing file; they have to read
            again.
Beside      the lake pipeline needs no lock: it only adds files, and those of its unfinished batch are left alone.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark_ternmq.pipelines.files import FileEntry, read_if_there
from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.lake.commits import (
    COMMITS,
    COMPACTION,
    FILE_SUFFIX,
    KINDS,
    MANIFEST_VERSION,
    STAGING,
    LakeBroken,
    checked_version,
    is_compaction,
    is_data,
    is_manifest,
    move_all,
    staged_batch,
)
from pyspark_ternmq.pipelines.lake.compaction_plan import plan_groups
from pyspark_ternmq.pipelines.lake.lock import COMPACTION_LOCK, FolderLock, LockOwner, publish_file, withdraw_files
from pyspark_ternmq.pipelines.lake.options import NO_ICEBERG_COMPACTION, CompactionReport
from pyspark_ternmq.pipelines.lake.tables.marker import WrongFormat, format_of
from pyspark_ternmq.pipelines.lake.tables.opening import check_installed
from pyspark_ternmq.pipelines.sessions.settings import PARQUET_SETTINGS, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_ternmq.pipelines.files import FileSystem
    from pyspark_ternmq.pipelines.lake.compaction_plan import FileGroup
    from pyspark_ternmq.pipelines.lake.options import CompactionOptions

LOCK = "_locks/compaction"
# Merges a group's files, full paths, into a folder.
Merge = Callable[[Sequence[str], str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSwap:
    """A committed merge: files below the lake's folder."""

    name: str
    moves: Sequence[tuple[str, str]]
    remove: Sequence[str]

    def to_json(self) -> str:
        moves = [list(move) for move in self.moves]
        return json.dumps({"version": MANIFEST_VERSION, "name": self.name, "moves": moves, "remove": list(self.remove)})

    @classmethod
    def from_json(cls, text: str) -> "FileSwap":
        found = checked_version(json.loads(text))
        return cls(name=found["name"], moves=[(old, new) for old, new in found["moves"]], remove=found["remove"])


def run(
    spark: "SparkSession",
    out: str,
    options: "CompactionOptions",
    *,
    now: datetime | None = None,
    on_group: Callable[[CompactionReport], None] = lambda report: None,
) -> CompactionReport:
    """Compact a lake. `on_group` hears of each merge.

    Locked if somebody else does it, WrongFormat for Iceberg.
    """
    files = HadoopFiles(spark)
    root, now = files.qualify_path(out), now or datetime.now(UTC)
    found = format_of(files, root)
    if found == "iceberg":
        raise WrongFormat(NO_ICEBERG_COMPACTION)
    if found == "delta":
        check_installed(found)
        from pyspark_ternmq.pipelines.lake.tables.delta_compaction import compact_delta

        return compact_delta(root, options, now=now, on_group=on_group)
    with open_compaction(files, root, LockOwner.this_process()) as compaction:
        return compaction.run(options, _merge_by(spark), now=now, on_group=on_group)


@contextmanager
def open_compaction(files: "FileSystem", root: str, owner: LockOwner) -> "Iterator[LakeCompaction]":
    """The one compaction of a lake, after what an earlier one left is in order."""
    with FolderLock(files, f"{root}/{LOCK}", owner, COMPACTION_LOCK) as lock:
        compaction = LakeCompaction(files, root, lock)
        compaction.finish_swaps()
        yield compaction


class LakeCompaction:
    """Merges groups of files, one after the other. Invariant: between groups there is no manifest and no staging."""

    def __init__(self, files: "FileSystem", root: str, lock: FolderLock) -> None:
        self._files, self._root, self._lock = files, root, lock

    def finish_swaps(self) -> None:
        """Finish swaps that were committed, remove merges that were not."""
        # First: from here on nothing can appear but by this process.
        unpublished = [self._path_of(COMMITS, name) for name in self._list_manifests() if not is_manifest(name)]
        withdraw_files(self._files, self._lock, unpublished)
        for name in self._list_manifests():
            # A compaction that slept may wake and finish it first.
            if is_manifest(name) and (text := read_if_there(self._files, self._path_of(COMMITS, name))) is not None:
                self._finish_swap(FileSwap.from_json(text))
        staged = [name for name in self._files.folders_in(self._path_of(STAGING)) if is_compaction(name)]
        withdraw_files(self._files, self._lock, [self._path_of(STAGING, name) for name in staged])

    def run(
        self,
        options: "CompactionOptions",
        merge: Merge,
        *,
        now: datetime,
        on_group: Callable[[CompactionReport], None] = lambda report: None,
    ) -> CompactionReport:
        """Merge what the plan says."""
        report, partitions = CompactionReport(), set[str]()
        for group in plan_groups(self._files_of_lake(), unfinished=self._unfinished_files(), now=now, options=options):
            self._lock.renew_lock()
            self._swap_group(group, merge)
            partitions.add(group.partition)
            report.partitions = len(partitions)
            report.removed += len(group.paths)
            report.added += 1
            report.bytes += group.size_bytes
            on_group(report)
        return report

    def _files_of_lake(self) -> list[FileEntry]:
        """Listed before the batches that are not finished are: a file that appears in between is not in the list."""
        return [
            FileEntry(path=f"{kind}/{entry.path}", size_bytes=entry.size_bytes)
            for kind in KINDS
            for entry in self._files.files_below(self._path_of(kind))
        ]

    def _unfinished_files(self) -> set[str]:
        return {staged_batch(name) for name in self._files.folders_in(self._path_of(STAGING))}

    def _list_manifests(self) -> list[str]:
        """Files about compactions, also such as are no manifests yet."""
        names = [entry.path for entry in self._files.files_below(self._path_of(COMMITS))]
        return [name for name in names if is_compaction(name)]

    def _swap_group(self, group: "FileGroup", merge: Merge) -> None:
        name = f"{COMPACTION}{uuid.uuid4().hex}"
        staging = self._path_of(STAGING, name)
        merge([self._path_of(path) for path in group.paths], staging)
        merged = [entry.path for entry in self._files.files_below(staging) if is_data(entry.path)]
        moves = [
            (f"{STAGING}/{name}/{path}", f"{group.partition}/{name}-{number:05d}{FILE_SUFFIX}")
            for number, path in enumerate(merged, start=1)
        ]
        swap = FileSwap(name=name, moves=moves, remove=group.paths)
        publish_file(self._files, self._lock, self._manifest_path(f"{name}.json"), swap.to_json())
        self._finish_swap(swap)

    def _finish_swap(self, swap: FileSwap) -> None:
        move_all(self._files, self._root, swap.name, swap.moves)
        for path in swap.remove:
            self._files.delete(self._path_of(path))
        self._files.delete(self._manifest_path(f"{swap.name}.json"))

    def _manifest_path(self, name: str) -> str:
        return self._path_of(COMMITS, name)

    def _path_of(self, *names: str) -> str:
        return "/".join((self._root, *names))


def _merge_by(spark: "SparkSession") -> Merge:
    def merge_files(paths: Sequence[str], folder: str) -> None:
        # The names of folders are no columns here: only files are named.
        rows = spark.read.option("mergeSchema", "true").parquet(*paths)
        writer = rows.coalesce(1).write.option("compression", "zstd")
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        with session_settings(spark, PARQUET_SETTINGS):
            writer.parquet(folder)
        before, after = rows.count(), spark.read.parquet(folder).count()
        if before != after:
            raise LakeBroken(f"{before} rows became {after} in a merge, so nothing was replaced: {paths[0]} and others")

    return merge_files
