"""Follows all queues of a topic by the pull calls of the protocol (`QueryRoute`, `QueryOffset`, `PullMessage`).

One task per queue pulls and puts messages into a short asyncio queue, so a slow reader slows the pulls. The tasks
belong to one iteration of `follow_messages` and end with it. After the first pull, they survive a restart of the
server: each continues behind its last message.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self, TypeVar

from google.protobuf.message import Message

from ternmq.admin.clients.plain_calls import new_client_name
from ternmq.connections.connection import PULL_MESSAGE, SERVICE
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.identity import ClientIdentity, Metadata
from ternmq.errors import UnusableFile
from ternmq.messages.message_view import MessageView
from ternmq_command.calls.access import current_access, explain_refusal
from ternmq_command.calls.connection_notice import ConnectionNotice, wait_before_retry
from ternmq_command.calls.service_calls import CALL_TIMEOUT_S, CLIENT_NAME, call_failure
from ternmq_command.terminal.failures import CallBroken, CallRefused, CommandFailure, ServerUnreachable, WrongUsage
from ternmq_common.errors import RETRYABLE
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_protos.v2 import definition_pb2, service_pb2
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.channel import Channel

A = TypeVar("A", bound=Message)

GROUP = "ternmq-tail"
BATCH_MAX = 32
WAITING_MAX = 256
READABLE = (definition_pb2.READ, definition_pb2.READ_WRITE)
# No message came, or retention removed the next one: in both cases next_offset is where to continue.
HARMLESS = (definition_pb2.OK, definition_pb2.MESSAGE_NOT_FOUND)
AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """The start of following, and its queues; by default with the next message.

    `queue_offset` is an offset of the queue `queue_id`; if retention removed its message, the next one kept comes
    first.
    """

    from_beginning: bool = False
    since: datetime | None = None
    queue_offset: int | None = None
    queue_id: int | None = None
    broker: str = ""


class _QueuePosition:
    """The offset of the next pull from a queue."""

    __slots__ = ("next_offset",)

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset


class TopicFollower:
    """Yields the messages of a topic from now on, or from an earlier position on."""

    def __init__(
        self, endpoint: str, topic: str, expression: definition_pb2.FilterExpression, *, long_poll: timedelta
    ) -> None:
        self._endpoint, self._topic, self._expression = endpoint, topic, expression
        self._long_poll = long_poll
        access = current_access()
        self._identity = ClientIdentity(access.credentials(), client_id=new_client_name(CLIENT_NAME))
        self._tls = access.tls_options()
        self._notice = ConnectionNotice(endpoint)
        self._is_closed = False
        try:
            context = None if self._tls is None else self._tls.ssl_context()
        except UnusableFile as error:
            raise WrongUsage(str(error)) from None
        server_name = None if self._tls is None else self._tls.server_name
        self._channel = Channel(Endpoints.parse(endpoint).addresses, tls=context, server_name=server_name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        await self._channel.close()

    async def follow_messages(self, start: StartPosition) -> AsyncIterator[MessageView]:
        """Yield the messages, in the order of each queue; ends only by an error or when the caller stops iterating."""
        arrived: asyncio.Queue[MessageView | BaseException] = asyncio.Queue(WAITING_MAX)
        chosen = self._choose_queues(await self._query_queues(), start)
        starts = [(queue, await self._first_offset(queue, start)) for queue in chosen]
        async with BackgroundTasks() as tasks:
            for queue, offset in starts:
                tasks.start(self._follow_queue(queue, offset, arrived))
            while True:
                item = await arrived.get()
                if isinstance(item, BaseException):
                    raise item
                yield item

    async def _call_metadata(self) -> Metadata:
        if self._identity.may_have_changed:
            await self._identity.refresh_credentials()
        return self._identity.sign_metadata()

    async def _query_queues(self) -> list[definition_pb2.MessageQueue]:
        request = service_pb2.QueryRouteRequest(
            topic=definition_pb2.Resource(name=self._topic), endpoints=Endpoints.parse(self._endpoint).to_proto()
        )
        answer = await self._call_unary("QueryRoute", request, service_pb2.QueryRouteResponse)
        _check_status(answer.status)
        return [queue for queue in answer.message_queues if queue.permission in READABLE and queue.broker.id == 0]

    def _choose_queues(
        self, queues: list[definition_pb2.MessageQueue], start: StartPosition
    ) -> list[definition_pb2.MessageQueue]:
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

    async def _first_offset(self, queue: definition_pb2.MessageQueue, start: StartPosition) -> int:
        request = service_pb2.QueryOffsetRequest(message_queue=queue, query_offset_policy=definition_pb2.END)
        if start.from_beginning:
            request.query_offset_policy = definition_pb2.BEGINNING
        elif start.since is not None:
            request.query_offset_policy = definition_pb2.TIMESTAMP
            request.timestamp.FromDatetime(start.since)
        answer = await self._call_unary("QueryOffset", request, service_pb2.QueryOffsetResponse)
        _check_status(answer.status)
        if start.queue_offset is None:
            return answer.offset
        if start.queue_offset > answer.offset:
            ends = f"queue {queue.id} of {self._topic} ends at offset {answer.offset}"
            raise CommandFailure(f"{ends}; {start.queue_offset} is beyond that")
        return start.queue_offset

    async def _follow_queue(
        self,
        queue: definition_pb2.MessageQueue,
        next_offset: int,
        arrived: "asyncio.Queue[MessageView | BaseException]",
    ) -> None:
        position, failures = _QueuePosition(next_offset), 0
        while True:
            try:
                await self._pull_once(queue, position, arrived)
            except CommandFailure as failure:
                if (why := _interruption_reason(failure)) is None:
                    await arrived.put(failure)
                    return
                self._notice.report_failure(why)
                failures += 1
                await wait_before_retry(failures)
            else:
                failures = 0

    async def _pull_once(
        self,
        queue: definition_pb2.MessageQueue,
        position: "_QueuePosition",
        arrived: "asyncio.Queue[MessageView | BaseException]",
    ) -> None:
        """Pull once, with a long poll, and move the position; without waiting while the connection is lost."""
        long_poll = AT_ONCE if self._notice.is_lost else self._long_poll
        begun_after = self._notice.failures
        request = service_pb2.PullMessageRequest(
            group=definition_pb2.Resource(name=GROUP),
            message_queue=queue,
            offset=position.next_offset,
            batch_size=BATCH_MAX,
            filter_expression=self._expression,
            long_polling_timeout=long_poll,
        )
        status = None
        endpoints = Endpoints.from_proto(queue.broker.endpoints)
        async for answer in self._pull_parts(request, long_poll.total_seconds() + CALL_TIMEOUT_S):
            kind = answer.WhichOneof("content")
            if kind == "message":
                self._notice.report_success(begun_after)
                await arrived.put(MessageView(answer.message, broker=queue.broker.name, endpoints=endpoints))
                position.next_offset = answer.message.system_properties.queue_offset + 1
            elif kind == "next_offset":
                position.next_offset = answer.next_offset
            elif kind == "status":
                status = answer.status
        if status is not None and status.code not in HARMLESS:
            _check_status(status)
        self._notice.report_success(begun_after)

    async def _pull_parts(
        self, request: service_pb2.PullMessageRequest, timeout_s: float
    ) -> AsyncIterator[service_pb2.PullMessageResponse]:
        """Yield the parts of the answer to a pull as they arrive."""
        metadata = await self._call_metadata()
        try:
            call = await self._channel.open_call(
                PULL_MESSAGE.path, metadata, connect_timeout_s=CALL_TIMEOUT_S, timeout_s=timeout_s
            )
            try:
                call.send_request(request.SerializeToString())
                while (part := await call.read_message()) is not None:
                    yield service_pb2.PullMessageResponse.FromString(part)
            finally:
                call.abort_stream("nobody reads the answer")
        except StreamBroken as broken:
            raise self._failure_of(broken) from None

    async def _call_unary(self, method: str, request: Message, answer_type: type[A]) -> A:
        metadata = await self._call_metadata()
        try:
            answer = await self._channel.call_unary(
                SERVICE + method, metadata, request.SerializeToString(), CALL_TIMEOUT_S
            )
        except StreamBroken as broken:
            raise self._failure_of(broken) from None
        return answer_type.FromString(answer)

    def _failure_of(self, broken: StreamBroken) -> CommandFailure:
        """Return the failure for a call that broke. A follower that was closed ends its pulls, which is none."""
        if self._is_closed:
            raise asyncio.CancelledError
        details = broken.details or str(broken)
        return call_failure(self._endpoint, broken.status, details, uses_tls=self._tls is not None)


def _check_status(status: definition_pb2.Status) -> None:
    if status.code != definition_pb2.OK:
        raise explain_refusal(status.code, status.message)


def _interruption_reason(failure: CommandFailure) -> str | None:
    """Return the reason of a failure after which the pull is repeated; None for one that is permanent."""
    if isinstance(failure, ServerUnreachable):
        return failure.reason
    passes = isinstance(failure, CallBroken) or (isinstance(failure, CallRefused) and failure.code in RETRYABLE)
    return failure.message if passes else None
