"""A send of messages that are more than NORMAL: where each goes (`sending.md, Placement`), and how it is stored.

FIFO         in the queue of its message group
PRIORITY     in the queue of its priority
LITE         in the queue of its lite topic
DELAY        when its time comes; at once if that is past
TRANSACTION  when its transaction is committed; each message is one of its own

A request is stored in parts (`sending.md, Several messages`): the messages of a part in order, or none of them. One
part may fail where others do not; the results say which.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import KIB
from ternmq_common.shard.model import HalfMessage, NewMessage, QueueRef, TimedMessage
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.transaction_id import transaction_handle
from ternmq_proxy.operations.message_checks import whole_ms
from ternmq_proxy.operations.sent_message import SentMessage
from ternmq_proxy.processors.sending.inflation import RequestInflation
from ternmq_proxy.processors.sending.placement import queue_of_group, queue_of_lite, queue_of_priority
from ternmq_proxy.processors.sending.stored_form import MILLISECOND_NS, body_checksum, is_calendar_time, to_stored_form

if TYPE_CHECKING:
    from ternmq_common.event_loop.fairness import WorkTurns
    from ternmq_common.shard.model import AppendedMessage, TopicRoute
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services


QUICK_BYTES_MAX: Final = 256 * KIB
"""The digest of so many bytes takes half a millisecond."""
# Stored within two milliseconds.
_PARTS_AT_ONCE: Final = 64


class SendInParts:
    """Checked messages of one request, all of one type, on their way to stored form. `turns` are those of a long
    request."""

    __slots__ = ("_inflation", "_turns", "call", "kind", "messages", "now_ms", "route", "services")

    def __init__(
        self,
        messages: "Sequence[ProducerMessage]",
        kind: MessageType,
        route: "TopicRoute",
        now_ms: int,
        call: "Call",
        services: "Services",
        turns: "WorkTurns | None",
    ) -> None:
        self.messages = messages
        self.kind = kind
        self.route = route
        self.now_ms = now_ms
        self.call = call
        self.services = services
        self._turns = turns
        self._inflation: RequestInflation | None = None

    async def take_stored_form(self, message: "ProducerMessage") -> NewMessage:
        """Return the message in stored form, inflated if it is compressed; its body is dropped."""
        if self._turns is not None:
            await self._turns.next_turn()
        if message.is_compressed:
            await self._inflate_body(message)
        body = message.body
        checksum = body_checksum(body) if len(body) <= QUICK_BYTES_MAX else await asyncio.to_thread(body_checksum, body)
        stored = to_stored_form(message, self.kind, checksum, self.call.peer, self.now_ms, self.services.limits)
        message.body = b""  # long requests would hold each body twice
        return stored

    async def _inflate_body(self, message: "ProducerMessage") -> None:
        """Inflate a compressed body, so that clients that can't inflate (C++, Rust) can read it; see
        `RequestInflation.inflate_body`."""
        services = self.services
        if self._inflation is None:
            self._inflation = RequestInflation(services.inflation, services.request_limits)
        body_bytes_max = services.limits.body_bytes_max
        body = await self._inflation.inflate_body(message.body, body_bytes_max, message.compression)
        if body is not None:
            message.body = body
            message.is_compressed = False
        elif message.must_inflate:
            raise MessagingError(
                ErrorCode.MESSAGE_BODY_TOO_LARGE,
                f"the body has more than {body_bytes_max} bytes once it is inflated (body_bytes_max), or data after "
                "its end",
            )

    def release_inflation(self) -> None:
        """Release the room of inflated bodies after their messages were stored or refused."""
        if self._inflation is not None:
            self._inflation.release()


class _SendPart(NamedTuple):
    """Messages that are stored together; `numbers` are their positions in the request."""

    numbers: list[int]
    messages: list[NewMessage]
    store: Callable[[], Awaitable[list[SentMessage]]]


async def send_special(sending: SendInParts) -> list[SentMessage]:
    """Store checked messages that are more than NORMAL; return the outcome of each, in order."""
    if chosen := sending.call.chosen_queue:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"queue {chosen[:200]!r} can't be chosen (metadata key x-ternmq-options): that is for NORMAL messages, and "
            f"these are {sending.kind.name}",
        )
    parts = await _PLANS[sending.kind](sending)
    if len(parts) == 1:
        return await _store_part(parts[0])
    results: dict[int, SentMessage] = {}
    for start in range(0, len(parts), _PARTS_AT_ONCE):
        together = parts[start : start + _PARTS_AT_ONCE]
        for part, result in zip(together, await asyncio.gather(*map(_store_part, together)), strict=True):
            results.update(zip(part.numbers, result, strict=True))
    return [results[number] for number in range(len(sending.messages))]


async def _store_part(part: _SendPart) -> list[SentMessage]:
    """Store a part; a failure is in its results, since another part may be stored."""
    try:
        return await part.store()
    except MessagingError as error:
        return [SentMessage(message.message_id, error=error) for message in part.messages]


def _stored_result(appended: "AppendedMessage") -> SentMessage:
    return SentMessage(appended.message_id, appended.queue_offset)


# --- in order, and by priority


async def _plan_fifo(sending: SendInParts) -> list[_SendPart]:
    return await _plan_by_queue(sending, lambda message: queue_of_group(sending.route, message.message_group))


async def _plan_priority(sending: SendInParts) -> list[_SendPart]:
    topic, broker = sending.route.topic, sending.services.placement.next_broker(sending.route)
    return await _plan_by_queue(sending, lambda message: queue_of_priority(topic, broker, message.priority or 0))


async def _plan_lite(sending: SendInParts) -> list[_SendPart]:
    return await _plan_by_queue(sending, lambda message: queue_of_lite(sending.route, message.lite_topic or ""))


async def _plan_by_queue(sending: SendInParts, queue_of: "Callable[[ProducerMessage], QueueRef]") -> list[_SendPart]:
    by_queue: dict[QueueRef, list[int]] = {}
    for number, message in enumerate(sending.messages):
        by_queue.setdefault(queue_of(message), []).append(number)
    stored = [await sending.take_stored_form(message) for message in sending.messages]
    batches = [(queue, numbers, [stored[number] for number in numbers]) for queue, numbers in by_queue.items()]
    return [_appended_part(sending, queue, numbers, batch) for queue, numbers, batch in batches]


def _appended_part(sending: SendInParts, queue: QueueRef, numbers: list[int], messages: list[NewMessage]) -> _SendPart:
    async def append_part() -> list[SentMessage]:
        return list(map(_stored_result, await sending.services.messages.sending.append(queue, messages)))

    return _SendPart(numbers, messages, append_part)


# --- timed


async def _plan_delay(sending: SendInParts) -> list[_SendPart]:
    if problem := sending.services.clock.find_problem():
        raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"this proxy: {problem}")
    queue = sending.services.placement.next_queue(sending.route)
    timed: dict[int, TimedMessage] = {}
    due: dict[int, NewMessage] = {}
    for number, message in enumerate(sending.messages):
        due_ms = set_due_time(message, sending.now_ms)
        message.priority = None
        if due_ms > sending.now_ms:
            timed[number] = TimedMessage(await sending.take_stored_form(message), due_ms)
        else:
            due[number] = await sending.take_stored_form(message)
    parts = []
    if timed:
        waiting = list(timed.values())
        store = partial(_schedule_messages, queue, waiting, sending.services)
        parts.append(_SendPart(list(timed), [each.message for each in waiting], store))
    if due:
        parts.append(_appended_part(sending, queue, list(due), list(due.values())))
    return parts


def due_time_ms(delivery_ns: int) -> int:
    """Return when a message is due: the first whole millisecond that is not before its delivery timestamp."""
    return whole_ms(delivery_ns) + (1 if delivery_ns % MILLISECOND_NS else 0)


def set_due_time(message: "ProducerMessage", now_ms: int) -> int:
    """Set and return when the message is due. A time that no calendar has is replaced, since consumers fail on it."""
    assert message.delivery_ns is not None
    due_ms = due_time_ms(message.delivery_ns)
    if not is_calendar_time(message.delivery_ns):
        message.delivery_ns = max(due_ms, now_ms) * MILLISECOND_NS
    return due_ms


async def _schedule_messages(queue: QueueRef, timed: list[TimedMessage], services: "Services") -> list[SentMessage]:
    results = []
    for message, appended in zip(timed, await services.messages.sending.schedule(queue, timed), strict=True):
        handle = RecallHandle(queue.topic, appended.broker or queue.broker, message.due_ms, appended.message_id)
        result = _stored_result(appended)
        result.recall_handle = handle.encode_handle(services.handles.keys)
        results.append(result)
    return results


# --- transactions


async def _plan_transaction(sending: SendInParts) -> list[_SendPart]:
    placement, parts = sending.services.placement, []
    for number, message in enumerate(sending.messages):
        message.delivery_ns = message.priority = message.lite_topic = None
        message.message_group = ""
        recovery_ms = message.recovery_ms if message.recovery_ms > 0 else None
        half = HalfMessage(await sending.take_stored_form(message), sending.call.client_id, recovery_ms)
        queue = placement.queue_of_half(sending.route, half.message.message_id)
        parts.append(_SendPart([number], [half.message], partial(_begin_transaction, queue, half, sending.services)))
    return parts


async def _begin_transaction(queue: QueueRef, half: HalfMessage, services: "Services") -> list[SentMessage]:
    appended = await services.messages.sending.begin_transaction(queue, half)
    result = _stored_result(appended)
    result.transaction_id = transaction_handle(appended.transaction_id, queue.topic, services.handles.keys)
    return [result]


_PLANS: Final[dict[MessageType, Callable[[SendInParts], Awaitable[list[_SendPart]]]]] = {
    MessageType.FIFO: _plan_fifo,
    MessageType.PRIORITY: _plan_priority,
    MessageType.LITE: _plan_lite,
    MessageType.DELAY: _plan_delay,
    MessageType.TRANSACTION: _plan_transaction,
}
