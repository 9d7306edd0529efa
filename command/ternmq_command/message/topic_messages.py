"""Finds and reads the stored messages of a topic, of all its queues or some, without a group or progress.

Ends    reading stops at the end that each queue had at the beginning, so that it ends although messages arrive.
Order   by offset within a queue, by store time between queues.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from ternmq.connections.endpoints import Endpoints
from ternmq.messages.message_view import MessageView
from ternmq_command.calls.admin import AdminClient
from ternmq_command.calls.messaging import MessagingClient
from ternmq_protos.v2 import definition_pb2 as pb

# If a query by key returns this many messages, there may be more, and all messages are read instead.
FOUND_MAX = 32

QueueKey = tuple[str, int]
"""The name of a broker, and a queue's number there."""


@dataclass(frozen=True, slots=True)
class _QueuePart:
    """The messages that one queue had at the beginning: offsets from `first` to before `end`."""

    queue: pb.MessageQueue
    first: int
    end: int


class TopicMessages:
    """Reads the messages of these queues, which are all of one topic.

    `filter_expression` filters messages that are read by offsets or by key; None for no filter.
    """

    def __init__(
        self, admin: AdminClient, messaging: MessagingClient, topic: str, queues: Iterable[pb.MessageQueue]
    ) -> None:
        self._admin, self._messaging, self._topic = admin, messaging, topic
        self.filter_expression: pb.FilterExpression | None = None
        by_place = sorted(((queue.broker.name, queue.id), queue) for queue in queues)
        self._parts: dict[QueueKey, _QueuePart] = {
            place: _QueuePart(queue, messaging.first_offset(queue), messaging.end_offset(queue))
            for place, queue in by_place
        }

    @property
    def queue_keys(self) -> list[QueueKey]:
        return list(self._parts)

    @property
    def is_empty(self) -> bool:
        return all(part.first == part.end for part in self._parts.values())

    def offset_ranges(self, *, since: datetime | None = None, until: datetime | None = None) -> dict[QueueKey, range]:
        """Return the offsets in each queue of messages stored from `since` to before `until`."""
        return {place: self._offset_range(part, since, until) for place, part in self._parts.items()}

    def read_ranges(self, within: dict[QueueKey, range]) -> Iterator[MessageView]:
        """Yield the messages at these offsets, read as needed."""
        return _merge_by_time(self._read_range(self._parts[place], offsets) for place, offsets in within.items())

    def find_by_key(self, key: str, within: dict[QueueKey, range]) -> Iterator[MessageView]:
        """Yield the messages at these offsets that have the key."""
        views = self.read_ranges(within)
        # The server's query by key has no filter: with one, all messages are read.
        if self.filter_expression is None and len(found := self.query_key(key)) < FOUND_MAX:
            by_offset = sorted(found, key=lambda view: view.offset)
            views = _merge_by_time([view for view in by_offset if queue_key_of(view) == place] for place in within)
        return (view for view in views if key in view.keys and view.offset in within[queue_key_of(view)])

    def find_by_id(self, message_id: str) -> list[MessageView]:
        """Return up to FOUND_MAX messages of that id, the newest first; one that was sent twice is stored twice."""
        views = [view for view in self.query_key(message_id) if view.message_id == message_id]
        return sorted(views, key=lambda view: (stored_s(view), view.offset), reverse=True)

    def query_key(self, key: str) -> list[MessageView]:
        """Return up to FOUND_MAX messages with that key or message id."""
        from ternmq.admin import messages as message_calls

        if not self._parts:
            return []
        answered = self._admin.send_call(message_calls.find_messages(self._topic, key, limit=FOUND_MAX))
        return [view for view in answered if queue_key_of(view) in self._parts]

    def read_at(self, place: QueueKey, queue_offset: int) -> MessageView | None:
        part = self._parts.get(place)
        if part is None or not part.first <= queue_offset < part.end:
            return None
        pulled = self._messaging.pull_page(part.queue, queue_offset, 1).messages
        found = [message for message in pulled if message.system_properties.queue_offset == queue_offset]
        return _message_view(part, found[0]) if found else None

    def _offset_range(self, part: _QueuePart, since: datetime | None, until: datetime | None) -> range:
        start, end = part.first, part.end
        if since is not None:
            start = max(start, self._messaging.offset_at(part.queue, since))
        if until is not None:
            end = min(end, self._messaging.offset_at(part.queue, until))
        return range(start, end)

    def _read_range(self, part: _QueuePart, within: range) -> Iterator[MessageView]:
        for message in self._messaging.read_messages(part.queue, within.start, within.stop, self.filter_expression):
            yield _message_view(part, message)


def queue_key_of(view: MessageView) -> QueueKey:
    return view.broker, view.queue_id


def stored_s(view: MessageView) -> float:
    return view.store_timestamp.timestamp() if view.store_timestamp else 0.0


def _message_view(part: _QueuePart, message: pb.Message) -> MessageView:
    broker = part.queue.broker
    return MessageView(message, broker=broker.name, endpoints=Endpoints.from_proto(broker.endpoints))


def _merge_by_time(parts: Iterable[Iterable[MessageView]]) -> Iterator[MessageView]:
    """Merge the messages of all queues by store time, read as needed; the order within a queue stays."""
    return heapq.merge(*parts, key=stored_s)
