"""Checks the small files beside the log, and the consumption journal, by their checksums."""

import json
from typing import TYPE_CHECKING

from ternmq_broker.store import store_format
from ternmq_broker.store.copying import catch_up_state, copy_start
from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile
from ternmq_broker.store.journal import journal_lines
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.operations import applied_operations
from ternmq_broker.store_tools.checking.findings import StoreFinding, StoreFindings, StorePart
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_tools.store_view import StoreView

JOURNAL = "journal"
LOW_WATERMARKS = "floors"
DERIVED = ("checkpoint", "accepted-damage", applied_operations.EPOCHS)
OF_COPIES = (catch_up_state.NAME, copy_start.JOINED)
NEEDED = ("forgotten", *OF_COPIES)


def check_side_files(view: "StoreView", findings: StoreFindings) -> None:
    """Check the checksums of the side files. NewerFormat."""
    if not view.is_layout_1:
        for name in (store_format.NAME, store_format.COPY):
            _check_format(name, view.format_files.get(name), findings)
    for name in (*DERIVED, *NEEDED):
        _check_file(view.folders.root, "", name, findings, is_plain=view.is_layout_1)
    _check_file(view.folders.index, "index/", LOW_WATERMARKS, findings, is_plain=view.is_layout_1)
    _, bad_bytes = durable_watermarks.decode_marks(view.folders.root.content(durable_watermarks.NAME) or b"")
    if bad_bytes:
        findings.add_finding(
            StoreFinding(StorePart.SIDE_FILE, durable_watermarks.NAME, f"{bad_bytes} bytes of it are no entries")
        )


def _check_format(name: str, data: bytes | None, findings: StoreFindings) -> None:
    if data is None:
        findings.add_finding(StoreFinding(StorePart.FORMAT, name, "is missing"))
        return
    try:
        checked_file.decode_file(name, store_format.NAME, store_format.LAYOUT, data)
    except DamagedFile as error:
        findings.add_finding(StoreFinding(StorePart.FORMAT, name, error.reason))


def _check_file(folder: "Folder", folder_name: str, name: str, findings: StoreFindings, *, is_plain: bool) -> None:
    data = folder.content(name)
    if data is None:
        return
    try:
        if is_plain and not checked_file.is_checked(data):
            json.loads(data)
        else:
            checked_file.decode_file(name, name, 1, data)
    except DamagedFile as error:
        findings.add_finding(StoreFinding(StorePart.SIDE_FILE, folder_name + name, error.reason))
    except ValueError:
        findings.add_finding(StoreFinding(StorePart.SIDE_FILE, folder_name + name, "it is no JSON"))


def check_journal(view: "StoreView", findings: StoreFindings) -> int:
    """Check the checksum of each line; return how many lines there are."""
    count = 0
    for found in journal_lines.read_lines(view.folders.consumption.content(JOURNAL) or b""):
        count += 1
        place = f"consumption/{JOURNAL} byte {found.start}"
        if found.is_torn:
            findings.add_finding(
                StoreFinding(StorePart.JOURNAL, place, "the last line was not written to its end", harmless=True)
            )
        elif found.line is None:
            findings.add_finding(StoreFinding(StorePart.JOURNAL, place, f"{found.size} bytes are damaged"))
        elif found.is_corrected:
            findings.add_finding(
                StoreFinding(StorePart.JOURNAL, place, "a byte of the line is damaged, which a start puts right")
            )
    return count


def check_progress(view: "StoreView", store: "MessageStore", findings: StoreFindings) -> None:
    """Check that no group is further than its queue. For a recovered view."""
    for (group, topic, queue_id), snapshot in ProgressJournal(view.folders.consumption).queue_snapshots().items():
        is_retry = queue_id == RETRY_QUEUE_ID
        end = (
            store.indexes.queues.queue_bounds(retry_topic(group), 0)[1]
            if is_retry
            else store.indexes.queues.queue_bounds(topic, queue_id)[1]
        )
        if snapshot.cursor > end:
            where = f"retries of topic {topic}" if is_retry else f"queue {queue_id} of topic {topic}"
            findings.add_finding(
                StoreFinding(
                    StorePart.JOURNAL,
                    f"group {group}",
                    f"is at offset {snapshot.cursor} of {where}, which ends at {end}",
                )
            )
