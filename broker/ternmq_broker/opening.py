"""Opens a broker's files, and says what a person can do when that is not possible."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.checked_file import NewerFormat
from ternmq_broker.store.commit_log import CommitLogCorrupted
from ternmq_broker.store.files import DiskFolders
from ternmq_broker.store.lock import StoreLock
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.progress_journal import ProgressJournal
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from ternmq_broker.broker_settings import BrokerSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """The files of one broker, which nobody else has while `lock` is held."""

    lock: StoreLock
    store: MessageStore
    journal: ProgressJournal


def open_store(settings: "BrokerSettings") -> OpenedStore:
    """Open or make the store and recover it; blocks. StartupError says what stands in the way."""
    try:
        folders = DiskFolders(settings.folder)
        lock = StoreLock(settings.folder)
    except OSError as error:
        raise StartupError(
            f"the data directory {settings.folder} can't be used: {error.strerror}; "
            "give this user the right to write there, or choose another --data-dir"
        ) from error
    try:
        store = MessageStore(
            folders, segment_bytes=settings.segment_bytes, accept_corruption=settings.accept_corruption
        )
        journal = ProgressJournal(folders.consumption)
    except CommitLogCorrupted as error:
        lock.release()
        raise StartupError(
            f"the commit log in {settings.folder} is damaged at {error}; restore it from a copy, or start with "
            "--accept-corruption to go on without the records that are damaged"
        ) from error
    except NewerFormat as error:
        lock.release()
        raise StartupError(
            f"the files in {settings.folder} were written by a newer version: {error}; start that version, or one that "
            "is newer still"
        ) from error
    if store.recovered:
        _log.info("recovered %d messages that the index did not have yet", store.recovered)
    return OpenedStore(lock, store, journal)
