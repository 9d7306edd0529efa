"""Follows all queues of a topic by the pull calls of the protocol (`QueryRoute`, `QueryOffset`, `PullMessage`).

One task per queue pulls and puts messages into a short asyncio queue, so a slow reader slows the pulls. The tasks
belong to one iteration of `messages` and end with it. After the first pull, they survive a restart of the server: each
continues behind its last message.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self, TypeVar

import grpc.aio
from google.protobuf.message import Message

from ternmq.connection import open_channel
from ternmq.endpoints import Endpoints
from ternmq.errors import UnusableFile
from ternmq.identity import Identity, Metadata
from ternmq.message_view import MessageView
from ternmq.plain_calls import new_client_name
from ternmq_command.calls.access import access, refused
from ternmq_command.calls.link import Link, pause
from ternmq_command.calls.service_calls import CALL_TIMEOUT_S, CHANNEL_OPTIONS, CLIENT_NAME, call_failure
from ternmq_command.terminal.failures import CallBroken, CommandFailure, Refused, Unreachable, WrongUsage
from ternmq_common.errors import RETRYABLE
from ternmq_protos.v2 import definition_pb2, service_pb2

A = TypeVar("A", bound=Message)

SERVICE = "apache.rocketmq.v2.MessagingService"
GROUP = "ternmq-tail"
BATCH_MAX = 32
WAITING_MAX = 256
READABLE = (definition_pb2.READ, definition_pb2.READ_WRITE)
# No message came, or retention removed the next one: in both cases next_offset is where to continue.
HARMLESS = (definition_pb2.OK, definition_pb2.MESSAGE_NOT_FOUND)
# By default, grpc takes up to two minutes to reconnect.
RECONNECTS = (("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 5000))
AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where following begins, and in which queues; by default with the next message.

    `queue_offset` is an offset of the queue `queue_id`; if retention removed its message, the next one kept comes
    first.
    """

    from_beginning: bool = False
    since: datetime | None = None
    queue_offset: int | None = None
    queue_id: int | None = None
    broker: str = ""


class _Position:
    """The offset of the next pull from a queue."""

    __slots__ = ("next_offset",)

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset


