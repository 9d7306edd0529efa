"""Requests of the server to clients."""

from typing import TYPE_CHECKING

from ternmq_proxy.fronts.remoting.codes import RequestCode
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_rpc.remoting.connection import RemotingConnection


def notify_members_changed(connection: "RemotingConnection", group: str) -> None:
    """Tell the client that the members of its consumer group changed."""
    connection.send_oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields={"consumerGroup": group}))
