"""Truncates the log of a closed store to where it agrees with its leader's.

Order       The bytes are copied to `set-aside/`; files that describe them are corrected; then the bytes are cut off.
            After a crash in between the store opens, cut or not, and can be truncated again.
Derived     Index, timers and checkpoint describe acknowledged records only, which an ordinary change of leaders never
            cuts off. Where they describe more they are removed, and rebuilt from the log.
Marks       of epochs that are cut off are removed. Everything else in side files is about the log below
            (`unacknowledged_changes`).
"""

import logging
from typing import TYPE_CHECKING

from ternmq_broker.store import store_format
from ternmq_broker.store.copying import catch_up_state
from ternmq_broker.store.derived_indexes import DerivedIndexes
from ternmq_broker.store.disk import checked_file, side_files
from ternmq_broker.store.disk.checked_file import DamagedFile
from ternmq_broker.store.disk.set_aside import SetAsideFolder
from ternmq_broker.store.disk.side_files import VERSION
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.log.commit_log import NO_LIMIT, CommitLog
from ternmq_broker.store.log.log_recovery import LogRecovery
from ternmq_broker.store.log.record_layouts import RecordLayouts
from ternmq_broker.store.operations import applied_operations

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder, StoreFolders

_log = logging.getLogger(__name__)
_CHECKPOINT = "checkpoint"
_ACCEPTED = "accepted-damage"
_SEGMENT_BYTES = 1 << 30
"""Nothing is appended."""


def truncate_store(folders: "StoreFolders", end: int) -> str | None:
    """Truncate the log to `end`, where a record begins; return the file in `set-aside/` that has the bytes, None if
    there were none.

    DamagedFile, NewerFormat, OSError.
    """
    found = store_format.read_format(folders.root, folders.commit_log)
    assert found is not None, "a store of layout 1 was never one of several replicas"
    layouts = RecordLayouts(found.key, found.layout_1_below)
    log = CommitLog(folders.commit_log, layouts, segment_bytes=_SEGMENT_BYTES)
    try:
        assert log.log_start <= end
        if end >= log.log_end:
            return None
        kept = LogRecovery(log, SetAsideFolder(folders.set_aside), durable=0).keep_from(end)
        _truncate_side_files(folders, end, found.layout_1_below)
        _truncate_derived(folders, log.segment_bases, end)
        while len(log.segment_bases) > 1 and log.segment_bases[-1] >= end:
            log.cut_from(log.segment_bases[-1])
            folders.commit_log.sync_names()  # one after the other: a gap would be damage
        log.finish_recovery(end, max(log.log_start, end - 1))
    finally:
        log.close()
    return kept


def _truncate_side_files(folders: "StoreFolders", end: int, layout_1_below: int) -> None:
    """Remove from the small files beside the log what lies above `end`."""
    root = folders.root
    marks, _ = durable_watermarks.decode_marks(root.content(durable_watermarks.NAME) or b"")
    if any(mark > end for mark in marks):
        root.replace(durable_watermarks.NAME, durable_watermarks.encode_marks(mark for mark in marks if mark <= end))
    since = catch_up_state.decode_since(_read_content(root, catch_up_state.NAME))
    if end < since < NO_LIMIT or (since > end and layout_1_below > end):
        side_files.write_side_file(root, catch_up_state.NAME, end)
    epochs = _read_content(root, applied_operations.EPOCHS)
    if isinstance(epochs, dict):
        kept = {
            "marks": [mark for mark in epochs["marks"] if mark[1] < end],
            "deletions": [deletion for deletion in epochs["deletions"] if deletion[0] <= end],
        }
        if kept != epochs:
            side_files.write_side_file(root, applied_operations.EPOCHS, kept)
    accepted = _read_content(root, _ACCEPTED)
    if isinstance(accepted, list) and any(begin >= end for begin, _ in accepted):
        side_files.write_side_file(root, _ACCEPTED, [stretch for stretch in accepted if stretch[0] < end])


def _truncate_derived(folders: "StoreFolders", segments: list[int], end: int) -> None:
    checkpoint = _read_content(folders.root, _CHECKPOINT)
    known = checkpoint if isinstance(checkpoint, dict) else {}
    derived = DerivedIndexes(folders.index, folders.timers)
    derived.load_files(known, segments, end)
    spoke_of = derived.durable_offset
    derived.close()
    if spoke_of > end:
        _log.warning("the indexes reach beyond the end of the log, up to %d; rebuilding them", spoke_of)
        DerivedIndexes.remove_files(folders.index, folders.timers)
    timers = known.get("timers", {})
    covered = max(known.get("durable", 0), timers.get("covered", 0), *(to for to, _ in timers.get("zones", ())), 0)
    if _CHECKPOINT in folders.root.names() and max(spoke_of, covered) > end:
        folders.root.remove(_CHECKPOINT)
        folders.root.sync_names()


def _read_content(folder: "Folder", name: str) -> object | None:
    """Return what a side file says; None if it is missing, or damaged, which a start ignores too."""
    try:
        return checked_file.read_checked(folder, name, name, VERSION)
    except DamagedFile:
        return None
