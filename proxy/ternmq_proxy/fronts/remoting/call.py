"""A remoting call as its handler sees it."""

from typing import TYPE_CHECKING

from ternmq_common.names import check_group_name
from ternmq_common.printable import find_name_problem
from ternmq_common.shard.transaction_id import transaction_of_handle
from ternmq_proxy.fronts.remoting.client_requests import check_transaction, notify_members_changed
from ternmq_proxy.fronts.remoting.messages.delivered_messages import RecordMaker
from ternmq_proxy.fronts.remoting.messages.places import number_of_place
from ternmq_proxy.processors.client_commands import CheckTransaction
from ternmq_rpc.remoting.message_ids import UNKNOWN_HOST, Host, encode_offset_id, parse_host

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.remoting.known_heartbeat import KnownHeartbeat
    from ternmq_proxy.fronts.remoting.memberships import Memberships
    from ternmq_proxy.fronts.remoting.replies import ReplyPushes
    from ternmq_proxy.processors.client_commands import ClientCommand
    from ternmq_proxy.services import Services
    from ternmq_rpc.remoting.commands import Command
    from ternmq_rpc.remoting.connection import RemotingConnection
    from ternmq_rpc.remoting.served_request import ServedRequest


class ClientConnection:
    """The front's state of one connection: its client's id once it is known, and the address by which clients reach
    this proxy, as they see it. It is the channel of the client's memberships. `known_call` is that of its requests that
    need no task, without access control; `known_heartbeat` its last heartbeat, if nothing of it was refused."""

    __slots__ = (
        "address",
        "client_id",
        "connection",
        "is_counted",
        "known_call",
        "known_heartbeat",
        "record_maker",
        "store_host",
        "user",
    )

    def __init__(self, connection: "RemotingConnection", address: str, cluster: str) -> None:
        self.connection = connection
        self.address = address
        host = parse_host(address)
        self.store_host: Host = parse_host(connection.local) if host == UNKNOWN_HOST else host
        self.client_id = ""
        self.user = ""
        self.is_counted = False
        self.known_call: Call | None = None
        self.known_heartbeat: KnownHeartbeat | None = None
        self.record_maker = RecordMaker(self.store_host, cluster)

    def push_members_changed(self, group: str) -> None:
        """Tell the client that the members of its group changed."""
        notify_members_changed(self.connection, group)

    async def push_command(self, command: "ClientCommand") -> bool:
        """Ask the client about a transaction; return whether the check could be sent. It gets no other commands."""
        if not isinstance(command, CheckTransaction) or self.connection.is_closed or self.connection.reads_nothing:
            return False
        half = transaction_of_handle(command.transaction_id)
        number = number_of_place(half.broker, half.log_offset)
        fields = {
            "topic": command.topic.name,
            "commitLogOffset": str(number),
            "tranStateTableOffset": str(half.log_offset),
            "msgId": half.message_id,
            "transactionId": half.message_id,
            "offsetMsgId": encode_offset_id(self.store_host, number),
            "bname": half.broker,
        }
        check_transaction(self.connection, fields, self.record_maker.encode_half(command.message, half))
        return True


class RemotingCall:
    """A request, its `command`, and what its handler needs."""

    __slots__ = ("call", "client", "cluster", "command", "memberships", "replies", "request", "services")

    def __init__(
        self,
        request: "ServedRequest",
        call: "Call",
        client: ClientConnection,
        services: "Services",
        memberships: "Memberships",
        replies: "ReplyPushes",
        cluster: str,
    ) -> None:
        self.request = request
        self.command: Command = request.command
        self.call = call
        self.client = client
        self.services = services
        self.memberships = memberships
        self.replies = replies
        self.cluster = cluster

    @property
    def broker(self) -> str:
        """The broker that the client names, empty if it names none."""
        fields = self.command.fields
        return fields.get("bname") or fields.get("n") or ""

    def get_group(self, name: str = "consumerGroup") -> str:
        """Return the field with a consumer group's name. Raises ILLEGAL_CONSUMER_GROUP for an invalid one."""
        return check_group_name(self.command.get_text(name))


def check_client_id(client_id: str) -> bool:
    """Return whether a client may have that id."""
    return bool(client_id.strip()) and not find_name_problem(client_id)
