"""What a side file says, for who reads a store and refuses nothing: None if that can't be told."""

import json
from typing import TYPE_CHECKING

from ternmq_broker.store import checked_file
from ternmq_broker.store.checked_file import DamagedFile

if TYPE_CHECKING:
    from ternmq_broker.store.files import Folder


def side_content(folder: "Folder", name: str) -> object | None:
    """In a store of layout 1 they are bare JSON. NewerFormat."""
    data = folder.content(name)
    if data is None:
        return None
    try:
        if checked_file.is_checked(data):
            return checked_file.decoded(name, name, 1, data)
        content: object = json.loads(data)
    except (DamagedFile, ValueError):
        return None  # told by who checks the side files
    return content
