"""Reads a side file for tools that refuse nothing: None if it can't be read."""

import json
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder


def read_side_content(folder: "Folder", name: str) -> object | None:
    """Return the content of the side file; None if it is missing or damaged. In a store of layout 1 it is bare JSON.
    NewerFormat.
    """
    data = folder.content(name)
    if data is None:
        return None
    try:
        if checked_file.is_checked(data):
            return checked_file.decode_file(name, name, 1, data)
        content: object = json.loads(data)
    except (DamagedFile, ValueError):
        return None  # the check of the side files reports it
    return content
