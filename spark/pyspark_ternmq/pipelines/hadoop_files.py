"""Files through Hadoop's FileSystem, in Spark's own Java process: local paths, HDFS, S3 and what else Spark can write.

Needs a session with a Java process of its own: Spark Connect has none here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet

from pyspark_ternmq.pipelines.files import FileEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The whole footer of most files; a file that claims a longer footer than the maximum is no Parquet.
FOOTER_BYTES, FOOTER_BYTES_MAX = 16 * 1024, 256 * 1024 * 1024
# Objects of Java have no types here.
Java = Any


class HadoopFiles:
    """Implements `FileSystem`."""

    def __init__(self, spark: "SparkSession") -> None:
        context = spark.sparkContext
        assert context._jvm is not None  # noqa: SLF001 - there is no public way to Hadoop's FileSystem
        # Looked up once: each name on the way to a class is a call into Java.
        apache: Java = context._jvm.org.apache  # noqa: SLF001
        self._new_path: Java = apache.hadoop.fs.Path
        self._configuration: Java = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self._etag_source: Java = context._jvm.java.lang.Class.forName("org.apache.hadoop.fs.EtagSource")  # noqa: SLF001

    def qualify_path(self, path: str) -> str:
        """The path with scheme and host, without a slash at its end."""
        with _translate_errors(path):
            found: str = self._file_system(path).makeQualified(self._java_path(path)).toString()
        return found.rstrip("/")

    def exists(self, path: str) -> bool:
        with _translate_errors(path):
            return bool(self._file_system(path).exists(self._java_path(path)))

    def find_matching(self, pattern: str) -> Sequence[str]:
        with _translate_errors(pattern):
            found = self._file_system(pattern).globStatus(self._java_path(pattern))
            return sorted(status.getPath().toString() for status in found or [])

    def files_below(self, folder: str, *, with_marks: bool = False) -> Sequence[FileEntry]:
        folder = self.qualify_path(folder)
        if not self.exists(folder):
            return []
        entries = []
        with _translate_errors(folder):
            found = self._file_system(folder).listFiles(self._java_path(folder), True)
            while found.hasNext():
                status = found.next()
                path: str = status.getPath().toString()
                # Each is a call into Java more, and the lake lists often.
                mark = self._change_mark(status) if with_marks else ""
                entries.append(FileEntry(path=path.removeprefix(folder + "/"), size_bytes=status.getLen(), mark=mark))
        return sorted(entries, key=lambda entry: entry.path)

    def folders_in(self, folder: str) -> Sequence[str]:
        if not self.exists(folder):
            return []
        with _translate_errors(folder):
            found = self._file_system(folder).listStatus(self._java_path(folder))
            return sorted(status.getPath().getName() for status in found if status.isDirectory())

    def create(self, path: str, text: str) -> None:
        with _translate_errors(path):
            stream = self._file_system(path).create(self._java_path(path), False)
            try:
                stream.write(text.encode())
            finally:
                stream.close()

    def read(self, path: str) -> str:
        with _translate_errors(path):
            stream = self._file_system(path).open(self._java_path(path))
            try:
                content: bytes = bytes(stream.readAllBytes())
            finally:
                stream.close()
        return content.decode()

    def rename(self, old: str, new: str) -> None:
        with _translate_errors(new):
            system, target = self._file_system(new), self._java_path(new)
            system.mkdirs(target.getParent())
            # It answers false for most of what can go wrong, and says no more.
            if not system.rename(self._java_path(old), target):
                raise OSError(f"{old} could not be renamed to {new}")

    def delete(self, path: str) -> None:
        with _translate_errors(path):
            self._file_system(path).delete(self._java_path(path), True)

    def modified_ms(self, path: str) -> int:
        with _translate_errors(path):
            return int(self._file_system(path).getFileStatus(self._java_path(path)).getModificationTime())

    def row_count(self, path: str) -> int:
        """Read here: Java's own reader takes twice the processor time, 12 ms of a file."""
        with _translate_errors(path):
            size_bytes = int(self._file_system(path).getFileStatus(self._java_path(path)).getLen())
            stream = self._file_system(path).open(self._java_path(path))
            try:
                return parquet_rows(lambda wanted: _read_end(stream, size_bytes, wanted))
            except pyarrow.ArrowException as error:
                raise OSError(f"{path} is no Parquet file: {error}") from None
            finally:
                stream.close()

    def _change_mark(self, status: Java) -> str:
        etag = status.getEtag() if self._etag_source.isInstance(status) else None
        return str(etag or status.getModificationTime())

    def _java_path(self, path: str) -> Java:
        return self._new_path(path)

    def _file_system(self, path: str) -> Java:
        # Hadoop keeps one for each scheme and host.
        return self._java_path(path).getFileSystem(self._configuration)


def _read_end(stream: Java, size_bytes: int, wanted: int) -> bytes:
    """The last bytes of a file, fewer if it has not so many."""
    stream.seek(max(size_bytes - wanted, 0))
    return bytes(stream.readNBytes(min(size_bytes, wanted)))


def parquet_rows(end: Callable[[int], bytes]) -> int:
    """The rows of a Parquet file, of which `end` reads the last so many bytes."""
    tail = end(FOOTER_BYTES)
    # At the end of the footer stand its length, and PAR1.
    footer_bytes = int.from_bytes(tail[-8:-4], "little") + 8
    if len(tail) < footer_bytes <= FOOTER_BYTES_MAX:
        tail = end(footer_bytes)
    return int(pyarrow.parquet.read_metadata(pyarrow.BufferReader(tail)).num_rows)


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
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
