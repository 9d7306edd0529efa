"""Commits batches to plain files exactly once, even if a process is killed at any moment.

Layout      _staging/<query>-<batch>.<try>/kind=data/topic=T/...   what a batch writes, hidden from readers
            _commits/<query>-<batch>.json                          its manifest: the place of each staged file
            data/topic=T/...  late/...  malformed/...              what readers see
Tables      a format that keeps lists of its files (`tables/`) gets them when they are at their places.
Commit      is the rename that gives the manifest its name. Without a manifest the staged files are deleted, and the
            batch is written again. With it the batch is committed: its files are renamed into place, by the next
            process if need be.
Counted     staged files must have as many rows as were counted while they were written. Otherwise the batch fails,
            nothing is committed, and the next run writes it again.
Finished    a batch whose staging folders are gone. Its files are no longer renamed, so compaction may merge them; it
            leaves files of other batches alone.
One writer  has the lock of the query's checkpoint. A writer that slept and lost the lock stages into its own folder,
            and can't commit (`lock.publish`).
Bounded     batches of a query come in order: a manifest covers all before it, and they are removed when it is
            finished. So there is one manifest for each query, two for a moment.
Query       the id in Spark's checkpoint: two checkpoints never meet, and a folder can take several.

Pure but for `FileSystem`; tests let it crash after each of its steps.
"""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark_ternmq.pipelines.files import read_if_there
from pyspark_ternmq.pipelines.lake.lock import publish_file, withdraw_files
from pyspark_ternmq.pipelines.lake.registration import PlainFiles

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileSystem
    from pyspark_ternmq.pipelines.lake.lock import FolderLock
    from pyspark_ternmq.pipelines.lake.registration import LakeTables

STAGING, COMMITS = "_staging", "_commits"
# Before 2 a batch had one staging folder, without a try in its name.
MANIFEST_VERSION, MANIFEST_VERSIONS = 2, (1, 2)
KINDS = ("data", "late", "malformed")
COMPACTION = "compact-"
# Before the names of staged folders whose values are columns of the files as well.
BESIDE = "_"


class LakeBroken(Exception):
    """Files are not what they should be: somebody removed one, say; or a table or a marker can't be read or changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchManifest:
    """A committed batch: moves of files below the lake's folder, and how many rows of each kind they have."""

    query: str
    batch: int
    staging: str
    """The name of the folder in `_staging` from which the files are moved."""
    moves: Sequence[tuple[str, str]]
    rows: Mapping[str, int] = field(default_factory=dict)
    taken_ms: int = 0
    """The pipeline's time when it took the batch; 0 if it had no rows, or remembers no ids."""

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": MANIFEST_VERSION,
                "query": self.query,
                "batch": self.batch,
                "staging": self.staging,
                "rows": dict(self.rows),
                "taken_ms": self.taken_ms,
                "moves": [list(move) for move in self.moves],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "BatchManifest":
        found = checked_version(json.loads(text))
        query, batch = found["query"], found["batch"]
        return cls(
            query=query,
            batch=batch,
            staging=found.get("staging", batch_name(query, batch)),
            moves=[(old, new) for old, new in found["moves"]],
            rows=found["rows"],
            taken_ms=found["taken_ms"],
        )


