"""Calls of our admin service, one short connection per command, over grpc's synchronous channel.

The module imports grpc, so subcommands import it when they run.
"""

import os
import uuid
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import grpc

from ternmq.command.failures import CommandFailure, Refused, Unreachable
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

SERVICE = "ternmq.admin.v1.Admin"
CALL_TIMEOUT_S = 10
# A broker is not on the far side of the proxy that a company's environment names for the web.
CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1))

TYPES = {
    "normal": definition_pb2.NORMAL,
    "fifo": definition_pb2.FIFO,
    "delay": definition_pb2.DELAY,
    "transaction": definition_pb2.TRANSACTION,
    "priority": definition_pb2.PRIORITY,
    "lite": definition_pb2.LITE,
}


class _Answer(Protocol):
    @property
    def status(self) -> definition_pb2.Status: ...


A = TypeVar("A", bound=_Answer)


class AdminClient:
    """Topics and groups of the broker at an endpoint; raises `Refused` and `Unreachable`."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._channel = grpc.insecure_channel(endpoint, options=CHANNEL_OPTIONS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def create_topic(self, name: str, type_name: str, queues: int) -> bool:
        """Whether the topic is new; False when it was there with the same settings. 0 queues: the server's default."""
        topic = admin_pb2.Topic(name=name, type=TYPES[type_name], queues=queues)
        request = admin_pb2.CreateTopicRequest(topic=topic)
        return self._call("CreateTopic", request, admin_pb2.CreateTopicResponse).created

    def topics(self) -> list[admin_pb2.Topic]:
        answer = self._call("ListTopics", admin_pb2.ListTopicsRequest(), admin_pb2.ListTopicsResponse)
        return sorted(answer.topics, key=lambda topic: topic.name)

    def topic(self, name: str) -> admin_pb2.DescribeTopicResponse:
        request = admin_pb2.DescribeTopicRequest(name=name)
        return self._call("DescribeTopic", request, admin_pb2.DescribeTopicResponse)

    def delete_topic(self, name: str) -> None:
        self._call("DeleteTopic", admin_pb2.DeleteTopicRequest(name=name), admin_pb2.DeleteTopicResponse)

    def create_group(self, name: str, *, fifo: bool, max_attempts: int) -> bool:
        """Whether the group is new; 0 attempts: the server's default."""
        group = admin_pb2.Group(name=name, fifo=fifo, max_attempts=max_attempts)
        request = admin_pb2.CreateGroupRequest(group=group)
        return self._call("CreateGroup", request, admin_pb2.CreateGroupResponse).created

    def groups(self) -> list[admin_pb2.Group]:
        answer = self._call("ListGroups", admin_pb2.ListGroupsRequest(), admin_pb2.ListGroupsResponse)
        return sorted(answer.groups, key=lambda group: group.name)

    def group(self, name: str) -> admin_pb2.DescribeGroupResponse:
        request = admin_pb2.DescribeGroupRequest(name=name)
        return self._call("DescribeGroup", request, admin_pb2.DescribeGroupResponse)

    def delete_group(self, name: str) -> None:
        self._call("DeleteGroup", admin_pb2.DeleteGroupRequest(name=name), admin_pb2.DeleteGroupResponse)

    def server_info(self) -> admin_pb2.GetServerInfoResponse:
        return self._call("GetServerInfo", admin_pb2.GetServerInfoRequest(), admin_pb2.GetServerInfoResponse)

    def _call(self, method: str, request: "Message", answer_type: type[A]) -> A:
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_type.FromString,  # type: ignore[attr-defined]
        )
        try:
            answer: A = call(request, timeout=CALL_TIMEOUT_S, metadata=client_metadata())
        except grpc.RpcError as error:
            raise call_failure(self._endpoint, error.code(), error.details()) from None
        if answer.status.code != definition_pb2.OK:
            raise Refused(answer.status.code, answer.status.message)
        return answer


def client_metadata() -> tuple[tuple[str, str], ...]:
    """What every call must carry; the id is new for each command."""
    return (("x-mq-client-id", f"ternmq-command@{os.getpid()}@{uuid.uuid4().hex[:8]}"), ("x-mq-language", "PYTHON"))


def call_failure(endpoint: str, code: grpc.StatusCode, details: str | None) -> CommandFailure:
    """The failure behind a gRPC status that isn't OK, which a server of the contract never sends for a refusal."""
    if code is grpc.StatusCode.UNAVAILABLE:
        return Unreachable(endpoint, "connection refused" if "refused" in (details or "") else details or "unavailable")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(endpoint, f"no answer within {CALL_TIMEOUT_S} s")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return CommandFailure(f"the server at {endpoint} does not have this call; it is no TernMQ, or an older one")
    return CommandFailure(f"the call to {endpoint} failed: {code.name}: {details}")
