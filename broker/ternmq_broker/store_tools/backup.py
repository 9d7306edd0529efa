"""Backs up a store and what is beside it, also under a running broker; the order of the copies makes it consistent.

1. Journal, checkpoint    What they say about the log is true of every later one. The journal is opened once, so that
   timers, index          its replacement does not matter. They are copied as far as they are whole.
2. Log                    The segment that grows is copied up to the end of its records. Then the others, the newest
                          first: retention removes the oldest meanwhile, and their lack is no gap. A durable segment
                          never changes again: it gets a second name instead of a copy, where that is possible.
3. Registry               By SQLite's own backup, after the log: it knows the topics of all messages. PostgreSQL, the
                          registry of a cluster, is backed up by its own tools.
4. Side files             After the log, so that the backup has no message that was deleted, or removed, before. They
                          must not cover more than the log that was copied: queues would continue behind their end.
5. Manifest               When all is durable, with the SHA-256 of every file as it is in the backup.

A file with two names is one file, so a restore copies it. Damage to its bytes on the disk damages both.
"""

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_broker.store import store_format
from ternmq_broker.store.copying import catch_up_state, copy_start
from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.overlay import OverlayFolder, open_overlay
from ternmq_broker.store.index.index_block import BadBlock
from ternmq_broker.store.journal.progress_journal import SIZE_NAME as JOURNAL_SIZE
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store.operations import applied_operations
from ternmq_broker.store.timers.timer_run import BadRun, RunName, TimerRun
from ternmq_broker.store_tools.checking.live_tail import count_written, find_last_head
from ternmq_broker.store_tools.checking.log_walk import ACCEPTED, read_index_blocks
from ternmq_broker.store_tools.checking.side_check import JOURNAL, LOW_WATERMARKS
from ternmq_broker.store_tools.checking.side_content import read_side_content
from ternmq_broker.store_tools.durable_copies import (
    compute_digest,
    copy_file,
    link_file,
    sync_file,
    sync_folder,
    write_new_file,
)
from ternmq_broker.store_tools.manifest import DATA, BackupManifest
from ternmq_broker.store_tools.progress import Progress, ProgressSteps, no_progress
from ternmq_broker.store_tools.store_view import open_view, store_folder
from ternmq_common.errors import StartupError
from ternmq_common.process.own_version import own_version
from ternmq_common.process.private_files import create_file, create_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.disk.overlay import OverlayFile
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_tools.store_view import StoreView

_CHECKPOINT, _FORGOTTEN = "checkpoint", "forgotten"
_REGISTRY = "registry.db"
_OF_BROKER = ("deletions-done", "store-id")
"""Files beside the store of a cluster's broker. How far deletions are done is copied before their effects."""
# Epoch marks that the copied log does not have are dropped when it is opened.
_OF_REPLICAS = (applied_operations.EPOCHS, copy_start.JOINED, catch_up_state.NAME)


