"""An admin service in this process: topics and groups in two dicts, behind a real gRPC port.

The messages are those of `memory`, whose calls are served on the same port; the transactions are in `transactions`, the
brokers of a cluster in `brokers`, quotas in `quotas`.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import grpc

from ternmq_common.catalog.assignment_strategy import AssignmentStrategy
from ternmq_common.catalog.lite_group import DEFAULT_LITE_QUOTA
from ternmq_common.limits import DEFAULT_PRIORITY_FACTOR
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.memory_brokers import MemoryBrokers
from tests.unit.command.memory_quotas import MemoryQuotas
from tests.unit.command.memory_transactions import MemoryTransactions
from tests.unit.command.messaging_server import BROKER, MemoryTopics

OK = pb.Status(code=pb.OK, message="OK")
MOVE_MAX = timedelta(days=3650)


class AdminServer:
    """Serves until the `with` block ends; `topics` and `groups` are what it was told to create.

    `progress`, `members` and `inconsistencies` are what it tells of every group; `moves` is its answer to a reset;
    `unsendable` are offsets of dead letters that it refuses to resend, `refusal` is what it says to all of them,
    `resends` are the requests that it got. Topics whose names are in `full` can't be made. `ahead` is how far its clock
    is ahead of this machine's, None if it is too old to tell; it can be moved if `test_clock` says so.
    """

    def __init__(self, *, tls: grpc.ServerCredentials | None = None) -> None:
        self.topics: dict[str, admin_pb2.Topic] = {}
        self.groups: dict[str, admin_pb2.Group] = {}
        self.deleted_groups: dict[str, bool] = {}
        """By name, the last time: whether with its dead letters."""
        self.client_ids: list[str] = []
        self.authorizations: list[str] = []
        self.memory = MemoryTopics()
        self.transactions = MemoryTransactions()
        self.brokers = MemoryBrokers()
        self.quotas = MemoryQuotas()
        self.ahead: timedelta | None = timedelta(0)
        self.test_clock = True
        self.progress = [
            admin_pb2.Progress(topic="t", broker=BROKER, queue_id=1, committed=5, cursor=8, in_flight=2, max_offset=10)
        ]
        self.members: list[admin_pb2.Member] = []
        self.inconsistencies: list[str] = []
        self.moves: list[admin_pb2.OffsetMove] = []
        self.resets: list[admin_pb2.ResetOffsetsRequest] = []
        self.purges: list[admin_pb2.PurgeTopicRequest] = []
        self.resends: list[admin_pb2.ResendDeadLettersRequest] = []
        self.unsendable: set[int] = set()
        self.refusal: pb.Status | None = None
        self.describes = True
        self.full: set[str] = set()
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers([self.memory.handler()])
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("ternmq.admin.v1.Admin", {
            name: grpc.unary_unary_rpc_method_handler(
                self._recorded(activity),
                request_deserializer=getattr(admin_pb2, f"{name}Request").FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods_by_name
            for activity in [self._activity(name)]
            if activity is not None
        })])  # fmt: skip
        anywhere = "127.0.0.1:0"
        port = self._server.add_secure_port(anywhere, tls) if tls else self._server.add_insecure_port(anywhere)
        self.endpoint = f"127.0.0.1:{port}"

    def _activity(self, name: str) -> Any:  # noqa: ANN401
        """What answers a call; None of those that this server does not have, as older ones have not."""
        owners = (self.transactions, self.brokers, self.quotas, self)
        return next((getattr(owner, name) for owner in owners if hasattr(owner, name)), None)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.stop(None).wait()

    def _recorded(self, method: Any) -> Any:  # noqa: ANN401
        def call(request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401
            self.client_ids += [value for key, value in context.invocation_metadata() if key == "x-mq-client-id"]
            self.authorizations += [value for key, value in context.invocation_metadata() if key == "authorization"]
            name = method.__name__
            if name.startswith("Describe") and not self.describes:
                answers = getattr(admin_pb2, f"{name}Response")
                return answers(status=pb.Status(code=pb.FORBIDDEN, message="no"))
            return method(request)

        return call

    def CreateTopic(self, request: admin_pb2.CreateTopicRequest) -> admin_pb2.CreateTopicResponse:  # noqa: N802
        topic = request.topic
        if topic.name in self.full:
            refusal = pb.Status(code=pb.TOO_MANY_REQUESTS, message=f"no room for {topic.name}")
            return admin_pb2.CreateTopicResponse(status=refusal)
        topic.queues = topic.queues or 8
        before = self.topics.setdefault(topic.name, topic)
        self.memory.make(topic.name, topic.queues)
        if (before.type, before.queues) != (topic.type, topic.queues):
            return admin_pb2.CreateTopicResponse(
                status=pb.Status(code=pb.PRECONDITION_FAILED, message=f"topic {topic.name} exists with other settings")
            )
        return admin_pb2.CreateTopicResponse(status=OK, created=before is topic)

    def ListTopics(self, _: admin_pb2.ListTopicsRequest) -> admin_pb2.ListTopicsResponse:  # noqa: N802
        return admin_pb2.ListTopicsResponse(status=OK, topics=self.topics.values())

    def DescribeTopic(self, request: admin_pb2.DescribeTopicRequest) -> admin_pb2.DescribeTopicResponse:  # noqa: N802
        if request.name not in self.topics:
            return admin_pb2.DescribeTopicResponse(
                status=pb.Status(code=pb.TOPIC_NOT_FOUND, message=f"no topic\n{request.name}")
            )
        queues = [
            admin_pb2.QueueState(broker=BROKER, queue_id=queue_id, min_offset=queue.first, max_offset=queue.end)
            for queue_id, queue in enumerate(self.memory.queues[request.name])
        ]
        return admin_pb2.DescribeTopicResponse(
            status=OK, topic=self.topics[request.name], queues=queues, silent_brokers=self.brokers.silent
        )

    def UpdateTopic(self, request: admin_pb2.UpdateTopicRequest) -> admin_pb2.UpdateTopicResponse:  # noqa: N802
        if request.name not in self.topics:
            return admin_pb2.UpdateTopicResponse(status=_not_found(pb.TOPIC_NOT_FOUND, "topic", request.name))
        topic = self.topics[request.name]
        given = admin_pb2.Topic(
            **{each.name: getattr(request, each.name) for each in TOPIC_SETTINGS if each.is_in(request)}
        )
        for each in TOPIC_SETTINGS:
            if each.is_in(request):
                topic.ClearField(each.name)
        topic.MergeFrom(given)
        left = (set(topic.brokers) | set(request.added_brokers)) - set(request.removed_brokers)
        topic.brokers[:] = sorted(left)
        return admin_pb2.UpdateTopicResponse(status=OK, topic=topic)

    def DeleteTopic(self, request: admin_pb2.DeleteTopicRequest) -> admin_pb2.DeleteTopicResponse:  # noqa: N802
        gone = self.topics.pop(request.name, None)
        status = OK if gone else _not_found(pb.TOPIC_NOT_FOUND, "topic", request.name)
        return admin_pb2.DeleteTopicResponse(status=status)

    def PurgeTopic(self, request: admin_pb2.PurgeTopicRequest) -> admin_pb2.PurgeTopicResponse:  # noqa: N802
        if request.name not in self.topics:
            return admin_pb2.PurgeTopicResponse(status=_not_found(pb.TOPIC_NOT_FOUND, "topic", request.name))
        self.purges.append(request)
        queues = [
            admin_pb2.PurgedQueue(broker=BROKER, queue_id=queue_id, first=queue.first, after=queue.end)
            for queue_id, queue in enumerate(self.memory.queues[request.name])
        ]
        return admin_pb2.PurgeTopicResponse(status=OK, queues=queues)

    def CreateGroup(self, request: admin_pb2.CreateGroupRequest) -> admin_pb2.CreateGroupResponse:  # noqa: N802
        group = request.group
        before = self.groups.setdefault(group.name, group)
        if _as_kept(before) != _as_kept(group):
            return admin_pb2.CreateGroupResponse(
                status=pb.Status(code=pb.PRECONDITION_FAILED, message=f"group {group.name} exists with other settings")
            )
        return admin_pb2.CreateGroupResponse(status=OK, created=before is group)

    def ListGroups(self, _: admin_pb2.ListGroupsRequest) -> admin_pb2.ListGroupsResponse:  # noqa: N802
        return admin_pb2.ListGroupsResponse(status=OK, groups=map(_as_kept, self.groups.values()))

    def DescribeGroup(self, request: admin_pb2.DescribeGroupRequest) -> admin_pb2.DescribeGroupResponse:  # noqa: N802
        if request.name not in self.groups:
            return admin_pb2.DescribeGroupResponse(
                status=pb.Status(code=pb.CONSUMER_GROUP_NOT_FOUND, message=f"no group {request.name}")
            )
        return admin_pb2.DescribeGroupResponse(
            status=OK,
            group=self.groups[request.name],
            progress=self.progress,
            client_ids=["client-1"],
            members=self.members,
            inconsistencies=self.inconsistencies,
        )

    def UpdateGroup(self, request: admin_pb2.UpdateGroupRequest) -> admin_pb2.UpdateGroupResponse:  # noqa: N802
        self.groups[request.group.name] = request.group
        return admin_pb2.UpdateGroupResponse(status=OK, group=request.group)

    def ResetOffsets(self, request: admin_pb2.ResetOffsetsRequest) -> admin_pb2.ResetOffsetsResponse:  # noqa: N802
        self.resets.append(request)
        return admin_pb2.ResetOffsetsResponse(status=OK, moves=self.moves)

    def QueryMessages(self, request: admin_pb2.QueryMessagesRequest) -> admin_pb2.QueryMessagesResponse:  # noqa: N802
        """As brokers do: the newest first, and no more than 64."""
        found = [
            (broker, message)
            for broker, queues in self.memory.places(request.topic).items()
            for queue in queues
            for message in reversed(queue.messages)
            if request.key in (message.system_properties.message_id, *message.system_properties.keys)
        ][: min(request.limit, 64)]
        return admin_pb2.QueryMessagesResponse(
            status=OK, messages=[message for _, message in found], brokers=[broker for broker, _ in found]
        )

    def ResendDeadLetters(  # noqa: N802
        self, request: admin_pb2.ResendDeadLettersRequest
    ) -> admin_pb2.ResendDeadLettersResponse:
        if self.refusal:
            return admin_pb2.ResendDeadLettersResponse(status=self.refusal)
        self.resends.append(request)
        refusal = pb.Status(code=pb.MESSAGE_NOT_FOUND, message="gone")
        letters = [
            admin_pb2.ResentDeadLetter(
                offset=offset, status=refusal if offset in self.unsendable else OK, topic="orders", message_id="id"
            )
            for offset in request.offsets
        ]
        return admin_pb2.ResendDeadLettersResponse(status=OK, letters=letters)

    def DeleteGroup(self, request: admin_pb2.DeleteGroupRequest) -> admin_pb2.DeleteGroupResponse:  # noqa: N802
        gone = self.groups.pop(request.name, None)
        self.deleted_groups[request.name] = request.with_dead_letters
        status = OK if gone else _not_found(pb.CONSUMER_GROUP_NOT_FOUND, "group", request.name)
        return admin_pb2.DeleteGroupResponse(status=status)

    def AdvanceClock(self, request: admin_pb2.AdvanceClockRequest) -> admin_pb2.AdvanceClockResponse:  # noqa: N802
        if not self.test_clock or self.ahead is None:
            return admin_pb2.AdvanceClockResponse(status=pb.Status(code=pb.FORBIDDEN, message="no test clock"))
        if request.by.ToTimedelta() > MOVE_MAX:
            return admin_pb2.AdvanceClockResponse(status=pb.Status(code=pb.BAD_REQUEST, message="that is too far"))
        self.ahead += request.by.ToTimedelta()
        answer = admin_pb2.AdvanceClockResponse(status=OK)
        answer.now.FromDatetime(datetime.now(UTC) + self.ahead)
        return answer

    def GetServerInfo(self, _: admin_pb2.GetServerInfoRequest) -> admin_pb2.GetServerInfoResponse:  # noqa: N802
        answer = admin_pb2.GetServerInfoResponse(status=OK, version="9.9", resident_bytes=123)
        answer.started.FromSeconds(1_700_000_000)
        if self.ahead is not None:
            answer.now.FromDatetime(datetime.now(UTC) + self.ahead)
            answer.test_clock = self.test_clock
        return answer


def _as_kept(asked: admin_pb2.Group) -> admin_pb2.Group:
    """The group with the defaults of a server, which writes each strategy in one way."""
    group = admin_pb2.Group()
    group.CopyFrom(asked)
    group.max_attempts = asked.max_attempts or 17
    group.consume_from = asked.consume_from or "auto"
    group.assignment = str(AssignmentStrategy.parse_strategy(asked.assignment))
    group.priority_factor = asked.priority_factor if asked.HasField("priority_factor") else DEFAULT_PRIORITY_FACTOR
    if asked.HasField("lite"):
        group.lite.quota = asked.lite.quota or DEFAULT_LITE_QUOTA
    # A field that is there and empty is another than one that is not there.
    group.queue_lock_hold.CopyFrom(asked.queue_lock_hold)
    return group


def _not_found(code: "pb.Code", kind: str, name: str) -> pb.Status:
    """As the server says it, which does not know what the caller is about."""
    return pb.Status(code=code, message=f"{kind} {name!r} does not exist; make it with `ternmq {kind} create {name}`")
