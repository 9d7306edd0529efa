"""Reads queues by offset without being a member of a group: for jobs that keep their own progress, such as Spark's.

    with OffsetReader("127.0.0.1:8081") as reader:
        for queue in reader.queues("orders"):
            for part in reader.read(queue, reader.offset(queue, "earliest"), reader.offset(queue, "latest")):
                ...

Blocking, and for one thread, which also reads the answers: to hand messages from thread to thread takes eight times as
long. Failures that may pass, as while a broker restarts, are repeated for `patience` seconds; every call here may be
repeated without harm.
"""

import copy
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar, Unpack

from google.protobuf.message import DecodeError

from ternmq.arguments import check_options
from ternmq.client import REQUEST_TIMEOUT_S
from ternmq.connections import connection as calls
from ternmq.connections.connection import RequestT, ResponseT, RpcMethod
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.grpc_errors import error_of_call
from ternmq.connections.identity import ClientIdentity, new_client_id
from ternmq.connections.route import RouteQueue, TopicRoute
from ternmq.connections.tls import tls_options
from ternmq.errors import ClientError, InternalError, NotFound, TransportError, check_status, create_error
from ternmq.messages.filters import Filter, TagFilter
from ternmq.options import ClientOptions
from ternmq.process.green_threads import check_threads
from ternmq.pull.offsets import StartFrom, check_start, offset_request
from ternmq.times.durations import Seconds, seconds_above_0, seconds_from_0
from ternmq_common.limits import PULL_BATCH_MAX, PULL_ROWS_MAX
from ternmq_common.pacing.backoff import ExponentialBackoff, add_jitter
from ternmq_common.pulled_rows import ROWS_TAG, MalformedRows, PulledRows
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.client_v1.answers_pb2 import PulledMessages
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.blocking_calls import BlockingConnection

ResultT = TypeVar("ResultT")

PATIENCE_S = 60.0
_BACKOFF = ExponentialBackoff(initial_s=0.1, max_s=2.0)
_ADMIN = "/ternmq.admin.v1.Admin/"
_LIST_TOPICS = RpcMethod("ListTopics", admin_pb2.ListTopicsRequest, admin_pb2.ListTopicsResponse, _ADMIN)
_DESCRIBE_TOPIC = RpcMethod("DescribeTopic", admin_pb2.DescribeTopicRequest, admin_pb2.DescribeTopicResponse, _ADMIN)
_DESCRIBE_GROUP = RpcMethod("DescribeGroup", admin_pb2.DescribeGroupRequest, admin_pb2.DescribeGroupResponse, _ADMIN)
# The first byte of a pull's response with a message: PullMessageResponse.message = 2.
_MESSAGE_TAG = b"\x12"


@dataclass(frozen=True, slots=True)
class Part:
    """Messages of one pull, in order, and the offset after the last message that was read.

    `responses` are serialized `PullMessageResponse`s with one message each, for callers that decode them in a way of
    their own. In place of them there may be `rows`, for those that requested rows.
    """

    responses: list[bytes]
    next_offset: int
    rows: PulledRows | None = None

    @property
    def messages(self) -> list[pb.Message]:
        """The messages of `responses`, decoded with each call."""
        return list(PulledMessages.FromString(b"".join(self.responses)).message)

    def __len__(self) -> int:
        return len(self.responses) if self.rows is None else self.rows.count


