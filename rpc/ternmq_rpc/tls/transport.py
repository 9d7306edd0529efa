"""A TLS transport between the transport of a socket and a protocol.

asyncio's own keeps 256 KiB for each connection, and reports bytes as written that wait in the socket's transport, so
that nobody would count what a client does not read. This one keeps only OpenSSL's state, uses one buffer for the reads
of all connections, and works the same on every event loop.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from ternmq_rpc.tls.session import TlsError, TlsSession

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

# Limit of TLS's own answers that wait for a peer that reads nothing.
_OWN_BYTES_MAX = 64 << 10
# For so long the input of a refused peer is ignored, since it may not have read the reason yet.
_LAST_WORDS_S = 0.25


_NOBODY = asyncio.BufferedProtocol()


class TlsTransport(asyncio.BufferedProtocol):
    """TLS of one connection. Exactly one of `on_ready` and `on_failed` is called, once: `on_ready` when the handshake
    is done, to connect the protocol; `on_failed`, with the reason, when the handshake has failed. `on_broken` is
    called, with the reason, when the peer breaks the rules of TLS after that; the protocol sees an ordinary end of the
    connection. `on_lost` is called when a connection is closed that the protocol does not know, since its handshake was
    not done."""

    __slots__ = (
        "_blocked", "_broke", "_buffer", "_closing", "_failed", "_lost", "_protocol", "_raw", "_reading", "_ready",
        "_session", "_settled",
    )  # fmt: skip

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        context: "ssl.SSLContext",
        *,
        buffer: memoryview,
        on_ready: "Callable[[], None]",
        on_failed: "Callable[[str], None]",
        on_broken: "Callable[[str], None] | None" = None,
        on_lost: "Callable[[], None] | None" = None,
        server_name: str | None = None,
    ) -> None:
        """With `server_name` a client's side, else a server's. `buffer` may be shared: its bytes are taken out at
        once."""
        self._protocol = protocol
        self._session = TlsSession(context, server_name=server_name)
        self._buffer = buffer
        self._ready = on_ready
        self._failed = on_failed
        self._broke = on_broken
        self._lost = on_lost
        self._raw: asyncio.Transport
        self._settled = False  # `on_ready` or `on_failed` was called
        self._reading = True
        self._blocked = False
        self._closing = False

    # --- the socket's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._raw.set_write_buffer_limits(high=0)
        self._continue_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._settled and not self._session.is_established:
            return  # it was refused
        try:
            self._session.receive_bytes(self._buffer[:nbytes])
        except TlsError as error:
            self._refuse_peer(str(error))
            return
        if not self._session.is_established:
            self._continue_handshake()
        if self._session.is_established:
            self._read_session()

    def pause_writing(self) -> None:
        self._blocked = True
        if self._session.is_established:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._blocked = False
        self._send_output()
        if self._session.is_established and not self._blocked:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        protocol, self._protocol = self._protocol, _NOBODY  # breaks the cycle: it has this transport
        if self._session.is_established:
            protocol.connection_lost(exc)
        else:
            self._fail_handshake("it closed the connection" if exc is None else str(exc))
            if self._lost is not None:
                self._lost()

    # --- the handshake

    def _continue_handshake(self) -> None:
        try:
            done = self._session.continue_handshake()
        except TlsError as error:
            self._refuse_peer(str(error))
            return
        self._send_output()
        if done:
            self._settled = True
            self._ready()
            if self._blocked:
                self._protocol.pause_writing()

    def _refuse_peer(self, why: str) -> None:
        """Send the alert with the reason, and ignore input for a moment: closing a connection over unread bytes would
        discard the alert."""
        self._send_output()
        self._fail_handshake(why)
        raw = self._raw
        if self._blocked or raw.is_closing():
            raw.abort()
            return
        self._closing = True
        try:
            raw.write_eof()
        except OSError:  # it is closed already
            raw.abort()
            return
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, raw.abort)

    def _fail_handshake(self, why: str) -> None:
        if not self._settled:
            self._settled = True
            self._failed(why)

    def abandon_handshake(self) -> None:
        """Abort a handshake that is no longer needed."""
        self._settled = True
        if hasattr(self, "_raw"):
            self._raw.abort()

    # --- bytes

    def _read_session(self) -> None:
        session = self._session
        try:
            while self._reading and session.has_input and not self._raw.is_closing():
                size = session.read_into(cast("memoryview", self._protocol.get_buffer(-1)))
                if size:
                    self._protocol.buffer_updated(size)
        except TlsError as error:
            if self._broke is not None:
                self._broke(str(error))
            self._send_output()  # the alert
            if self._blocked:
                self._raw.abort()
            else:
                self._raw.close()
            return
        if session.has_output:
            self._send_output()
        if session.is_ended:
            self.close()

    def _send_output(self) -> None:
        """Send the session's output. A peer that reads nothing and still causes much of it is cut off."""
        session = self._session
        if not session.has_output:
            return
        if not self._blocked:
            self._raw.write(session.take_output())
        elif session.output_bytes > _OWN_BYTES_MAX:
            self._raw.abort()

    # --- the protocol's transport

    def write(self, data: "bytes | memoryview") -> None:
        if self._closing:
            return
        try:
            self._session.write_bytes(data)
        except TlsError:
            self._raw.abort()
            return
        self._raw.write(self._session.take_output())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pass the limits on: nothing is kept here."""
        self._raw.set_write_buffer_limits(high, low)

    def is_reading(self) -> bool:
        return self._reading and not self.is_closing()

    def pause_reading(self) -> None:
        self._reading = False
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._reading:
            return
        self._reading = True
        self._raw.resume_reading()
        if self._session.has_input:  # the socket gives no event for it
            asyncio.get_running_loop().call_soon(self._continue_reading)

    def _continue_reading(self) -> None:
        if not self._raw.is_closing():
            self._read_session()

    def can_write_eof(self) -> bool:
        return self._raw.can_write_eof()

    def write_eof(self) -> None:
        """End this side's output; input is still read."""
        if not self._closing:
            self._closing = True
            self._session.end_output()
            self._raw.write(self._session.take_output())
            self._raw.write_eof()

    def is_closing(self) -> bool:
        return self._closing or self._raw.is_closing()

    def close(self) -> None:
        if not self._closing and not self._raw.is_closing():
            self._session.end_output()
            self._raw.write(self._session.take_output())
        self._closing = True
        self._raw.close()

    def abort(self) -> None:
        """Close the connection now, without an alert."""
        self._closing = True
        self._raw.abort()

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401 - as asyncio's
        return self._raw.get_extra_info(name, default)
