"""Calls of our admin service."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from ternmq.command.calls import Calls
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

# A batch of resent dead letters is that many writes to a disk.
RESEND_TIMEOUT_S = 60
# Everything that is due all at once may keep a server busy.
ADVANCE_TIMEOUT_S = 60
TRANSACTIONS_PAGE = 256

TYPES = {
    "normal": definition_pb2.NORMAL,
    "fifo": definition_pb2.FIFO,
    "delay": definition_pb2.DELAY,
    "transaction": definition_pb2.TRANSACTION,
    "priority": definition_pb2.PRIORITY,
    "lite": definition_pb2.LITE,
}
PERMISSIONS = {
    "read-write": definition_pb2.READ_WRITE,
    "read": definition_pb2.READ,
    "write": definition_pb2.WRITE,
    "none": definition_pb2.NONE,
}
OPEN_STATES = {"pending": admin_pb2.PENDING, "discarded": admin_pb2.DISCARDED}
RESOLUTIONS = {"commit": definition_pb2.COMMIT, "rollback": definition_pb2.ROLLBACK}


Request = (
    admin_pb2.CreateTopicRequest
    | admin_pb2.UpdateTopicRequest
    | admin_pb2.CreateGroupRequest
    | admin_pb2.UpdateGroupRequest
)


class AdminClient(Calls):
    """Topics, groups and progress of the broker at an endpoint; raises `Refused` and `Unreachable`."""

    service = "ternmq.admin.v1.Admin"

    def create_topic(self, name: str, type_name: str, queues: int, brokers: Iterable[str] = ()) -> bool:
        """Whether the topic is new; False when it was there with the same settings. 0 queues: the server's default."""
        topic = admin_pb2.Topic(name=name, type=TYPES[type_name], queues=queues, brokers=brokers)
        request = admin_pb2.CreateTopicRequest(topic=topic)
        return self._call("CreateTopic", request, admin_pb2.CreateTopicResponse).created

    def carry_out(self, request: Request) -> None:
        """Create or update a topic or a group."""
        method = type(request).__name__.removesuffix("Request")
        self._call(method, request, getattr(admin_pb2, f"{method}Response"))

    def topics(self) -> list[admin_pb2.Topic]:
        answer = self._call("ListTopics", admin_pb2.ListTopicsRequest(), admin_pb2.ListTopicsResponse)
        return sorted(answer.topics, key=lambda topic: topic.name)

    def topic_names(self) -> list[str]:
        return [topic.name for topic in self.topics()]

    def topic(self, name: str) -> admin_pb2.DescribeTopicResponse:
        request = admin_pb2.DescribeTopicRequest(name=name)
        return self._call("DescribeTopic", request, admin_pb2.DescribeTopicResponse)

    def update_topic(self, request: admin_pb2.UpdateTopicRequest) -> admin_pb2.Topic:
        """The topic as it is now."""
        return self._call("UpdateTopic", request, admin_pb2.UpdateTopicResponse).topic

    def delete_topic(self, name: str) -> None:
        self._call("DeleteTopic", admin_pb2.DeleteTopicRequest(name=name), admin_pb2.DeleteTopicResponse)

    def create_group(self, group: admin_pb2.Group) -> bool:
        """Whether the group is new; what `group` leaves out is the server's default."""
        request = admin_pb2.CreateGroupRequest(group=group)
        return self._call("CreateGroup", request, admin_pb2.CreateGroupResponse).created

    def update_group(self, group: admin_pb2.Group) -> admin_pb2.Group:
        """The group as it is now."""
        request = admin_pb2.UpdateGroupRequest(group=group)
        return self._call("UpdateGroup", request, admin_pb2.UpdateGroupResponse).group

    def groups(self) -> list[admin_pb2.Group]:
        answer = self._call("ListGroups", admin_pb2.ListGroupsRequest(), admin_pb2.ListGroupsResponse)
        return sorted(answer.groups, key=lambda group: group.name)

    def group_names(self) -> list[str]:
        return [group.name for group in self.groups()]

    def group(self, name: str) -> admin_pb2.DescribeGroupResponse:
        request = admin_pb2.DescribeGroupRequest(name=name)
        return self._call("DescribeGroup", request, admin_pb2.DescribeGroupResponse)

    def delete_group(self, name: str) -> None:
        self._call("DeleteGroup", admin_pb2.DeleteGroupRequest(name=name), admin_pb2.DeleteGroupResponse)

    def reset_offsets(self, request: admin_pb2.ResetOffsetsRequest) -> list[admin_pb2.OffsetMove]:
        answer = self._call("ResetOffsets", request, admin_pb2.ResetOffsetsResponse)
        return sorted(answer.moves, key=lambda move: (move.broker, move.queue_id))

    def query_messages(self, topic: str, key: str, *, limit: int) -> list[tuple[str, definition_pb2.Message]]:
        """Messages with this key or message id, the newest first, each with its broker."""
        request = admin_pb2.QueryMessagesRequest(topic=topic, key=key, limit=limit)
        answer = self._call("QueryMessages", request, admin_pb2.QueryMessagesResponse)
        return list(zip(answer.brokers, answer.messages, strict=True))

    def resend_dead_letters(
        self, group: str, broker: str, queue_offsets: Iterable[int], *, to_topic: str
    ) -> list[admin_pb2.ResentDeadLetter]:
        request = admin_pb2.ResendDeadLettersRequest(
            group=group, broker=broker, offsets=queue_offsets, to_topic=to_topic
        )
        answer_type = admin_pb2.ResendDeadLettersResponse
        return list(self._call("ResendDeadLetters", request, answer_type, timeout_s=RESEND_TIMEOUT_S).letters)

    def transactions(self, state_name: str, *, topic: str) -> Iterator[admin_pb2.Transaction]:
        """Those that are `pending` or `discarded`, of one topic if it is named; pages are read as they are needed."""
        request = admin_pb2.ListTransactionsRequest(state=OPEN_STATES[state_name], topic=topic, limit=TRANSACTIONS_PAGE)
        while True:
            answer = self._call("ListTransactions", request, admin_pb2.ListTransactionsResponse)
            yield from answer.transactions
            if not answer.next_page:
                return
            request.page = answer.next_page

    def transaction(self, transaction_id: str) -> admin_pb2.GetTransactionResponse:
        request = admin_pb2.GetTransactionRequest(transaction_id=transaction_id)
        return self._call("GetTransaction", request, admin_pb2.GetTransactionResponse)

    def resolve_transaction(self, transaction_id: str, resolution_name: str) -> admin_pb2.Transaction:
        """The transaction as it is after a `commit` or `rollback`."""
        resolution = RESOLUTIONS[resolution_name]
        request = admin_pb2.ResolveTransactionRequest(transaction_id=transaction_id, resolution=resolution)
        return self._call("ResolveTransaction", request, admin_pb2.ResolveTransactionResponse).transaction

    def brokers(self) -> list[admin_pb2.Broker]:
        answer = self._call("ListBrokers", admin_pb2.ListBrokersRequest(), admin_pb2.ListBrokersResponse)
        return sorted(answer.brokers, key=lambda broker: broker.name)

    def update_broker(
        self, name: str, *, permission_name: str | None = None, draining: bool | None = None
    ) -> admin_pb2.Broker:
        """The broker as it is now; what is None stays."""
        request = admin_pb2.UpdateBrokerRequest(name=name)
        if draining is not None:
            request.draining = draining
        if permission_name is not None:
            request.permission = PERMISSIONS[permission_name]
        return self._call("UpdateBroker", request, admin_pb2.UpdateBrokerResponse).broker

    def remove_broker(self, name: str, *, force: bool) -> None:
        request = admin_pb2.RemoveBrokerRequest(name=name, force=force)
        self._call("RemoveBroker", request, admin_pb2.RemoveBrokerResponse)

    def remaining(self, name: str) -> admin_pb2.BrokerRemainingResponse:
        """What would be lost with the broker."""
        request = admin_pb2.BrokerRemainingRequest(name=name)
        return self._call("BrokerRemaining", request, admin_pb2.BrokerRemainingResponse)

    def advance_clock(self, by: timedelta) -> admin_pb2.AdvanceClockResponse:
        request = admin_pb2.AdvanceClockRequest()
        request.by.FromTimedelta(by)
        answer_type = admin_pb2.AdvanceClockResponse
        return self._call("AdvanceClock", request, answer_type, timeout_s=ADVANCE_TIMEOUT_S)

    def server_info(self) -> admin_pb2.GetServerInfoResponse:
        return self._call("GetServerInfo", admin_pb2.GetServerInfoRequest(), admin_pb2.GetServerInfoResponse)


def permission_name(permission: "definition_pb2.Permission") -> str:
    """`read-write` for READ_WRITE; a server that doesn't tell is one that permits all."""
    return next((name for name, value in PERMISSIONS.items() if value == permission), "read-write")
