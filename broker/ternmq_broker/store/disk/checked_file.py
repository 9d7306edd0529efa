"""Small files of a store that are written whole, with a checksum (`ternmq_common.process.checked_form`).

When such a file is damaged, its owner rebuilds it from the commit log where that is possible; otherwise the owner says
what an operator can do. In the first layout of the store these files were bare JSON.
"""

from typing import TYPE_CHECKING

from ternmq_common.process.checked_form import DamagedFile, NewerFormat, decode_file, encode_file, is_checked

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder

__all__ = ["DamagedFile", "NewerFormat", "decode_file", "encode_file", "is_checked", "read_checked", "write_checked"]


def write_checked(folder: "Folder", name: str, what: str, version: int, content: object) -> None:
    """Replace the file; durable when this returns."""
    folder.replace(name, encode_file(what, version, content))


def read_checked(folder: "Folder", name: str, what: str, version: int) -> object | None:
    """Return the content of the file, None if there is none. DamagedFile, NewerFormat."""
    data = folder.content(name)
    return None if data is None else decode_file(name, what, version, data)
