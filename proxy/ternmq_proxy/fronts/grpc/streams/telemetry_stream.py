"""The server's side of one Telemetry stream: answers to the client, and commands to it.

A client that stopped reading must not delay the sender of a command. So a command that is not written in time counts as
not sent, and nothing more is pushed until it is written.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

from ternmq_rpc.grpc_http2.messages import StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_protos.v2.service_pb2 import TelemetryCommand
    from ternmq_proxy.processors.client_commands import ClientCommand

PUSH_TIMEOUT_S = 2.0


class StreamTransport(Protocol):
    """The part of `ServedCall` that a stream needs: messages are written in order, and `wait_drained` waits until all
    are written."""

    def write_messages(self, *messages: bytes) -> None: ...

    async def wait_drained(self) -> None: ...


class TelemetryStream:
    """Writes to one stream until it is closed; a push has `push_s` seconds. `serialize` turns commands into bytes."""

    __slots__ = ("_closed", "_late", "_push_s", "_serialize", "_transport")

    def __init__(
        self, transport: StreamTransport, serialize: "Callable[[ClientCommand], bytes]", push_s: float = PUSH_TIMEOUT_S
    ) -> None:
        self._transport = transport
        self._serialize = serialize
        self._push_s = push_s
        self._late: asyncio.Task[None] | None = None
        self._closed = False

    async def send_answer(self, command: "TelemetryCommand") -> None:
        """Send the answer to a client's command. Raises StreamBroken if the client is gone."""
        self._transport.write_messages(command.SerializeToString())
        await self._transport.wait_drained()

    async def push_command(self, command: "ClientCommand") -> bool:
        """Send a command; return whether it was sent in time. A late command is not taken back, so the client may still
        get it."""
        if self._closed or (self._late is not None and not self._late.done()):
            return False
        try:
            self._transport.write_messages(self._serialize(command))
        except StreamBroken:
            return False
        sending = asyncio.create_task(self._transport.wait_drained())
        done, _ = await asyncio.wait({sending}, timeout=self._push_s)
        if done:
            return sending.exception() is None
        self._late = sending
        sending.add_done_callback(self._finish_late_send)
        return False

    def close(self) -> None:
        """Stop sending."""
        self._closed = True

    def _finish_late_send(self, sending: "asyncio.Task[None]") -> None:
        self._late = None
        if not sending.cancelled():
            sending.exception()  # the reader of a broken stream knows why
