"""The file `format` and its copy: which layout a store has, and the key of its records' checksums.

Layout 2    has this file, and records as in `record`; side files have checksums. The key of the log is drawn once, when
            the store is created.
Layout 1    has no such file; records are those of `record_layout_1`. It is converted when it is opened: recovered by
            the rules of that layout, its side files rewritten, and `format` written last. After a crash the next start
            repeats it.
Newer       A higher number in the file is refused. The lock keeps out programs that know no layout (`lock`).
"""

import logging
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile
from ternmq_broker.store.log import record_layout_1

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder

_log = logging.getLogger(__name__)
LAYOUT = 2
NAME = "format"
COPY = "format.copy"
_KEY_BITS = 32


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """The content of the file. `key` is the log's (`record`), and records below log offset `layout_1_below` are of
    layout 1.
    """

    key: int
    layout_1_below: int = 0

    def write_format(self, root: "Folder") -> None:
        """Mark the store as one of the current layout; durable when this returns."""
        for name in (COPY, NAME):
            checked_file.write_checked(root, name, NAME, LAYOUT, asdict(self))


def draw_key() -> int:
    """Return a random key for a new log."""
    return secrets.randbits(_KEY_BITS)


def read_format(root: "Folder", commit_log: "Folder") -> StoreFormat | None:
    """Return the store's format; None for a store that is empty, or of layout 1. DamagedFile, NewerFormat."""
    problem: DamagedFile | None = None
    for name in (NAME, COPY):
        try:
            content = checked_file.read_checked(root, name, NAME, LAYOUT)
        except DamagedFile as error:
            problem = error
            continue
        if isinstance(content, dict):
            found = StoreFormat(**content)
            if problem is not None or root.content(NAME) is None:
                _log.warning("restoring the file %r from its copy: it is damaged or missing", NAME)
                found.write_format(root)
            return found
    if problem is not None:
        raise problem
    if _has_records(commit_log, but_of_layout=record_layout_1.VERSION):
        raise DamagedFile(NAME, "it is missing, and so is its copy")
    return None


def _has_records(commit_log: "Folder", *, but_of_layout: int) -> bool:
    """Tell whether a segment begins with a record of another layout."""
    for name in commit_log.names():
        if name.isdigit():
            file = commit_log.open(name)
            head = file.read(0, 3)
            file.close()
            if head[:2] == record_layout_1.MAGIC_BYTES[:2] and head[2] != but_of_layout:
                return True
    return False
