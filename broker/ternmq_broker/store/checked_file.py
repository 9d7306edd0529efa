"""Small files of a store that are written whole, with a checksum (`ternmq_common.checked_form`).

What can be derived from the commit log is made anew by its owner when such a file is damaged; of what can't, the owner
says what a person can do. Those of the first layout of the store were bare JSON.
"""

from typing import TYPE_CHECKING

from ternmq_common.checked_form import DamagedFile, NewerFormat, decoded, encoded, is_checked

if TYPE_CHECKING:
    from ternmq_broker.store.files import Folder

__all__ = ["DamagedFile", "NewerFormat", "decoded", "encoded", "is_checked", "read", "write"]


def write(folder: "Folder", name: str, what: str, version: int, content: object) -> None:
    """Replace the file; durable when this returns."""
    folder.replace(name, encoded(what, version, content))


def read(folder: "Folder", name: str, what: str, version: int) -> object | None:
    """The content of the file, None if there is none. DamagedFile, NewerFormat."""
    data = folder.content(name)
    return None if data is None else decoded(name, what, version, data)
