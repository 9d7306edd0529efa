"""The small files beside the log, and the consumption journal: do they say what was once written?"""

import json
from typing import TYPE_CHECKING
from zlib import crc32

from ternmq_broker.store import checked_file, store_format
from ternmq_broker.store.checked_file import DamagedFile
from ternmq_broker.store.progress_journal import ProgressJournal
from ternmq_broker.store_tools import durable_file
from ternmq_broker.store_tools.durable_file import durable_marks
from ternmq_broker.store_tools.findings import Finding, Findings, Part
from ternmq_common.model import RETRY_QUEUE_ID
from ternmq_common.names import retry_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_broker.store.files import Folder
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_tools.looking import StoreView

JOURNAL = "journal"
FLOORS = "floors"
DERIVED = ("checkpoint", "accepted-damage")
NEEDED = ("forgotten",)
_CHECK_DIGITS = 8


def check_side_files(view: "StoreView", findings: Findings) -> None:
    """Their checksums. NewerFormat."""
    if not view.is_layout_1:
        for name in (store_format.NAME, store_format.COPY):
            _check_format(name, view.format_files.get(name), findings)
    for name in (*DERIVED, *NEEDED):
        _check_file(view.folders.root, "", name, findings, is_plain=view.is_layout_1)
    _check_file(view.folders.index, "index/", FLOORS, findings, is_plain=view.is_layout_1)
    bad_bytes = durable_marks(view)[1]
    if bad_bytes:
        findings.add(Finding(Part.SIDE_FILE, durable_file.NAME, f"{bad_bytes} bytes of it are no entries"))


def _check_format(name: str, data: bytes | None, findings: Findings) -> None:
    if data is None:
        findings.add(Finding(Part.FORMAT, name, "is missing"))
        return
    try:
        checked_file.decoded(name, store_format.NAME, store_format.LAYOUT, data)
    except DamagedFile as error:
        findings.add(Finding(Part.FORMAT, name, error.reason))


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
        findings.add(Finding(Part.SIDE_FILE, folder_name + name, error.reason))
    except ValueError:
        findings.add(Finding(Part.SIDE_FILE, folder_name + name, "it is no JSON"))


def check_journal(view: "StoreView", findings: Findings) -> int:
    """The checksum of each line; how many there are."""
    data = view.folders.consumption.content(JOURNAL) or b""
    count = 0
    for position, line in _lines(data):
        count += 1
        if _is_whole(line):
            continue
        # A line whose checksum fits was written to its end.
        is_torn = position + len(line) == len(data) and not line.endswith(b"\n") and not _is_whole(line[:-1] + b"\n")
        findings.add(
            Finding(
                Part.JOURNAL,
                f"consumption/{JOURNAL} byte {position}",
                "the last line was not written to its end" if is_torn else "the line is damaged",
                harmless=is_torn,
            )
        )
    return count


def _lines(data: bytes) -> "Iterator[tuple[int, bytes]]":
    position = 0
    for line in data.splitlines(keepends=True):
        yield position, line
        position += len(line)


def _is_whole(line: bytes) -> bool:
    """By the format that `progress_journal` writes."""
    content = line[_CHECK_DIGITS + 1 : -1]
    return line.endswith(b"\n") and line[:_CHECK_DIGITS] == f"{crc32(content):0{_CHECK_DIGITS}x}".encode()


def check_progress(view: "StoreView", store: "MessageStore", findings: Findings) -> None:
    """No group may be further than its queue. For a recovered view."""
    for (group, topic, queue_id), snapshot in ProgressJournal(view.folders.consumption).snapshots().items():
        is_retry = queue_id == RETRY_QUEUE_ID
        end = store.bounds(retry_topic(group), 0)[1] if is_retry else store.bounds(topic, queue_id)[1]
        if snapshot.cursor > end:
            where = f"retries of topic {topic}" if is_retry else f"queue {queue_id} of topic {topic}"
            findings.add(
                Finding(
                    Part.JOURNAL,
                    f"group {group}",
                    f"is said to be at offset {snapshot.cursor} of {where}, which ends at {end}",
                )
            )
