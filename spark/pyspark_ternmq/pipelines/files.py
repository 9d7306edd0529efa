"""Files as a pipeline sees them: what it needs of a file system, whichever it is.

Paths       text, `/` between names, as Hadoop's `Path` writes them: never quoted, never decoded.
Atomic      `rename` of one file, and `create`: the new name is there whole or not at all. Object stores that can do
            without a rename (S3) copy and delete; a crash in between leaves both, and the next rename removes the old.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file below a folder: its path from there on.

    `mark` tells it from another file of the same name: the etag that a store has for its content, or when it changed.
    """

    path: str
    size_bytes: int
    mark: str = ""


class FileSystem(Protocol):
    """File operations of a lake; each raises OSError if it fails."""

    def qualify_path(self, path: str) -> str:
        """The path with scheme and host, without a slash at its end."""

    def exists(self, path: str) -> bool: ...

    def find_matching(self, pattern: str) -> Sequence[str]:
        """Return the paths that match a pattern, with `*`, `?`, `[ab]` and `{a,b}`; sorted."""

    def files_below(self, folder: str, *, with_marks: bool = False) -> Sequence[FileEntry]:
        """All files below a folder, sorted by path; none if it is not there. Of a file, itself with its whole path."""

    def folders_in(self, folder: str) -> Sequence[str]:
        """Names of the folders right in a folder, sorted; none if it is not there."""

    def create(self, path: str, text: str) -> None:
        """A new file; FileExistsError if it is there."""

    def read(self, path: str) -> str: ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file; the folder of the new name is created if it does not exist."""

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens if it is not there."""

    def modified_ms(self, path: str) -> int:
        """When a file changed last, in milliseconds since 1970."""

    def row_count(self, path: str) -> int:
        """How many rows a Parquet file has, by its footer."""


def read_if_there(files: FileSystem, path: str) -> str | None:
    """A file's text; None if it does not exist any more, since another process removed it."""
    try:
        return files.read(path)
    except OSError:
        if files.exists(path):
            raise
        return None
