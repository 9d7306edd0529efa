"""Receives: claim messages for a consumer group, waiting for some if there are none (`consuming.md, Receive`)."""

import asyncio
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.message_filter import ALL_TEXT, FilterText
from ternmq_common.limits import AUTO_RENEW_INVISIBLE_MS, INVISIBLE_MIN_MS, POLL_MARGIN_MS, RECEIVE_BATCH_MAX
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.printable import find_name_problem
from ternmq_common.resources.quotas import QuotaKind
from ternmq_common.shard.model import DeliveredMessage, PopOrder, group_by_settled_topic
from ternmq_proxy.call import Call
from ternmq_proxy.operations.by_queue.group_ways import join_popping
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.operations.invisible_duration import checked_invisible_ms
from ternmq_proxy.operations.lite_groups import check_lite_receive
from ternmq_proxy.operations.rights import needs_of_consumer
from ternmq_proxy.processors.sending.placement import check_readable
from ternmq_proxy.quotas.meter import QuotaMeter
from ternmq_proxy.quotas.receiving import take_within
from ternmq_proxy.services import Services

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from ternmq_common.shard.model import Topic

NOTHING_NEW: Final = MessagingError(ErrorCode.MESSAGE_NOT_FOUND, "no new message")
_POLL_GRID_S: Final = 0.5
_POLL_GRID_FROM_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRequest:
    """A receive: at most `batch` messages of the topic that pass the filter, hidden from others for `invisible_ms`, or
    with `auto_renew` for as long as the client lives.

    `broker` and `queue_id` are what the client prefers, "" and -1 for any. `poll_s` is how long it waits for a message,
    None: as long as its call lasts. `attempt_id` identifies the call of a FIFO group, and a repetition of it.
    `one_of_message_group`: no two of one message group, for a client that consumes what it gets at the same time.
    """

    group: str
    topic: str
    batch: int
    invisible_ms: int = 0
    auto_renew: bool = False
    broker: str = ""
    queue_id: int = -1
    filter: FilterText = ALL_TEXT
    poll_s: float | None = None
    attempt_id: str = ""
    one_of_message_group: bool = False


@dataclass(frozen=True, slots=True)
class ReceivedMessages:
    """The messages that a receive claimed. `problem` says why there are none. `meters` are those of quotas: the front
    counts the bytes of the answer with them (`count_sent_bytes`).

    If the answer does not reach the client, the front calls `release` or `return_later`.
    """

    deliveries: list[DeliveredMessage]
    call: Call
    services: Services
    group: str = ""
    topic: str = ""
    problem: MessagingError | None = None
    meters: list[QuotaMeter] | None = None

    def encode_handles(self) -> list[bytes]:
        """Return the receipt handle of each message as text in ASCII."""
        services, by_topic = self.services, group_by_settled_topic(self.topic, self.deliveries)
        if len(by_topic) == 1:
            [name] = by_topic
            encode = services.handles.form_for(self.group, name).encode_handle
            return [encode(delivery.handle) for delivery in self.deliveries]
        forms = {name: services.handles.form_for(self.group, name) for name in by_topic}
        return [forms[each.message.queue.topic].encode_handle(each.handle) for each in self.deliveries]

    async def release(self) -> None:
        """Release the messages to others at once; it counts as no attempt."""
        for topic, some in self._release_messages().items():
            handles = [delivery.handle for delivery in some]
            await self.services.messages.consuming.release(self.group, topic, handles, counts=False)

    async def return_later(self) -> None:
        """Show the messages again when the group's backoff says; it counts as an attempt."""
        backoff = self.services.catalog.group_or_default(self.group).retry_backoff
        change = self.services.messages.consuming.change_invisible
        for topic, some in self._release_messages().items():
            for delivery in some:
                await change(self.group, topic, delivery.handle, backoff.delay_ms(delivery.attempt), counts=True)

    def _release_messages(self) -> "Mapping[str, Sequence[DeliveredMessage]]":
        """Return the messages by topic, and stop their renewal for the client."""
        by_topic = group_by_settled_topic(self.topic, self.deliveries)
        for topic, some in by_topic.items():
            self.services.renewal.release_messages(
                self.call.client_id, self.group, topic, [each.handle for each in some]
            )
        return by_topic


