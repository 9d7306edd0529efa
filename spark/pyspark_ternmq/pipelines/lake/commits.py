"""Batches into plain files, each exactly once, whatever moment a process is killed in.

Layout      _staging/<query>-<batch>/kind=data/topic=T/...   what a batch writes, seen by nobody
            _commits/<query>-<batch>.json                    its manifest: which staged file goes where
            data/topic=T/...  late/...  malformed/...        what readers see
Commit      the manifest's appearing under its name. Without it the batch never was: its staging is wiped, and it is
            written anew. With it the batch is: its files are renamed into place, by whoever comes next if need be.
Finished    a batch whose staging folder is gone. Nobody renames files for it any more, so that compaction may have
            them; files of a batch that is not finished it leaves alone.
Bounded     batches of a query come in order: a manifest stands for all before it, and they are removed when it is
            finished. So there is one manifest for each query, two for a moment.
Query       the id in Spark's checkpoint: two checkpoints never meet, and a folder can take several.

Pure but for `Files`; tests let it crash after each of its steps.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import Files

STAGING, COMMITS = "_staging", "_commits"
MANIFEST_VERSION = 1
KINDS = ("data", "late", "malformed")
COMPACTION = "compact-"


class LakeBroken(Exception):
    """A committed file is nowhere: somebody else removed it, or the file system lost it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A committed batch: moves of files below the lake's folder, and how many rows of each kind they have."""

    query: str
    batch: int
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
                "rows": dict(self.rows),
                "taken_ms": self.taken_ms,
                "moves": [list(move) for move in self.moves],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        found = json.loads(text)
        if found["version"] != MANIFEST_VERSION:
            raise LakeBroken(f"a manifest of version {found['version']}; this program knows {MANIFEST_VERSION}")
        moves = [(old, new) for old, new in found["moves"]]
        return cls(
            query=found["query"], batch=found["batch"], moves=moves, rows=found["rows"], taken_ms=found["taken_ms"]
        )


class Commits:
    """The batches of one query in a lake's folder.

    Invariant: between calls, every manifest of the query but the last is finished.
    """

    def __init__(self, files: "Files", root: str, query: str) -> None:
        self._files, self._root, self._query = files, root, query

    def heal(self) -> None:
        """Finish what a process that is gone had committed, and remove what it had not."""
        numbers = self._committed()
        for number in numbers:
            self._finish(self._manifest(number))
        if numbers:
            self._remove_before(numbers[-1])
        for name in self._files.folders_in(self._at(STAGING)):
            if batch_of(name, self._query) is not None:
                self._files.delete(self._at(STAGING, name))

    def is_committed(self, batch: int) -> bool:
        """Whether the batch, or one after it, was committed; then it is finished as well."""
        numbers = self._committed()
        if not numbers or numbers[-1] < batch:
            return False
        self._finish(self._manifest(numbers[-1]))
        return True

    def commit(self, batch: int, write: Callable[[str], tuple[Mapping[str, int], int]]) -> Manifest:
        """Let `write` put the batch's files into a folder, then make them count.

        `write` says how many rows of each kind there are, and when they were taken.
        """
        staging = self._at(STAGING, batch_name(self._query, batch))
        self._files.delete(staging)
        rows, taken_ms = write(staging)
        manifest = Manifest(query=self._query, batch=batch, moves=self._moves(batch), rows=rows, taken_ms=taken_ms)
        self._publish(manifest)
        self._finish(manifest)
        self._remove_before(batch)
        return manifest

    def _moves(self, batch: int) -> list[tuple[str, str]]:
        name = batch_name(self._query, batch)
        staged = [entry.path for entry in self._files.files_below(self._at(STAGING, name)) if is_data(entry.path)]
        return [
            (f"{STAGING}/{name}/{path}", final_path(path, name, number)) for number, path in enumerate(staged, start=1)
        ]

    def _publish(self, manifest: Manifest) -> None:
        path = self._manifest_path(manifest.batch)
        # What a crash left of an earlier try is no manifest yet.
        self._files.delete(f"{path}.new")
        self._files.create(f"{path}.new", manifest.to_json())
        self._files.rename(f"{path}.new", path)

    def _finish(self, manifest: Manifest) -> None:
        staging = self._at(STAGING, batch_name(manifest.query, manifest.batch))
        # Of a finished batch nothing is looked up: compaction may have replaced its files since.
        if self._files.exists(staging):
            move_all(self._files, self._root, manifest.moves)
            self._files.delete(staging)

    def _remove_before(self, batch: int) -> None:
        for number in self._committed():
            if number < batch:
                self._files.delete(self._manifest_path(number))

    def _committed(self) -> list[int]:
        numbers = []
        for entry in self._files.files_below(self._at(COMMITS)):
            name, _, kind = entry.path.partition(".")
            number = batch_of(name, self._query)
            if number is not None and kind == "json":
                numbers.append(number)
        return sorted(numbers)

    def _manifest(self, batch: int) -> Manifest:
        return Manifest.from_json(self._files.read(self._manifest_path(batch)))

    def _manifest_path(self, batch: int) -> str:
        return self._at(COMMITS, f"{batch_name(self._query, batch)}.json")

    def _at(self, *names: str) -> str:
        return "/".join((self._root, *names))


def last_taken_ms(files: "Files", root: str) -> int:
    """The latest time in the manifests of all queries; 0 if there is none."""
    folder = f"{root}/{COMMITS}"
    names = [entry.path for entry in files.files_below(folder) if entry.path.endswith(".json")]
    manifests = (Manifest.from_json(files.read(f"{folder}/{name}")) for name in names if not is_compaction(name))
    return max((manifest.taken_ms for manifest in manifests), default=0)


def is_compaction(name: str) -> bool:
    """Whether a name in the folders of staging and commits is a compaction's, not a batch's."""
    return name.startswith(COMPACTION)


def move_all(files: "Files", root: str, moves: Sequence[tuple[str, str]]) -> None:
    """Rename what has not been renamed yet. LakeBroken if a file is at neither place."""
    for old, new in moves:
        old_path, new_path = f"{root}/{old}", f"{root}/{new}"
        if files.exists(new_path):
            # Where a rename is a copy, it may have been cut off before the old one was gone.
            files.delete(old_path)
        elif files.exists(old_path):
            files.rename(old_path, new_path)
        else:
            raise LakeBroken(f"{new} was committed, and is neither there nor at {old}")


def batch_name(query: str, batch: int) -> str:
    return f"{query}-{batch}"


def batch_of(name: str, query: str) -> int | None:
    """The number in a name that `batch_name` made for this query; None for any other name."""
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
    return "/".join((kind.removeprefix("kind="), *partition, f"{name}-{number:05d}{FILE_SUFFIX}"))


FILE_SUFFIX = ".zstd.parquet"


def batch_of_file(path: str) -> str:
    """The name of the batch, or of the compaction, that a file came with."""
    return path.rsplit("/", 1)[-1].removesuffix(FILE_SUFFIX).rpartition("-")[0]
