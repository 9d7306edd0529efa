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


async def push_reply(connection: "RemotingConnection", fields: dict[str, str], body: bytes, patience_s: float) -> None:
    """Bring the client the reply to a request of its own, and wait until it has it. ConnectionGone if it does not."""
    await connection.call_client(
        Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields=fields, body=body), patience_s
    )


def notify_members_changed(connection: "RemotingConnection", group: str) -> None:
    """Tell the client that the members of its consumer group changed."""
    connection.send_oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields={"consumerGroup": group}))
