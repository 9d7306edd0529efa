"""A real gRPC server that plays MessagingService after a script.

Without a script everything succeeds: one topic has `queues` queues, sends are stored, polls wait for `deliver`, and end
when their client ends its Telemetry stream.
Pulls and offsets are those of `server.model`.
`server.script("SendMessage", ...)` changes the next answers, each with a reply, a function of the request (plain or
coroutine), or a gRPC status to fail with; an answer to PullMessage is a list of parts, which a gRPC status may end.
`server.requests[name]` has what was asked, `await server.asked(name, times)` waits for it.
"""

import asyncio
import inspect
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import Message as Proto

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.queue_model import QueueModel

OK = pb.Status(code=pb.OK)
TOPIC = "orders"
UNARY = (
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "QueryAssignment",
    "AckMessage",
    "ForwardMessageToDeadLetterQueue",
    "NotifyClientTermination",
    "ChangeInvisibleDuration",
    "RecallMessage",
    "EndTransaction",
    "GetOffset",
    "UpdateOffset",
    "QueryOffset",
    "SyncLiteSubscription",
)

Reply: TypeAlias = (
    Proto | grpc.StatusCode | Callable[[Any], Proto | Awaitable[Proto]] | Sequence[Proto | grpc.StatusCode]
)


class ScriptedServer:
    """Stands on a free port of 127.0.0.1 between `__aenter__` and `__aexit__`."""

    def __init__(self, *, queues: int = 4, port: int = 0, tls: grpc.ServerCredentials | None = None) -> None:
        self.requests: defaultdict[str, list[Any]] = defaultdict(list)
        self.metadata: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        self.peers: set[str] = set()
        self.queues = queues
        self.told = pb.Settings()
        self.port = port
        self.brokers: dict[str, int] = {}
        self.model = QueueModel()
        self.commands: asyncio.Queue[rpc.TelemetryCommand | None] = asyncio.Queue()
        self._scripts: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._deliveries: asyncio.Queue[Sequence[rpc.ReceiveMessageResponse]] = asyncio.Queue()
        self._retired: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._changed = asyncio.Condition()
        self._offset = 0
        self._tls = tls
        self._server = grpc.aio.server()

    async def __aenter__(self) -> Self:
        handlers: dict[str, grpc.RpcMethodHandler] = {
            "ReceiveMessage": grpc.unary_stream_rpc_method_handler(
                self._receive,
                request_deserializer=rpc.ReceiveMessageRequest.FromString,
                response_serializer=rpc.ReceiveMessageResponse.SerializeToString,
            ),
            "PullMessage": grpc.unary_stream_rpc_method_handler(
                self._pull,
                request_deserializer=rpc.PullMessageRequest.FromString,
                response_serializer=rpc.PullMessageResponse.SerializeToString,
            ),
            "Telemetry": grpc.stream_stream_rpc_method_handler(
                self._telemetry,
                request_deserializer=rpc.TelemetryCommand.FromString,
                response_serializer=rpc.TelemetryCommand.SerializeToString,
            ),
        }
        for name in UNARY:
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._unary(name),
                request_deserializer=getattr(rpc, name + "Request").FromString,
                response_serializer=getattr(rpc, name + "Response").SerializeToString,
            )
        generic = grpc.method_handlers_generic_handler("apache.rocketmq.v2.MessagingService", handlers)
        self._server.add_generic_rpc_handlers((generic,))
        address = f"127.0.0.1:{self.port}"
        if self._tls is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, self._tls)
        self.brokers = self.brokers or {"broker-a": self.port}
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def script(self, name: str, *replies: Reply) -> None:
        """The next answers of one call."""
        self._scripts[name].extend(replies)

    def deliver(self, *messages: pb.Message) -> None:
        """One poll gets these."""
        parts = [rpc.ReceiveMessageResponse(status=OK)]
        parts += [rpc.ReceiveMessageResponse(message=message) for message in messages]
        self._deliveries.put_nowait(parts)

    def end_poll(self, code: pb.Code) -> None:
        """One poll ends with this status and no messages."""
        self._deliveries.put_nowait([rpc.ReceiveMessageResponse(status=pb.Status(code=code, message="scripted"))])

    def break_poll(self, *messages: pb.Message) -> None:
        """One poll gets these and then breaks."""
        self._deliveries.put_nowait([rpc.ReceiveMessageResponse(message=message) for message in messages])

    async def asked(self, name: str, times: int = 1) -> list[Any]:
        """Wait until a call was made so often; its requests."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests[name]) >= times)
        return self.requests[name]

    async def _note(self, name: str, request: Proto, context: grpc.aio.ServicerContext) -> None:
        async with self._changed:
            self.requests[name].append(request)
            self.metadata[name].append(dict(context.invocation_metadata()))
            self.peers.add(context.peer())
            self._changed.notify_all()

    def _unary(self, name: str) -> Callable[[Proto, grpc.aio.ServicerContext], Any]:
        async def answer(request: Proto, context: grpc.aio.ServicerContext) -> Proto:
            await self._note(name, request, context)
            reply: Reply = self._scripts[name].popleft() if self._scripts[name] else getattr(self, f"_default_{name}")
            if isinstance(reply, grpc.StatusCode):
                await context.abort(reply, "scripted")
            if isinstance(reply, Proto):
                return reply
            assert callable(reply)
            answered = reply(request)
            return await answered if inspect.isawaitable(answered) else answered

        return answer

    async def _receive(
        self, request: rpc.ReceiveMessageRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[rpc.ReceiveMessageResponse]:
        await self._note("ReceiveMessage", request, context)
        parts = await self._next_delivery(self._retired[_client_of(context)])
        for part in parts:
            yield part
        if parts[0].WhichOneof("content") != "status":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")

    async def _next_delivery(self, retired: asyncio.Event) -> Sequence[rpc.ReceiveMessageResponse]:
        """What one poll is answered with; nothing when its client is about to go."""
        delivery, end = asyncio.create_task(self._deliveries.get()), asyncio.create_task(retired.wait())
        try:
            await asyncio.wait([delivery, end], return_when=asyncio.FIRST_COMPLETED)
            if delivery.done():
                return delivery.result()
        finally:
            delivery.cancel()
            end.cancel()
        return [rpc.ReceiveMessageResponse(status=pb.Status(code=pb.MESSAGE_NOT_FOUND, message="scripted"))]

    async def _pull(
        self, request: rpc.PullMessageRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[rpc.PullMessageResponse]:
        await self._note("PullMessage", request, context)
        if not self._scripts["PullMessage"]:
            async for part in self.model.pull(request):
                yield part
            return
        reply = self._scripts["PullMessage"].popleft()
        for scripted in reply if isinstance(reply, Sequence) else [reply]:
            if isinstance(scripted, grpc.StatusCode):
                await context.abort(scripted, "scripted")
            assert isinstance(scripted, rpc.PullMessageResponse)
            yield scripted

    async def _telemetry(
        self, commands: AsyncIterator[rpc.TelemetryCommand], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[rpc.TelemetryCommand]:
        outgoing: asyncio.Queue[rpc.TelemetryCommand | grpc.StatusCode | None] = asyncio.Queue()

        async def read() -> None:
            async for command in commands:
                await self._note("Telemetry", command, context)
                if command.HasField("settings"):
                    outgoing.put_nowait(self._settings_reply(command.settings))
            self._retired[_client_of(context)].set()
            outgoing.put_nowait(None)

        async def relay() -> None:
            while True:
                outgoing.put_nowait(await self.commands.get())

        tasks = [asyncio.create_task(read()), asyncio.create_task(relay())]
        try:
            while (command := await outgoing.get()) is not None:
                if isinstance(command, grpc.StatusCode):
                    await context.abort(command, "scripted")
                yield command
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _settings_reply(self, settings: pb.Settings) -> rpc.TelemetryCommand | grpc.StatusCode:
        if self._scripts["Telemetry"]:
            reply = self._scripts["Telemetry"].popleft()
            assert isinstance(reply, rpc.TelemetryCommand | grpc.StatusCode)
            return reply
        answer = pb.Settings()
        answer.CopyFrom(settings)
        answer.backoff_policy.Clear()
        answer.MergeFrom(self.told)
        return rpc.TelemetryCommand(status=OK, settings=answer)

    def queue(self, broker: str, port: int, queue_id: int) -> pb.MessageQueue:
        address = pb.Address(host="127.0.0.1", port=port)
        return pb.MessageQueue(
            topic=pb.Resource(name=TOPIC),
            id=queue_id,
            permission=pb.READ_WRITE,
            broker=pb.Broker(name=broker, endpoints=pb.Endpoints(scheme=pb.IPv4, addresses=[address])),
        )

    def _default_QueryRoute(self, request: rpc.QueryRouteRequest) -> rpc.QueryRouteResponse:  # noqa: N802
        queues = [
            self.queue(broker, port, queue_id)
            for broker, port in self.brokers.items()
            for queue_id in range(self.queues)
        ]
        for queue in queues:
            queue.topic.CopyFrom(request.topic)
        return rpc.QueryRouteResponse(status=OK, message_queues=queues)

    def _default_QueryAssignment(self, request: rpc.QueryAssignmentRequest) -> rpc.QueryAssignmentResponse:  # noqa: N802
        queue = self.queue("broker-a", self.port, -1)
        queue.topic.CopyFrom(request.topic)
        return rpc.QueryAssignmentResponse(status=OK, assignments=[pb.Assignment(message_queue=queue)])

    def assigned(self, *queue_ids: int) -> rpc.QueryAssignmentResponse:
        """An answer to QueryAssignment that names some queues of the first broker."""
        queues = [self.queue("broker-a", self.port, queue_id) for queue_id in queue_ids]
        return rpc.QueryAssignmentResponse(
            status=OK, assignments=[pb.Assignment(message_queue=queue) for queue in queues]
        )

    def _default_GetOffset(self, request: rpc.GetOffsetRequest) -> rpc.GetOffsetResponse:  # noqa: N802
        return self.model.get_offset(request)

    def _default_UpdateOffset(self, request: rpc.UpdateOffsetRequest) -> rpc.UpdateOffsetResponse:  # noqa: N802
        return self.model.update_offset(request)

    def _default_QueryOffset(self, request: rpc.QueryOffsetRequest) -> rpc.QueryOffsetResponse:  # noqa: N802
        return self.model.query_offset(request)

    def _default_Heartbeat(self, _: rpc.HeartbeatRequest) -> rpc.HeartbeatResponse:  # noqa: N802
        return rpc.HeartbeatResponse(status=OK)

    def _default_NotifyClientTermination(  # noqa: N802
        self, _: rpc.NotifyClientTerminationRequest
    ) -> rpc.NotifyClientTerminationResponse:
        return rpc.NotifyClientTerminationResponse(status=OK)

    def _default_RecallMessage(self, request: rpc.RecallMessageRequest) -> rpc.RecallMessageResponse:  # noqa: N802
        return rpc.RecallMessageResponse(status=OK, message_id=f"id of {request.recall_handle}")

    def _default_EndTransaction(self, _: rpc.EndTransactionRequest) -> rpc.EndTransactionResponse:  # noqa: N802
        return rpc.EndTransactionResponse(status=OK)

    def _default_SyncLiteSubscription(  # noqa: N802
        self, _: rpc.SyncLiteSubscriptionRequest
    ) -> rpc.SyncLiteSubscriptionResponse:
        return rpc.SyncLiteSubscriptionResponse(status=OK)

    def _default_SendMessage(self, request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:  # noqa: N802
        return rpc.SendMessageResponse(status=OK, entries=[self._stored(message) for message in request.messages])

    def _stored(self, message: pb.Message) -> rpc.SendResultEntry:
        self._offset += 1
        message_id, kind = message.system_properties.message_id, message.system_properties.message_type
        return rpc.SendResultEntry(
            status=OK,
            message_id=message_id,
            transaction_id=f"transaction of {message_id}" if kind == pb.TRANSACTION else "",
            offset=self._offset,
            recall_handle=f"handle of {message_id}" if kind == pb.DELAY else "",
        )

    def _default_AckMessage(self, request: rpc.AckMessageRequest) -> rpc.AckMessageResponse:  # noqa: N802
        entries = [
            rpc.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=OK)
            for entry in request.entries
        ]
        return rpc.AckMessageResponse(status=OK, entries=entries)

    def _default_ChangeInvisibleDuration(  # noqa: N802
        self, request: rpc.ChangeInvisibleDurationRequest
    ) -> rpc.ChangeInvisibleDurationResponse:
        return rpc.ChangeInvisibleDurationResponse(status=OK, receipt_handle=request.receipt_handle + "'")

    def _default_ForwardMessageToDeadLetterQueue(  # noqa: N802
        self, _: rpc.ForwardMessageToDeadLetterQueueRequest
    ) -> rpc.ForwardMessageToDeadLetterQueueResponse:
        return rpc.ForwardMessageToDeadLetterQueueResponse(status=OK)


def _client_of(context: grpc.aio.ServicerContext) -> str:
    return str(dict(context.invocation_metadata())["x-mq-client-id"])


def stored_message(
    number: int, *, group: str | None = None, attempt: int = 1, body: bytes = b"", lite_topic: str | None = None
) -> pb.Message:
    """A message as a server delivers it."""
    return pb.Message(
        topic=pb.Resource(name=TOPIC),
        body=body or f"body {number}".encode(),
        system_properties=pb.SystemProperties(
            message_id=f"id-{number}",
            receipt_handle=f"handle-{number}",
            message_group=group,
            queue_id=0,
            queue_offset=number,
            delivery_attempt=attempt,
            lite_topic=lite_topic,
            body_encoding=pb.IDENTITY,
        ),
    )


def orphan(number: int, **fields: Any) -> rpc.TelemetryCommand:  # noqa: ANN401 - fields of the command
    """A server's check of the transaction of `stored_message(number)`."""
    asked = {"transaction_id": f"transaction-{number}", "message": stored_message(number), **fields}
    return rpc.TelemetryCommand(recover_orphaned_transaction_command=rpc.RecoverOrphanedTransactionCommand(**asked))


def ended(code: pb.Code) -> rpc.EndTransactionResponse:
    """A refusal to end a transaction."""
    return rpc.EndTransactionResponse(status=pb.Status(code=code, message="scripted"))


def sent(code: pb.Code) -> rpc.SendMessageResponse:
    """A refusal of a whole SendMessage request."""
    return rpc.SendMessageResponse(status=pb.Status(code=code, message="scripted"))
