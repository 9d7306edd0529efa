"""SendMessage of many ordinary messages, taken from the bytes of the request as `sent_messages` has it.

A request that is too long for `begin_send` is read in steps of half a millisecond, between which others have their
turns. Messages of a FIFO or LITE topic may be of several message groups or lite topics: those of one queue are stored
together, and their entries say what became of them. Whatever is not ordinary is left to `send_message`.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ternmq_common.callbacks import wait_until_stored
from ternmq_common.errors import MessagingError
from ternmq_common.fairness import Turns
from ternmq_common.message_type import MessageType
from ternmq_protos.v2.service_pb2 import SendMessageResponse, SendResultEntry
from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.fronts.grpc.activities.request_bytes import NotOrdinary, content, resource_name
from ternmq_proxy.fronts.grpc.activities.sent_form import sent, sent_apart
from ternmq_proxy.fronts.grpc.activities.sent_messages import MESSAGES_TAG, Sender, sent_message
from ternmq_proxy.fronts.grpc.activities.status import OK, overall, status
from ternmq_proxy.processors.placement import queue_of_group, queue_of_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.model import NewMessage, QueueRef, Route
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# A tenth of a millisecond, unless the last one is large.
_STEP_MESSAGES, _STEP_BYTES = 16, 64 << 10
# What md5 does in half a millisecond.
_MESSAGE_BYTES_MAX = 256 << 10


class _Batch:
    """The messages of a request, as far as it was read. `lanes` has each one's message group and lite topic."""

    def __init__(self, data: bytes, sender: Sender, most: int) -> None:
        self._data = data
        self._sender = sender
        self._most = most
        self._at = 0
        self._topic = b""
        self.messages: list[NewMessage] = []
        self.lanes: list[tuple[str, str]] = []

    def read_some(self) -> bool:
        """Read some more; whether there are others. NotOrdinary, also for messages of several topics, and for more
        than there may be."""
        data, at = self._data, self._at
        end = len(data)
        stop = min(end, at + _STEP_BYTES)
        for _ in range(_STEP_MESSAGES):
            if at >= stop:
                break
            if data[at] != MESSAGES_TAG or len(self.messages) == self._most:
                raise NotOrdinary
            begin, at = content(data, at + 1, end)
            if at - begin > _MESSAGE_BYTES_MAX:
                raise NotOrdinary  # whose digest takes long, so that a thread makes it
            topic, lane, message = sent_message(data, begin, at, self._sender)
            if topic != self._topic:
                if self.messages:
                    raise NotOrdinary
                self._topic = topic
            self.messages.append(message)
            self.lanes.append(lane)
        self._at = at
        return at < end

    @property
    def topic(self) -> str:
        """The name of the topic; NotOrdinary or DecodeError if it has none."""
        return resource_name(self._topic)

    @property
    def kind(self) -> MessageType:
        """The type of all messages; NotOrdinary if they are of several."""
        kinds = {_kind_of(lane) for lane in set(self.lanes)}
        if len(kinds) != 1:
            raise NotOrdinary
        return kinds.pop()


def _kind_of(lane: tuple[str, str]) -> MessageType:
    group, lite_topic = lane
    return MessageType.FIFO if group else MessageType.LITE if lite_topic else MessageType.NORMAL


async def send_batch(data: bytes, call: "Call", services: "Services") -> tuple[bytes, "definition_pb2.Status"] | None:
    """Store the messages; the serialized answer and its status. None: nothing was done, since the request is not
    ordinary, or something is wrong with it. UNAUTHORIZED unless its user may send to the topic, TOO_MANY_REQUESTS for
    who is over a quota, and what the broker says of NORMAL messages that it did not store."""
    sender = Sender(call.peer, services.clock.now_ms(), services.limits)
    batch, turns = _Batch(data, sender, services.request_limits.entries_max), Turns()
    try:
        while batch.read_some():
            await turns.next()
        name, kind = batch.topic, batch.kind
    except (NotOrdinary, IndexError, UnicodeDecodeError, DecodeError):
        return None
    services.access.require("SendMessage", call, TOPIC_PUB, name)
    topic = services.catalog.known_topic(name)
    if topic is None or kind not in topic.accepted or (call.queue and kind != MessageType.NORMAL):
        return None
    if services.quotas.limits_in:
        services.quotas.admit(call.user, name, call.client_id, len(batch.messages), len(data))
    await turns.next()
    route = services.messages.route(topic)
    if kind == MessageType.NORMAL:
        first = await _stored(services.placement.queue_for(route, call.queue), batch.messages, services)
        await turns.next()
        return sent(batch.messages, first), OK
    return await _send_by_queue(batch, route, services)


async def _send_by_queue(batch: _Batch, route: "Route", services: "Services") -> tuple[bytes, "definition_pb2.Status"]:
    """Store what goes to each queue together; a failure is in the entries, since others may have been stored."""
    numbers: dict[QueueRef, list[int]] = {}
    queues: dict[tuple[str, str], QueueRef] = {}
    for number, lane in enumerate(batch.lanes):
        queue = queues.get(lane)
        if queue is None:
            group, lite_topic = lane
            queue = queue_of_group(route, group) if group else queue_of_lite(route, lite_topic)
            queues[lane] = queue
        numbers.setdefault(queue, []).append(number)
    messages = batch.messages
    parts = [[messages[number] for number in its] for its in numbers.values()]
    waits = [_stored(queue, part, services) for queue, part in zip(numbers, parts, strict=True)]
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    offsets = [0] * len(messages)
    failed: dict[int, MessagingError] = {}
    for its, outcome in zip(numbers.values(), outcomes, strict=True):
        if isinstance(outcome, MessagingError):
            failed.update(dict.fromkeys(its, outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            for offset, number in enumerate(its, outcome):
                offsets[number] = offset
    if not failed:
        return sent_apart(messages, offsets), OK
    answer = _partly_sent(messages, offsets, failed)
    return answer.SerializeToString(), answer.status


def _partly_sent(
    messages: "Sequence[NewMessage]", offsets: list[int], failed: dict[int, MessagingError]
) -> SendMessageResponse:
    entries: list[SendResultEntry] = []
    for number, message in enumerate(messages):
        error, message_id = failed.get(number), message.message_id
        if error is None:
            entry = SendResultEntry(status=OK, message_id=message_id, transaction_id=message_id, offset=offsets[number])
        else:
            entry = SendResultEntry(status=status(error.code, error.message), message_id=message_id)
        entries.append(entry)
    return SendMessageResponse(status=overall([entry.status for entry in entries]), entries=entries)


async def _stored(queue: "QueueRef", messages: "Sequence[NewMessage]", services: "Services") -> int:
    """Store the messages, in order; the queue offset of the first."""
    return await wait_until_stored(partial(services.messages.append_nowait, queue, messages))
