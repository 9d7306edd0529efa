"""ReceiveMessage: claim messages, waiting for some if there are none (`consuming.md, Receive`)."""

import asyncio
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import (
    AUTO_RENEW_INVISIBLE_MS,
    CLIENT_MESSAGE_BYTES,
    INVISIBLE_MIN_MS,
    POLL_MARGIN_MS,
    RECEIVE_BATCH_MAX,
)
from ternmq_common.message_type import MessageType
from ternmq_common.model import Delivery, PopOrder, by_settled_topic
from ternmq_common.names import checked_group, checked_topic
from ternmq_common.printable import problem_of_name
from ternmq_common.quotas import QuotaKind
from ternmq_common.wire import DeliveredFrames, framed, timestamp
from ternmq_protos.v2.service_pb2 import ReceiveMessageRequest, ReceiveMessageResponse
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.group_creation import may_create_group
from ternmq_proxy.fronts.grpc.activities.invisible_duration import checked_invisible_ms
from ternmq_proxy.fronts.grpc.activities.lite_groups import check_lite
from ternmq_proxy.fronts.grpc.activities.status import OK, status, status_of
from ternmq_proxy.processors.placement import check_readable
from ternmq_proxy.quotas.receiving import sent, within
from ternmq_proxy.services import Services

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ternmq_common.model import Topic
    from ternmq_proxy.quotas.meter import Meter

_OK = ReceiveMessageResponse(status=OK).SerializeToString()
NOTHING_NEW = ReceiveMessageResponse(status=status(ErrorCode.MESSAGE_NOT_FOUND, "no new message")).SerializeToString()
_DELIVERY_TIMESTAMP_TAG = b"\x1a"  # ReceiveMessageResponse.delivery_timestamp = 3
_POLL_GRID_S = 0.5
_POLL_GRID_FROM_S = 5.0


@dataclass(frozen=True, slots=True)
class Received:
    """The answer's items, serialized, its status code, and how to give back messages whose answer did not reach the
    client."""

    frames: list[bytes]
    code: int
    deliveries: list[Delivery]
    call: Call
    services: Services
    group: str = ""
    topic: str = ""

    async def undelivered(self) -> None:
        """The call was cut: others get the messages at once, those that were written too, as clients throw away what
        they have read of a call that did not end well.

        One that is more than many clients take may be why, and would be the next that they get: it counts as an
        attempt, and waits as the group's back-off says.
        """
        if max(map(len, self.frames)) <= CLIENT_MESSAGE_BYTES:
            await self.release()
            return
        backoff = self.services.catalog.rules(self.group).retry_backoff
        change = self.services.messages.change_invisible
        for topic, some in self._let_go().items():
            for delivery in some:
                await change(self.group, topic, delivery.handle, backoff.delay_ms(delivery.attempt), counts=True)

    async def release(self) -> None:
        """Nobody has them: others get them at once, and it counts as no attempt."""
        for topic, some in self._let_go().items():
            handles = [delivery.handle for delivery in some]
            await self.services.messages.release(self.group, topic, handles, counts=False)

    def _let_go(self) -> "Mapping[str, Sequence[Delivery]]":
        """By topic; they are not kept hidden for the client any more."""
        by_topic = by_settled_topic(self.topic, self.deliveries)
        for topic, some in by_topic.items():
            self.services.renewal.let_go(self.call.client_id, self.group, topic, [each.handle for each in some])
        return by_topic


async def receive_message(request: ReceiveMessageRequest, call: "Call", services: "Services") -> Received:
    """Status, messages, time of delivery; an error is a status too, and never comes at once."""
    began = time.monotonic()
    try:
        return await _receive(request, call, services)
    except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
        answer = status_of(error, "ReceiveMessage")
        if int(answer.code) == ErrorCode.CLIENT_ID_REQUIRED:
            return Received(
                [ReceiveMessageResponse(status=answer).SerializeToString()], answer.code, [], call, services
            )
        await asyncio.sleep(max(0.0, hold_s(call, services) - (time.monotonic() - began)))
        first = ReceiveMessageResponse(status=answer).SerializeToString()
        return Received(_frames(first, [], services), answer.code, [], call, services)


