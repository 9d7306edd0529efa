"""The file `catching-up`: from which log offset on a copy ignores what its records say about durability.

A record says how far the log was durable on all in-sync replicas when its leader wrote it. A replica that is not in
sync receives it later, and may lose power with the record on its disk and the bytes before it missing. That is no
damage. So before such a replica takes bytes, the file says where they begin; a start then relies on its own marks only.
When the replica is in sync again, all that it took is durable here too, and the file contains null.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.disk.latest_file import LatestFile
from ternmq_broker.store.log.commit_log import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.disk.side_files import SideFileReader

NAME = "catching-up"


class CatchUpState:
    """The state of the file: `since` is that log offset, `NO_LIMIT` if every record is believed."""

    def __init__(self, root: "Folder", files: "SideFileReader") -> None:
        """DamagedFile."""
        self.since = decode_since(files.read_needed(root, NAME))
        self._file = LatestFile(root, NAME)

    @property
    def is_under_way(self) -> bool:
        return self.since < NO_LIMIT

    def begin_catching_up(self, log_end: int) -> "Callable[[], None]":
        """Begin catching up at the log's end; return a function that makes that durable, for a thread."""
        self.since = min(self.since, log_end)
        return self._file.prepare_write(self.since)

    def end_catching_up(self) -> "Callable[[], None]":
        """End the catching up; return a function that makes that durable, for a thread."""
        before, self.since = self.since, NO_LIMIT
        write = self._file.prepare_write(None)

        def end_durably() -> None:
            try:
                write()
            except OSError:
                self.since = min(self.since, before)  # still catching up, so the caller ends it again
                raise

        return end_durably


def decode_since(content: object) -> int:
    """Return the log offset that the file's content has, `NO_LIMIT` if there is none."""
    return content if isinstance(content, int) else NO_LIMIT
