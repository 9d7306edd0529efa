"""Says which files beside the commit log are gone when a store is opened, and what was read again for that.

All that they said is in the log, so nothing is lost; but files do not go by themselves, and whoever runs the broker is
to look at its disk before something else goes.
"""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_broker.store.derived import Derived

_log = logging.getLogger(__name__)


def find_gone(checkpoint: "Mapping[str, Any]", derived: "Derived", log_end: int) -> list[str]:
    """What the checkpoint has seen, and the files that were just opened lack."""
    if checkpoint.get("durable", 0) > log_end:
        return []  # the end of the log is gone itself, which is said elsewhere
    gone = []
    if derived.index.covered < checkpoint.get("index", 0):
        gone.append(f"index files from log offset {derived.index.covered} to {checkpoint['index']}")
    timers_to = checkpoint.get("timers", {}).get("runs_to", 0)
    if derived.timers.covered < timers_to:
        gone.append(f"timer files from log offset {derived.timers.covered} to {timers_to}")
    return gone


def say_gone(gone: list[str], records: int) -> None:
    """Log it, once; so many records of the log were read again."""
    if gone:
        _log.error(
            "%s are gone or damaged: what they said was read again from the commit log, %d records; look at the disk",
            " and ".join(gone),
            records,
        )


def say_durable_gone(unvouched: int) -> None:
    """Log that the file `durable` is gone; nothing else says that so many bytes at the log's end were durable."""
    _log.error(
        "the file durable of the store is gone: of the last %d bytes of the commit log nothing says any more that they "
        "were on the disk%s; look at the disk",
        unvouched,
        ", so that damage there is taken for a write that a power cut interrupted" if unvouched else "",
    )