class OffsetReader:
    """Reads queues by offset. The arguments are those of the other clients; hooks and timing have no effect. `kind`
    begins the name by which servers know this client. With `bodies` false TernMQ sends messages without their bodies,
    with `rows` it sends them as `Part.rows`; other servers send the bodies all the same, and no rows."""

    def __init__(
        self,
        endpoint: str,
        *,
        patience: Seconds = PATIENCE_S,
        kind: str = "",
        bodies: bool = True,
        rows: bool = False,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options(type(self), options)
        self._access_point = Endpoints.parse(endpoint)
        self._identity = ClientIdentity(
            options.get("credentials"), client_id=f"{kind}@{new_client_id()}" if kind else ""
        )
        wishes = (*(() if bodies else ("leave-out=body",)), *(("answer=rows",) if rows else ()))
        if wishes:
            self._identity.add_options(",".join(wishes))
        self._batch_max = PULL_ROWS_MAX if rows else PULL_BATCH_MAX
        self._tls = tls_options(options.get("tls", False))
        self._timeout_s = seconds_above_0("request_timeout", options.get("request_timeout", REQUEST_TIMEOUT_S))
        self.patience_s = seconds_from_0("patience", patience)
        self._connections: dict[Endpoints, BlockingConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def without_patience(self) -> "OffsetReader":
        """Return a reader with the same connections that repeats nothing, to be used within `patiently`."""
        impatient = copy.copy(self)
        impatient.patience_s = 0.0
        return impatient

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        while self._connections:
            self._connections.popitem()[1].close()

    # --- topics and queues

    def topics(self, names: Iterable[str] = ()) -> dict[str, str]:
        """Return all topics, or those of these names that exist, each with its identity: it changes when a topic is
        deleted and created again, and is empty if the server has none. `Unsupported` if the server is not TernMQ."""
        wanted = list(names)
        request = admin_pb2.ListTopicsRequest(names=wanted)
        answer = self._call_patiently(self._access_point, _LIST_TOPICS, request)
        # An older server ignores the names, and returns all.
        return {topic.name: topic.identity for topic in answer.topics if not wanted or topic.name in wanted}

    def purged_below(self, topic: str) -> dict[tuple[str, int], int]:
        """Return the offset below which the last purge emptied each queue, by broker and queue id; 0 if there was none.
        Queues of servers that don't report it are left out."""
        request = admin_pb2.DescribeTopicRequest(name=topic)
        answer = self._call_patiently(self._access_point, _DESCRIBE_TOPIC, request)
        return {
            (queue.broker, queue.queue_id): queue.purged_below
            for queue in answer.queues
            if queue.HasField("purged_below")
        }

    def queues(self, topic: str) -> tuple[RouteQueue, ...]:
        """Return the readable queues, in the order of the route; `NotFound` if the topic doesn't exist."""
        request = rpc.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=self._access_point.to_proto())
        answer = self._call_patiently(self._access_point, calls.QUERY_ROUTE, request)
        return TopicRoute.from_proto(topic, answer.message_queues, self._access_point).require_readable()

    def offset(self, queue: RouteQueue, place: StartFrom) -> int:
        """Return the offset of a place in a queue."""
        [offset] = self.offsets([queue], place)
        return offset

    def offsets(self, queues: Sequence[RouteQueue], place: StartFrom) -> list[int]:
        """Return the offset of a place in each of the queues, which are queried at the same time."""
        check_start(place)
        requests = [(queue.endpoints, offset_request(queue, place)) for queue in queues]
        return [answer.offset for answer in self._call_all(calls.QUERY_OFFSET, requests)]

    def check(self, queue: RouteQueue, passing: Filter) -> None:
        """`BadRequest` if the server can't parse the filter. It pulls at the end of the queue, so it gets no
        messages."""

        def ask() -> None:
            request = rpc.PullMessageRequest(
                message_queue=queue.proto,
                offset=self.offset(queue, "latest"),
                batch_size=1,
                filter_expression=passing.to_proto(),
            )
            self._pull_part(queue.endpoints, request)

        self.patiently(ask)

    # --- progress of a group

    def committed(self, group: str, queue: RouteQueue) -> int | None:
        """Return the committed offset of a group; None if it never read this queue."""
        request = rpc.GetOffsetRequest(group=pb.Resource(name=group), message_queue=queue.proto)

        def ask() -> rpc.GetOffsetResponse:
            answer = self._call_once(queue.endpoints, calls.GET_OFFSET, request)
            if answer.status.code != pb.OFFSET_NOT_FOUND:
                check_status(answer.status)
            return answer

        answer = self.patiently(ask)
        return answer.offset if answer.status.code == pb.OK else None

    def commit(self, group: str, offsets: Sequence[tuple[RouteQueue, int]]) -> None:
        """Commit offsets for a group."""
        resource = pb.Resource(name=group)
        requests = [
            (queue.endpoints, rpc.UpdateOffsetRequest(group=resource, message_queue=queue.proto, offset=offset))
            for queue, offset in offsets
        ]
        self._call_all(calls.UPDATE_OFFSET, requests)

    @property
    def client_id(self) -> str:
        """The name by which servers know this client."""
        return self._identity.client_id

    def members(self, group: str) -> list[str]:
        """Return the client ids of the group's members, including those that disappeared a moment ago; none if the
        group doesn't exist. `Unsupported` if the server is not TernMQ."""
        request = admin_pb2.DescribeGroupRequest(name=group)
        try:
            return list(self._call_patiently(self._access_point, _DESCRIBE_GROUP, request).client_ids)
        except NotFound:
            return []

    def join(self, group: str) -> None:
        """Appear as a pulling member of the group, for as long as servers remember a silent client. Queues are assigned
        to it then: a group is either for one reader by offset, or for other members."""
        request = rpc.HeartbeatRequest(group=pb.Resource(name=group), client_type=pb.PULL_CONSUMER)
        self._call_patiently(self._access_point, calls.HEARTBEAT, request)

    # --- messages

    def read(self, queue: RouteQueue, start: int, stop: int, *, passing: Filter | None = None) -> Iterator[Part]:
        """Yield the messages with offsets from `start` up to, not including, `stop`, in parts as they arrive.

        Messages that the server does not have any more are skipped: the caller sees that from the offsets. `BadRequest`
        with the code ILLEGAL_OFFSET if the queue ends before `start`.
        """
        expression = (passing or TagFilter()).to_proto()
        while start < stop:
            request = rpc.PullMessageRequest(
                message_queue=queue.proto,
                offset=start,
                batch_size=min(self._batch_max, stop - start),
                filter_expression=expression,
            )
            part = self.patiently(lambda part=request: self._pull_part(queue.endpoints, part))  # type: ignore[misc]
            if part.next_offset <= start:
                raise InternalError(
                    pb.INTERNAL_ERROR, f"{queue.topic}/{queue.broker}/{queue.queue_id} has nothing at offset {start}"
                )
            start = part.next_offset
            yield part if start <= stop else _cut_part(queue, part, stop)

    def _pull_part(self, endpoints: Endpoints, request: rpc.PullMessageRequest) -> Part:
        answer = self._exchange_messages(endpoints, calls.PULL_MESSAGE, request)
        responses = [response for response in answer if response[:1] == _MESSAGE_TAG]
        others = [response for response in answer if response[:1] != _MESSAGE_TAG]
        rows = [response for response in others if response.startswith(ROWS_TAG)]
        rest = PulledMessages.FromString(b"".join([response for response in others if response not in rows]))
        if rest.status.code not in {pb.OK, pb.MESSAGE_NOT_FOUND}:
            raise create_error(rest.status.code, rest.status.message)
        return Part(responses, rest.next_offset, _read_rows(rows[0]) if rows else None)

    # --- calls

    def _call_patiently(
        self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        def ask() -> ResponseT:
            answer = self._call_once(endpoints, method, request)
            check_status(answer.status)  # type: ignore[attr-defined]
            return answer

        return self.patiently(ask)

    def _call_once(self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], request: RequestT) -> ResponseT:
        return self._read_answer(endpoints, method, self._exchange_messages(endpoints, method, request))

    def _exchange_messages(
        self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], request: RequestT
    ) -> list[bytes]:
        """Return the messages of an answer."""
        try:
            return self._connection_to(endpoints).call_method(
                method.path, self._identity.read_and_sign(), request.SerializeToString(), timeout_s=self._timeout_s
            )
        except StreamBroken as broken:
            raise self._describe_failure(endpoints, method.name, broken) from None

    def _call_all(
        self, method: RpcMethod[RequestT, ResponseT], requests: Sequence[tuple[Endpoints, RequestT]]
    ) -> list[ResponseT]:
        """Send the requests of each endpoint at the same time and return the answers; those that fail are repeated one
        by one."""
        answers: dict[int, ResponseT] = {}
        for endpoints in dict.fromkeys(endpoints for endpoints, _ in requests):
            places = [place for place, (server, _) in enumerate(requests) if server == endpoints]
            try:
                received = self._connection_to(endpoints).call_together(
                    method.path,
                    self._identity.read_and_sign(),
                    [requests[place][1].SerializeToString() for place in places],
                    timeout_s=self._timeout_s,
                )
            except StreamBroken:
                continue
            for place, messages in zip(places, received, strict=True):
                try:
                    if isinstance(messages, StreamBroken):
                        raise self._describe_failure(endpoints, method.name, messages)
                    answer = self._read_answer(endpoints, method, messages)
                    check_status(answer.status)  # type: ignore[attr-defined]
                except TransportError:
                    continue
                except ClientError as error:
                    if not error.retryable:
                        raise
                else:
                    answers[place] = answer
        return [
            answers[place] if place in answers else self._call_patiently(endpoints, method, request)
            for place, (endpoints, request) in enumerate(requests)
        ]

    def patiently(self, ask: Callable[[], ResultT]) -> ResultT:
        """Return the result of `ask`, which is repeated as a whole while its failure may pass, for `patience`
        seconds."""
        end = time.monotonic() + self.patience_s
        attempt = 0
        while True:
            attempt += 1
            try:
                return ask()
            except ClientError as error:
                pause_s = add_jitter(_BACKOFF.delay_s(attempt), random.random())  # noqa: S311 - no secret
                if not error.retryable or time.monotonic() + pause_s > end:
                    raise
            time.sleep(pause_s)

    def _read_answer(
        self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], messages: Sequence[bytes]
    ) -> ResponseT:
        try:
            [message] = messages
            return method.response.FromString(message)
        except (ValueError, DecodeError):
            what = "an answer that can't be read" if len(messages) == 1 else f"{len(messages)} answers"
        broken = StreamBroken(f"{what} came", status=GrpcStatus.INTERNAL)
        raise self._describe_failure(endpoints, method.name, broken)

    def _connection_to(self, endpoints: Endpoints) -> BlockingConnection:
        """Return an open connection. StreamBroken: there is none."""
        connection = self._connections.get(endpoints)
        if connection is None or not connection.can_call:
            check_threads()
            if connection is not None:
                connection.close()
            connection = self._connections[endpoints] = BlockingConnection(
                endpoints.addresses,
                timeout_s=self._timeout_s,
                tls=None if self._tls is None else self._tls.ssl_context(),
                server_name=None if self._tls is None else self._tls.server_name,
            )
        return connection

    def _describe_failure(self, endpoints: Endpoints, name: str, broken: StreamBroken) -> ClientError:
        return error_of_call(str(endpoints), name, broken, uses_tls=self._tls is not None)


def _read_rows(response: bytes) -> PulledRows:
    try:
        return PulledRows.of_response(response)
    except MalformedRows as error:
        raise InternalError(pb.INTERNAL_ERROR, f"a pull was answered with {error}") from None


def _cut_part(queue: RouteQueue, part: Part, stop: int) -> Part:
    """The messages below offset `stop`."""
    if part.rows is not None:
        topic = queue.proto.topic.SerializeToString()
        part = Part(list(part.rows.as_responses(topic, queue.queue_id)), part.next_offset)
    kept = [one for one in part.messages if one.system_properties.queue_offset < stop]
    return Part([rpc.PullMessageResponse(message=one).SerializeToString() for one in kept], stop)
