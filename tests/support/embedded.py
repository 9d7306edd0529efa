"""The embedded stack inside the test's own process, on real sockets, and a client that sends what a test says.

Embedded    `async with Embedded(settings) as server:` starts all of `ternmq up` but the process.
RawClient   knows the names and types of the calls and nothing else: no retries, no checks, no background work.
"""

import itertools
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import grpc
import grpc.aio

from ternmq_common.server_settings import ServerSettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration, Timestamp
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.server.main import make_clock, start
from ternmq_proxy.services import ANSWER_LIMITS, AnswerLimits
from tests.support.ports import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

MESSAGING = rpc.DESCRIPTOR.services_by_name["MessagingService"]
ADMIN = admin_pb2.DESCRIPTOR.services_by_name["Admin"]
PUBLISHED = published_pb2.DESCRIPTOR.services_by_name["Admin"]
TIMEOUT_S = 20.0
Metadata = tuple[tuple[str, str], ...]
# A descriptor says of which type requests, answers and fields are; no annotation here can say it for all.
Proto = Any
_ids = itertools.count()


def local_settings(folder: "Path", **more: Proto) -> ServerSettings:
    """Settings of a server whose data is there, and that serves gRPC and HTTP at free ports of this machine."""
    return ServerSettings(data_dir=folder, grpc=ANY_PORT, http=ANY_PORT, **more)


class Embedded:
    """A running stack; `grpc` and `http` are its addresses, `host:port`, `more_grpc` those of further listeners, and
    `admin` that of operators, `remoting` that of 4.x clients."""

    def __init__(self, settings: ServerSettings, answer_limits: AnswerLimits = ANSWER_LIMITS) -> None:
        self.settings = settings
        self._answer_limits = answer_limits
        self.grpc = self.http = self.admin = self.remoting = ""
        self.more_grpc: list[str] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            addresses, self.http, self.admin, self.remoting = await start(
                self.settings, make_clock(self.settings), self._stack, self._answer_limits
            )
            self.grpc, *self.more_grpc = addresses
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        await self._stack.aclose()


@dataclass(slots=True)
class Received:
    """All items of one answer to ReceiveMessage; `kinds` has their order."""

    status: pb.Status | None = None
    messages: list[pb.Message] = field(default_factory=list)
    delivered: Timestamp | None = None
    kinds: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        assert self.status is not None
        return pb.Code.Name(self.status.code)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def attempts(self) -> list[int]:
        return [message.system_properties.delivery_attempt for message in self.messages]

    def add(self, item: rpc.ReceiveMessageResponse) -> None:
        kind = item.WhichOneof("content")
        assert kind is not None
        self.kinds.append(kind)
        if kind == "status":
            self.status = item.status
        elif kind == "message":
            self.messages.append(item.message)
        else:
            self.delivered = item.delivery_timestamp


