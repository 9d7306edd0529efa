"""Checks the small files beside the log, and the consumption journal, by their checksums."""

import json
from typing import TYPE_CHECKING

from ternmq_broker.store import (
    applied_operations,
    catching_up,
    checked_file,
    joining,
    journal_lines,
    store_format,
)
from ternmq_broker.store.checked_file import DamagedFile
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.progress_journal import ProgressJournal
from ternmq_broker.store_tools.findings import Finding, Findings, StorePart
from ternmq_common.model import RETRY_QUEUE_ID
from ternmq_common.names import retry_topic

if TYPE_CHECKING:
    from ternmq_broker.store.files import Folder
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_tools.store_view import StoreView

JOURNAL = "journal"
LOW_WATERMARKS = "floors"
DERIVED = ("checkpoint", "accepted-damage", applied_operations.EPOCHS)
OF_COPIES = (catching_up.NAME, joining.JOINED)
NEEDED = ("forgotten", *OF_COPIES)


def check_side_files(view: "StoreView", findings: Findings) -> None:
    """Check the checksums of the side files. NewerFormat."""
    if not view.is_layout_1:
        for name in (store_format.NAME, store_format.COPY):
            _check_format(name, view.format_files.get(name), findings)
    for name in (*DERIVED, *NEEDED):
        _check_file(view.folders.root, "", name, findings, is_plain=view.is_layout_1)
    _check_file(view.folders.index, "index/", LOW_WATERMARKS, findings, is_plain=view.is_layout_1)
    _, bad_bytes = durable_watermarks.decoded(view.folders.root.content(durable_watermarks.NAME) or b"")
    if bad_bytes:
        findings.add(Finding(StorePart.SIDE_FILE, durable_watermarks.NAME, f"{bad_bytes} bytes of it are no entries"))


def _check_format(name: str, data: bytes | None, findings: Findings) -> None:
    if data is None:
        findings.add(Finding(StorePart.FORMAT, name, "is missing"))
        return
    try:
        checked_file.decoded(name, store_format.NAME, store_format.LAYOUT, data)
    except DamagedFile as error:
        findings.add(Finding(StorePart.FORMAT, name, error.reason))


def _check_file(folder: "Folder", folder_name: str, name: str, findings: Findings, *, is_plain: bool) -> None:
    data = folder.content(name)
    if data is None:
        return
    try:
        if is_plain and not checked_file.is_checked(data):
            json.loads(data)
        else:
            checked_file.decoded(name, name, 1, data)
    except DamagedFile as error:
        findings.add(Finding(StorePart.SIDE_FILE, folder_name + name, error.reason))
    except ValueError:
        findings.add(Finding(StorePart.SIDE_FILE, folder_name + name, "it is no JSON"))


def check_journal(view: "StoreView", findings: Findings) -> int:
    """Check the checksum of each line; return how many lines there are."""
    count = 0
    for found in journal_lines.read(view.folders.consumption.content(JOURNAL) or b""):
        count += 1
        place = f"consumption/{JOURNAL} byte {found.start}"
        if found.torn:
            findings.add(Finding(StorePart.JOURNAL, place, "the last line was not written to its end", harmless=True))
        elif found.line is None:
            findings.add(Finding(StorePart.JOURNAL, place, f"{found.size} bytes are damaged"))
        elif found.mended:
            findings.add(Finding(StorePart.JOURNAL, place, "a byte of the line is damaged, which a start puts right"))
    return count


def check_progress(view: "StoreView", store: "MessageStore", findings: Findings) -> None:
    """Check that no group is further than its queue. For a recovered view."""
    for (group, topic, queue_id), snapshot in ProgressJournal(view.folders.consumption).snapshots().items():
        is_retry = queue_id == RETRY_QUEUE_ID
        end = store.bounds(retry_topic(group), 0)[1] if is_retry else store.bounds(topic, queue_id)[1]
        if snapshot.cursor > end:
            where = f"retries of topic {topic}" if is_retry else f"queue {queue_id} of topic {topic}"
            findings.add(
                Finding(
                    StorePart.JOURNAL,
                    f"group {group}",
                    f"is at offset {snapshot.cursor} of {where}, which ends at {end}",
                )
            )
