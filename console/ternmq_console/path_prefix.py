"""The path prefix below which a reverse proxy serves the console and the JSON API (the setting `console_prefix`).

A request may come with the prefix or without, as many proxies strip it; within the application paths are without it.
Headers of requests have no say: anybody can send them.
"""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEADING = (b"location", b"hx-redirect")
"""Headers that have a browser go on somewhere, which is always a page of ours."""
_SLASHES = "/\\"


def without_root(path: str, root: str) -> str:
    """The path as the application has it."""
    if root and (path == root or path.startswith(f"{root}/")):
        return path.removeprefix(root) or "/"
    return path


class PathPrefix:
    """Serves the application below `root`, which is empty or a path without a slash at its end."""

    def __init__(self, app: "ASGIApp", root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def sent(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                message["headers"] = [
                    (name, self._with_prefix(value) if name in _LEADING else value) for name, value in headers
                ]
            await send(message)

        await self._app({**scope, "path": without_root(scope["path"], self._root)}, receive, sent)

    def _with_prefix(self, location: bytes) -> bytes:
        """A path without scheme and host: the client alone knows those by which it came.

        It begins with one slash, as browsers take what follows two, or a slash and a backslash, for a host."""
        parts = urlsplit(location.decode("latin-1"))
        path = f"{self._root}/{parts.path.lstrip(_SLASHES)}"
        return urlunsplit(("", "", path, parts.query, parts.fragment)).encode("latin-1")
