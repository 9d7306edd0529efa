"""Begins a store as a copy of a leader's log, offline.

State       What a leader's store has beside its log, at one moment (`ReplicaLog.join_state`). The copy begins where
            the leader's log begins, and has no byte of it yet.
Deletions   from before there were replicas are no operations of the log. `forgotten` refers to log offsets, and applies
            to the copy at once. Low watermarks are kept in `joined` until the copy has reached the log's end of that
            moment, since it lacks some of the messages that they are about until then.
Unfinished  While a store is wiped, or begun, the file `unfinished` is there, and the store can't be opened.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store import store_format
from ternmq_broker.store.copying import catch_up_state
from ternmq_broker.store.disk import side_files
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.log.commit_log import name_of_segment
from ternmq_broker.store.operations import applied_operations
from ternmq_broker.store.repairing import record_overwriting
from ternmq_broker.store.store_format import StoreFormat

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder, StoreFolders

JOINED = "joined"
UNFINISHED = "unfinished"
_ROOT_FILES = (
    "checkpoint",
    durable_watermarks.NAME,
    applied_operations.FORGOTTEN,
    applied_operations.EPOCHS,
    catch_up_state.NAME,
    "accepted-damage",
    "damage",
    "scrub",
    record_overwriting.NAME,
    JOINED,
    store_format.NAME,
    store_format.COPY,
)


class UnfinishedCopy(Exception):
    """A wipe of the store, or its beginning as a copy, was interrupted: wipe it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinState:
    """The state of a leader's store that a copy needs.

    `key` and `layout_1_below` of its format; where its log begins and ended; low watermarks (topic, queue id, offset,
    origin); deleted topics; accepted ranges of damage; epoch marks.
    """

    key: int
    layout_1_below: int
    log_start: int
    log_end: int
    low_watermarks: list[tuple[str, int, int, int]]
    forgotten: dict[str, int]
    accepted: list[tuple[int, int]]
    epochs: list[tuple[int, int]]


def check_finished(root: "Folder") -> None:
    """Raise UnfinishedCopy if the store is unfinished."""
    if UNFINISHED in root.names():
        raise UnfinishedCopy("the store was being wiped, to be copied again from its leader")


def wipe_store(folders: "StoreFolders") -> None:
    """Remove everything of a closed store except what was set aside and the consumption journal, which is its reader's.
    After a crash call it again. OSError.
    """
    side_files.write_side_file(folders.root, UNFINISHED, None)
    _remove_all(folders)
    _mark_finished(folders.root)


def begin_copy(folders: "StoreFolders", state: JoinState) -> None:
    """Have an empty store begin as a copy. After a crash wipe it and call this again. OSError."""
    root = folders.root
    side_files.write_side_file(root, UNFINISHED, None)
    _remove_all(folders)
    side_files.write_side_file(root, catch_up_state.NAME, state.log_start)
    side_files.write_side_file(root, applied_operations.FORGOTTEN, state.forgotten)
    side_files.write_side_file(root, JOINED, {"end": state.log_end, "floors": state.low_watermarks})
    if state.accepted:
        side_files.write_side_file(root, "accepted-damage", state.accepted)
    if state.epochs:
        # The copy will find later marks in the log.
        marks = [mark for mark in state.epochs if mark[1] < state.log_start]
        side_files.write_side_file(root, applied_operations.EPOCHS, {"marks": marks, "deletions": []})
    folders.commit_log.create(name_of_segment(state.log_start)).close()
    folders.commit_log.sync_names()
    StoreFormat(state.key, state.layout_1_below).write_format(root)
    _mark_finished(root)


def _remove_all(folders: "StoreFolders") -> None:
    for folder in (folders.index, folders.timers, folders.commit_log):
        for name in folder.names():
            folder.remove(name)
        folder.sync_names()
    there = set(folders.root.names())
    for name in _ROOT_FILES:
        if name in there:
            folders.root.remove(name)
    folders.root.sync_names()


def _mark_finished(root: "Folder") -> None:
    root.remove(UNFINISHED)
    root.sync_names()
