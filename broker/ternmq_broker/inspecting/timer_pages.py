"""Pages of waiting timed messages, for operators.

Order     by the time at which they are due, then by log offset.
Position  `DUE-OFFSET` in hexadecimal: the key of the timer index from which the next page goes on.
Cost      a call reads about `READ_MAX` records and `READ_BYTES_MAX` bytes, even if few of them are of the requested
          topic: a page may be empty although more follow.
"""

import re
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import QueueRef, TimerPage, WaitingTimer

if TYPE_CHECKING:
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.timers.timer_run import Key, TimerEntry
    from ternmq_broker.timers import TimerDelivery

READ_MAX = 512
READ_BYTES_MAX = 8 << 20
_PAGE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16})", re.ASCII)


class TimerPages:
    """Lists the waiting timed messages of one broker."""

    def __init__(self, name: str, store: "MessageStore", timers: "TimerDelivery") -> None:
        self._name = name
        self._store = store
        self._timers = timers

    async def list_timers(self, *, topic: str, start: str, limit: int) -> TimerPage:
        """A page of the timers of that topic, or of all if it is empty; BAD_REQUEST for an invalid `start`."""
        entries, following = await self._timers.list_pending(_parse_position(start), READ_MAX)
        taken = entries[: _count_affordable(entries)]
        if len(taken) < len(entries):
            following = _key_of(entries[len(taken)])
        found: list[WaitingTimer] = []
        for entry, record in zip(taken, await self._timers.read_records(taken), strict=True):
            if record is None or self._store.deletions.is_forgotten(record.topic, entry.log_offset):
                continue
            if topic in ("", record.topic):
                if len(found) == limit:
                    following = _key_of(entry)
                    break
                queue = QueueRef(record.topic, self._name, record.queue_id)
                found.append(
                    WaitingTimer(
                        queue=queue,
                        due_ms=entry.due_ms,
                        stored_ms=record.stored_ms,
                        system=record.system,
                        size=entry.size,
                    )
                )
        return TimerPage(found, "" if following is None else f"{following[0]:x}-{following[1]:x}")


def _key_of(entry: "TimerEntry") -> "Key":
    return entry.due_ms, entry.log_offset


def _count_affordable(entries: "list[TimerEntry]") -> int:
    """How many entries are read in one call; at least one, however long it is."""
    size = 0
    for number, entry in enumerate(entries[:READ_MAX]):
        size += entry.size
        if number and size > READ_BYTES_MAX:
            return number
    return min(len(entries), READ_MAX)


def _parse_position(start: str) -> "Key":
    if not start:
        return 0, 0
    found = _PAGE.fullmatch(start)
    if found is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"{start[:100]!r} is no page; give what next_page was")
    due, log_offset = found.groups()
    return int(due, 16), int(log_offset, 16)
