"""Plain files at a path: those that Spark would read, by name and size. Pure but for `FileSystem`."""

from typing import TYPE_CHECKING

from pyspark_ternmq.pipelines.lake.registration import partition_values
from pyspark_ternmq.pipelines.snapshots.finding import WrongSource, check_no_table
from pyspark_ternmq.pipelines.snapshots.snapshot import LiveFile, SourceSnapshot

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileEntry, FileSystem


class FolderSource:
    """Implements `SnapshotSource`: all visible files below a folder, or one file."""

    def __init__(self, files: "FileSystem", path: str) -> None:
        self._files, self._path = files, path

    def take_snapshot(self, version: int | None = None) -> SourceSnapshot:
        """WrongSource if there is no file, or a table somewhere below."""
        assert version is None, "files have no versions"
        path, entries = self._path, self._files.files_below(self._path, with_marks=True)
        check_no_table(path, entries)
        found = [_live_file(path, entry) for entry in entries if is_visible(entry.path.removeprefix(path))]
        if not found:
            raise WrongSource(f"there are no files at {path}")
        return SourceSnapshot(path=path, files=found)

    def changes_since(self, version: int) -> list[str]:
        """Files have no history."""
        raise AssertionError(f"files have no version {version}")


def _live_file(path: str, entry: "FileEntry") -> LiveFile:
    whole = entry.path if entry.path == path else f"{path}/{entry.path}"
    return LiveFile(path=whole, size_bytes=entry.size_bytes, mark=entry.mark, values=partition_values(whole))


def is_visible(path: str) -> bool:
    """Whether Spark reads a file below a folder: names with `_` or `.` before them are somebody's own."""
    return not any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in path.split("/"))
