"""Formats the progress of a consumer group: records of its queues, their sums, and texts for people.

Lag         messages of a queue that are neither acknowledged nor given up; in seconds, the age of the oldest of them.
Lost        messages that retention or a purge removed before the group had read them.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from ternmq_command.group.members import holder_cells, lock_record, reader_record
from ternmq_command.terminal.output import drop_empty_columns, format_age, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq.admin.groups import QueueProgress
    from ternmq_command.terminal.output import Record


def progress_record(progress: "QueueProgress") -> dict[str, object]:
    return {
        "topic": progress.topic,
        "broker": progress.broker,
        "queue": progress.queue_id,
        "committed": progress.committed,
        "delivered": progress.cursor,
        "in_flight": progress.in_flight,
        "end_offset": progress.max_offset,
        "lost": progress.lost,
        "lag": progress.lag,
        "lag_s": _age_s(progress),
        "reader": reader_record(progress.reader),
        "lock": lock_record(progress.lock),
    }


def _age_s(progress: "QueueProgress") -> float | None:
    """Return the age of the oldest unfinished message, in seconds to the millisecond; None if unknown."""
    if progress.oldest_age is not None:
        return progress.oldest_age // timedelta(milliseconds=1) / 1000
    return None if progress.lag else 0.0


def sum_progress(entries: "Sequence[QueueProgress]") -> dict[str, object]:
    """Return the sums of `in_flight`, `lag` and `lost`, and the largest `lag_s`."""
    ages = [age for entry in entries if (age := _age_s(entry)) is not None]
    lag = sum(entry.lag for entry in entries)
    return {
        "in_flight": sum(entry.in_flight for entry in entries),
        "lag": lag,
        "lag_s": max(ages) if ages else None if lag else 0.0,
        "lost": sum(entry.lost for entry in entries),
    }


def progress_rows(records: "Sequence[Record]") -> "list[dict[str, object]]":
    """Return the rows of a table, with `oldest` as text instead of `lag_s`; readers and locks only where some are."""
    rows = []
    for record in records:
        row = {name: value for name, value in record.items() if name not in ("lag_s", "reader", "lock")}
        lag_s = record["lag_s"]
        row["oldest"] = format_age(lag_s) if isinstance(lag_s, float) and record["lag"] else None
        rows.append({**row, **holder_cells(record)})
    return drop_empty_columns(rows, "reader", "reader_since", "lock", "lock_since")


def format_lag(total: "Record") -> str:
    """Format a lag: `12 messages, the oldest 3h12m old`."""
    lag, lag_s = total["lag"], total["lag_s"]
    assert isinstance(lag, int)
    text = format_count(lag, "message")
    return f"{text}, the oldest {format_age(lag_s)} old" if lag and isinstance(lag_s, float) else text
