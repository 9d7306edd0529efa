"""The beginning of a connection at a port with TLS: the first byte decides between TLS and plain text.

A TLS handshake begins with 0x16, HTTP with a letter. A connection without TLS is handed to its protocol together with
the socket's transport, and costs no more from then on.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from ternmq_common.process.peer_network import network_of
from ternmq_rpc.tls.handshake_throttle import PER_SECOND
from ternmq_rpc.tls.transport import TlsTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle

HANDSHAKE = 0x16
_BEGUN_BYTES = 64
# Limit of what waits for its turn. A hello has a few hundred bytes, and the rest is sent later.
_HELLO_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True)
class PortTls:
    """TLS of a port. `context` is called for each connection; `allow_plain`: plain text is served as well;
    `handshakes_per_second`: the most that begin."""

    context: "Callable[[], ssl.SSLContext]"
    allow_plain: bool
    handshakes_per_second: float = PER_SECOND


class OpeningOwner(Protocol):
    """The server that accepts the connections, and counts those that are still opening."""

    handshakes: "HandshakeThrottle"
    """When handshakes begin."""

    def add_opening(self, opening: "OpeningConnection") -> None:
        """Add a new connection."""

    def finish_opening(self, opening: "OpeningConnection") -> None:
        """Remove a connection that its protocol gets next."""

    def refuse_plain(self, opening: "OpeningConnection", begun: bytes) -> bool:
        """Refuse a plain connection where only TLS is served; its protocol has it already. `begun`: its first bytes.
        Return whether the protocol wants them."""

    def log_throttled(self, opening: "OpeningConnection") -> None:
        """Log that too many handshakes wait, and this one is about to be closed."""

    def drop_opening(self, opening: "OpeningConnection", why: str | None) -> None:
        """Remove a connection that closed before its protocol got it. `why`: what was wrong with its TLS."""

    def log_broken_tls(self, opening: "OpeningConnection", why: str) -> None:
        """Log that the TLS of an open connection broke; it is about to be closed."""


class OpeningConnection(asyncio.BufferedProtocol):
    """A connection whose protocol is not known, or whose handshake is not done. `began_s`: when it was opened.

    Anybody may open connections and abandon them, so they must not leave a cycle of references: OpenSSL's state is 27
    KB, and the garbage collector runs rarely.
    """

    __slots__ = ("_buffer", "_owner", "_port_tls", "_raw", "_tls", "_waiting", "began_s", "connection", "why")

    def __init__(
        self, owner: OpeningOwner, connection: asyncio.BufferedProtocol, port_tls: PortTls, buffer: memoryview
    ) -> None:
        self._owner = owner
        self._port_tls = port_tls
        self._buffer = buffer
        self._raw: asyncio.Transport
        self._tls: TlsTransport | None = None
        self._waiting: bytearray | None = None
        self.connection = connection
        self.began_s = asyncio.get_running_loop().time()
        self.why: str | None = None

    def abort(self) -> None:
        """Close the connection without a message."""
        self._raw.abort()

    @property
    def peer(self) -> object:
        """The peer's name, as the socket has it."""
        return self._raw.get_extra_info("peername")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._owner.add_opening(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._waiting is not None or self._buffer[0] == HANDSHAKE:
            self._receive_hello(nbytes)
            return
        self._raw.set_protocol(self.connection)
        self._owner.finish_opening(self)
        self.connection.connection_made(self._raw)
        if self._port_tls.allow_plain or self._owner.refuse_plain(
            self, bytes(self._buffer[: min(nbytes, _BEGUN_BYTES)])
        ):
            self.connection.buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.drop_opening(self, None)

    def _receive_hello(self, nbytes: int) -> None:
        """Begin the handshake when it is its turn. Bytes are read until then, so that a peer that leaves is noticed."""
        is_first = self._waiting is None
        if self._waiting is None:
            self._waiting = bytearray()
        self._waiting += self._buffer[:nbytes]
        if is_first:
            peer = self.peer
            network = network_of(str(peer[0])) if isinstance(peer, tuple) else ""
            self._owner.handshakes.start_handshake(network, self._begin_handshake, self._give_up_handshake)
        if self._waiting is not None and len(self._waiting) > _HELLO_BYTES_MAX:
            self._give_up_handshake()

    def _begin_handshake(self) -> bool:
        """Begin the handshake; return whether the peer is still there."""
        hello, self._waiting = self._waiting, None
        if hello is None or self._raw.is_closing():
            return False
        self._tls = TlsTransport(
            self.connection,
            self._port_tls.context(),
            buffer=self._buffer,
            on_ready=self._tls_ready,
            on_failed=self._tls_failed,
            on_broken=self._tls_broken,
        )
        self._raw.set_protocol(self._tls)
        self._tls.connection_made(self._raw)
        self._buffer[: len(hello)] = hello
        self._tls.buffer_updated(len(hello))
        return True

    def _give_up_handshake(self) -> None:
        self._waiting = None
        if not self._raw.is_closing():
            self._owner.log_throttled(self)
            self._raw.abort()

    def _tls_ready(self) -> None:
        tls, self._tls = self._tls, None
        self._owner.finish_opening(self)
        self.connection.connection_made(cast("asyncio.Transport", tls))

    def _tls_failed(self, why: str) -> None:
        self._tls = None
        self._owner.drop_opening(self, why)

    def _tls_broken(self, why: str) -> None:
        self._owner.log_broken_tls(self, why)
