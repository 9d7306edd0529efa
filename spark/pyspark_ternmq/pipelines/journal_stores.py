"""Stores of checkpoints of pipelines that work in steps: a folder of the driver's machine, or of Hadoop.

Local       the lock is the system's, which lets go of it when the process dies; a file is written beside its place,
            synced, and renamed over the one before.
Hadoop      HDFS, and object stores by S3A and the like, which rename nothing over something that is there: each text is
            a file of its own, `done.json.000000017`, of which the highest counts. It appears by `publish`, as the
            batches of a lake do, so a process that lost the lock can't make one appear. The lock is renewed by a
            thread, since a step may take hours.
"""

import fcntl
import logging
import os
import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.journal import JournalError, JournalStore, StepJournal
from pyspark_ternmq.pipelines.lake.lock import RENEWALS, LockLost, checkpoint_lock, publish_file, withdraw_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_ternmq.pipelines.files import FileSystem
    from pyspark_ternmq.pipelines.lake.lock import FolderLock

LOCK, SUCCESS = "lock", "_SUCCESS"
_VERSION_DIGITS = 9
_VERSION = re.compile(rf"(?P<name>[^/]+)\.(?P<number>[0-9]{{{_VERSION_DIGITS}}})")
_UNPUBLISHED = re.compile(_VERSION.pattern + r"\.[0-9a-f]{32}")
_log = logging.getLogger(__name__)


def journal_at(spark: "SparkSession", checkpoint: str) -> StepJournal:
    """The journal of a folder; a path without a scheme is one of this machine."""
    store: JournalStore
    if (local := local_folder(checkpoint)) is not None:
        store = LocalStore(local)
    else:
        files = HadoopFiles(spark)
        store = HadoopStore(files, files.qualify_path(checkpoint))
    return StepJournal(store)


def local_folder(path: str) -> Path | None:
    """The folder of this machine that a path means; None if it is in another file system."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return Path(path.removeprefix("file:"))
    return Path(rest) if scheme == "file" else None


class LocalStore:
    """Implements `JournalStore`. On a cluster its folder is on a volume that driver and executors share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None

    @property
    def name(self) -> str:
        return str(self._folder)

    def acquire(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise JournalError(f"another process works with {self._folder}; wait until it has ended") from None

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        beside = self._folder / f"{name}.new"
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # else a power cut could take the new name away again
        finally:
            os.close(folder)

    def remove_value(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def folder_of(self, name: str) -> str:
        return (self._folder / name).absolute().as_uri()

    def has_folder(self, name: str) -> bool:
        return (self._folder / name / SUCCESS).exists()

    def remove_folder(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)


class HadoopStore:
    """Implements `JournalStore`. Locked if another process has the folder; the lock's docstring says for how long."""

    def __init__(self, files: "FileSystem", folder: str, *, lock: "FolderLock | None" = None) -> None:
        self._files, self._folder = files, folder
        self._lock = lock or checkpoint_lock(files, folder)
        self._renewal: _LockRenewal | None = None

    @property
    def name(self) -> str:
        return self._folder

    def acquire(self) -> None:
        self._lock.__enter__()
        try:
            names = [name for name in self._list_names() if _UNPUBLISHED.fullmatch(name)]
            withdraw_files(self._files, self._lock, [self.folder_of(name) for name in names])
            self._renewal = _LockRenewal(self._lock)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def release(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        self._lock.__exit__(None, None, None)

    def read(self, name: str) -> str | None:
        versions = self._list_versions(name)
        return self._files.read(self._version_path(name, versions[-1])) if versions else None

    def write(self, name: str, text: str) -> None:
        before = self._list_versions(name)
        publish_file(self._files, self._lock, self._version_path(name, before[-1] + 1 if before else 0), text)
        for version in before:
            self._files.delete(self._version_path(name, version))

    def remove_value(self, name: str) -> None:
        # The highest last: a kill in between leaves none that is older than what counted.
        for version in self._list_versions(name):
            self._files.delete(self._version_path(name, version))

    def folder_of(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def has_folder(self, name: str) -> bool:
        return self._files.exists(f"{self._folder}/{name}/{SUCCESS}")

    def remove_folder(self, name: str) -> None:
        self._files.delete(self.folder_of(name))

    def _list_versions(self, name: str) -> list[int]:
        found = (_VERSION.fullmatch(one) for one in self._list_names())
        return sorted(int(match["number"]) for match in found if match is not None and match["name"] == name)

    def _list_names(self) -> list[str]:
        return [entry.path for entry in self._files.files_below(self._folder) if "/" not in entry.path]

    def _version_path(self, name: str, version: int) -> str:
        return f"{self._folder}/{name}.{version:0{_VERSION_DIGITS}}"


class _LockRenewal:
    """A thread that shows that the owner of a lock lives, as long as this process does."""

    def __init__(self, lock: "FolderLock") -> None:
        self._lock, self._is_over = lock, threading.Event()
        self._thread = threading.Thread(target=self._renew_lock, name="checkpoint lock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _renew_lock(self) -> None:
        while not self._is_over.wait(self._lock.stale_after_s / RENEWALS):
            try:
                self._lock.renew_if_due()
            except LockLost as lost:
                # The next write looks for itself, and ends the pipeline.
                _log.warning("%s", lost)
                return
            except OSError as error:
                _log.warning("the lock of a checkpoint could not be renewed, and will be tried again: %s", error)
