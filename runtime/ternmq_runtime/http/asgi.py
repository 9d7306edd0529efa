"""One HTTP request and its answer, as an ASGI application gets them (ASGI 3.0, its HTTP part 2.4).

The body is read only when the application receives it, so that a client without the right to send one need not have
sent it. A `send_message` to a peer that has disconnected, or does not read, raises OSError.
"""

import asyncio
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import h11

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# The type of ASGI's messages is no narrower than this.
AsgiMessage = MutableMapping[str, Any]


class AsgiSite(Protocol):
    """An ASGI application, and the paths that it serves."""

    def owns_path(self, path: str) -> bool:
        """Return whether it answers requests of that path, as it was sent."""

    def server_started(self, url: str) -> None:
        """Note that the server has started, and serves the site at that URL."""

    async def __call__(
        self,
        scope: AsgiMessage,
        receive: "Callable[[], Awaitable[AsgiMessage]]",
        send: "Callable[[AsgiMessage], Awaitable[None]]",
    ) -> None:
        """Answer one request."""


class AsgiExchange:
    """One request and its answer. `read` returns bytes of the peer, `write` hands bytes to the kernel; both raise
    OSError, and TimeoutError for a peer that is too slow."""

    def __init__(
        self,
        http: h11.Connection,
        request: h11.Request,
        read: "Callable[[], Awaitable[bytes]]",
        write: "Callable[[bytes], Awaitable[None]]",
    ) -> None:
        self._http = http
        self._is_head = request.method == b"HEAD"
        self._read = read
        self._write = write
        self._over = asyncio.Event()
        self._error: h11.RemoteProtocolError | None = None
        self.is_read = False
        """All of the body was read."""
        self.is_answered = False
        """All of the answer was written."""
        self.is_lost = False
        """The peer can't receive any more; an application may report that with an error of its own."""

    async def receive_message(self) -> AsgiMessage:
        """Return the next piece of the body; after its end, wait until the exchange has ended."""
        if self.is_read:
            await self._over.wait()
            return {"type": "http.disconnect"}
        if self._http.they_are_waiting_for_100_continue:
            await self._send_event(h11.InformationalResponse(status_code=100, headers=[]))
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._read())
        except h11.RemoteProtocolError as error:
            self._error = error
            raise
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        self.is_read = True
        if isinstance(event, h11.EndOfMessage):
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def send_message(self, message: AsgiMessage) -> None:
        """Write part of the answer. h11.RemoteProtocolError if the body was not HTTP: the server answers that."""
        if self._error is not None:
            raise self._error
        if message["type"] == "http.response.start":
            await self._send_event(
                h11.Response(status_code=message["status"], headers=list(message.get("headers", ())))
            )
            return
        body = message.get("body", b"")
        if body and not self._is_head:
            await self._send_event(h11.Data(data=body))
        if not message.get("more_body", False):
            await self._send_event(h11.EndOfMessage())
            self.is_answered = True

    async def _send_event(self, event: "h11.Event") -> None:
        data = self._http.send(event)
        if data:
            try:
                await self._write(data)
            except TimeoutError as error:
                self.is_lost = True
                raise ConnectionError("the peer does not read") from error
            except OSError:
                self.is_lost = True
                raise

    def end_exchange(self) -> None:
        """End the exchange, and wake a `receive_message` that waits for that."""
        self._over.set()


def request_scope(request: h11.Request, *, scheme: str, peer: object, own: object) -> AsgiMessage:
    """Return the ASGI scope of a request; `peer` and `own` are socket addresses."""
    raw_path, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": request.http_version.decode(),
        "method": request.method.decode(),
        "scheme": scheme,
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
        "client": peer[:2] if isinstance(peer, tuple) else None,
        "server": own[:2] if isinstance(own, tuple) else None,
    }
