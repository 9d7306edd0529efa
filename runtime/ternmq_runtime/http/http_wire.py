"""Reads and writes the bytes of one HTTP connection, with TLS if it begins so and the port allows it."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.process.peer_network import network_of
from ternmq_rpc.tls.opening import HANDSHAKE
from ternmq_rpc.tls.session import TlsError, TlsSession

if TYPE_CHECKING:
    import socket

    from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle
    from ternmq_rpc.tls.opening import PortTls

_READ_BYTES = 64 * 1024


class PlainRefused(Exception):
    """Plain HTTP was sent where only TLS is served; the refusal may be sent in plain text too."""


class HttpWire:
    """The bytes of one connection. Its waits have no time limit of their own."""

    def __init__(self, sock: "socket.socket", tls: "PortTls | None", handshakes: "HandshakeThrottle") -> None:
        self._socket = sock
        self._tls = tls
        self._session: TlsSession | None = None
        self._handshakes = handshakes
        self._begun = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_tls(self) -> bool:
        """Whether the connection began with a handshake; known once something was read."""
        return self._session is not None

    async def read_bytes(self) -> bytes | None:
        """Return received bytes, empty at the end; None: only part of a handshake or of a record. OSError, also for
        broken TLS; PlainRefused."""
        data = await self._loop.sock_recv(self._socket, _READ_BYTES)
        if data and not self._begun:
            await self._begin_connection(data)
        if self._session is None or not data:
            return data
        try:
            return await self._decrypt_bytes(self._session, data)
        except TlsError as error:
            await self._send_output(self._session)  # the alert
            raise ConnectionError(str(error)) from error

    async def _begin_connection(self, data: bytes) -> None:
        self._begun = True
        if self._tls is None:
            return
        if data[0] == HANDSHAKE:
            peer = self._socket.getpeername()
            await self._handshakes.wait_turn(network_of(str(peer[0])) if isinstance(peer, tuple) else "")
            self._session = TlsSession(self._tls.context())
        elif not self._tls.allow_plain:
            raise PlainRefused("this port takes TLS only; use https://")

    async def _decrypt_bytes(self, session: TlsSession, data: bytes) -> bytes | None:
        session.receive_bytes(data)
        if not session.is_established:
            session.continue_handshake()
        plain = bytearray()
        if session.is_established:
            buffer = memoryview(bytearray(len(data)))
            while session.has_input:
                plain += buffer[: session.read_into(buffer)]
        await self._send_output(session)
        return bytes(plain) if plain or session.is_ended else None

    async def write_bytes(self, data: bytes) -> None:
        """Hand all of the bytes to the kernel. OSError."""
        if self._session is None:
            await self._loop.sock_sendall(self._socket, data)
            return
        try:
            self._session.write_bytes(data)
        except TlsError as error:
            raise ConnectionError(str(error)) from error
        await self._send_output(self._session)

    async def _send_output(self, session: TlsSession) -> None:
        if session.has_output:
            await self._loop.sock_sendall(self._socket, session.take_output())
