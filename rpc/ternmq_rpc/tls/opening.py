"""The beginning of a connection at a port that takes TLS: the first byte says what it is.

A handshake of TLS begins with 0x16, HTTP with a letter. What goes on without TLS is handed to its protocol with its
socket's transport, and costs no more from then on.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from ternmq_common.peer_network import network_of
from ternmq_rpc.tls.handshake_throttle import PER_SECOND
from ternmq_rpc.tls.transport import TlsTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle

HANDSHAKE = 0x16
_BEGUN_BYTES = 64
# Of what waits for its turn. A hello has a few hundred bytes, and what follows it comes later.
_HELLO_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True)
class PortTls:
    """TLS of a port. `context` is asked for each connection; `plain_too`: plain text is served as well;
    `handshakes_per_second` begin at most."""

    context: "Callable[[], ssl.SSLContext]"
    plain_too: bool
    handshakes_per_second: float = PER_SECOND


class Openings(Protocol):
    """Whoever serves what is opened, and counts it meanwhile."""

    handshakes: "HandshakeThrottle"
    """When handshakes begin."""

    def came(self, opening: "Opening") -> None:
        """Nothing is known of it yet."""

    def opened(self, opening: "Opening") -> None:
        """Its protocol has it from now on, and is about to be told."""

    def plain(self, opening: "Opening", begun: bytes) -> bool:
        """It is not TLS, and only that is served here; its protocol has it, to say so. `begun` are its first bytes;
        whether the protocol wants them."""

    def gave_up(self, opening: "Opening") -> None:
        """Too many handshakes wait for their turn; it is about to be closed."""

    def left(self, opening: "Opening", why: str | None) -> None:
        """It is no more, and its protocol never had it. `why`: what was wrong with its TLS."""

    def broke(self, opening: "Opening", why: str) -> None:
        """Its protocol has it, and its TLS is wrong now: it is about to be closed."""


class Opening(asyncio.BufferedProtocol):
    """A connection, until it is known what it speaks and its handshake is done. `began_s` is since when.

    Anybody may open connections and give them up, so none leaves a cycle of references: OpenSSL's state is 27 KB, and
    the garbage collector comes rarely.
    """

    __slots__ = ("_buffer", "_owner", "_raw", "_tls", "_waiting", "_what_for", "began_s", "connection", "why")

    def __init__(
        self, owner: Openings, connection: asyncio.BufferedProtocol, what_for: PortTls, buffer: memoryview
    ) -> None:
        self._owner = owner
        self._what_for = what_for
        self._buffer = buffer
        self._raw: asyncio.Transport
        self._tls: TlsTransport | None = None
        self._waiting: bytearray | None = None
        self.connection = connection
        self.began_s = asyncio.get_running_loop().time()
        self.why: str | None = None

    def abort(self) -> None:
        """Close it, and say nothing."""
        self._raw.abort()

    @property
    def peer(self) -> object:
        """As the socket names it."""
        return self._raw.get_extra_info("peername")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._owner.came(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._waiting is not None or self._buffer[0] == HANDSHAKE:
            self._take_hello(nbytes)
            return
        self._raw.set_protocol(self.connection)
        self._owner.opened(self)
        self.connection.connection_made(self._raw)
        if self._what_for.plain_too or self._owner.plain(self, bytes(self._buffer[: min(nbytes, _BEGUN_BYTES)])):
            self.connection.buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.left(self, None)

    def _take_hello(self, nbytes: int) -> None:
        """Begin the handshake when it is its turn. Bytes are read until then, so that a peer that leaves is seen."""
        is_first = self._waiting is None
        if self._waiting is None:
            self._waiting = bytearray()
        self._waiting += self._buffer[:nbytes]
        if is_first:
            peer = self.peer
            network = network_of(str(peer[0])) if isinstance(peer, tuple) else ""
            self._owner.handshakes.take(network, self._shake, self._give_up)
        if self._waiting is not None and len(self._waiting) > _HELLO_BYTES_MAX:
            self._give_up()

    def _shake(self) -> bool:
        """It is its turn; whether the peer is still there."""
        hello, self._waiting = self._waiting, None
        if hello is None or self._raw.is_closing():
            return False
        self._tls = TlsTransport(
            self.connection,
            self._what_for.context(),
            buffer=self._buffer,
            ready=self._ready,
            failed=self._failed,
            broke=self._broke,
        )
        self._raw.set_protocol(self._tls)
        self._tls.connection_made(self._raw)
        self._buffer[: len(hello)] = hello
        self._tls.buffer_updated(len(hello))
        return True

    def _give_up(self) -> None:
        self._waiting = None
        if not self._raw.is_closing():
            self._owner.gave_up(self)
            self._raw.abort()

    def _ready(self) -> None:
        tls, self._tls = self._tls, None
        self._owner.opened(self)
        self.connection.connection_made(cast("asyncio.Transport", tls))

    def _failed(self, why: str) -> None:
        self._tls = None
        self._owner.left(self, why)

    def _broke(self, why: str) -> None:
        self._owner.broke(self, why)
