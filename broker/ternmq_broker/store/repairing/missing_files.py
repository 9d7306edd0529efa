"""Logs which files beside the commit log were missing when a store was opened, and what was read again for that.

The log has all their content, so nothing is lost; but files do not vanish by themselves, and the operator should check
the disk before something else goes.
"""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_broker.store.derived_indexes import DerivedIndexes

_log = logging.getLogger(__name__)


def find_missing_files(checkpoint: "Mapping[str, Any]", derived: "DerivedIndexes", log_end: int) -> list[str]:
    """Return descriptions of what the checkpoint covered but the files that were just opened lack."""
    if checkpoint.get("durable", 0) > log_end:
        return []  # the end of the log itself is gone, which recovery reports
    gone = []
    if derived.queues.covered_offset < checkpoint.get("index", 0):
        gone.append(f"index files from log offset {derived.queues.covered_offset} to {checkpoint['index']}")
    timers_to = checkpoint.get("timers", {}).get("runs_to", 0)
    if derived.timers.covered_offset < timers_to:
        gone.append(f"timer files from log offset {derived.timers.covered_offset} to {timers_to}")
    return gone


def log_missing_files(gone: list[str], records: int) -> None:
    """Log the missing files once, and how many records of the log were read again."""
    if gone:
        _log.error(
            "%s are missing or damaged: their content was read again from the commit log, %d records; check the disk",
            " and ".join(gone),
            records,
        )


def log_missing_durable_file(unvouched: int) -> None:
    """Log that the file `durable` is missing; nothing else says that the last `unvouched` bytes of the log were
    durable.
    """
    _log.error(
        "the file durable of the store is missing: nothing says any more that the last %d bytes of the commit log "
        "were on the disk%s; check the disk",
        unvouched,
        ", so damage there counts as a write that a power cut interrupted" if unvouched else "",
    )
