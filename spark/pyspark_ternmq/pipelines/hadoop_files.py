"""Files through Hadoop's FileSystem, in Spark's own Java process: local paths, HDFS, S3 and what else Spark can write.

Needs a session with a Java process of its own: Spark Connect has none here.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark_ternmq.pipelines.files import FileEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Objects of Java have no types here.
Java = Any


class HadoopFiles:
    """Implements `Files`."""

    def __init__(self, spark: "SparkSession") -> None:
        context = spark.sparkContext
        assert context._jvm is not None  # noqa: SLF001 - there is no public way to Hadoop's FileSystem
        self._hadoop: Java = context._jvm.org.apache.hadoop  # noqa: SLF001
        self._configuration: Java = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def qualified(self, path: str) -> str:
        """The path with scheme and host, without a slash at its end."""
        with _errors(path):
            found: str = self._system(path).makeQualified(self._path(path)).toString()
        return found.rstrip("/")

    def exists(self, path: str) -> bool:
        with _errors(path):
            return bool(self._system(path).exists(self._path(path)))

    def files_below(self, folder: str) -> Sequence[FileEntry]:
        folder = self.qualified(folder)
        if not self.exists(folder):
            return []
        entries = []
        with _errors(folder):
            found = self._system(folder).listFiles(self._path(folder), True)
            while found.hasNext():
                status = found.next()
                path: str = status.getPath().toString()
                entries.append(FileEntry(path=path.removeprefix(folder + "/"), size_bytes=status.getLen()))
        return sorted(entries, key=lambda entry: entry.path)

    def folders_in(self, folder: str) -> Sequence[str]:
        if not self.exists(folder):
            return []
        with _errors(folder):
            found = self._system(folder).listStatus(self._path(folder))
            return sorted(status.getPath().getName() for status in found if status.isDirectory())

    def create(self, path: str, text: str) -> None:
        with _errors(path):
            stream = self._system(path).create(self._path(path), False)
            try:
                stream.write(text.encode())
            finally:
                stream.close()

    def read(self, path: str) -> str:
        with _errors(path):
            stream = self._system(path).open(self._path(path))
            try:
                content: bytes = bytes(stream.readAllBytes())
            finally:
                stream.close()
        return content.decode()

    def rename(self, old: str, new: str) -> None:
        with _errors(new):
            system, target = self._system(new), self._path(new)
            system.mkdirs(target.getParent())
            # It answers false for most of what can go wrong, and says no more.
            if not system.rename(self._path(old), target):
                raise OSError(f"{old} could not be renamed to {new}")

    def delete(self, path: str) -> None:
        with _errors(path):
            self._system(path).delete(self._path(path), True)

    def modified_ms(self, path: str) -> int:
        with _errors(path):
            return int(self._system(path).getFileStatus(self._path(path)).getModificationTime())

    def touch(self, path: str) -> None:
        with _errors(path):
            self._system(path).setTimes(self._path(path), time.time_ns() // 1_000_000, -1)

    def _path(self, path: str) -> Java:
        return self._hadoop.fs.Path(path)

    def _system(self, path: str) -> Java:
        # Hadoop keeps one for each scheme and host.
        return self._path(path).getFileSystem(self._configuration)


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Java's exceptions as Python's."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        text = f"{path}: {cause.toString()}"
        if cause.getClass().getSimpleName() == "FileAlreadyExistsException":
            raise FileExistsError(text) from None
        raise OSError(text) from None
