"""Queues in memory: what a scripted server answers to pulls and offset calls when nothing else is scripted.

A message that was appended as the n-th of its queue, counted from 0, was stored n * 10 seconds after 1970.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from ternmq import MessageQueue
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

OK = pb.Status(code=pb.OK)
STORED_EVERY_S = 10


class QueueModel:
    """Polls wait until something is appended, for ever if need be."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, MessageQueue], int] = {}
        self._messages: defaultdict[MessageQueue, list[pb.Message]] = defaultdict(list)
        self._first: defaultdict[MessageQueue, int] = defaultdict(int)
        self._appended = asyncio.Event()

    def append(self, queue: MessageQueue, *bodies: bytes, tag: str | None = None) -> None:
        for body in bodies:
            number = len(self._messages[queue])
            system = pb.SystemProperties(
                message_id=f"id-{number}",
                queue_id=queue.queue_id,
                queue_offset=number,
                delivery_attempt=1,
                tag=tag,
                body_encoding=pb.IDENTITY,
                store_timestamp=Timestamp(seconds=number * STORED_EVERY_S),
            )
            message = pb.Message(topic=pb.Resource(name=queue.topic), body=body, system_properties=system)
            self._messages[queue].append(message)
        self._appended.set()
        self._appended = asyncio.Event()

    def remove_before(self, queue: MessageQueue, offset: int) -> None:
        """What retention does."""
        self._first[queue] = offset

    async def pull(self, request: rpc.PullMessageRequest) -> AsyncIterator[rpc.PullMessageResponse]:
        queue = _queue(request.message_queue)
        while not (parts := self._pull_now(queue, request)):
            await self._appended.wait()
        for part in parts:
            yield part

    def get_offset(self, request: rpc.GetOffsetRequest) -> rpc.GetOffsetResponse:
        offset = self.committed.get((request.group.name, _queue(request.message_queue)))
        if offset is None:
            return rpc.GetOffsetResponse(status=pb.Status(code=pb.OFFSET_NOT_FOUND))
        return rpc.GetOffsetResponse(status=OK, offset=offset)

    def update_offset(self, request: rpc.UpdateOffsetRequest) -> rpc.UpdateOffsetResponse:
        self.committed[request.group.name, _queue(request.message_queue)] = request.offset
        return rpc.UpdateOffsetResponse(status=OK)

    def query_offset(self, request: rpc.QueryOffsetRequest) -> rpc.QueryOffsetResponse:
        queue = _queue(request.message_queue)
        offset, end = self._first[queue], len(self._messages[queue])
        if request.query_offset_policy == pb.END:
            offset = end
        elif request.query_offset_policy == pb.TIMESTAMP:
            offset = min(end, max(offset, -(-request.timestamp.seconds // STORED_EVERY_S)))
        return rpc.QueryOffsetResponse(status=OK, offset=offset)

    def _pull_now(self, queue: MessageQueue, request: rpc.PullMessageRequest) -> Sequence[rpc.PullMessageResponse]:
        offset, first, end = request.offset, self._first[queue], len(self._messages[queue])
        if offset > end:
            return pulled(pb.ILLEGAL_OFFSET, next_offset=end)
        if offset < first:
            return pulled(pb.MESSAGE_NOT_FOUND, next_offset=first)
        messages = self._messages[queue][offset : offset + request.batch_size]
        wanted = [message for message in messages if _wants(request.filter_expression, message)]
        if wanted:
            return pulled(pb.OK, *wanted, next_offset=offset + len(messages))
        return pulled(pb.MESSAGE_NOT_FOUND, next_offset=offset + len(messages)) if messages else []


def pulled(code: pb.Code, *messages: pb.Message, next_offset: int | None = None) -> list[rpc.PullMessageResponse]:
    """The parts of an answer to PullMessage."""
    parts = [rpc.PullMessageResponse(status=pb.Status(code=code, message="scripted"))]
    parts += [rpc.PullMessageResponse(message=message) for message in messages]
    if next_offset is not None:
        parts.append(rpc.PullMessageResponse(next_offset=next_offset))
    return parts


def _queue(queue: pb.MessageQueue) -> MessageQueue:
    return MessageQueue(queue.topic.name, queue.broker.name, queue.id)


def _wants(wanted: pb.FilterExpression, message: pb.Message) -> bool:
    return wanted.expression in {"*", message.system_properties.tag}
