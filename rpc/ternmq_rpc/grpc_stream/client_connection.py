"""The base of the client's connections: how they are opened, and how they are lost."""

import asyncio
from typing import TYPE_CHECKING, Final, Generic, cast

from ternmq_rpc.grpc_http2.client_machine import ClientMachine
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.connection import AnyStream, Http2Connection
from ternmq_rpc.serving.budgets import ConnectionBudgets

if TYPE_CHECKING:
    import ssl

    from ternmq_rpc.tls.transport import TlsTransport

BUDGETS: Final = ConnectionBudgets()
# What a server does that wants another kind of connection, or a client certificate. `advise_on_failure` of the client
# library knows these words.
_CLOSED_AT_ONCE: Final = "closed before the server sent anything"


class ClientConnection(Http2Connection[AnyStream, ClientMachine[AnyStream]], Generic[AnyStream]):
    """The base of clients' connections. `greeted` is done once the server has sent its settings; it fails with
    StreamBroken. `ended` is done once the connection is closed."""

    __slots__ = ("_lost_by", "_tls", "authority", "ended", "greeted", "message_max")

    def __init__(self, authority: str, *, message_max: int) -> None:
        super().__init__()
        self.authority = authority
        self.message_max = message_max
        self._tls: TlsTransport | None = None
        self._lost_by = ""
        self.greeted: asyncio.Future[None] = self.loop.create_future()
        self.ended: asyncio.Future[None] = self.loop.create_future()

    def make_machine(self) -> ClientMachine[AnyStream]:
        scheme = "http" if self._tls is None else "https"
        return ClientMachine(self.authority, BUDGETS, self.loop.time(), scheme=scheme)

    def begin_protocol(self, context: "ssl.SSLContext | None", server_name: str) -> asyncio.BufferedProtocol:
        """Return the protocol to connect: with TLS, one that begins this connection when the server has proved its
        identity."""
        if context is None:
            return self
        from ternmq_rpc.tls.transport import TlsTransport  # plain connections do without

        self._tls = TlsTransport(
            self,
            context,
            buffer=self._buffer,
            on_ready=self._tls_ready,
            on_failed=self._tls_failed,
            on_broken=self._tls_broken,
            on_lost=self._note_end,
            server_name=server_name,
        )
        return self._tls

    def _tls_ready(self) -> None:
        assert self._tls is not None
        self.connection_made(cast("asyncio.Transport", self._tls))

    def _tls_failed(self, why: str) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(StreamBroken(f"no TLS with {self.authority}: {why}"))

    def _tls_broken(self, why: str) -> None:
        self._lost_by = f"TLS with {self.authority} broke: {why}"

    def handle_greeting(self) -> None:
        if not self.greeted.done():
            self.greeted.set_result(None)

    def close_unwanted(self, why: str) -> None:
        """Note that the connection is no longer wanted; close it if it was not opened."""
        if not self.greeted.done() or self.greeted.cancelled():
            self.greeted.cancel()
            self.close_connection(why)

    def close_connection(self, why: str) -> None:
        """Close the connection, or the handshake before it; `ended` is done after that."""
        if self._transport is not None:
            self.hang_up(why)
        elif self._tls is not None:
            self._tls.abandon_handshake()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost_by and exc is not None:
            self._lost_by = f"the connection to {self.authority} was lost: {exc}"
        self._end_reason = self._end_reason or self._lost_by or None
        super().connection_lost(exc)

    def handle_lost(self) -> None:
        if not self.greeted.done():
            why = self._end_reason or f"{self.authority} closed the connection"
            self.greeted.set_exception(StreamBroken(f"{why}: {_CLOSED_AT_ONCE}"))
        self._note_end()

    def _note_end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
