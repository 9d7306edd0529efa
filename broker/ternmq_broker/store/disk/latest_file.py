"""A side file that several threads may write whole; an older content never replaces a newer one."""

import threading
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import side_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.disk.files import Folder


class LatestFile:
    """The writer of one such file. `prepare_write` belongs to the store's thread."""

    def __init__(self, folder: "Folder", name: str) -> None:
        self._folder = folder
        self._name = name
        self._write_lock = threading.Lock()
        self._prepared = self._written = 0

    def prepare_write(self, content: object) -> "Callable[[], None]":
        """Return a function that makes the content durable, unless a later one is written already; for a thread.
        OSError.
        """
        number = self._prepared = self._prepared + 1

        def write() -> None:
            with self._write_lock:
                if number > self._written:
                    side_files.write_side_file(self._folder, self._name, content)
                    self._written = number

        return write
