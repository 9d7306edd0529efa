"""Finds and reads the dead letters of a group by `topic_messages`; their topic has one queue on each broker.

Selection   by queue offset on one broker, by message id (the newest letter of that id, since a resent message may have
            become one again), by key, or by the time of becoming a dead letter; an empty selection means all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ternmq.messages.message_view import MessageView
from ternmq_command.calls.admin import AdminClient
from ternmq_command.calls.library import body_record, iso_ms, readable_body
from ternmq_command.calls.messaging import MessagingClient
from ternmq_command.message.topic_messages import QueueKey, TopicMessages
from ternmq_command.terminal.failures import CallRefused, CommandFailure, WrongUsage
from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON
from ternmq_common.names import dead_letter_topic
from ternmq_protos.v2 import definition_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """A selection of dead letters.

    `since` and `until`, which is exclusive, are store times; they can be combined with `key` only.
    """

    queue_offsets: tuple[int, ...] = ()
    message_ids: tuple[str, ...] = ()
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class DeadLetters:
    """Reads one group's letters, of all brokers or of one.

    `missing` lists selected letters that do not exist. `is_spread` is true if there are several brokers, so that an
    offset alone identifies no letter.
    """

    def __init__(self, admin: AdminClient, messaging: MessagingClient, group: str, *, broker: str = "") -> None:
        self.missing: list[str] = []
        self._admin, self._messaging = admin, messaging
        self._topic = dead_letter_topic(group)
        queues = {queue.broker.name: queue for queue in self._find_queues(group)}
        self.is_spread = len(queues) > 1
        if broker and queues and broker not in queues:
            raise CommandFailure(f"{self._topic} is not on broker {broker}; it is on {', '.join(sorted(queues))}")
        wanted = [queue for name, queue in queues.items() if broker in ("", name)]
        self._messages = TopicMessages(admin, messaging, self._topic, wanted)

    def _find_queues(self, group: str) -> list[pb.MessageQueue]:
        """Return one queue for each broker, none before the first letter; raises Refused if there is no such group."""
        from ternmq.admin import groups as group_calls

        try:
            queues = self._messaging.readable_queues(self._topic)
        except CallRefused as refusal:
            if refusal.code != pb.TOPIC_NOT_FOUND:
                raise
            self._admin.send_call(group_calls.describe_group(group))
            return []
        return [queue for queue in queues if queue.id == 0]

    @property
    def is_empty(self) -> bool:
        return self._messages.is_empty

    def read_letters(self, selection: LetterSelection) -> Iterator[MessageView]:
        """Yield the selected letters: those selected by offset or id as listed, others by offset and, between brokers,
        time."""
        if selection.queue_offsets:
            return self._read_offsets(selection.queue_offsets)
        if selection.message_ids:
            return self._read_ids(selection.message_ids)
        within = self._messages.offset_ranges(since=selection.since, until=selection.until)
        if selection.key is not None:
            return self._messages.find_by_key(selection.key, within)
        return self._messages.read_ranges(within)

    def find_offsets(self, selection: LetterSelection) -> dict[str, Sequence[int]]:
        """Return the offsets of the selected letters by broker; given offsets are not checked."""
        if selection.queue_offsets:
            broker, _ = self._only_queue_key()
            return {broker: list(dict.fromkeys(selection.queue_offsets))}
        if selection.message_ids or selection.key is not None:
            places: dict[str, list[int]] = {}
            for view in self.read_letters(selection):
                places.setdefault(view.broker, []).append(view.offset)
            return dict(places)
        ranges = self._messages.offset_ranges(since=selection.since, until=selection.until)
        return {broker: within for (broker, _), within in ranges.items() if within}

    def read_at(self, queue_offset: int) -> MessageView | None:
        return self._messages.read_at(self._only_queue_key(), queue_offset)

    def _only_queue_key(self) -> QueueKey:
        """Return the queue that an offset belongs to; raises WrongUsage if there are several brokers."""
        places = self._messages.queue_keys
        if len(places) > 1:
            names = ", ".join(broker for broker, _ in places)
            raise WrongUsage(f"several brokers have dead letters: choose one with --broker: {names}")
        return next(iter(places), ("", 0))

    def find_by_id(self, message_id: str) -> MessageView | None:
        """Return the newest letter of that message id, None if there is none."""
        return next(iter(self._messages.find_by_id(message_id)), None)

    def _read_offsets(self, queue_offsets: Sequence[int]) -> Iterator[MessageView]:
        for queue_offset in dict.fromkeys(queue_offsets):
            view = self.read_at(queue_offset)
            if view is None:
                self.missing.append(f"offset {queue_offset}")
            else:
                yield view

    def _read_ids(self, message_ids: Sequence[str]) -> Iterator[MessageView]:
        for message_id in dict.fromkeys(message_ids):
            view = self.find_by_id(message_id)
            if view is None:
                self.missing.append(f"id {message_id}")
            else:
                yield view


def letter_record(view: MessageView, *, with_broker: bool = False) -> dict[str, object]:
    """Return the record of a letter in a list."""
    origin = view.to_proto().system_properties.dead_letter_queue
    attempts = view.properties.get(ATTEMPTS, "")
    return {
        **({"broker": view.broker} if with_broker else {}),
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


def full_letter_record(view: MessageView, *, with_broker: bool = False) -> dict[str, object]:
    """Return the record of a letter with all fields."""
    origin = view.to_proto().system_properties.dead_letter_queue
    listed = letter_record(view)
    return {
        **({"broker": view.broker} if with_broker else {}),
        "offset": view.offset,
        "message_id": view.message_id,
        "origin_topic": listed["origin_topic"],
        "origin_message_id": view.properties.get(ORIGIN_MESSAGE_ID) or origin.message_id or None,
        "attempts": listed["attempts"],
        "reason": listed["reason"],
        "tag": view.tag,
        "keys": list(view.keys),
        "message_group": view.message_group,
        "priority": view.priority,
        "lite_topic": view.lite_topic,
        "properties": dict(sorted(view.properties.items())),
        "born": iso_ms(view.born_timestamp),
        "stored": listed["stored"],
        "delivery": iso_ms(view.delivery_timestamp),
        "body_bytes": view.stored_bytes,
        **body_record(readable_body(view)),
    }
