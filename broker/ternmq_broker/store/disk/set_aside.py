"""Copies bytes aside before they are cut off or stepped over, so that an operator can still examine them.

A copy is named after its source, with the positions that the bytes had there: `commitlog-<from>-<to>`, with a number
behind it if that name is taken. Only operators and `ternmq store` read or remove these files.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.disk.files import Folder


class SetAsideFolder:
    """The folder `set-aside` of a store."""

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder

    def file_names(self) -> list[str]:
        return sorted(self._folder.names())

    def keep_copy(self, name: str, pieces: "Iterable[bytes]") -> str:
        """Copy the pieces into a file of that name, or of a name that begins with it; durable when this returns the
        name.
        """
        free = name
        taken = set(self._folder.names())
        number = 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        file = self._folder.create(free)
        for piece in pieces:
            file.append([piece])
        file.sync()
        file.close()
        self._folder.sync_names()
        return free
