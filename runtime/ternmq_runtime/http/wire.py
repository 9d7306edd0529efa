"""Reads and writes the bytes of one HTTP connection, with TLS if it begins so and the port allows it."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.peer_network import network_of
from ternmq_rpc.tls.opening import HANDSHAKE
from ternmq_rpc.tls.session import TlsFailed, TlsSession

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

    async def read(self) -> bytes | None:
        """Return received bytes, empty at the end; None: only part of a handshake or of a record. OSError, also for
        broken TLS; PlainRefused."""
        data = await self._loop.sock_recv(self._socket, _READ_BYTES)
        if data and not self._begun:
            await self._begin(data)
        if self._session is None or not data:
            return data
        try:
            return await self._taken(self._session, data)
        except TlsFailed as error:
            await self._send(self._session)  # the alert
            raise ConnectionError(str(error)) from error

    async def _begin(self, data: bytes) -> None:
        self._begun = True
        if self._tls is None:
            return
        if data[0] == HANDSHAKE:
            peer = self._socket.getpeername()
            await self._handshakes.wait(network_of(str(peer[0])) if isinstance(peer, tuple) else "")
            self._session = TlsSession(self._tls.context())
        elif not self._tls.plain_too:
            raise PlainRefused("this port takes TLS only; use https://")

    async def _taken(self, session: TlsSession, data: bytes) -> bytes | None:
        session.take(data)
        if not session.shaken:
            session.shake()
        plain = bytearray()
        if session.shaken:
            buffer = memoryview(bytearray(len(data)))
            while session.has_input:
                plain += buffer[: session.read_into(buffer)]
        await self._send(session)
        return bytes(plain) if plain or session.ended else None

    async def write(self, data: bytes) -> None:
        """Hand all of the bytes to the kernel. OSError."""
        if self._session is None:
            await self._loop.sock_sendall(self._socket, data)
            return
        try:
            self._session.write(data)
        except TlsFailed as error:
            raise ConnectionError(str(error)) from error
        await self._send(self._session)

    async def _send(self, session: TlsSession) -> None:
        if session.has_output:
            await self._loop.sock_sendall(self._socket, session.outgoing())
