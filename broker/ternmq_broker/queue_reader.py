"""Reads what consumers may see of the store, without ever waiting for the disk."""

from typing import TYPE_CHECKING

from ternmq_common.model import QueueRef, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.queue_index import Location
    from ternmq_broker.store.record import Record
    from ternmq_common.message_filter import MessageFilter


class QueueReader:
    """Reads as far as consumers may; a read that would have to wait raises WouldBlock.

    `lost` counts messages that were there once and can't be read any more.
    """

    def __init__(self, store: "MessageStore", readable_end: "Callable[[], int]") -> None:
        self._store = store
        self._readable_end = readable_end
        self.lost = 0

    def locate(self, topic: str, queue_id: int, offset: int, count: int) -> "list[Location]":
        """Up to `count` messages from `offset` on, as far as they may be read; WouldBlock."""
        locations = self._store.locate(topic, queue_id, offset, count, may_block=False)
        end = self._readable_end()
        if locations and locations[-1].log_offset + locations[-1].size > end:
            return [location for location in locations if location.log_offset + location.size <= end]
        return locations

    def read(self, locations: "Sequence[Location]", passing: "MessageFilter") -> "list[Record]":
        """Those of the messages that are there and pass the filter; WouldBlock."""
        records = self._store.read(locations, may_block=False)
        self.lost += sum(record is None for record in records)
        if passing.takes_all:
            return [record for record in records if record is not None]
        return [record for record in records if record is not None and passing.passes(record.system, record.rest)]

    def read_offsets(
        self, topic: str, queue_id: int, offsets: "Sequence[int]", passing: "MessageFilter"
    ) -> "dict[int, Record]":
        """Those of the messages at these ascending offsets that are there and pass the filter; WouldBlock."""
        locations = list(self.locate_offsets(topic, queue_id, offsets).values())
        return {record.queue_offset: record for record in self.read(locations, passing)}

    def locate_offsets(self, topic: str, queue_id: int, offsets: "Sequence[int]") -> "dict[int, Location]":
        """Where those of the messages at these ascending offsets are that are there; WouldBlock."""
        located: dict[int, Location] = {}
        start = 0
        for end in range(1, len(offsets) + 1):
            if end == len(offsets) or offsets[end] != offsets[end - 1] + 1:
                located.update(enumerate(self._stretch(topic, queue_id, offsets[start], end - start), offsets[start]))
                start = end
        return located

    def _stretch(self, topic: str, queue_id: int, offset: int, count: int) -> "list[Location]":
        """All of `count` messages from `offset` on that are there; `locate` may stop where one index file ends."""
        found: list[Location] = []
        while len(found) < count:
            more = self.locate(topic, queue_id, offset + len(found), count - len(found))
            if not more:
                break
            found += more
        return found

    def first(self, topic: str, queue_id: int) -> int:
        """The first offset that the queue holds."""
        return self._store.bounds(topic, queue_id)[0]


def stored_message(queue: QueueRef, record: "Record") -> StoredMessage:
    return StoredMessage(queue, record.queue_offset, record.stored_ms, record.system, record.rest)


def within_bytes(locations: "list[Location]", bytes_max: int) -> "list[Location]":
    """As many of the first ones as have that size together; one at least, if there is one."""
    total = 0
    for index, location in enumerate(locations):
        total += location.size
        if total > bytes_max and index:
            return locations[:index]
    return locations
