"""One connection of the HTTP server: answers its requests one after the other, and limits how long each may take."""

import asyncio
import contextlib
import logging
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

import h11

from ternmq_common.event_loop.fairness import wait_for_turn
from ternmq_runtime.http.asgi import AsgiExchange, request_scope
from ternmq_runtime.http.basic import HttpCaller, read_caller
from ternmq_runtime.http.http_wire import HttpWire, PlainRefused
from ternmq_runtime.http.request_slots import NoSlot, RequestSlots
from ternmq_runtime.http.strict_http import StrictConnection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle
    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.http.answer import HttpAnswer
    from ternmq_runtime.http.asgi import AsgiSite

_log = logging.getLogger(__name__)
HEAD_BYTES_MAX = BODY_BYTES_MAX = 16 * 1024
IDLE_S = 60.0
SITE_BODY_S = 30.0
ANSWER_S = 10.0
PIPELINED_S = 0.2
LINGER_S = 1.0
LINGER_BYTES_MAX = 16 << 20
_LINGER_READ_BYTES = 256 * 1024
# States of h11 in which the peer has sent more than was read, or something that is not HTTP.
_UNREAD = (h11.IDLE, h11.SEND_BODY, h11.ERROR)


class HttpService(NamedTuple):
    """The state that a server shares with its connections. `answer_request` gets method, path and caller;
    `create_refusal` creates the answer to something that is not HTTP from a status and a text; `site` answers the paths
    that it owns."""

    answer_request: "Callable[[str, str, HttpCaller], Awaitable[HttpAnswer]]"
    create_refusal: "Callable[[int, str], HttpAnswer]"
    site: "AsgiSite | None"
    tls: "PortTls | None"
    header_timeout_s: float
    answer_s: float
    slots: RequestSlots
    handshakes: "HandshakeThrottle"
    site_body_s: float = SITE_BODY_S