async def _receive(request: ReceiveMessageRequest, call: "Call", services: "Services") -> Received:
    client_id = call.require_client()
    group_name = checked_group(request.group.name)
    topic_name = checked_topic(request.message_queue.topic.name)
    passing = await services.filters.of(request.filter_expression)
    if problem := problem_of_name(request.attempt_id):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"the attempt id {problem}")
    batch = _batch(request.batch_size)
    invisible_ms = _invisible_ms(request)
    topic = await services.catalog.existing_topic(topic_name)
    check_readable(topic)
    is_lite = topic.type == MessageType.LITE  # whose groups are made by who knows how they are to be
    may_create = not is_lite and may_create_group(call, group_name, services)
    is_fifo, bind = topic.type == MessageType.FIFO, topic_name if is_lite else ""
    group = await services.catalog.group(group_name, fifo=is_fifo, may_create=may_create, bind=bind)
    services.clients.seen(client_id, group_name, user=call.user, joined=True)
    services.subscriptions.used(group_name, client_id, topic_name, passing.expression)
    poll_s = _poll_s(request, call, services)
    by_priority = topic.type == MessageType.PRIORITY and not group.fifo
    if is_lite or group.lite is not None:
        check_lite(topic, group, passing)
    order = PopOrder(
        group=group_name,
        topic=topic_name,
        queues=range(topic.queues),
        filter=passing,
        batch=batch,
        invisible_ms=invisible_ms,
        first_queue=None if by_priority else _first_queue(request, topic),
        attempt_id=request.attempt_id,
        message_group_batch=_message_group_batch(call, services),
        by_priority=by_priority,
        lowest_first=by_priority and services.lowest_first,
        lite_client=client_id if group.lite is not None else "",
    )
    if not batch:
        await asyncio.sleep(poll_s)
        return _nothing(call, services)
    if services.quotas.limits_in_flight:
        order, nothing = _within_in_flight(order, services)
    else:
        nothing = NOTHING_NEW
    deliveries, meters = await _popped(order, request, poll_s, call, services)
    if not deliveries:
        return _nothing(call, services, nothing)
    messages = _message_frames(deliveries, request, services)
    if meters:
        sent(meters, sum(map(len, messages)), services.quotas.now())
    frames = _frames(_OK, messages, services)
    received = Received(frames, ErrorCode.OK, deliveries, call, services, group_name, topic_name)
    if not request.auto_renew:
        return received
    if services.clients.find(client_id) is None:
        # It said good-bye while it waited: nobody would say when to stop keeping the messages hidden.
        await received.release()
        return _nothing(call, services)
    for name, some in by_settled_topic(topic_name, deliveries).items():
        services.renewal.hold(client_id, group_name, name, some)
    return received


def _within_in_flight(order: PopOrder, services: "Services") -> tuple[PopOrder, bytes]:
    """The order with what quotas let be in flight, and what is answered when nothing came by it: as when nothing is
    there, since clients poll again then, and take any other status for a failure."""
    quotas = services.quotas.in_flight(order.topic, order.group)
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
    return order, ReceiveMessageResponse(status=status(ErrorCode.MESSAGE_NOT_FOUND, text)).SerializeToString()


async def _popped(
    order: PopOrder, request: ReceiveMessageRequest, poll_s: float, call: "Call", services: "Services"
) -> "tuple[list[Delivery], list[Meter]]":
    """What was claimed, and what it is counted by."""
    quotas, broker = services.quotas, request.message_queue.broker.name
    meters = quotas.of_receiver(call.user, order.topic, order.group, call.client_id) if quotas.limits_out else []
    if not meters:
        return await services.messages.pop(order, broker=broker, poll_s=poll_s, room=call.room), meters
    take = partial(_pop, order, broker, call, services)
    return await within(meters, order.batch, poll_s, take, len, quotas.now) or [], meters


async def _pop(
    order: PopOrder, broker: str, call: "Call", services: "Services", batch: int, poll_s: float
) -> list[Delivery]:
    if batch != order.batch:
        order = replace(order, batch=batch)
    return await services.messages.pop(order, broker=broker, poll_s=poll_s, room=call.room)


