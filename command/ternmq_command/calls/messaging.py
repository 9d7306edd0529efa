"""Reads by offset, reads and commits offsets, sends and recalls, by single calls of the protocol.

For commands that read a queue once, from one offset to another (`pulling.md, Offsets`); `follower` follows topics.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ternmq.connections.endpoints import Endpoints
from ternmq_command.calls.access import explain_refusal
from ternmq_command.calls.service_calls import ServiceCalls
from ternmq_command.terminal.failures import CallRefused, CommandFailure
from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2

READER_GROUP = "ternmq-tail"
SEND_TIMEOUT_S = 30
READABLE = (pb.READ, pb.READ_WRITE)
# No message, or retention removed the next one: in both cases next_offset is where to continue.
HARMLESS = (pb.OK, pb.MESSAGE_NOT_FOUND)
EVERYTHING = pb.FilterExpression(type=pb.TAG, expression="*")


@dataclass(frozen=True, slots=True)
class PulledPage:
    """The messages of one pull, and the queue offset to continue at."""

    messages: list[pb.Message]
    next_offset: int


class MessagingClient(ServiceCalls):
    """A client of the messaging service at an endpoint; raises `CallRefused` and `ServerUnreachable`."""

    service = "apache.rocketmq.v2.MessagingService"

    def readable_queues(self, topic: str) -> list[pb.MessageQueue]:
        """Return the readable queues of a topic; of a topic that its first message creates, those that it will have."""
        request = service_pb2.QueryRouteRequest(
            topic=pb.Resource(name=topic), endpoints=Endpoints.parse(self._endpoint).to_proto()
        )
        answer = self._call_method("QueryRoute", request, service_pb2.QueryRouteResponse)
        return [queue for queue in answer.message_queues if queue.permission in READABLE and queue.broker.id == 0]

    def first_offset(self, queue: pb.MessageQueue) -> int:
        return self._query_offset(service_pb2.QueryOffsetRequest(message_queue=queue, query_offset_policy=pb.BEGINNING))

    def end_offset(self, queue: pb.MessageQueue) -> int:
        return self._query_offset(service_pb2.QueryOffsetRequest(message_queue=queue, query_offset_policy=pb.END))

    def offset_at(self, queue: pb.MessageQueue, moment: datetime) -> int:
        """Return the offset of the first message stored at that time or later; the end offset if there is none."""
        request = service_pb2.QueryOffsetRequest(message_queue=queue, query_offset_policy=pb.TIMESTAMP)
        request.timestamp.FromDatetime(moment)
        return self._query_offset(request)

    def _query_offset(self, request: service_pb2.QueryOffsetRequest) -> int:
        return self._call_method("QueryOffset", request, service_pb2.QueryOffsetResponse).offset

    def committed_offset(self, group: str, queue: pb.MessageQueue) -> int | None:
        """Return the group's committed offset in the queue; None if it has none."""
        request = service_pb2.GetOffsetRequest(group=pb.Resource(name=group), message_queue=queue)
        try:
            return self._call_method("GetOffset", request, service_pb2.GetOffsetResponse).offset
        except CallRefused as refusal:
            if refusal.code != pb.OFFSET_NOT_FOUND:
                raise
            return None

    def commit_offset(self, group: str, queue: pb.MessageQueue, queue_offset: int) -> None:
        request = service_pb2.UpdateOffsetRequest(
            group=pb.Resource(name=group), message_queue=queue, offset=queue_offset
        )
        self._call_method("UpdateOffset", request, service_pb2.UpdateOffsetResponse)

    def read_messages(
        self, queue: pb.MessageQueue, start: int, end: int, filter_expression: pb.FilterExpression | None = None
    ) -> Iterator[pb.Message]:
        """Yield the messages from offset `start` to before `end` that match the filter `filter_expression`, pulled as
        needed."""
        while start < end:
            pulled = self.pull_page(queue, start, min(RECEIVE_BATCH_MAX, end - start), filter_expression)
            if pulled.next_offset <= start:
                raise CommandFailure(
                    f"queue {queue.id} of {queue.topic.name} has no message at offset {start}, though its end was {end}"
                )
            yield from (message for message in pulled.messages if message.system_properties.queue_offset < end)
            start = pulled.next_offset

    def pull_page(
        self,
        queue: pb.MessageQueue,
        pull_offset: int,
        batch_size: int,
        filter_expression: pb.FilterExpression | None = None,
    ) -> PulledPage:
        """Pull the messages that are there now and match the filter `filter_expression`, without waiting."""
        request = service_pb2.PullMessageRequest(
            group=pb.Resource(name=READER_GROUP),
            message_queue=queue,
            offset=pull_offset,
            batch_size=batch_size,
            filter_expression=filter_expression or EVERYTHING,
        )
        messages, next_offset = [], pull_offset
        for item in self._call_stream("PullMessage", request, service_pb2.PullMessageResponse):
            kind = item.WhichOneof("content")
            if kind == "message":
                messages.append(item.message)
            elif kind == "next_offset":
                next_offset = item.next_offset
            elif item.status.code not in HARMLESS:
                raise explain_refusal(item.status.code, item.status.message)
        return PulledPage(messages, next_offset)

    def recall_message(self, topic: str, recall_handle: str) -> str:
        """Recall a timed message before its delivery; return its id."""
        request = service_pb2.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=recall_handle)
        return self._call_method("RecallMessage", request, service_pb2.RecallMessageResponse).message_id

    def send_messages(self, messages: Sequence[pb.Message]) -> None:
        """Send all in one request, hence to one queue; returns when every one is stored."""
        request = service_pb2.SendMessageRequest(messages=messages)
        answer = self._call_method("SendMessage", request, service_pb2.SendMessageResponse, timeout_s=SEND_TIMEOUT_S)
        if len(answer.entries) != len(messages):
            raise CommandFailure(f"{len(messages)} messages were sent, but {len(answer.entries)} results came back")
        for entry in answer.entries:
            if entry.status.code != pb.OK:
                raise explain_refusal(entry.status.code, entry.status.message)
