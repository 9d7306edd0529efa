"""Formats the members of a consumer group, and which of them reads or has locked a queue."""

from typing import TYPE_CHECKING

from ternmq_command.terminal.output import drop_empty_columns, iso_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq.admin.groups import GroupMember, QueueLock, QueueReader
    from ternmq_command.terminal.output import Record

DETAILS = ("protocol", "language", "version", "address", "since", "proxy")
"""Fields of a member that the server may not know, or may hide."""


def member_record(member: "GroupMember") -> dict[str, object]:
    """Return the record of a member; what is unknown is null."""
    return {
        "client": member.client_id,
        "type": member.client_type,
        "protocol": member.protocol or None,
        "language": member.language.lower() or None,
        "version": member.version or None,
        "address": member.address or None,
        "since": iso_or_none(member.since),
        "proxy": member.proxy or None,
        "subscriptions": dict(member.subscriptions),
    }


def member_rows(members: "Iterable[GroupMember]") -> list[dict[str, object]]:
    """Return the rows of a table, without what is unknown of all."""
    return drop_empty_columns(list(map(_member_row, members)), *DETAILS)


def _member_row(member: "GroupMember") -> dict[str, object]:
    subscriptions = "; ".join(f"{topic}: {wanted}" for topic, wanted in member.subscriptions.items())
    return {**member_record(member), "subscriptions": subscriptions or None}


def reader_record(reader: "QueueReader | None") -> "Record | None":
    if reader is None:
        return None
    return {
        "client": reader.client_id,
        "since": iso_or_none(reader.since),
        "last_pull": iso_or_none(reader.last_pull, timespec="milliseconds"),
    }


def lock_record(lock: "QueueLock | None") -> "Record | None":
    if lock is None:
        return None
    return {"client": lock.client_id, "since": iso_or_none(lock.since), "until": iso_or_none(lock.until)}


def holder_cells(record: "Record") -> dict[str, object]:
    """Return the cells of a table for the reader and the lock in a queue's record."""
    cells: dict[str, object] = {}
    for title, holder in (("reader", record["reader"]), ("lock", record["lock"])):
        known = holder if isinstance(holder, dict) else {}
        cells[title], cells[f"{title}_since"] = known.get("client"), known.get("since")
    return cells