def _first_queue(request: ReceiveMessageRequest, topic: "Topic") -> int | None:
    """The queue that the client names; not so on PRIORITY topics, where the priority says which one comes first."""
    return request.message_queue.id if 0 <= request.message_queue.id < topic.queues else None


def _message_group_batch(call: "Call", services: "Services") -> int:
    """Go's push consumer goes on with the next message of a batch while one that failed waits for its retry (5.1.4):
    it gets one message of a message group at a time."""
    client = services.clients.find(call.client_id)
    return 1 if call.language == "GO" and client is not None and client.is_push else RECEIVE_BATCH_MAX


def _batch(asked: int) -> int:
    if asked < 0:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"batch_size is {asked}; 1 to {RECEIVE_BATCH_MAX} are allowed")
    return min(asked, RECEIVE_BATCH_MAX)


def _invisible_ms(request: ReceiveMessageRequest) -> int:
    if request.auto_renew:
        return AUTO_RENEW_INVISIBLE_MS
    return checked_invisible_ms(request.invisible_duration.ToMilliseconds(), at_least_ms=INVISIBLE_MIN_MS)


def _poll_s(request: ReceiveMessageRequest, call: "Call", services: "Services") -> float:
    """How long to wait: what was asked, at most the server's limit, and ending safely before the client gives up."""
    longest_s = services.long_poll_max_ms / 1000
    remaining_s = longest_s if call.remaining_s is None else call.remaining_s - POLL_MARGIN_MS / 1000
    asked_s = longest_s
    if request.HasField("long_polling_timeout"):
        asked_s = request.long_polling_timeout.ToMilliseconds() / 1000
    elif call.remaining_s is not None:
        client = services.clients.find(call.client_id)
        timeout_ms = client.settings.request_timeout.ToMilliseconds() if client and client.settings else 0
        asked_s = call.remaining_s - timeout_ms / 2000
    return _until_next_grid(max(0.0, min(asked_s, longest_s, remaining_s)), remaining_s)


def _until_next_grid(poll_s: float, remaining_s: float) -> float:
    """A long poll a little longer, so that it ends, and its client's next one begins, together with others: an idle
    process that wakes up for several at once has half the work with each."""
    now = time.monotonic()
    aligned_s = math.ceil((now + poll_s) / _POLL_GRID_S) * _POLL_GRID_S - now
    return aligned_s if poll_s >= _POLL_GRID_FROM_S and aligned_s <= remaining_s else poll_s


def hold_s(call: "Call", services: "Services") -> float:
    """How long an error is held back, in seconds."""
    if call.remaining_s is None:
        return services.answer_limits.error_hold_s
    return max(0.0, min(services.answer_limits.error_hold_s, call.remaining_s - POLL_MARGIN_MS / 1000))


def _nothing(call: "Call", services: "Services", first: bytes = NOTHING_NEW) -> Received:
    return Received(_frames(first, [], services), ErrorCode.MESSAGE_NOT_FOUND, [], call, services)


def _frames(first: bytes, messages: list[bytes], services: "Services") -> list[bytes]:
    return [first, *messages, framed(_DELIVERY_TIMESTAMP_TAG, timestamp(services.clock.now_ms()))]


def _message_frames(deliveries: list[Delivery], request: ReceiveMessageRequest, services: "Services") -> list[bytes]:
    asked = request.message_queue.topic
    group = request.group.name
    forms = {topic: services.handles.of(group, topic) for topic in by_settled_topic(asked.name, deliveries)}
    encode = forms.popitem()[1].encode if len(forms) == 1 else None
    frame = DeliveredFrames(topic=asked.SerializeToString(), store_host=services.store_host.encode()).frame
    frames: list[bytes] = []
    for delivery in deliveries:
        message = delivery.message
        frames.append(
            frame(
                rest=message.rest,
                system=message.system,
                stored_ms=message.stored_ms,
                queue_id=message.queue.queue_id,
                queue_offset=message.queue_offset,
                attempt=delivery.attempt,
                handle=encode(delivery.handle) if encode else forms[message.queue.topic].encode(delivery.handle),
            )
        )
    return frames
