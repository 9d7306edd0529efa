"""The dead letters of a group: the messages of its dead letter topic, a log of one queue, found and read as a stream.

Selection   by queue offset, by message id (the newest letter of that id: one that was resent may have died again), by
            key, or by the time at which they became dead letters; nothing at all means every one.
Ends        reading stops at the end of the queue as it was at the first look, so that it ends while letters arrive.

The module imports grpc, so subcommands import it when they run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ternmq.command.admin import AdminClient
from ternmq.command.failures import Refused
from ternmq.command.library import body_record, iso_ms, readable_body
from ternmq.command.messaging import MessagingClient
from ternmq.endpoints import Endpoints
from ternmq.message_view import MessageView
from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON
from ternmq_common.names import dead_letter_topic
from ternmq_protos.v2 import definition_pb2 as pb

# When as many letters as this have a key, there may be more, and the whole topic is read. Servers find a few at most.
FOUND_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters; times are those of storing, `until` is not included and goes with `key` or alone, as `since`."""

    queue_offsets: tuple[int, ...] = ()
    message_ids: tuple[str, ...] = ()
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class DeadLetters:
    """Reads one group's letters; `missing` names what a selection asked for and the topic does not have."""

    def __init__(self, admin: AdminClient, messaging: MessagingClient, group: str) -> None:
        self.missing: list[str] = []
        self._admin, self._messaging = admin, messaging
        self._topic = dead_letter_topic(group)
        self._queue = self._found_queue(group)
        self._first, self._end = 0, 0
        if self._queue is not None:
            self._first, self._end = messaging.first_offset(self._queue), messaging.end_offset(self._queue)

    def _found_queue(self, group: str) -> pb.MessageQueue | None:
        """None if no letter ever came; the refusal of the server if there is not even such a group."""
        try:
            queues = self._messaging.queues(self._topic)
        except Refused as refusal:
            if refusal.code != pb.TOPIC_NOT_FOUND:
                raise
            self._admin.group(group)
            return None
        return next((queue for queue in queues if queue.id == 0), None)

    @property
    def is_empty(self) -> bool:
        return self._first == self._end

    def letters(self, selection: Selection) -> Iterator[MessageView]:
        """The selected letters in the order of their offsets, or as they were named."""
        if selection.queue_offsets:
            return self._at_offsets(selection.queue_offsets)
        if selection.message_ids:
            return self._of_ids(selection.message_ids)
        if selection.key is not None:
            return self._with_key(selection.key, self._range(selection))
        return self._in_range(self._range(selection))

    def offsets(self, selection: Selection) -> Sequence[int]:
        """Where the selected letters are; those named by offset are not looked for."""
        if selection.queue_offsets:
            return list(dict.fromkeys(selection.queue_offsets))
        if selection.message_ids or selection.key is not None:
            return [view.offset for view in self.letters(selection)]
        return self._range(selection)

    def at_offset(self, queue_offset: int) -> MessageView | None:
        if self._queue is None or not self._first <= queue_offset < self._end:
            return None
        pulled = self._messaging.pull(self._queue, queue_offset, 1).messages
        found = [message for message in pulled if message.system_properties.queue_offset == queue_offset]
        return self._view(found[0]) if found else None

    def of_id(self, message_id: str) -> MessageView | None:
        """The newest letter of that message."""
        views = [view for view in self._found(message_id) if view.message_id == message_id]
        return max(views, key=lambda view: view.offset, default=None)

    def _at_offsets(self, queue_offsets: Sequence[int]) -> Iterator[MessageView]:
        for queue_offset in dict.fromkeys(queue_offsets):
            view = self.at_offset(queue_offset)
            if view is None:
                self.missing.append(f"offset {queue_offset}")
            else:
                yield view

    def _of_ids(self, message_ids: Sequence[str]) -> Iterator[MessageView]:
        for message_id in dict.fromkeys(message_ids):
            view = self.of_id(message_id)
            if view is None:
                self.missing.append(f"id {message_id}")
            else:
                yield view

    def _with_key(self, key: str, within: range) -> Iterator[MessageView]:
        found = self._found(key)
        views = sorted(found, key=lambda view: view.offset) if len(found) < FOUND_MAX else self._in_range(within)
        return (view for view in views if key in view.keys and view.offset in within)

    def _found(self, key: str) -> list[MessageView]:
        """Up to FOUND_MAX letters with that key or message id."""
        if self._queue is None:
            return []
        return [self._view(message) for message in self._admin.query_messages(self._topic, key, limit=FOUND_MAX)]

    def _range(self, selection: Selection) -> range:
        start, end = self._first, self._end
        if self._queue is not None and selection.since is not None:
            start = max(start, self._messaging.offset_at(self._queue, selection.since))
        if self._queue is not None and selection.until is not None:
            end = min(end, self._messaging.offset_at(self._queue, selection.until))
        return range(start, end)

    def _in_range(self, within: range) -> Iterator[MessageView]:
        if self._queue is not None:
            yield from map(self._view, self._messaging.messages(self._queue, within.start, within.stop))

    def _view(self, message: pb.Message) -> MessageView:
        broker = self._queue.broker if self._queue else pb.Broker()
        return MessageView(message, broker=broker.name, endpoints=Endpoints.from_proto(broker.endpoints))


def letter_record(view: MessageView) -> dict[str, object]:
    """One line of a list."""
    origin = view.to_proto().system_properties.dead_letter_queue
    attempts = view.properties.get(ATTEMPTS, "")
    return {
        "offset": view.offset,
        "message_id": view.message_id,
        "origin_topic": view.properties.get(ORIGIN_TOPIC) or origin.topic or None,
        "keys": list(view.keys),
        "tag": view.tag,
        "attempts": int(attempts) if attempts.isascii() and attempts.isdigit() else None,
        "reason": view.properties.get(REASON),
        "stored": iso_ms(view.store_timestamp),
        "body_bytes": view.stored_bytes,
    }


def whole_record(view: MessageView) -> dict[str, object]:
    """All that there is to know."""
    origin = view.to_proto().system_properties.dead_letter_queue
    listed = letter_record(view)
    return {
        "offset": view.offset,
        "message_id": view.message_id,
        "origin_topic": listed["origin_topic"],
        "origin_message_id": view.properties.get(ORIGIN_MESSAGE_ID) or origin.message_id or None,
        "attempts": listed["attempts"],
        "reason": listed["reason"],
        "tag": view.tag,
        "keys": list(view.keys),
        "message_group": view.message_group,
        "properties": dict(sorted(view.properties.items())),
        "born": iso_ms(view.born_timestamp),
        "stored": listed["stored"],
        "body_bytes": view.stored_bytes,
        **body_record(readable_body(view)),
    }
