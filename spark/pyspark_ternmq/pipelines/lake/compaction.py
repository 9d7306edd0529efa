"""Small files of a lake merged into larger ones, each row exactly once, whatever moment it is killed in.

Merge       the files of a group are read and written as one, into _staging/compact-<id>/; the rows of both are counted.
Commit      _commits/compact-<id>.json names the file to add and those to remove; before it, nothing has changed.
Swap        the merged file is renamed into place, the small ones are deleted, staging and manifest go. Who comes next
            finishes a swap whose manifest is there.
Readers     who lists a partition between the rename and the last delete sees old files and the new one: rows twice,
            never none. That takes a few calls to the file system, and `_commits/compact-*.json` is there for as long.
            Who listed the old files before and opens them after is told by Spark that a file is gone, and reads anew.
Beside      the lake pipeline needs no lock: it only adds files, and those of its unfinished batch are left alone.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark_ternmq.pipelines.files import FileEntry
from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.lake.commits import (
    COMMITS,
    COMPACTION,
    FILE_SUFFIX,
    KINDS,
    MANIFEST_VERSION,
    STAGING,
    LakeBroken,
    is_compaction,
    is_data,
    move_all,
)
from pyspark_ternmq.pipelines.lake.compaction_plan import planned
from pyspark_ternmq.pipelines.lake.lock import CompactionLock, Owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_ternmq.pipelines.files import Files
    from pyspark_ternmq.pipelines.lake.compaction_plan import Group
    from pyspark_ternmq.pipelines.lake.options import CompactionOptions

# Merges a group's files, full paths, into a folder.
Merge = Callable[[Sequence[str], str], None]


@dataclass(slots=True, kw_only=True)
class CompactionReport:
    """What one run did: small files that went, larger ones that came."""

    partitions: int = 0
    removed: int = 0
    added: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A committed merge: files below the lake's folder."""

    name: str
    moves: Sequence[tuple[str, str]]
    remove: Sequence[str]

    def to_json(self) -> str:
        moves = [list(move) for move in self.moves]
        return json.dumps({"version": MANIFEST_VERSION, "name": self.name, "moves": moves, "remove": list(self.remove)})

    @classmethod
    def from_json(cls, text: str) -> "Swap":
        found = json.loads(text)
        if found["version"] != MANIFEST_VERSION:
            raise LakeBroken(f"a manifest of version {found['version']}; this program knows {MANIFEST_VERSION}")
        return cls(name=found["name"], moves=[(old, new) for old, new in found["moves"]], remove=found["remove"])


def run(
    spark: "SparkSession",
    out: str,
    options: "CompactionOptions",
    *,
    now: datetime | None = None,
    on_group: Callable[[CompactionReport], None] = lambda report: None,
) -> CompactionReport:
    """Compact a lake; CompactionLocked if somebody else does. `on_group` hears of each merge."""
    files = HadoopFiles(spark)
    with compactor(files, files.qualified(out), Owner.this_process()) as compaction:
        return compaction.run(options, _merge_by(spark), now=now or datetime.now(UTC), on_group=on_group)


@contextmanager
def compactor(files: "Files", root: str, owner: Owner) -> "Iterator[Compaction]":
    """The one compaction of a lake, after what an earlier one left is in order."""
    with CompactionLock(files, root, owner) as lock:
        compaction = Compaction(files, root, lock)
        compaction.heal()
        yield compaction


class Compaction:
    """Merges groups of files, one after the other. Invariant: between groups there is no manifest and no staging."""

    def __init__(self, files: "Files", root: str, lock: CompactionLock) -> None:
        self._files, self._root, self._lock = files, root, lock

    def heal(self) -> None:
        """Finish swaps that were committed, remove merges that were not."""
        for entry in self._files.files_below(self._at(COMMITS)):
            if is_compaction(entry.path):
                if entry.path.endswith(".json"):
                    self._finish(Swap.from_json(self._files.read(self._at(COMMITS, entry.path))))
                else:
                    self._files.delete(self._at(COMMITS, entry.path))
        for name in self._files.folders_in(self._at(STAGING)):
            if is_compaction(name):
                self._files.delete(self._at(STAGING, name))

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
        for group in planned(self._files_of_lake(), unfinished=self._unfinished(), now=now, options=options):
            self._lock.renew()
            self._swap(group, merge)
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
            for entry in self._files.files_below(self._at(kind))
        ]

    def _unfinished(self) -> set[str]:
        return set(self._files.folders_in(self._at(STAGING)))

    def _swap(self, group: "Group", merge: Merge) -> None:
        name = f"{COMPACTION}{uuid.uuid4().hex}"
        staging = self._at(STAGING, name)
        merge([self._at(path) for path in group.paths], staging)
        merged = [entry.path for entry in self._files.files_below(staging) if is_data(entry.path)]
        moves = [
            (f"{STAGING}/{name}/{path}", f"{group.partition}/{name}-{number:05d}{FILE_SUFFIX}")
            for number, path in enumerate(merged, start=1)
        ]
        swap = Swap(name=name, moves=moves, remove=group.paths)
        # The merge may have taken long.
        self._lock.renew()
        self._files.create(self._manifest_path(f"{name}.new"), swap.to_json())
        self._files.rename(self._manifest_path(f"{name}.new"), self._manifest_path(f"{name}.json"))
        self._finish(swap)

    def _finish(self, swap: Swap) -> None:
        if self._files.exists(self._at(STAGING, swap.name)):
            move_all(self._files, self._root, swap.moves)
        for path in swap.remove:
            self._files.delete(self._at(path))
        self._files.delete(self._at(STAGING, swap.name))
        self._files.delete(self._manifest_path(f"{swap.name}.json"))

    def _manifest_path(self, name: str) -> str:
        return self._at(COMMITS, name)

    def _at(self, *names: str) -> str:
        return "/".join((self._root, *names))


def _merge_by(spark: "SparkSession") -> Merge:
    def merge(paths: Sequence[str], folder: str) -> None:
        # The names of folders are no columns here: only files are named.
        rows = spark.read.option("mergeSchema", "true").parquet(*paths)
        writer = rows.coalesce(1).write.option("compression", "zstd")
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
        before, after = rows.count(), spark.read.parquet(folder).count()
        if before != after:
            raise LakeBroken(f"{before} rows became {after} in a merge, so nothing was replaced: {paths[0]} and others")

    return merge
