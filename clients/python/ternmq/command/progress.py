"""How far a group is: records of its queues, their sum, and what a person reads of it.

Lag         messages of a queue that are neither acknowledged nor given up; in seconds, the age of the oldest of them.
"""

from typing import TYPE_CHECKING

from ternmq.command.output import age_text, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ternmq.command.output import Record
    from ternmq_protos.admin_v1 import admin_pb2


def progress_record(progress: "admin_pb2.Progress") -> dict[str, object]:
    lag = progress.max_offset - progress.cursor + progress.in_flight
    return {
        "topic": progress.topic,
        "broker": progress.broker,
        "queue": progress.queue_id,
        "committed": progress.committed,
        "delivered": progress.cursor,
        "in_flight": progress.in_flight,
        "end_offset": progress.max_offset,
        "lag": lag,
        "lag_s": _age_s(progress, lag),
    }


def _age_s(progress: "admin_pb2.Progress", lag: int) -> float | None:
    """None when the server did not say."""
    if progress.HasField("oldest_age"):
        return progress.oldest_age.ToMilliseconds() / 1000
    return None if lag else 0.0


def totals(entries: "Iterable[admin_pb2.Progress]") -> dict[str, object]:
    """`in_flight` and `lag` of all together, `lag_s` of the one that is furthest behind."""
    pairs = [(entry, entry.max_offset - entry.cursor + entry.in_flight) for entry in entries]
    ages = [age for entry, lag in pairs if (age := _age_s(entry, lag)) is not None]
    lag = sum(lag for _, lag in pairs)
    return {
        "in_flight": sum(entry.in_flight for entry, _ in pairs),
        "lag": lag,
        "lag_s": max(ages) if ages else None if lag else 0.0,
    }


def shown_progress(records: "Sequence[Record]") -> "list[dict[str, object]]":
    """Rows for a table: `oldest` instead of a number of seconds."""
    rows = []
    for record in records:
        row = {name: value for name, value in record.items() if name != "lag_s"}
        lag_s = record["lag_s"]
        rows.append({**row, "oldest": age_text(lag_s) if isinstance(lag_s, float) and record["lag"] else None})
    return rows


def lag_sentence(total: "Record") -> str:
    """`12 messages, the oldest 3h12m old`."""
    lag, lag_s = total["lag"], total["lag_s"]
    assert isinstance(lag, int)
    text = counted(lag, "message")
    return f"{text}, the oldest {age_text(lag_s)} old" if lag and isinstance(lag_s, float) else text