def back_up_store(
    directory: Path, target: Path, progress: Progress = no_progress, *, only_copies: bool = False
) -> BackupManifest:
    """Write a backup of that data directory to a new or empty folder; it is complete when this returns.

    With `only_copies` no file of it is a second name of one of the store's. StartupError, NewerFormat, OSError.
    """
    store_folder(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StartupError(f"{target} is not empty; give a folder that is, or none")
    began_ms = time.time_ns() // 1_000_000
    create_folder(target / DATA)
    return _BackupRun(directory, target, progress, only_copies=only_copies).run(began_ms)


class _BackupRun:
    """One backup, step by step."""

    def __init__(self, directory: Path, target: Path, progress: Progress, *, only_copies: bool) -> None:
        self._directory = directory
        self._store = store_folder(directory)
        self._target = target
        self._data = target / DATA
        self._progress = progress
        self._only_copies = only_copies
        self._files: dict[str, tuple[int, str]] = {}
        self._on_progress: Callable[[int], None] = lambda _bytes: None

    def run(self, made_ms: int) -> BackupManifest:
        self._copy_whole(self._directory, "", _OF_BROKER)
        # The files opened here before the log cover no more than the log, which is opened after them.
        with open_view(self._directory) as view:
            log_bytes = view.log_bytes
            stepping = ProgressSteps(self._progress, log_bytes)
            self._on_progress = stepping.add_bytes
            self._copy_earlier(view)
            self._copy_log(view)
            is_running = view.is_running
        self._copy_registry()
        log_start, log_end, last_ms = self._copy_later()
        self._sync_folders()
        stepping.finish_steps()
        manifest = BackupManifest(
            made_ms=made_ms,
            program=own_version(),
            is_running=is_running,
            log_start=log_start,
            log_end=log_end,
            last_stored_ms=last_ms,
            files=self._files,
        )
        manifest.write_manifest(self._target)
        return manifest

    # --- before the log

    def _copy_earlier(self, view: "StoreView") -> None:
        consumption = view.folders.consumption
        for name in consumption.names():
            if name == JOURNAL_SIZE:
                continue  # it is about the journal as it is later
            file = consumption.open(name)
            self._copy_file(file, _whole_lines(file) if name == JOURNAL else file.size, f"store/consumption/{name}")
        if _CHECKPOINT in view.folders.root.names():
            file = view.folders.root.open(_CHECKPOINT)
            self._copy_file(file, file.size, f"store/{_CHECKPOINT}")
        for run in filter(None, map(RunName.parse_name, view.folders.timers.names())):
            if _is_whole_run(run, view.folders.timers):
                self._link_or_copy(view.folders.timers, str(run), "store/timers")
        for name in view.folders.index.names():
            if name.isdigit():
                self._copy_file(view.folders.index.open(name), _whole_blocks(view, name), f"store/index/{name}")

    # --- the log

    def _copy_log(self, view: "StoreView") -> None:
        """Copy or link the segments. The view has them open, so retention may remove them meanwhile; those that it
        removed are left out.
        """
        segments = view.log_segments()
        durable = _durable_by_records(view)
        following = None
        for base, file in reversed(segments):
            name = f"{base:020d}"
            if following is None:
                self._copy_file(file, _end_of_records(view, base, file), f"store/commitlog/{name}")
            elif file.size == following - base and following <= durable:
                if not (self._store / "commitlog" / name).exists():
                    return
                self._link_or_copy(view.folders.commit_log, name, "store/commitlog")
            else:
                self._copy_file(file, min(file.size, following - base), f"store/commitlog/{name}")
            following = base

    # --- after the log

    def _copy_registry(self) -> None:
        source = self._directory / _REGISTRY
        if not source.exists():
            return
        target = self._data / _REGISTRY
        create_file(target).close()  # SQLite would create it readable for other users
        with (
            contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as live,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            live.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE").close()
        sync_file(target)
        with open_overlay(target) as file:
            self._files[_REGISTRY] = (file.size, compute_digest(file, file.size, target, self._on_progress))

    def _copy_later(self) -> tuple[int, int, int]:
        """Copy the side files; return the start and end of the backup's log, and when its last message was stored."""
        root, index = OverlayFolder(self._store), OverlayFolder(self._store / "index")
        try:
            forgotten, low_watermarks = read_side_content(root, _FORGOTTEN), read_side_content(index, LOW_WATERMARKS)
            as_they_are = (store_format.NAME, store_format.COPY, ACCEPTED, *_OF_REPLICAS)
            for name in (*as_they_are, *((_FORGOTTEN,) if forgotten is None else ())):
                if name in root.names():
                    self._copy_file(root.open(name), root.open(name).size, f"store/{name}")
            if low_watermarks is None and LOW_WATERMARKS in index.names():
                self._copy_file(
                    index.open(LOW_WATERMARKS), index.open(LOW_WATERMARKS).size, f"store/index/{LOW_WATERMARKS}"
                )
        finally:
            root.close_on_disk()
            index.close_on_disk()
        self._copy_whole(self._store / "set-aside", "store/set-aside/")
        with open_view(self._data) as view:
            store = view.recover_store()
            if isinstance(forgotten, dict):
                self._write_side_file(
                    _FORGOTTEN, "store/", {topic: min(end, store.log.log_end) for topic, end in forgotten.items()}
                )
            if isinstance(low_watermarks, list):
                self._write_side_file(
                    LOW_WATERMARKS,
                    "store/index/",
                    [*filter(None, (_low_watermark_within(store, *each) for each in low_watermarks))],
                )
            return store.log.log_start, store.log.log_end, store.writer.last_stored_ms

    # --- files

    def _copy_whole(self, folder: Path, prefix: str, names: tuple[str, ...] | None = None) -> None:
        """Copy files that are written once, or replaced whole."""
        opened = OverlayFolder(folder)
        try:
            for name in opened.names():
                if names is None or name in names:
                    self._copy_file(opened.open(name), opened.open(name).size, prefix + name)
        finally:
            opened.close_on_disk()

    def _copy_file(self, file: "OverlayFile", size: int, name: str) -> None:
        self._files[name] = (size, copy_file(file, size, self._target_path(name), self._on_progress))

    def _link_or_copy(self, folder: OverlayFolder, name: str, where: str) -> None:
        """Link a file that does not change any more, or copy it; a file that was removed meanwhile can still be
        read."""
        file, place = folder.open(name), self._target_path(f"{where}/{name}")
        is_linked = False
        if not self._only_copies:
            with contextlib.suppress(FileNotFoundError):
                is_linked = link_file(folder.path / name, place)
        if not is_linked:
            self._copy_file(file, file.size, f"{where}/{name}")
            return
        sync_file(place)
        self._files[f"{where}/{name}"] = (file.size, compute_digest(file, file.size, place, self._on_progress))

    def _write_side_file(self, name: str, prefix: str, content: object) -> None:
        data = checked_file.encode_file(name, 1, content)
        self._files[prefix + name] = (len(data), write_new_file(self._target_path(prefix + name), data))

    def _target_path(self, name: str) -> Path:
        place = self._data / name
        create_folder(place.parent)
        return place

    def _sync_folders(self) -> None:
        for folder in (self._target.parent, self._target, self._data, *self._data.rglob("*/")):
            sync_folder(folder)


def _whole_lines(file: "OverlayFile") -> int:
    """Return a journal's size without a line that is being written."""
    return file.read(0, file.size).rfind(b"\n") + 1


def _is_whole_run(name: RunName, folder: OverlayFolder) -> bool:
    try:
        TimerRun(name, folder.open(str(name)))
    except BadRun:
        return False  # it is being written, or the next start rebuilds it
    return True


def _whole_blocks(view: "StoreView", name: str) -> int:
    """Return an index file's size without a block that is being written."""
    whole = 0
    with contextlib.suppress(BadBlock):
        for position, head, _, _ in read_index_blocks(view.folders.index, name):
            whole = position + head.size
    return whole


def _durable_by_records(view: "StoreView") -> int:
    """Return up to where the log is durable, by what its last record says."""
    for base, file in reversed(view.log_segments()):
        found = find_last_head(file, base, view.layouts, file.size)
        if found is not None:
            return found[1].durable_to
    return 0


def _end_of_records(view: "StoreView", base: int, file: "OverlayFile") -> int:
    """Return the end of the records in the segment that grows, without reserved room, and beside a broker without a
    record that is being written.
    """
    found = find_last_head(file, base, view.layouts, file.size)
    if found is None:
        return file.size
    if not view.is_running:
        return count_written(file, base, view.layouts)  # what a crash left behind the records is copied as it is
    position, head = found
    try:
        view.layouts.decode_record(file.read(position, head.size), base + position)
    except BadRecord:
        return position
    return position + head.size


def _low_watermark_within(
    store: "MessageStore", topic: str, queue_id: int, low_watermark: int, origin: int
) -> tuple[str, int, int, int] | None:
    """Return a queue's low watermark, lowered to what the backup has of it; None if the queue has never begun there."""
    end = store.indexes.queues.queue_bounds(topic, queue_id)[1]
    if end:
        return topic, queue_id, min(low_watermark, end), min(origin, end)
    return (topic, queue_id, low_watermark, origin) if store.log.log_start else None