class RawClient:
    """One connection to a server, with the metadata that a test chooses; `channel` is one that others have too."""

    def __init__(
        self, endpoint: str, *, metadata: Metadata | None = None, channel: grpc.aio.Channel | None = None
    ) -> None:
        self.client_id = f"client-{uuid.uuid4().hex}"
        self.metadata: Metadata = (("x-mq-client-id", self.client_id),) if metadata is None else metadata
        # A connection of its own: gRPC would share one among all channels to the same address. Its window does not
        # grow, so that how much of an answer is on its way does not depend on the machine.
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.http2.bdp_probe", 0),
        )
        self.endpoint = endpoint
        self.channel = channel or grpc.aio.insecure_channel(endpoint, options=options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        await self.channel.close()

    async def call(
        self, name: str, request: Proto = None, /, *, timeout_s: float = TIMEOUT_S, **fields: Proto
    ) -> Proto:
        """A unary call of MessagingService, with a request that has these fields, or with one that is made already; it
        may be bytes that no client would send."""
        return await self._unary(MESSAGING, rpc, name, request, fields, timeout_s)

    async def admin(self, name: str, request: Proto = None, /, **fields: Proto) -> Proto:
        """A call of our Admin service."""
        return await self._unary(ADMIN, admin_pb2, name, request, fields)

    async def published(self, name: str, request: Proto = None, /, **fields: Proto) -> Proto:
        """A call of the Admin service that is published with the protocol."""
        return await self._unary(PUBLISHED, published_pb2, name, request, fields)

    async def _unary(
        self,
        service: Proto,
        module: Proto,
        name: str,
        request: Proto,
        fields: dict[str, Proto],
        timeout_s: float = TIMEOUT_S,
    ) -> Proto:
        if request is None:
            request = getattr(module, service.methods_by_name[name].input_type.name)(**fields)
        response = getattr(module, service.methods_by_name[name].output_type.name)
        invoke = self.channel.unary_unary(
            f"/{service.full_name}/{name}", request_serializer=_serialized, response_deserializer=response.FromString
        )
        return await invoke(request, metadata=self.metadata, timeout=timeout_s)

    def stream(self, name: str, request: Proto, *, timeout_s: float | None = TIMEOUT_S) -> Proto:
        """A call of MessagingService whose answer is a stream, to be read or cancelled by the caller."""
        response = getattr(rpc, MESSAGING.methods_by_name[name].output_type.name)
        invoke = self.channel.unary_stream(
            f"/{MESSAGING.full_name}/{name}", request_serializer=_serialized, response_deserializer=response.FromString
        )
        return invoke(request, metadata=self.metadata, timeout=timeout_s)

    def telemetry(self, *, timeout_s: float | None = TIMEOUT_S) -> Proto:
        """A Telemetry stream, to be written and read by the caller."""
        invoke = self.channel.stream_stream(
            f"/{MESSAGING.full_name}/Telemetry",
            request_serializer=_serialized,
            response_deserializer=rpc.TelemetryCommand.FromString,
        )
        return invoke(metadata=self.metadata, timeout=timeout_s)

    async def configure(self, settings: pb.Settings) -> rpc.TelemetryCommand:
        """The first answer to these settings; the stream is half-closed afterwards and read to its end."""
        stream = self.telemetry()
        await stream.write(rpc.TelemetryCommand(settings=settings))
        answer = await stream.read()
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        assert isinstance(answer, rpc.TelemetryCommand)
        return answer

    async def create_topic(self, name: str, *, queues: int = 1, kind: "pb.MessageType" = pb.NORMAL) -> str:
        topic = admin_pb2.Topic(name=name, queues=queues, type=kind)
        answer = await self.admin("CreateTopic", topic=topic)
        assert answer.status.code == pb.OK, answer.status.message
        return name

    async def update_topic(self, name: str, **fields: Proto) -> None:
        answer = await self.admin("UpdateTopic", name=name, **fields)
        assert answer.status.code == pb.OK, answer.status.message

    async def create_group(self, name: str, **settings: Proto) -> str:
        group = admin_pb2.Group(name=name, **settings)
        answer = await self.admin("CreateGroup", group=group)
        assert answer.status.code == pb.OK, answer.status.message
        return name

    async def advance(self, seconds: float) -> int:
        """Let time pass on a server with a test clock; its time afterwards, in milliseconds since the epoch."""
        answer = await self.admin("AdvanceClock", by=duration(seconds))
        assert answer.status.code == pb.OK, answer.status.message
        milliseconds: int = answer.now.ToMilliseconds()
        return milliseconds

    async def server_ms(self) -> int:
        """The server's time, in milliseconds since the epoch."""
        answer = await self.admin("GetServerInfo")
        milliseconds: int = answer.now.ToMilliseconds()
        return milliseconds

    async def publish_to(self, *topics: pb.Resource) -> Proto:
        """A Telemetry stream of a producer of these topics, after its settings were answered."""
        stream = self.telemetry()
        settings = pb.Settings(client_type=pb.PRODUCER, publishing={"topics": topics})
        await stream.write(rpc.TelemetryCommand(settings=settings))
        answer = await stream.read()
        assert answer.status.code == pb.OK
        return stream

    async def send(self, topic: str, *bodies: bytes, **system: Proto) -> rpc.SendMessageResponse:
        """Send messages with these bodies and system properties, which must succeed."""
        messages = [message(topic, body, **system) for body in bodies]
        answer = await self.call("SendMessage", messages=messages)
        assert answer.status.code == pb.OK, answer.status.message
        assert isinstance(answer, rpc.SendMessageResponse)
        return answer

    async def receive(
        self, topic: str, group: str, *, timeout_s: float | None = TIMEOUT_S, **fields: Proto
    ) -> Received:
        """One poll, read to its end; see `receive_request`."""
        received = Received()
        stream = self.stream("ReceiveMessage", receive_request(topic, group, **fields), timeout_s=timeout_s)
        async for item in stream:
            received.add(item)
        return received

    async def ack(self, topic: str, group: str, *handles: str) -> rpc.AckMessageResponse:
        entries = [rpc.AckMessageEntry(receipt_handle=handle, message_id=handle[-4:]) for handle in handles]
        answer = await self.call("AckMessage", group={"name": group}, topic={"name": topic}, entries=entries)
        assert isinstance(answer, rpc.AckMessageResponse)
        return answer

    async def change(
        self, topic: str, group: str, handle: str, invisible_s: float, **fields: Proto
    ) -> rpc.ChangeInvisibleDurationResponse:
        request = rpc.ChangeInvisibleDurationRequest(
            group={"name": group},
            topic={"name": topic},
            receipt_handle=handle,
            invisible_duration=duration(invisible_s),
            **fields,
        )
        answer = await self.call("ChangeInvisibleDuration", request)
        assert isinstance(answer, rpc.ChangeInvisibleDurationResponse)
        return answer

    async def begin_transaction(self, topic: str, body: bytes = b"body", **system: Proto) -> str:
        """The id of the transaction of a half message that is sent now."""
        answer = await self.send(topic, body, message_type=pb.TRANSACTION, **system)
        transaction_id: str = answer.entries[0].transaction_id
        return transaction_id

    async def forward_to_dead_letters(self, topic: str, group: str, handle: str, **fields: Proto) -> str:
        """The code of the answer."""
        request = rpc.ForwardMessageToDeadLetterQueueRequest(
            group={"name": group}, topic={"name": topic}, receipt_handle=handle, **fields
        )
        return code(await self.call("ForwardMessageToDeadLetterQueue", request))


def _serialized(request: Proto) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


def message(
    topic: str, body: bytes = b"body", *, properties: dict[str, str] | None = None, **system: Proto
) -> pb.Message:
    """A message with a fresh id, which is as long as any other; `system` are fields of its system properties."""
    system = {"message_id": f"id-{next(_ids):08}", "body_encoding": pb.IDENTITY, **system}
    return pb.Message(topic={"name": topic}, user_properties=properties, system_properties=system, body=body)


def moment(milliseconds: int) -> Timestamp:
    """Milliseconds since the epoch as a timestamp."""
    stamp = Timestamp()
    stamp.FromMilliseconds(milliseconds)
    return stamp


def duration(seconds: float) -> Duration:
    return Duration(seconds=int(seconds), nanos=round((seconds - int(seconds)) * 1e9))


def receive_request(
    topic: str,
    group: str,
    *,
    poll_s: float | None = 0.0,
    invisible_s: float | None = 30.0,
    tags: str | None = None,
    **fields: Proto,
) -> rpc.ReceiveMessageRequest:
    """A poll for up to 32 messages that does not wait, unless fields say otherwise."""
    usual = {"group": {"name": group}, "message_queue": {"topic": {"name": topic}}, "batch_size": 32}
    request = rpc.ReceiveMessageRequest(**{**usual, **fields})
    if poll_s is not None:
        request.long_polling_timeout.CopyFrom(duration(poll_s))
    if invisible_s is not None:
        request.invisible_duration.CopyFrom(duration(invisible_s))
    if tags is not None:
        request.filter_expression.CopyFrom(pb.FilterExpression(type=pb.TAG, expression=tags))
    return request


def names(status_holders: "Sequence[Proto]") -> list[str]:
    """The names of the codes of all these entries' statuses."""
    return [pb.Code.Name(holder.status.code) for holder in status_holders]


def code(answer: Proto) -> str:
    """The name of the code of an answer's status."""
    name: str = pb.Code.Name(answer.status.code)
    return name
