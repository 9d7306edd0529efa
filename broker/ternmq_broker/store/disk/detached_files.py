"""Open files that are in no index any more and wait to be deleted.

Threads     the owner's thread adds; another one deletes, one at a time.
"""

import contextlib
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder, StoreFile


class DetachedFiles:
    """The detached files of one folder, in the order in which they are deleted.

    Invariant: a file that could not be deleted is still here and open, so that it is tried again and never leaks.
    """

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder
        self._files: deque[tuple[str, StoreFile]] = deque()

    def __len__(self) -> int:
        return len(self._files)

    def add_file(self, name: str, file: "StoreFile") -> None:
        self._files.append((name, file))

    def delete_first(self) -> None:
        """Delete the file that has been here longest; OSError: it stays."""
        name, file = self._files[0]
        with contextlib.suppress(FileNotFoundError):  # another process has deleted it
            self._folder.remove(name)
        self._files.popleft()
        file.close()

    def close(self) -> None:
        """Close the files without deleting them; the next start finds and deletes them."""
        while self._files:
            self._files.popleft()[1].close()