class BatchCommits:
    """The batches of one query in a lake's folder, for the process that has the lock of its checkpoint.

    Invariant: between calls, every manifest of the query but the last is finished.
    """

    def __init__(
        self, files: "FileSystem", root: str, query: str, lock: "FolderLock", tables: "LakeTables | None" = None
    ) -> None:
        self._files, self._root, self._query, self._lock = files, root, query, lock
        self._tables = tables or PlainFiles()

    def finish_commits(self) -> None:
        """Finish what a process that ended had committed, and remove what it had not."""
        # First: from here on nothing can appear but by this process.
        withdraw_files(self._files, self._lock, self._unpublished_manifests())
        numbers = self._committed_batches()
        for number in numbers:
            self._finish_batch(number)
        if numbers:
            self._remove_before(numbers[-1])
        withdraw_files(self._files, self._lock, self._staged_folders())

    def is_committed(self, batch: int) -> bool:
        """Whether the batch, or one after it, was committed; then it is finished as well."""
        numbers = self._committed_batches()
        if not numbers or numbers[-1] < batch:
            return False
        self._finish_batch(numbers[-1])
        return True

    def commit(self, batch: int, write: Callable[[str], tuple[Mapping[str, int], int]]) -> BatchManifest:
        """Have `write` put the batch's files into a folder, then publish them.

        `write` says how many rows of each kind there are, and when they were taken. LakeBroken if files have others.
        """
        self._lock.check_owner()
        staging = f"{batch_name(self._query, batch)}.{uuid.uuid4().hex}"
        rows, taken_ms = write(self._path_of(STAGING, staging))
        moves = self._plan_moves(batch, staging)
        self._check_rows(batch, rows, moves)
        manifest = BatchManifest(
            query=self._query, batch=batch, staging=staging, moves=moves, rows=rows, taken_ms=taken_ms
        )
        publish_file(self._files, self._lock, self._manifest_path(batch), manifest.to_json())
        self._move_batch(manifest)
        self._remove_before(batch)
        return manifest

    def _plan_moves(self, batch: int, staging: str) -> list[tuple[str, str]]:
        name = batch_name(self._query, batch)
        staged = [
            entry.path for entry in self._files.files_below(self._path_of(STAGING, staging)) if is_data(entry.path)
        ]
        return [
            (f"{STAGING}/{staging}/{path}", final_path(path, name, number))
            for number, path in enumerate(staged, start=1)
        ]

    def _check_rows(self, batch: int, rows: Mapping[str, int], moves: Sequence[tuple[str, str]]) -> None:
        staged = Counter[str]()
        for old, new in moves:
            staged[new.partition("/")[0]] += self._files.row_count(self._path_of(old))
        if staged != Counter(rows):
            raise LakeBroken(
                f"batch {batch} has {_describe_counts(rows)}, and its staged files have {_describe_counts(staged)}: "
                "nothing of it was committed, and the next run writes it again"
            )

    def _finish_batch(self, batch: int) -> None:
        text = read_if_there(self._files, self._manifest_path(batch))
        # Otherwise a process that woke has just removed it, as a finished one.
        if text is not None:
            self._move_batch(BatchManifest.from_json(text))

    def _move_batch(self, manifest: BatchManifest) -> None:
        def register_files() -> None:
            self._tables.register_batch(manifest)

        move_all(self._files, self._root, manifest.staging, manifest.moves, then=register_files)

    def _remove_before(self, batch: int) -> None:
        for number in self._committed_batches():
            if number < batch:
                self._files.delete(self._manifest_path(number))

    def _committed_batches(self) -> list[int]:
        numbers = (
            batch_of(name.removesuffix(".json"), self._query) for name in self._list_manifests() if is_manifest(name)
        )
        return sorted(number for number in numbers if number is not None)

    def _unpublished_manifests(self) -> list[str]:
        return [self._path_of(COMMITS, name) for name in self._list_manifests() if not is_manifest(name)]

    def _list_manifests(self) -> list[str]:
        """Files about batches of this query, also such as are no manifests yet."""
        names = [entry.path for entry in self._files.files_below(self._path_of(COMMITS))]
        return [name for name in names if batch_of(staged_batch(name), self._query) is not None]

    def _staged_folders(self) -> list[str]:
        names = self._files.folders_in(self._path_of(STAGING))
        return [self._path_of(STAGING, name) for name in names if batch_of(staged_batch(name), self._query) is not None]

    def _manifest_path(self, batch: int) -> str:
        return self._path_of(COMMITS, f"{batch_name(self._query, batch)}.json")

    def _path_of(self, *names: str) -> str:
        return "/".join((self._root, *names))