class HttpConnection:
    """One connection. `waits_since_s`: since when it waits only for the peer, to send bytes or to take some; None while
    it waits for something else."""

    def __init__(self, sock: socket.socket, served: HttpService) -> None:
        self._socket = sock
        self._served = served
        self._wire = HttpWire(sock, served.tls, served.handshakes)
        self._http = StrictConnection(head_bytes_max=HEAD_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        self._request_began_s: float | None = None
        self._body_bytes = 0
        self._is_pipelined = False
        self.waits_since_s: float | None = self._loop.time()

    async def serve_peer(self) -> None:
        try:
            if self._socket.family != socket.AF_UNIX:
                # An answer is written in parts, and the later ones would wait until the peer acknowledges the first.
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._serve_or_refuse()
            if self._http.is_refused or self._http.their_state in _UNREAD:
                await self._discard_input()
        except (OSError, TimeoutError):
            pass  # the peer has disconnected, or is too slow: no answer can reach it
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("an HTTP request could not be answered")
        finally:
            self._socket.close()

    async def _serve_or_refuse(self) -> None:
        try:
            await self._serve_requests()
        except PlainRefused as error:
            await self._write_answer(self._served.create_refusal(400, str(error)))
        except h11.RemoteProtocolError as error:
            with contextlib.suppress(h11.LocalProtocolError):  # the error came in the middle of an answer
                await self._write_answer(
                    self._served.create_refusal(error.error_status_hint, f"this is not HTTP: {error}")
                )

    async def _discard_input(self) -> None:
        """Discard what the peer is still sending, for a while. Closing a socket over unread bytes resets the
        connection, and the peer may lose the answer by that (RFC 9112, 9.6)."""
        self._socket.shutdown(socket.SHUT_WR)
        self.waits_since_s = self._loop.time()
        left = LINGER_BYTES_MAX
        async with asyncio.timeout(LINGER_S):
            while left > 0 and (data := await self._loop.sock_recv(self._socket, _LINGER_READ_BYTES)):
                left -= len(data)

    async def _serve_requests(self) -> None:
        http = self._http
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await self._read_bytes())
            elif isinstance(event, h11.Request):
                if await self._answer_request(event):
                    return
            elif isinstance(event, h11.Data):
                self._body_bytes += len(event.data)
                if self._body_bytes > BODY_BYTES_MAX:
                    return
            elif isinstance(event, h11.EndOfMessage):
                if self._prepare_next():
                    return
            elif isinstance(event, h11.ConnectionClosed):
                return

    async def _answer_request(self, request: h11.Request) -> bool:
        """Answer a request; return whether it was the peer's last."""
        path = request.target.decode("latin-1").partition("?")[0]
        if self._is_pipelined:
            # Few clients pipeline, and answers may be written without a wait: the pause gives others their turn.
            self.waits_since_s = self._loop.time()
            await asyncio.sleep(PIPELINED_S)
            self.waits_since_s = None
        served, is_head = self._served, request.method == b"HEAD"
        try:
            if served.site is not None and served.site.owns_path(path):
                with served.slots.hold_site_slot():
                    return await self._answer_by_site(served.site, request)
            with served.slots.hold_slot(path):
                answer = await served.answer_request(request.method.decode(), path, self._read_caller(request))
                await self._write_answer(answer, head=is_head)
        except NoSlot as error:
            await self._write_answer(served.create_refusal(503, str(error)), head=is_head, last=True)
            return True
        return False

    async def _answer_by_site(self, site: "AsgiSite", request: h11.Request) -> bool:
        exchange = AsgiExchange(self._http, request, self._read_body, self._write_bytes)
        scope = request_scope(
            request,
            scheme="https" if self._wire.is_tls else "http",
            peer=self._socket.getpeername(),
            own=self._socket.getsockname(),
        )
        await wait_for_turn()  # so that a flood of requests does not delay health
        try:
            await site(scope, exchange.receive_message, exchange.send_message)
        except Exception as error:
            if not exchange.is_lost:
                raise
            raise ConnectionError("the peer has disconnected") from error
        finally:
            exchange.end_exchange()
        if not exchange.is_answered:
            return True
        return exchange.is_read and self._prepare_next()

    def _read_caller(self, request: h11.Request) -> HttpCaller:
        given = next((value for name, value in request.headers if name == b"authorization"), b"")
        peer = self._socket.getpeername()
        return read_caller(given.decode("latin-1"), str(peer[0]) if isinstance(peer, tuple) else "")

    def _prepare_next(self) -> bool:
        """Prepare for the next request; return True if there must be none."""
        if self._http.our_state is not h11.DONE:
            return True
        self._http.start_next_cycle()
        self._body_bytes = 0
        self._is_pipelined = bool(self._http.trailing_data[0])
        self._request_began_s = self._loop.time() if self._is_pipelined else None
        return False

    async def _read_bytes(self) -> bytes:
        """Return the peer's next bytes; TimeoutError if it takes too long."""
        return await self._read_until(self._served.header_timeout_s)

    async def _read_body(self) -> bytes:
        """Read like `_read_bytes`, the body of a request that a site answers, which may be large."""
        return await self._read_until(self._served.site_body_s)

    async def _read_until(self, whole_within_s: float) -> bytes:
        began_s = self._request_began_s
        self.waits_since_s = now_s = self._loop.time()
        end_s = now_s + IDLE_S if began_s is None else began_s + whole_within_s
        async with asyncio.timeout_at(end_s):
            data = await self._wire.read_bytes()
        if data is None:  # a handshake has begun, or part of a record came
            async with asyncio.timeout_at(end_s if began_s else self._loop.time() + self._served.header_timeout_s):
                while data is None:
                    data = await self._wire.read_bytes()
        self.waits_since_s = None
        if began_s is None:
            self._request_began_s = self._loop.time()
        return data

    async def _write_answer(self, answer: "HttpAnswer", *, head: bool = False, last: bool = False) -> None:
        code, content_type, body, realm = answer
        headers = [("content-type", content_type), ("content-length", str(len(body)))]
        if last:
            headers.append(("connection", "close"))
        if realm:
            headers.append(("www-authenticate", f'Basic realm="{realm}"'))
        response = h11.Response(status_code=code, headers=headers)
        parts = (response, h11.Data(data=b"" if head else body), h11.EndOfMessage())
        data = b"".join(self._http.send(part) or b"" for part in parts)
        await self._write_bytes(data)

    async def _write_bytes(self, data: bytes) -> None:
        """Hand the bytes to the kernel; TimeoutError if the peer does not read."""
        self.waits_since_s = self._loop.time()
        try:
            async with asyncio.timeout(self._served.answer_s):
                await self._wire.write_bytes(data)
        except TimeoutError:
            # The kernel has part of the answer, and should drop that too.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise
        self.waits_since_s = None
