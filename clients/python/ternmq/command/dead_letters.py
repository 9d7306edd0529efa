"""The dead letters of a group: the messages of its dead letter topic, found and read as a stream. The topic is a log of
one queue on each broker.

Selection   by queue offset on one broker, by message id (the newest letter of that id, as one that was resent may have
            died again), by key, or by the time at which they became dead letters; nothing at all means every one.
Ends        reading stops at the end of the queue as it was at the first look, so that it ends while letters arrive.

The module imports grpc, so subcommands import it when they run.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ternmq.command.admin import AdminClient
from ternmq.command.failures import CommandFailure, Refused, WrongUsage
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


@dataclass(frozen=True, slots=True)
class _Part:
    """The letters on one broker: offsets `first` up to, not including, `end`."""

    queue: pb.MessageQueue
    first: int
    end: int


class DeadLetters:
    """Reads one group's letters, of all brokers or of one; `missing` names what a selection asked for and isn't there.

    `is_spread`: there are several brokers, so that an offset alone names no letter.
    """

    def __init__(self, admin: AdminClient, messaging: MessagingClient, group: str, *, broker: str = "") -> None:
        self.missing: list[str] = []
        self._admin, self._messaging = admin, messaging
        self._topic = dead_letter_topic(group)
        queues = {queue.broker.name: queue for queue in self._found_queues(group)}
        self.is_spread = len(queues) > 1
        if broker and queues and broker not in queues:
            raise CommandFailure(f"{self._topic} is not on broker {broker}; it is on {', '.join(sorted(queues))}")
        self._parts = {
            name: _Part(queue, messaging.first_offset(queue), messaging.end_offset(queue))
            for name, queue in sorted(queues.items())
            if broker in ("", name)
        }

    def _found_queues(self, group: str) -> list[pb.MessageQueue]:
        """One for each broker, none if no letter ever came; the server's refusal if there is not even such a group."""
        try:
            queues = self._messaging.queues(self._topic)
        except Refused as refusal:
            if refusal.code != pb.TOPIC_NOT_FOUND:
                raise
            self._admin.group(group)
            return []
        return [queue for queue in queues if queue.id == 0]

    @property
    def is_empty(self) -> bool:
        return all(part.first == part.end for part in self._parts.values())

    def letters(self, selection: Selection) -> Iterator[MessageView]:
        """The selected letters, each broker's in the order of their offsets and the brokers' by time, or as they were
        named."""
        if selection.queue_offsets:
            return self._at_offsets(selection.queue_offsets)
        if selection.message_ids:
            return self._of_ids(selection.message_ids)
        if selection.key is not None:
            return self._with_key(selection.key, self._ranges(selection))
        return self._in_ranges(self._ranges(selection))

    def offsets(self, selection: Selection) -> dict[str, Sequence[int]]:
        """Where the selected letters are, by their brokers; those named by offset are not looked for."""
        if selection.queue_offsets:
            return {self._only_broker(): list(dict.fromkeys(selection.queue_offsets))}
        if selection.message_ids or selection.key is not None:
            places: dict[str, list[int]] = {}
            for view in self.letters(selection):
                places.setdefault(view.broker, []).append(view.offset)
            return dict(places)
        return {broker: within for broker, within in self._ranges(selection).items() if within}

    def at_offset(self, queue_offset: int) -> MessageView | None:
        part = self._parts.get(self._only_broker())
        if part is None or not part.first <= queue_offset < part.end:
            return None
        pulled = self._messaging.pull(part.queue, queue_offset, 1).messages
        found = [message for message in pulled if message.system_properties.queue_offset == queue_offset]
        return self._view(part, found[0]) if found else None

    def _only_broker(self) -> str:
        """The broker whose offsets are meant."""
        if len(self._parts) > 1:
            raise WrongUsage(f"offsets are those of one broker: say --broker, one of {', '.join(self._parts)}")
        return next(iter(self._parts), "")

    def of_id(self, message_id: str) -> MessageView | None:
        """The newest letter of that message."""
        views = [view for view in self._found(message_id) if view.message_id == message_id]
        return max(views, key=lambda view: (_stored_s(view), view.offset), default=None)

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

    def _with_key(self, key: str, within: dict[str, range]) -> Iterator[MessageView]:
        found = self._found(key)
        views = self._in_ranges(within)
        if len(found) < FOUND_MAX:
            by_offset = sorted(found, key=lambda view: view.offset)
            views = _by_time([view for view in by_offset if view.broker == broker] for broker in within)
        return (view for view in views if key in view.keys and view.offset in within[view.broker])

    def _found(self, key: str) -> list[MessageView]:
        """Up to FOUND_MAX letters with that key or message id."""
        if not self._parts:
            return []
        found = self._admin.query_messages(self._topic, key, limit=FOUND_MAX)
        return [self._view(self._parts[broker], message) for broker, message in found if broker in self._parts]

    def _ranges(self, selection: Selection) -> dict[str, range]:
        return {broker: self._range(part, selection) for broker, part in self._parts.items()}

    def _range(self, part: _Part, selection: Selection) -> range:
        start, end = part.first, part.end
        if selection.since is not None:
            start = max(start, self._messaging.offset_at(part.queue, selection.since))
        if selection.until is not None:
            end = min(end, self._messaging.offset_at(part.queue, selection.until))
        return range(start, end)

    def _in_ranges(self, within: dict[str, range]) -> Iterator[MessageView]:
        return _by_time(self._in_range(self._parts[broker], offsets) for broker, offsets in within.items())

    def _in_range(self, part: _Part, within: range) -> Iterator[MessageView]:
        for message in self._messaging.messages(part.queue, within.start, within.stop):
            yield self._view(part, message)

    def _view(self, part: _Part, message: pb.Message) -> MessageView:
        broker = part.queue.broker
        return MessageView(message, broker=broker.name, endpoints=Endpoints.from_proto(broker.endpoints))


def _by_time(parts: Iterable[Iterable[MessageView]]) -> Iterator[MessageView]:
    """The letters of all brokers, each read as it is asked for; the order within a broker stays."""
    return heapq.merge(*parts, key=_stored_s)


def _stored_s(view: MessageView) -> float:
    return view.store_timestamp.timestamp() if view.store_timestamp else 0.0


def letter_record(view: MessageView, *, with_broker: bool = False) -> dict[str, object]:
    """One line of a list."""
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


def whole_record(view: MessageView, *, with_broker: bool = False) -> dict[str, object]:
    """All that there is to know."""
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
        "properties": dict(sorted(view.properties.items())),
        "born": iso_ms(view.born_timestamp),
        "stored": listed["stored"],
        "body_bytes": view.stored_bytes,
        **body_record(readable_body(view)),
    }