def last_taken_ms(files: "FileSystem", root: str) -> int:
    """The latest time in the manifests of all queries; 0 if there is none."""
    folder = f"{root}/{COMMITS}"
    names = [entry.path for entry in files.files_below(folder) if is_manifest(entry.path)]
    texts = (read_if_there(files, f"{folder}/{name}") for name in names if not is_compaction(name))
    return max((BatchManifest.from_json(text).taken_ms for text in texts if text is not None), default=0)


def is_compaction(name: str) -> bool:
    """Whether a name in the folders of staging and commits is a compaction's, not a batch's."""
    return name.startswith(COMPACTION)


def is_manifest(name: str) -> bool:
    """Return whether a file of `_commits` was published; until then its name is longer."""
    return name.endswith(".json")


def checked_version(found: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the checked manifest of a batch or a compaction. Raises LakeBroken if a later version wrote it."""
    if found["version"] not in MANIFEST_VERSIONS:
        known = MANIFEST_VERSION
        raise LakeBroken(f"a manifest of version {found['version']}; this program knows those up to {known}")
    return found


def move_all(
    files: "FileSystem",
    root: str,
    staging: str,
    moves: Sequence[tuple[str, str]],
    *,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Rename what has not been renamed yet, do `then`, and remove the staging folder; without it all of that was done.

    LakeBroken if a file is at neither place. One that slept may wake and do the same at the same time.
    """
    folder = f"{root}/{STAGING}/{staging}"
    if not files.exists(folder):
        # Nothing is looked up: compaction may have replaced the files since.
        return
    try:
        for old, new in moves:
            _move_files(files, root, old, new)
        then()
    except (LakeBroken, OSError):
        if files.exists(folder):
            raise
    files.delete(folder)


def _move_files(files: "FileSystem", root: str, old: str, new: str) -> None:
    old_path, new_path = f"{root}/{old}", f"{root}/{new}"
    if files.exists(new_path):
        # Where a rename is a copy, it may have been cut off before the old one was gone.
        files.delete(old_path)
        return
    try:
        files.rename(old_path, new_path)
    except OSError:
        if files.exists(new_path):
            return
        if files.exists(old_path):
            raise
        raise LakeBroken(f"{new} was committed, and is neither there nor at {old}") from None


def batch_name(query: str, batch: int) -> str:
    return f"{query}-{batch}"


def staged_batch(name: str) -> str:
    """The batch's name in that of a staging folder, or of a file in `_commits`."""
    return name.partition(".")[0]


def batch_of(name: str, query: str) -> int | None:
    """The batch number in a name from `batch_name` for this query; None for any other name."""
    prefix, _, number = name.rpartition("-")
    return int(number) if prefix == query and number.isascii() and number.isdigit() else None


def is_data(path: str) -> bool:
    """Whether a file has rows: not what Spark or a file system adds, such as `_SUCCESS`."""
    return not path.rsplit("/", 1)[-1].startswith(("_", "."))


def final_path(staged: str, name: str, number: int) -> str:
    """`kind=data/topic=T/date=D/hour=H/part-...` as `data/topic=T/date=D/hour=H/NAME-00001.zstd.parquet`.

    The last folder's name says which batch the file belongs to, see `batch_of_file`.
    """
    kind, *partition, _ = staged.split("/")
    partition = [folder.removeprefix(BESIDE) for folder in partition]
    return "/".join((kind.removeprefix("kind="), *partition, f"{name}-{number:05d}{FILE_SUFFIX}"))


def _describe_counts(rows: Mapping[str, int]) -> str:
    return " + ".join(f"{count:,} {kind}" for kind, count in sorted(rows.items()) if count) or "no rows"


FILE_SUFFIX = ".zstd.parquet"


def batch_of_file(path: str) -> str:
    """The name of the batch, or of the compaction, that a file came with."""
    return path.rsplit("/", 1)[-1].removesuffix(FILE_SUFFIX).rpartition("-")[0]
