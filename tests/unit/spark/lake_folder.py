"""A lake's folder in memory, in which a process can die after any step, and what stands for Spark in front of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch

from pyspark_ternmq.pipelines.files import FileEntry
from pyspark_ternmq.pipelines.lake.commits import KINDS, BatchCommits
from pyspark_ternmq.pipelines.lake.compaction import LOCK, LakeCompaction
from pyspark_ternmq.pipelines.lake.lock import (
    CHECKPOINT_LOCK,
    COMPACTION_LOCK,
    HALF_WRITTEN_AFTER_MS,
    FolderLock,
    LockOwner,
    LockPurpose,
)
from pyspark_ternmq.pipelines.lake.options import CompactionOptions
from pyspark_ternmq.pipelines.lake.registration import LakeTables

ROOT, QUERY, CHECKPOINT = "/lake", "query-1", "/checkpoint"
PARTITION = "topic=orders/date=2026-08-01/hour=07"
NOW = datetime(2026, 8, 2, tzinfo=UTC)
COMPACTION = CompactionOptions(older_than=timedelta(hours=1), target_bytes=1000, min_files=2)


class Killed(Exception):
    """The process ends here."""


class MemoryFiles:
    """Implements `FileSystem`. After `steps` changes the next one is done, and its caller dies; never by default."""

    def __init__(self) -> None:
        self.content: dict[str, str] = {}
        self.folders: set[str] = set()
        self.changed_ms: dict[str, int] = {}
        self.now_ms = 0
        self.steps: int | None = None

    def exists(self, path: str) -> bool:
        self.begin()
        return path in self.content or path in self.folders

    def qualify_path(self, path: str) -> str:
        return path.rstrip("/")

    def find_matching(self, pattern: str) -> Sequence[str]:
        self.begin()
        # Simpler than Hadoop's: without braces, and an asterisk stands for slashes too.
        return sorted(path for path in (*self.folders, *self.content) if fnmatch(path, pattern))

    def files_below(self, folder: str, *, with_marks: bool = False) -> Sequence[FileEntry]:
        self.begin()
        return [
            FileEntry(
                path=path.removeprefix(f"{folder}/"),
                size_bytes=len(text),
                mark=str(self.changed_ms.get(path, 0)) if with_marks else "",
            )
            for path, text in sorted(self.content.items())
            if path.startswith(f"{folder}/") or path == folder
        ]

    def folders_in(self, folder: str) -> Sequence[str]:
        self.begin()
        return sorted(name.removeprefix(f"{folder}/") for name in self.folders if name.rpartition("/")[0] == folder)

    def create(self, path: str, text: str) -> None:
        self.begin()
        if path in self.content:
            raise FileExistsError(path)
        self._make_folders(path)
        self.content[path], self.changed_ms[path] = "", self.now_ms
        self.step()  # a file that is there, and empty, is what a crash in the middle of writing leaves
        if path in self.content:  # else it was removed while it was written
            self.content[path], self.changed_ms[path] = text, self.now_ms
        self.step()

    def read(self, path: str) -> str:
        self.begin()
        if path not in self.content:
            raise FileNotFoundError(path)
        return self.content[path]

    def rename(self, old: str, new: str) -> None:
        self.begin()
        if old not in self.content:
            raise FileNotFoundError(old)
        assert new not in self.content, "nothing is renamed over something"
        self._make_folders(new)
        self.content[new], self.changed_ms[new] = self.content.pop(old), self.changed_ms.get(old, 0)
        self.step()

    def delete(self, path: str) -> None:
        """A folder goes file by file, and itself last."""
        self.begin()
        for found in [path, *sorted(self.content)]:
            if found in self.content and (found == path or found.startswith(f"{path}/")):
                del self.content[found]
                self.step()
        below = {folder for folder in self.folders if folder == path or folder.startswith(f"{path}/")}
        # What somebody else made meanwhile keeps its folders.
        below = {folder for folder in below if not any(found.startswith(f"{folder}/") for found in self.content)}
        if below:
            self.folders -= below
            self.step()

    def modified_ms(self, path: str) -> int:
        self.begin()
        if path not in self.content:
            raise FileNotFoundError(path)
        return self.changed_ms[path]

    def row_count(self, path: str) -> int:
        """A row is a line."""
        return len(self.read(path).splitlines())

    def begin(self) -> None:
        """Before anything: who is dead does nothing any more, not even on the way out."""
        if self.steps is not None and self.steps < 0:
            raise Killed

    def step(self) -> None:
        """After each change."""
        if self.steps is not None:
            self.steps -= 1
            self.begin()

    def _make_folders(self, path: str) -> None:
        while path := path.rpartition("/")[0]:
            self.folders.add(path)


class Lake:
    """A lake whose files have rows as lines: the checkpoint of its query, and what a reader sees.

    One process after the other works on it, so each finds that the one before is gone; with `lives`, that it is there.
    """

    def __init__(self, files: MemoryFiles, query: str = QUERY, tables: LakeTables | None = None) -> None:
        self.files, self.query, self.tables = files, query, tables
        # What Spark knows: batches before this one ended.
        self.next_batch = 0
        self.processes = 0
        self.lives = False

    def write(self, until: int) -> None:
        """A process that runs the batches up to, not including, `until`, from where the checkpoint says."""
        with self.lock(f"{CHECKPOINT}/{self.query}", CHECKPOINT_LOCK) as lock:
            commits = BatchCommits(self.files, ROOT, self.query, lock, self.tables)
            commits.finish_commits()
            while self.next_batch < until:
                batch = self.next_batch
                if not commits.is_committed(batch):
                    commits.commit(batch, self.writer(batch))
                self.next_batch += 1

    def compact(self) -> None:
        """A process that compacts."""
        with self.lock(f"{ROOT}/{LOCK}", COMPACTION_LOCK) as lock:
            compaction = LakeCompaction(self.files, ROOT, lock)
            compaction.finish_swaps()
            compaction.run(COMPACTION, self.merge, now=NOW)

    def lock(self, folder: str, purpose: LockPurpose) -> FolderLock:
        self.processes += 1
        if not self.lives:
            # One that was killed as it wrote its lock is given that time.
            self.files.now_ms += HALF_WRITTEN_AFTER_MS + 1
        owner = LockOwner(host="here", pid=self.processes, started="", token=f"{self.query}-{self.processes}")
        return FolderLock(
            self.files, folder, owner, purpose, is_running=lambda _: self.lives, now_ms=lambda: self.files.now_ms
        )

    def rows(self) -> Counter[str]:
        """What a reader of the folders finds."""
        return Counter(line for kind in KINDS for line in self._lines(kind))

    def expected(self, until: int) -> Counter[str]:
        return Counter(line for batch in range(until) for line, _ in rows_of(self.query, batch))

    def _lines(self, kind: str) -> Iterator[str]:
        for path, text in self.files.content.items():
            if path.startswith(f"{ROOT}/{kind}/"):
                yield from text.splitlines()

    def writer(self, batch: int) -> Callable[[str], tuple[Mapping[str, int], int]]:
        """Stages the rows of a batch, as Spark does."""

        def write(folder: str) -> tuple[Mapping[str, int], int]:
            rows = rows_of(self.query, batch)
            for number, (line, kind) in enumerate(rows):
                self.files.create(f"{folder}/kind={kind}/{PARTITION}/part-{number}.parquet", line)
            return {kind: sum(kind == of_row for _, of_row in rows) for kind in KINDS}, 1000 + batch

        return write

    def merge(self, paths: Sequence[str], folder: str) -> None:
        self.files.create(f"{folder}/part-0.parquet", "\n".join(self.files.read(path) for path in paths))


def rows_of(query: str, batch: int) -> list[tuple[str, str]]:
    """The rows of a batch and their kinds: none in each fourth batch."""
    return [(f"{query}/{batch}/{number}", KINDS[number % 2]) for number in range(batch % 4)]
