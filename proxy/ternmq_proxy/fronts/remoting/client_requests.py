"""Requests of the server to clients."""

from typing import TYPE_CHECKING

from ternmq_proxy.fronts.remoting.codes import RequestCode
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_rpc.remoting.connection import RemotingConnection


def check_transaction(connection: "RemotingConnection", fields: dict[str, str], half: bytes) -> None:
    """Ask the producer what became of its transaction; `half` is the record of the half message. It answers by a
    request of its own."""
    connection.send_oneway(Command(RequestCode.CHECK_TRANSACTION_STATE, fields=fields, body=half))


def notify_members_changed(connection: "RemotingConnection", group: str) -> None:
    """Tell the client that the members of its consumer group changed."""
    connection.send_oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields={"consumerGroup": group}))
