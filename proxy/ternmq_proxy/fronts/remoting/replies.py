"""Replies to requests of clients: each is pushed to the client that waits for it, wherever that is connected.

A client is known from its first heartbeat on. A proxy that does not have it asks the others, which push the reply if
they have it, and say what became of it. They must answer within a second, so they wait less for the client than the
proxy of the sender does.
"""

import enum
import logging
from typing import TYPE_CHECKING

import msgspec

from ternmq_common.errors import MessagingError
from ternmq_common.printable import cut_text
from ternmq_proxy.fronts.remoting.client_requests import push_reply
from ternmq_rpc.remoting.connection import ConnectionGone

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import ClientConnection
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)
PUSH_REPLY = "remoting-push-reply"
"""The question by which a proxy has another one push a reply."""
PATIENCE_S = 10.0
_PATIENCE_FOR_OTHERS_S = 0.8


class PushOutcome(enum.Enum):
    """The outcome of the push of a reply. ABSENT: its client is not connected; FAILED: it did not confirm the reply."""

    PUSHED = b"pushed"
    FAILED = b"failed"
    ABSENT = b"absent"


class _Reply(msgspec.Struct):
    client_id: str
    fields: dict[str, str]
    body: bytes


class ReplyPushes:
    """Pushes replies to clients."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._channels: dict[str, list[ClientConnection]] = {}  # by client id, the newest last
        services.process.front_answers[PUSH_REPLY] = self._answer_push

    def add_channel(self, channel: "ClientConnection") -> None:
        """Note the connection of a client with this id."""
        self._channels.setdefault(channel.client_id, []).append(channel)

    def remove_channel(self, channel: "ClientConnection") -> None:
        """Note that a connection was closed."""
        channels = self._channels.get(channel.client_id, [])
        if channel in channels:
            channels.remove(channel)
            if not channels:
                del self._channels[channel.client_id]

    async def push_reply(self, client_id: str, fields: dict[str, str], body: bytes) -> PushOutcome:
        """Push a reply, whose header has these fields, to the client, and wait until it has it."""
        reply = _Reply(client_id, fields, body)
        outcome = await self._push_here(reply, PATIENCE_S)
        return await self._push_elsewhere(reply) if outcome is PushOutcome.ABSENT else outcome

    async def _push_here(self, reply: _Reply, patience_s: float) -> PushOutcome:
        channels = self._channels.get(reply.client_id)
        if not channels:
            return PushOutcome.ABSENT
        try:
            await push_reply(channels[-1].connection, reply.fields, reply.body, patience_s)
        except ConnectionGone as error:
            _log.info("client %s did not take a reply: %s", cut_text(reply.client_id), error)
            return PushOutcome.FAILED
        return PushOutcome.PUSHED

    async def _push_elsewhere(self, reply: _Reply) -> PushOutcome:
        try:
            answers = await self._services.messages.ask_proxies(PUSH_REPLY, msgspec.json.encode(reply).decode())
        except MessagingError as error:
            _log.warning("cannot ask other proxies for client %s: %s", cut_text(reply.client_id), error.message)
            return PushOutcome.FAILED
        outcomes = {each.data for each in answers}
        for outcome in (PushOutcome.PUSHED, PushOutcome.FAILED):
            if outcome.value in outcomes:
                return outcome
        # A proxy without an answer may have the client.
        return PushOutcome.FAILED if None in outcomes else PushOutcome.ABSENT

    async def _answer_push(self, argument: str) -> bytes:
        reply = msgspec.json.decode(argument, type=_Reply)
        return (await self._push_here(reply, _PATIENCE_FOR_OTHERS_S)).value
