"""Files of this machine as pipelines see them, without Java."""

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from pyspark_ternmq.pipelines.files import FileEntry


class LocalFiles:
    """Implements of `FileSystem` what looks and changes nothing."""

    def qualify_path(self, path: str) -> str:
        return f"file:{_local(path)}".rstrip("/")

    def exists(self, path: str) -> bool:
        return _local(path).exists()

    def find_matching(self, pattern: str) -> Sequence[str]:
        return sorted(f"file:{path}" for path in glob(str(_local(pattern))))  # noqa: PTH207 - a whole path

    def files_below(self, folder: str, *, with_marks: bool = False) -> Sequence[FileEntry]:
        root = _local(folder)
        return [
            FileEntry(
                path=str(path.relative_to(root)),
                size_bytes=path.stat().st_size,
                mark=str(path.stat().st_mtime_ns) if with_marks else "",
            )
            for path in sorted(root.rglob("*"))
            if path.is_file()
        ]

    def read(self, path: str) -> str:
        return _local(path).read_text()


def _local(path: str) -> Path:
    return Path(path.removeprefix("file:"))