def receive_messages(request: ReceiveRequest, call: Call, services: Services) -> "Awaitable[ReceivedMessages]":
    """Claim messages, or wait for some, for as long as the user has the rights of a consumer; RightsRevoked."""
    if not services.access.is_on:  # where receives should cost no more for it
        return _receive_messages(request, call, services)
    return _receive_watched(request, call, services)


async def _receive_watched(request: ReceiveRequest, call: Call, services: Services) -> ReceivedMessages:
    with services.access.watching("ReceiveMessage", call, needs_of_consumer(request.group, request.topic)):
        return await _receive_messages(request, call, services)


async def _receive_messages(request: ReceiveRequest, call: Call, services: Services) -> ReceivedMessages:
    client_id = call.require_client()
    group_name = check_group_name(request.group)
    topic_name = check_topic_name(request.topic)
    passing = await services.filters.find_filter(request.filter)
    if problem := find_name_problem(request.attempt_id):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"the attempt id {problem}")
    batch = _checked_batch(request.batch)
    invisible_ms = _invisible_ms(request)
    topic = await services.catalog.existing_topic(topic_name)
    check_readable(topic)
    is_lite = topic.type == MessageType.LITE  # an operator creates the groups of lite topics
    may_create = not is_lite and may_create_group(call, group_name, services)
    is_fifo, bind = topic.type == MessageType.FIFO, topic_name if is_lite else ""
    group = await services.catalog.ensure_group(group_name, fifo=is_fifo, may_create=may_create, bind=bind)
    known = services.clients.find_client(client_id)
    if known is None or known.popping != group_name:
        await join_popping(client_id, group_name, call.user, services)
    else:
        services.clients.note_call(client_id, group_name, user=call.user, joined=True)
    services.subscriptions.note_filter(group_name, client_id, topic_name, passing.expression)
    poll_s = _poll_s(request, call, services)
    by_priority = topic.type == MessageType.PRIORITY and not group.fifo
    if is_lite or group.lite is not None:
        check_lite_receive(topic, group, passing)
    order = PopOrder(
        group=group_name,
        topic=topic_name,
        queues=range(topic.queues),
        filter=passing,
        batch=batch,
        invisible_ms=invisible_ms,
        first_queue=None if by_priority else _first_queue(request, topic),
        attempt_id=request.attempt_id,
        message_group_batch=1 if request.one_of_message_group else _message_group_batch(call, services),
        by_priority=by_priority,
        lowest_first=by_priority and services.lowest_first,
        lite_client=client_id if group.lite is not None else "",
    )
    if not batch:
        await asyncio.sleep(poll_s)
        return _receive_nothing(call, services)
    nothing = NOTHING_NEW
    if services.quotas.limits_in_flight:
        order, nothing = _limit_in_flight(order, services)
    deliveries, meters = await _pop_within_quotas(order, request.broker, poll_s, call, services)
    if not deliveries:
        return _receive_nothing(call, services, nothing)
    received = ReceivedMessages(deliveries, call, services, group_name, topic_name, meters=meters)
    if not request.auto_renew:
        return received
    if services.clients.find_client(client_id) is None:
        # The client terminated while it waited: nothing would ever end the renewal.
        await received.release()
        return _receive_nothing(call, services)
    for name, some in group_by_settled_topic(topic_name, deliveries).items():
        services.renewal.hold_messages(client_id, group_name, name, some)
    return received


def _receive_nothing(call: Call, services: Services, problem: MessagingError = NOTHING_NEW) -> ReceivedMessages:
    return ReceivedMessages([], call, services, problem=problem)


