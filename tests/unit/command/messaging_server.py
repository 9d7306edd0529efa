"""Topics in memory, behind the calls of the messaging service that read by offset, keep offsets, send and recall."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2

OK = pb.Status(code=pb.OK, message="OK")
BROKER = "broker-0"
PULL_MAX = 32
UNARY = ("QueryRoute", "QueryOffset", "GetOffset", "UpdateOffset", "SendMessage", "RecallMessage")


@dataclass
class Queue:
    """Messages from the offset `first` on."""

    first: int = 0
    messages: list[pb.Message] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.messages)

    def append(self, message: pb.Message, *, topic: str, queue_id: int, stored_ms: int) -> None:
        message.topic.name = topic
        properties = message.system_properties
        properties.queue_id, properties.queue_offset = queue_id, self.end
        properties.store_timestamp.FromMilliseconds(stored_ms)
        self.messages.append(message)

    def remove_before(self, queue_offset: int) -> None:
        """What retention does."""
        del self.messages[: queue_offset - self.first]
        self.first = queue_offset


class MemoryTopics:
    """`queues` by topic, `elsewhere` those of other brokers by broker and topic.

    `committed` is by (group, topic, queue id).

    A `before` hook may refuse a call, or change the world. `calls` counts the calls of each method, `requests` are the
    messages of every SendMessage that was stored, `commits` every offset that was set, `recalled` (topic, handle) of
    every RecallMessage.
    """

    def __init__(self) -> None:
        self.queues: dict[str, list[Queue]] = {}
        self.elsewhere: dict[str, dict[str, list[Queue]]] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.commits: list[tuple[str, int, int]] = []
        self.requests: list[list[pb.Message]] = []
        self.recalled: list[tuple[str, str]] = []
        self.calls: Counter[str] = Counter()
        self.before: Callable[[str, Any], pb.Status | None] = lambda method, request: None
        self._turn = 0

    def make(self, topic: str, queues: int, *, broker: str = BROKER) -> list[Queue]:
        held = self.queues if broker == BROKER else self.elsewhere.setdefault(broker, {})
        return held.setdefault(topic, [Queue() for _ in range(queues)])

    def put(
        self,
        topic: str,
        queue_id: int,
        message: pb.Message,
        *,
        stored_ms: int = 1_700_000_000_000,
        broker: str = BROKER,
    ) -> None:
        queue = self.places(topic)[broker][queue_id]
        queue.append(message, topic=topic, queue_id=queue_id, stored_ms=stored_ms)

    def places(self, topic: str) -> dict[str, list[Queue]]:
        """The topic's queues by their brokers."""
        others = {broker: held[topic] for broker, held in self.elsewhere.items() if topic in held}
        return {BROKER: self.queues[topic], **others}

    def bodies(self, topic: str) -> list[list[str]]:
        return [[message.body.decode() for message in queue.messages] for queue in self.queues[topic]]

    def handler(self) -> grpc.GenericRpcHandler:
        calls = {
            name: grpc.unary_unary_rpc_method_handler(
                self._guarded(name),
                request_deserializer=getattr(service_pb2, f"{name}Request").FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name in UNARY
        }
        calls["PullMessage"] = grpc.unary_stream_rpc_method_handler(
            lambda request, _: self.PullMessage(request),
            request_deserializer=service_pb2.PullMessageRequest.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        return grpc.method_handlers_generic_handler("apache.rocketmq.v2.MessagingService", calls)

    def _guarded(self, name: str) -> Any:  # noqa: ANN401
        def call(request: Any, _: grpc.ServicerContext) -> Any:  # noqa: ANN401
            self.calls[name] += 1
            refusal = self.before(name, request)
            if refusal is not None:
                return getattr(service_pb2, f"{name}Response")(status=refusal)
            return getattr(self, name)(request)

        return call

    def QueryRoute(self, request: service_pb2.QueryRouteRequest) -> service_pb2.QueryRouteResponse:  # noqa: N802
        name = request.topic.name
        if name not in self.queues:
            return service_pb2.QueryRouteResponse(status=pb.Status(code=pb.TOPIC_NOT_FOUND, message=f"no topic {name}"))
        queues = [
            pb.MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=pb.READ_WRITE,
                broker=pb.Broker(name=broker, endpoints=request.endpoints),
            )
            for broker, held in self.places(name).items()
            for queue_id in range(len(held))
        ]
        return service_pb2.QueryRouteResponse(status=OK, message_queues=queues)

    def QueryOffset(self, request: service_pb2.QueryOffsetRequest) -> service_pb2.QueryOffsetResponse:  # noqa: N802
        queue = self._queue(request.message_queue)
        if request.query_offset_policy == pb.TIMESTAMP:
            since_ms = request.timestamp.ToMilliseconds()
            later = [m for m in queue.messages if m.system_properties.store_timestamp.ToMilliseconds() >= since_ms]
            return service_pb2.QueryOffsetResponse(status=OK, offset=queue.end - len(later))
        at = queue.first if request.query_offset_policy == pb.BEGINNING else queue.end
        return service_pb2.QueryOffsetResponse(status=OK, offset=at)

    def GetOffset(self, request: service_pb2.GetOffsetRequest) -> service_pb2.GetOffsetResponse:  # noqa: N802
        committed = self.committed.get(self._place(request))
        if committed is None:
            return service_pb2.GetOffsetResponse(status=pb.Status(code=pb.OFFSET_NOT_FOUND, message="never there"))
        return service_pb2.GetOffsetResponse(status=OK, offset=committed)

    def UpdateOffset(self, request: service_pb2.UpdateOffsetRequest) -> service_pb2.UpdateOffsetResponse:  # noqa: N802
        self.committed[self._place(request)] = request.offset
        self.commits.append((request.message_queue.topic.name, request.message_queue.id, request.offset))
        return service_pb2.UpdateOffsetResponse(status=OK)

    def SendMessage(self, request: service_pb2.SendMessageRequest) -> service_pb2.SendMessageResponse:  # noqa: N802
        """All to one queue: that of the first one's message group, or the next in turn."""
        topic = request.messages[0].topic.name
        queues, group = self.queues[topic], request.messages[0].system_properties.message_group
        self._turn += 1
        queue_id = (sum(group.encode()) if group else self._turn) % len(queues)
        self.requests.append(list(request.messages))
        entries = []
        for message in request.messages:
            self.put(topic, queue_id, message, stored_ms=int(time.time() * 1000))
            entries.append(service_pb2.SendResultEntry(status=OK, message_id=message.system_properties.message_id))
        return service_pb2.SendMessageResponse(status=OK, entries=entries)

    def RecallMessage(self, request: service_pb2.RecallMessageRequest) -> service_pb2.RecallMessageResponse:  # noqa: N802
        self.recalled.append((request.topic.name, request.recall_handle))
        return service_pb2.RecallMessageResponse(status=OK, message_id=f"id-of-{request.recall_handle}")

    def PullMessage(self, request: service_pb2.PullMessageRequest) -> Iterator[service_pb2.PullMessageResponse]:  # noqa: N802
        self.calls["PullMessage"] += 1
        answer = service_pb2.PullMessageResponse
        refusal = self.before("PullMessage", request)
        if refusal is not None:
            yield answer(status=refusal)
            return
        queue = self._queue(request.message_queue)
        if request.offset > queue.end:
            yield answer(status=pb.Status(code=pb.ILLEGAL_OFFSET, message="beyond the end"))
            yield answer(next_offset=queue.end)
            return
        at = max(request.offset, queue.first)
        skipped = request.offset < queue.first
        found = [] if skipped else queue.messages[at - queue.first :][: min(request.batch_size, PULL_MAX)]
        yield answer(status=OK if found else pb.Status(code=pb.MESSAGE_NOT_FOUND, message="none"))
        for message in found:
            yield answer(message=message)
        yield answer(next_offset=at + len(found))

    def _queue(self, queue: pb.MessageQueue) -> Queue:
        return self.places(queue.topic.name)[queue.broker.name][queue.id]

    def _place(self, request: Any) -> tuple[str, str, int]:  # noqa: ANN401
        return request.group.name, request.message_queue.topic.name, request.message_queue.id


def message(
    body: str | bytes,
    *,
    message_id: str = "",
    keys: tuple[str, ...] = (),
    tag: str | None = None,
    group: str | None = None,
    properties: dict[str, str] | None = None,
    lite_topic: str | None = None,
) -> pb.Message:
    """A message as a producer sends it; its id is its body unless another is given."""
    content = body.encode() if isinstance(body, str) else body
    system = pb.SystemProperties(
        message_id=message_id or content.decode(),
        keys=keys,
        tag=tag,
        message_group=group,
        lite_topic=lite_topic,
        body_encoding=pb.IDENTITY,
    )
    system.born_timestamp.FromMilliseconds(1_699_999_999_123)
    system.message_type = pb.FIFO if group else pb.NORMAL
    return pb.Message(user_properties=properties or {}, system_properties=system, body=content)


def dead_letter(number: int, *, keys: tuple[str, ...] = (), body: bytes | None = None) -> pb.Message:
    """As the broker keeps them, of topic `orders`: message id `id-N`, body `body N`."""
    letter = message(
        body or f"body {number}".encode(),
        message_id=f"id-{number}",
        keys=keys,
        tag="paid",
        properties={
            "region": "eu",
            "DLQ_ORIGIN_TOPIC": "orders",
            "DLQ_ORIGIN_MESSAGE_ID": f"id-{number}",
            "DLQ_ATTEMPTS": "3",
            "DLQ_REASON": "attempts",
        },
    )
    letter.system_properties.dead_letter_queue.topic = "orders"
    letter.system_properties.dead_letter_queue.message_id = f"id-{number}"
    return letter