class Follower:
    """Yields the messages of a topic from now on, or from an earlier position on."""

    def __init__(
        self, endpoint: str, topic: str, expression: definition_pb2.FilterExpression, *, long_poll: timedelta
    ) -> None:
        self._endpoint, self._topic, self._expression = endpoint, topic, expression
        self._long_poll = long_poll
        said = access()
        self._identity = Identity(said.credentials(), client_id=new_client_name(CLIENT_NAME))
        self._tls = said.tls()
        self._link = Link(endpoint)
        try:
            self._channel: grpc.aio.Channel = open_channel(grpc.aio, endpoint, self._tls, *CHANNEL_OPTIONS, *RECONNECTS)
        except UnusableFile as error:
            raise WrongUsage(str(error)) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def messages(self, start: Start) -> AsyncIterator[MessageView]:
        """Yield the messages, in the order of each queue; ends only by an error or when the caller stops iterating."""
        arrived: asyncio.Queue[MessageView | BaseException] = asyncio.Queue(WAITING_MAX)
        chosen = self._chosen(await self._queues(), start)
        starts = [(queue, await self._first_offset(queue, start)) for queue in chosen]
        pulls = [asyncio.create_task(self._follow(queue, offset, arrived)) for queue, offset in starts]
        try:
            while True:
                item = await arrived.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            for pull in pulls:
                pull.cancel()
            await asyncio.gather(*pulls, return_exceptions=True)

    async def _metadata(self) -> Metadata:
        if self._identity.may_have_changed:
            await self._identity.refresh()
        return self._identity.metadata()

    async def _queues(self) -> list[definition_pb2.MessageQueue]:
        request = service_pb2.QueryRouteRequest(
            topic=definition_pb2.Resource(name=self._topic), endpoints=Endpoints.parse(self._endpoint).to_proto()
        )
        answer = await self._unary("QueryRoute", request, service_pb2.QueryRouteResponse)
        _check(answer.status)
        return [queue for queue in answer.message_queues if queue.permission in READABLE and queue.broker.id == 0]

    def _chosen(self, queues: list[definition_pb2.MessageQueue], start: Start) -> list[definition_pb2.MessageQueue]:
        """Return the queues to follow.

        Raises CommandFailure if there are none, WrongUsage if the start's offset could be one of several queues.
        """
        brokers = sorted({queue.broker.name for queue in queues})
        if start.broker and start.broker not in brokers:
            raise CommandFailure(f"{self._topic} is not on broker {start.broker}; it is on {', '.join(brokers)}")
        on_broker = [queue for queue in queues if start.broker in ("", queue.broker.name)]
        chosen = [queue for queue in on_broker if start.queue_id in (None, queue.id)]
        if on_broker and not chosen:
            ids = ", ".join(str(number) for number in sorted({queue.id for queue in on_broker}))
            raise CommandFailure(f"topic {self._topic} has no queue {start.queue_id}; it has {ids}")
        if start.queue_offset is not None and len(chosen) > 1:
            raise WrongUsage(f"several brokers have that queue: choose one with --broker: {', '.join(brokers)}")
        return chosen

    async def _first_offset(self, queue: definition_pb2.MessageQueue, start: Start) -> int:
        request = service_pb2.QueryOffsetRequest(message_queue=queue, query_offset_policy=definition_pb2.END)
        if start.from_beginning:
            request.query_offset_policy = definition_pb2.BEGINNING
        elif start.since is not None:
            request.query_offset_policy = definition_pb2.TIMESTAMP
            request.timestamp.FromDatetime(start.since)
        answer = await self._unary("QueryOffset", request, service_pb2.QueryOffsetResponse)
        _check(answer.status)
        if start.queue_offset is None:
            return answer.offset
        if start.queue_offset > answer.offset:
            ends = f"queue {queue.id} of {self._topic} ends at offset {answer.offset}"
            raise CommandFailure(f"{ends}; {start.queue_offset} is beyond that")
        return start.queue_offset

    async def _follow(
        self,
        queue: definition_pb2.MessageQueue,
        next_offset: int,
        arrived: "asyncio.Queue[MessageView | BaseException]",
    ) -> None:
        position, failures = _Position(next_offset), 0
        while True:
            try:
                await self._pull(queue, position, arrived)
            except CommandFailure as failure:
                if (why := _interruption(failure)) is None:
                    await arrived.put(failure)
                    return
                self._link.lost(why)
                failures += 1
                await pause(failures)
            else:
                failures = 0

    async def _pull(
        self,
        queue: definition_pb2.MessageQueue,
        position: "_Position",
        arrived: "asyncio.Queue[MessageView | BaseException]",
    ) -> None:
        """Pull once, with a long poll, and move the position; without waiting while the connection is lost."""
        long_poll = AT_ONCE if self._link.is_lost else self._long_poll
        begun_after = self._link.failures
        request = service_pb2.PullMessageRequest(
            group=definition_pb2.Resource(name=GROUP),
            message_queue=queue,
            offset=position.next_offset,
            batch_size=BATCH_MAX,
            filter_expression=self._expression,
            long_polling_timeout=long_poll,
        )
        call = self._channel.unary_stream(
            f"/{SERVICE}/PullMessage",
            request_serializer=service_pb2.PullMessageRequest.SerializeToString,
            response_deserializer=service_pb2.PullMessageResponse.FromString,
        )
        timeout_s = long_poll.total_seconds() + CALL_TIMEOUT_S
        status = None
        endpoints = Endpoints.from_proto(queue.broker.endpoints)
        try:
            async for answer in call(request, timeout=timeout_s, metadata=await self._metadata()):
                kind = answer.WhichOneof("content")
                if kind == "message":
                    self._link.back(begun_after)
                    await arrived.put(MessageView(answer.message, broker=queue.broker.name, endpoints=endpoints))
                    position.next_offset = answer.message.system_properties.queue_offset + 1
                elif kind == "next_offset":
                    position.next_offset = answer.next_offset
                elif kind == "status":
                    status = answer.status
        except grpc.aio.AioRpcError as error:
            raise call_failure(self._endpoint, error.code().value[0], error.details() or "") from None
        if status is not None and status.code not in HARMLESS:
            _check(status)
        self._link.back(begun_after)

    async def _unary(self, method: str, request: Message, answer_type: type[A]) -> A:
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_type.FromString,
        )
        try:
            answer: A = await call(request, timeout=CALL_TIMEOUT_S, metadata=await self._metadata())
        except grpc.aio.AioRpcError as error:
            raise call_failure(self._endpoint, error.code().value[0], error.details() or "") from None
        return answer


def _check(status: definition_pb2.Status) -> None:
    if status.code != definition_pb2.OK:
        raise refused(status.code, status.message)


def _interruption(failure: CommandFailure) -> str | None:
    """Return the reason of a failure after which the pull is repeated; None for one that is permanent."""
    if isinstance(failure, Unreachable):
        return failure.reason
    passes = isinstance(failure, CallBroken) or (isinstance(failure, Refused) and failure.code in RETRYABLE)
    return failure.message if passes else None
