"""ReceiveMessage as gRPC has it (`operations/receive.py`): status, messages, time of delivery."""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode
from ternmq_common.limits import CLIENT_MESSAGE_BYTES, POLL_MARGIN_MS
from ternmq_common.shard.model import DeliveredMessage
from ternmq_common.wire import DeliveredFrames, encode_field, encode_timestamp
from ternmq_protos.v2.service_pb2 import ReceiveMessageRequest, ReceiveMessageResponse
from ternmq_proxy.access.control import RightsRevoked
from ternmq_proxy.fronts.grpc.activities.filter_text import read_filter
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status, status_of
from ternmq_proxy.operations.receive import NOTHING_NEW, ReceivedMessages, ReceiveRequest, receive_messages
from ternmq_proxy.quotas.receiving import count_sent_bytes

if TYPE_CHECKING:
    from ternmq_common.errors import MessagingError
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


def _serialized_problem(problem: "MessagingError") -> bytes:
    """Return the first frame of an answer without messages."""
    answer: bytes = ReceiveMessageResponse(status=make_status(problem.code, problem.message)).SerializeToString()
    return answer


_OK: Final = ReceiveMessageResponse(status=OK).SerializeToString()
NOTHING_NEW_FRAME: Final = _serialized_problem(NOTHING_NEW)
_DELIVERY_TIMESTAMP_TAG: Final = b"\x1a"  # ReceiveMessageResponse.delivery_timestamp = 3


@dataclass(frozen=True, slots=True)
class ReceiveAnswer:
    """The frames of an answer, its status code, and the way to give back messages that did not reach the client."""

    frames: list[bytes]
    code: int
    messages: ReceivedMessages | None = None

    @property
    def delivered_messages(self) -> list[DeliveredMessage]:
        """The messages that were claimed."""
        return [] if self.messages is None else self.messages.deliveries

    async def return_undelivered(self) -> None:
        """Give messages back at once after the call was cut, those that were written too, since clients discard what
        they read of a call that did not end well.

        An answer that is larger than many clients accept may be the reason, and would be their next one too. So it
        counts as an attempt, and waits for the group's backoff.
        """
        if self.messages is None:
            return
        if max(map(len, self.frames)) <= CLIENT_MESSAGE_BYTES:
            await self.messages.release()
        else:
            await self.messages.return_later()


async def receive_message(request: ReceiveMessageRequest, call: "Call", services: "Services") -> ReceiveAnswer:
    """Return status, messages, and the time of delivery. An error is a status too, and is held back for a while."""
    began = time.monotonic()
    try:
        return await _receive_messages(request, call, services)
    except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
        answer = status_of(error, "ReceiveMessage")
        first = ReceiveMessageResponse(status=answer).SerializeToString()
        code = int(answer.code)
        if code == ErrorCode.CLIENT_ID_REQUIRED or isinstance(error, RightsRevoked):
            return ReceiveAnswer([first], code)
        await asyncio.sleep(max(0.0, hold_s(call, services) - (time.monotonic() - began)))
        return ReceiveAnswer(
            [first] if code == ErrorCode.UNAUTHORIZED else _serialize_frames(first, [], services), code
        )


async def _receive_messages(request: ReceiveMessageRequest, call: "Call", services: "Services") -> ReceiveAnswer:
    received = await receive_messages(_read_request(request), call, services)
    problem = received.problem
    if problem is not None:
        first = NOTHING_NEW_FRAME if problem is NOTHING_NEW else _serialized_problem(problem)
        return ReceiveAnswer(_serialize_frames(first, [], services), problem.code)
    messages = _frame_messages(received, request.message_queue.topic.SerializeToString(), services)
    if received.meters:
        count_sent_bytes(received.meters, sum(map(len, messages)), services.quotas.now())
    return ReceiveAnswer(_serialize_frames(_OK, messages, services), ErrorCode.OK, received)


def _read_request(request: ReceiveMessageRequest) -> ReceiveRequest:
    queue = request.message_queue
    has_poll = request.HasField("long_polling_timeout")
    return ReceiveRequest(
        group=request.group.name,
        topic=queue.topic.name,
        batch=request.batch_size,
        invisible_ms=request.invisible_duration.ToMilliseconds(),
        auto_renew=request.auto_renew,
        broker=queue.broker.name,
        queue_id=queue.id,
        filter=read_filter(request.filter_expression),
        poll_s=request.long_polling_timeout.ToMilliseconds() / 1000 if has_poll else None,
        attempt_id=request.attempt_id,
    )


def hold_s(call: "Call", services: "Services") -> float:
    """Return for how many seconds an error is held back."""
    if call.remaining_s is None:
        return services.answer_limits.error_hold_s
    return max(0.0, min(services.answer_limits.error_hold_s, call.remaining_s - POLL_MARGIN_MS / 1000))


def _serialize_frames(first: bytes, messages: list[bytes], services: "Services") -> list[bytes]:
    return [first, *messages, encode_field(_DELIVERY_TIMESTAMP_TAG, encode_timestamp(services.clock.now_ms()))]


def _frame_messages(received: ReceivedMessages, topic: bytes, services: "Services") -> list[bytes]:
    frame = DeliveredFrames(topic=topic, store_host=services.store_host.encode()).encode_message
    frames: list[bytes] = []
    for delivery, handle in zip(received.deliveries, received.encode_handles(), strict=True):
        message = delivery.message
        frames.append(
            frame(
                rest=message.rest,
                system=message.system,
                stored_ms=message.stored_ms,
                queue_id=message.queue.queue_id,
                queue_offset=message.queue_offset,
                attempt=delivery.attempt,
                handle=handle,
            )
        )
    return frames