def _limit_in_flight(order: PopOrder, services: Services) -> tuple[PopOrder, MessagingError]:
    """Return the order limited by quotas of messages in flight, and the answer if those let nothing through. It is the
    answer of an empty topic, since clients poll again then, and treat any other status as a failure."""
    quotas = services.quotas.in_flight_quotas(order.topic, order.group)
    if not quotas:
        return order, NOTHING_NEW
    by_group, by_topic = quotas.get(QuotaKind.GROUP), quotas.get(QuotaKind.TOPIC)
    order = replace(
        order,
        group_in_flight_max=None if by_group is None else by_group.in_flight,
        topic_in_flight_max=None if by_topic is None else by_topic.in_flight,
    )
    limits = " or ".join(f"{quota.title} ({quota.in_flight})" for quota in quotas.values())
    text = f"no new message, or as many are in flight as quota {limits} allows: acknowledge some (`ternmq quota list`)"
    return order, MessagingError(ErrorCode.MESSAGE_NOT_FOUND, text)


async def _pop_within_quotas(
    order: PopOrder, broker: str, poll_s: float, call: Call, services: Services
) -> tuple[list[DeliveredMessage], list[QuotaMeter]]:
    """Return the messages that were claimed, and the meters that count them."""
    quotas = services.quotas
    meters = quotas.receiver_meters(call.user, order.topic, order.group, call.client_id) if quotas.limits_out else []
    if not meters:
        return await services.messages.consuming.pop(order, broker=broker, poll_s=poll_s, room=call.room), meters
    take = partial(_pop_messages, order, broker, call, services)
    return await take_within(meters, order.batch, poll_s, take, len, quotas.now) or [], meters


async def _pop_messages(
    order: PopOrder, broker: str, call: Call, services: Services, batch: int, poll_s: float
) -> list[DeliveredMessage]:
    if batch != order.batch:
        order = replace(order, batch=batch)
    return await services.messages.consuming.pop(order, broker=broker, poll_s=poll_s, room=call.room)


def _first_queue(request: ReceiveRequest, topic: "Topic") -> int | None:
    """Return the queue that the client names, None on PRIORITY topics, where the priority decides."""
    return request.queue_id if 0 <= request.queue_id < topic.queues else None


def _message_group_batch(call: Call, services: Services) -> int:
    """Return how many messages of a message group one receive gets: one for Go's push consumer (5.1.4), which goes on
    with the next message of a batch while a failed one waits for its retry."""
    client = services.clients.find_client(call.client_id)
    return 1 if call.language == "GO" and client is not None and client.is_push else RECEIVE_BATCH_MAX


def _checked_batch(batch: int) -> int:
    if batch < 0:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"batch_size is {batch}; 1 to {RECEIVE_BATCH_MAX} are allowed")
    return min(batch, RECEIVE_BATCH_MAX)


def _invisible_ms(request: ReceiveRequest) -> int:
    if request.auto_renew:
        return AUTO_RENEW_INVISIBLE_MS
    return checked_invisible_ms(request.invisible_ms, at_least_ms=INVISIBLE_MIN_MS)


def _poll_s(request: ReceiveRequest, call: Call, services: Services) -> float:
    """Return how long to wait: what was requested, at most the server's limit, ending safely before the client gives
    up."""
    longest_s = services.long_poll_max_ms / 1000
    remaining_s = longest_s if call.remaining_s is None else call.remaining_s - POLL_MARGIN_MS / 1000
    wanted_s = longest_s
    if request.poll_s is not None:
        wanted_s = request.poll_s
    elif call.remaining_s is not None:
        client = services.clients.find_client(call.client_id)
        timeout_ms = client.request_timeout_ms if client is not None else 0
        wanted_s = call.remaining_s - timeout_ms / 2000
    return _until_next_grid(max(0.0, min(wanted_s, longest_s, remaining_s)), remaining_s)


def _until_next_grid(poll_s: float, remaining_s: float) -> float:
    """Prolong a long poll a little, so that polls end, and their clients' next ones begin, together: waking up for
    several at once halves the work of an idle process."""
    now = time.monotonic()
    aligned_s = math.ceil((now + poll_s) / _POLL_GRID_S) * _POLL_GRID_S - now
    return aligned_s if poll_s >= _POLL_GRID_FROM_S and aligned_s <= remaining_s else poll_s
