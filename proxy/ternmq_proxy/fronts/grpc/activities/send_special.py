"""SendMessage for messages that are more than NORMAL: where each goes (`sending.md, Placement`), and how it is stored.

FIFO         in the queue of its message group
PRIORITY     in the queue of its priority
LITE         in the queue of its lite topic
DELAY        when its time comes; at once if that is past
TRANSACTION  when its transaction is committed; each message is one of its own

A request is stored in parts (`sending.md, Several messages`): the messages of a part in order, or none of them. One
part may fail where others do not; the entries say which.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import KIB
from ternmq_common.message_type import MessageType
from ternmq_common.model import HalfMessage, NewMessage, QueueRef, TimedMessage
from ternmq_common.recall_handle import RecallHandle
from ternmq_common.transaction_id import transaction_handle
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import SendMessageResponse, SendResultEntry
from ternmq_proxy.fronts.grpc.activities.message_checks import time_ms
from ternmq_proxy.fronts.grpc.activities.status import OK, overall, status
from ternmq_proxy.fronts.grpc.activities.stored_form import inflate, is_time, md5_of, stored_form
from ternmq_proxy.processors.inflation import Inflation
from ternmq_proxy.processors.placement import queue_of_group, queue_of_lite, queue_of_priority

if TYPE_CHECKING:
    from ternmq_common.fairness import Turns
    from ternmq_common.model import Appended, Route
    from ternmq_protos.v2.definition_pb2 import Message, SystemProperties
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


# What md5 does in half a millisecond.
_QUICK_BYTES_MAX = 256 * KIB
# So many are stored within two milliseconds.
_PARTS_AT_ONCE = 64


class _Part(NamedTuple):
    """Messages that are stored together; `numbers` are their places in the request."""

    numbers: list[int]
    messages: list[NewMessage]
    store: Callable[[], Awaitable[list[SendResultEntry]]]


class SpecialSend:
    """A request, checked; all its messages are of one type. `turns` are those of a long one."""

    __slots__ = ("_inflation", "_turns", "call", "messages", "now_ms", "route", "services")

    def __init__(
        self,
        messages: "Sequence[Message]",
        route: "Route",
        now_ms: int,
        call: "Call",
        services: "Services",
        turns: "Turns | None",
    ) -> None:
        self.messages = messages
        self.route = route
        self.now_ms = now_ms
        self.call = call
        self.services = services
        self._turns = turns
        self._inflation: Inflation | None = None

    async def stored(self, message: "Message") -> NewMessage:
        """The message in stored form; it is used up, so what it says of itself is read before."""
        if self._turns is not None:
            await self._turns.next()
        services = self.services
        if message.system_properties.body_encoding == definition_pb2.GZIP:
            if self._inflation is None:
                self._inflation = Inflation(services.inflation, services.request_limits)
            await inflate(message, self._inflation, services.limits)
        body = message.body
        checksum = md5_of(body) if len(body) <= _QUICK_BYTES_MAX else await asyncio.to_thread(md5_of, body)
        properties = message.system_properties
        return stored_form(message, properties, body, checksum, self.call.peer, self.now_ms, services.limits)

    def leave(self) -> None:
        """The messages are stored, or never will be."""
        if self._inflation is not None:
            self._inflation.leave()


async def send_special(sending: SpecialSend, kind: "MessageType") -> SendMessageResponse:
    """Store checked messages, all of one type; one entry for each, in order."""
    if chosen := sending.call.queue:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"queue {chosen[:200]!r} can't be chosen (metadata key x-ternmq-options): that is for NORMAL messages, and "
            f"these are {MessageType(kind).name}",
        )
    parts = await _PARTS[kind](sending)
    if len(parts) == 1:
        ordered = await _entries(parts[0])
    else:
        entries: dict[int, SendResultEntry] = {}
        for start in range(0, len(parts), _PARTS_AT_ONCE):
            together = parts[start : start + _PARTS_AT_ONCE]
            for part, result in zip(together, await asyncio.gather(*map(_entries, together)), strict=True):
                entries.update(zip(part.numbers, result, strict=True))
        ordered = [entries[number] for number in range(len(sending.messages))]
    return SendMessageResponse(status=overall([entry.status for entry in ordered]), entries=ordered)


async def _entries(part: _Part) -> list[SendResultEntry]:
    """A failure is in the entries of the part, since another part may have been stored."""
    try:
        return await part.store()
    except MessagingError as error:
        refused = status(error.code, error.message)
        return [SendResultEntry(status=refused, message_id=message.message_id) for message in part.messages]


def sent_entry(appended: "Appended") -> SendResultEntry:
    """The entry of a message that is in its queue."""
    return SendResultEntry(
        status=OK, message_id=appended.message_id, transaction_id=appended.message_id, offset=appended.queue_offset
    )


# --- in order, and by priority


async def _fifo(sending: SpecialSend) -> list[_Part]:
    return await _by_queue(sending, lambda properties: queue_of_group(sending.route, properties.message_group))


async def _priority(sending: SpecialSend) -> list[_Part]:
    topic, broker = sending.route.topic, sending.services.placement.next_broker(sending.route)
    return await _by_queue(sending, lambda properties: queue_of_priority(topic, broker, properties.priority))


async def _lite(sending: SpecialSend) -> list[_Part]:
    return await _by_queue(sending, lambda properties: queue_of_lite(sending.route, properties.lite_topic))


async def _by_queue(sending: SpecialSend, queue_of: "Callable[[SystemProperties], QueueRef]") -> list[_Part]:
    by_queue: dict[QueueRef, list[int]] = {}
    for number, message in enumerate(sending.messages):
        by_queue.setdefault(queue_of(message.system_properties), []).append(number)
    stored = [await sending.stored(message) for message in sending.messages]
    batches = [(queue, numbers, [stored[number] for number in numbers]) for queue, numbers in by_queue.items()]
    return [_appended(sending, queue, numbers, batch) for queue, numbers, batch in batches]


def _appended(sending: SpecialSend, queue: QueueRef, numbers: list[int], messages: list[NewMessage]) -> _Part:
    async def store() -> list[SendResultEntry]:
        return list(map(sent_entry, await sending.services.messages.append(queue, messages)))

    return _Part(numbers, messages, store)


# --- timed


async def _delay(sending: SpecialSend) -> list[_Part]:
    if problem := sending.services.clock.problem():
        raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"this proxy: {problem}")
    queue = sending.services.placement.next_queue(sending.route)
    timed: dict[int, TimedMessage] = {}
    due: dict[int, NewMessage] = {}
    for number, message in enumerate(sending.messages):
        properties = message.system_properties
        due_ms = _due_ms(properties, sending.now_ms)
        properties.ClearField("priority")
        if due_ms > sending.now_ms:
            timed[number] = TimedMessage(await sending.stored(message), due_ms)
        else:
            due[number] = await sending.stored(message)
    parts = []
    if timed:
        waiting = list(timed.values())
        store = partial(_schedule, queue, waiting, sending.services)
        parts.append(_Part(list(timed), [each.message for each in waiting], store))
    if due:
        parts.append(_appended(sending, queue, list(due), list(due.values())))
    return parts


def _due_ms(properties: "SystemProperties", now_ms: int) -> int:
    """When the message is due: the first whole millisecond that is not before its time. A time that no calendar has
    becomes one, since consumers fail on it."""
    stamp = properties.delivery_timestamp
    due_ms = time_ms(stamp) + (1 if stamp.nanos % 1_000_000 else 0)
    if not is_time(stamp):
        stamp.FromMilliseconds(max(due_ms, now_ms))
    return due_ms


async def _schedule(queue: QueueRef, timed: list[TimedMessage], services: "Services") -> list[SendResultEntry]:
    entries = []
    for message, appended in zip(timed, await services.messages.schedule(queue, timed), strict=True):
        handle = RecallHandle(queue.topic, appended.broker or queue.broker, message.due_ms, appended.message_id)
        entry = sent_entry(appended)
        entry.recall_handle = handle.encode(services.handles.keys)
        entries.append(entry)
    return entries


# --- transactions

_OF_OTHER_TYPES = ("delivery_timestamp", "message_group", "priority", "lite_topic")


async def _transaction(sending: SpecialSend) -> list[_Part]:
    placement, parts = sending.services.placement, []
    for number, message in enumerate(sending.messages):
        properties = message.system_properties
        for field in _OF_OTHER_TYPES:
            properties.ClearField(field)
        recovery_ms = _recovery_ms(properties)
        half = HalfMessage(await sending.stored(message), sending.call.client_id, recovery_ms)
        queue = placement.queue_of_half(sending.route, half.message.message_id)
        parts.append(_Part([number], [half.message], partial(_begin, queue, half, sending.services)))
    return parts


def _recovery_ms(properties: "SystemProperties") -> int | None:
    """How long nobody is to be asked, None if the message does not say; what is kept of it is a duration to all."""
    asked_ms: int = properties.orphaned_transaction_recovery_duration.ToMilliseconds()
    if asked_ms <= 0:
        properties.ClearField("orphaned_transaction_recovery_duration")
        return None
    properties.orphaned_transaction_recovery_duration.FromMilliseconds(asked_ms)
    return asked_ms


async def _begin(queue: QueueRef, half: HalfMessage, services: "Services") -> list[SendResultEntry]:
    appended = await services.messages.begin_transaction(queue, half)
    entry = sent_entry(appended)
    entry.transaction_id = transaction_handle(appended.transaction_id, queue.topic, services.handles.keys)
    return [entry]


_PARTS: "dict[MessageType, Callable[[SpecialSend], Awaitable[list[_Part]]]]" = {
    MessageType.FIFO: _fifo,
    MessageType.PRIORITY: _priority,
    MessageType.LITE: _lite,
    MessageType.DELAY: _delay,
    MessageType.TRANSACTION: _transaction,
}
