"""PullMessage as gRPC has it (`operations/pull.py`): status, messages, and the next offset."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode
from ternmq_common.limits import PULL_BATCH_MAX, PULL_ROWS_MAX
from ternmq_common.pulled_rows import encode_rows
from ternmq_common.wire import DeliveredFrames, without_body
from ternmq_protos.v2.service_pb2 import PullMessageRequest, PullMessageResponse
from ternmq_proxy.access.control import RightsRevoked
from ternmq_proxy.fronts.grpc.activities.filter_text import read_filter
from ternmq_proxy.fronts.grpc.activities.message_queue import read_queue
from ternmq_proxy.fronts.grpc.activities.receive_message import hold_s
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status, status_of
from ternmq_proxy.operations.pull import PullRequest, PullResult, pull_messages
from ternmq_proxy.quotas.receiving import count_sent_bytes

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import Status
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


@dataclass(frozen=True, slots=True)
class PulledFrames:
    """The serialized frames of the answer, and its status code."""

    frames: list[bytes]
    code: int

    async def return_undelivered(self) -> None:
        """Do nothing after the call was cut, since a pull claims nothing."""


async def pull_message(request: PullMessageRequest, call: "Call", services: "Services") -> PulledFrames:
    """Return status, messages and the next offset; an error is a status alone."""
    try:
        result = await pull_messages(_read(request, call), call, services)
    except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
        answer = status_of(error, "PullMessage")
        if (
            int(answer.code) == ErrorCode.UNAUTHORIZED
            and call.room is not None
            and not isinstance(error, RightsRevoked)
        ):
            await asyncio.sleep(hold_s(call, services))
        return PulledFrames([PullMessageResponse(status=answer).SerializeToString()], answer.code)
    if result.problem is not None:
        return _make_answer(make_status(result.problem.code, result.problem.message), result.next_offset, [])
    rests = [message.rest for message in result.messages]
    if call.leaves_out_bodies:
        rests = [without_body(rest) for rest in rests]
    messages = [_encode_rows(result, rests)] if call.takes_rows else _frame_messages(request, result, rests, services)
    answered = _make_answer(OK, result.next_offset, messages)
    if result.meters:
        count_sent_bytes(result.meters, sum(map(len, answered.frames)), services.quotas.now())
    return answered


def _read(request: PullMessageRequest, call: "Call") -> PullRequest:
    return PullRequest(
        queue=read_queue(request.message_queue),
        offset=request.offset,
        group=request.group.name,
        filter=read_filter(request.filter_expression),
        batch=request.batch_size,
        batch_max=PULL_ROWS_MAX if call.takes_rows else PULL_BATCH_MAX,
        poll_s=request.long_polling_timeout.ToMilliseconds() / 1000,
    )


def _encode_rows(result: PullResult, rests: list[bytes]) -> bytes:
    messages = result.messages
    return encode_rows(
        [message.queue_offset for message in messages],
        [message.stored_ms for message in messages],
        rests,
        [message.system for message in messages],
    )


def _frame_messages(
    request: PullMessageRequest, result: PullResult, rests: list[bytes], services: "Services"
) -> list[bytes]:
    topic = request.message_queue.topic.SerializeToString()
    frames = DeliveredFrames(topic=topic, store_host=services.store_host.encode())
    return [
        frames.encode_message(
            rest=rest,
            system=message.system,
            stored_ms=message.stored_ms,
            queue_id=message.queue.queue_id,
            queue_offset=message.queue_offset,
            attempt=1,
            handle=None,
        )
        for message, rest in zip(result.messages, rests, strict=True)
    ]


def _make_answer(first: "Status", next_offset: int, messages: list[bytes]) -> PulledFrames:
    return PulledFrames(
        [
            PullMessageResponse(status=first).SerializeToString(),
            *messages,
            PullMessageResponse(next_offset=next_offset).SerializeToString(),
        ],
        first.code,
    )
