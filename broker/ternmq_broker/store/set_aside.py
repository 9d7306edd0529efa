"""Bytes that are cut off or stepped over are copied here first, so that a person can still look at them.

A file has the name of the one that they were in, and the positions that they had there: `commitlog-<from>-<to>`, with a
number behind it when there is one already. Nothing reads or removes these files but people and `ternmq store`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.files import Folder


class SetAside:
    """The folder `set-aside` of a store."""

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder

    def names(self) -> list[str]:
        return sorted(self._folder.names())

    def keep(self, name: str, pieces: "Iterable[bytes]") -> str:
        """Copy the pieces into a file of that name, or one that begins so; durable when this returns the name."""
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
