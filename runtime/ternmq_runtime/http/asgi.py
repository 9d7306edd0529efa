"""One request and its answer as an ASGI application sees them (ASGI 3.0, its HTTP part 2.4).

The body is read when the application asks for it, so that who may not send one has not sent it. A `send` to a peer that
is gone, or does not read, raises OSError.
"""

import asyncio
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import h11

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# ASGI's own messages are of no narrower type.
Event = MutableMapping[str, Any]


class Site(Protocol):
    """An ASGI application, and which paths are its own."""

    def owns(self, path: str) -> bool:
        """Whether it answers requests of that path, as it was sent."""

    def begun(self, url: str) -> None:
        """It is served there, by a server that has begun."""

    async def __call__(
        self, scope: Event, receive: "Callable[[], Awaitable[Event]]", send: "Callable[[Event], Awaitable[None]]"
    ) -> None:
        """Answer one request."""


class Exchange:
    """One request. `read` gives bytes of the peer and `write` has the kernel take some; both raise OSError, and
    TimeoutError for a peer that is too slow."""

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
        """All of the body was taken."""
        self.is_answered = False
        """All of the answer was written."""
        self.is_lost = False
        """The peer takes nothing more, which an application may tell in a way of its own."""

    async def receive(self) -> Event:
        """The body's next piece. What follows it is the end of the exchange."""
        if self.is_read:
            await self._over.wait()
            return {"type": "http.disconnect"}
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
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

    async def send(self, message: Event) -> None:
        """Write part of the answer. h11.RemoteProtocolError if the body was no HTTP: the server answers that."""
        if self._error is not None:
            raise self._error
        if message["type"] == "http.response.start":
            await self._send(h11.Response(status_code=message["status"], headers=list(message.get("headers", ()))))
            return
        body = message.get("body", b"")
        if body and not self._is_head:
            await self._send(h11.Data(data=body))
        if not message.get("more_body", False):
            await self._send(h11.EndOfMessage())
            self.is_answered = True

    async def _send(self, event: "h11.Event") -> None:
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

    def end(self) -> None:
        """Nobody waits for anything more."""
        self._over.set()


def scope_of(request: h11.Request, *, scheme: str, peer: object, own: object) -> Event:
    """What ASGI says of a request; `peer` and `own` are addresses, as sockets name them."""
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
