"""Handles the path prefix below which a reverse proxy serves the console and JSON API (the setting `console_prefix`).

A request may come with or without the prefix, since many proxies strip it; within the application, paths are without
it. Headers of requests are ignored, since any client can send them.
"""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEADING = (b"location", b"hx-redirect")
"""Headers that redirect a browser, always to a page of ours."""
_SLASHES = "/\\"


def without_root(path: str, root: str) -> str:
    """Return the path without the prefix."""
    if root and (path == root or path.startswith(f"{root}/")):
        return path.removeprefix(root) or "/"
    return path


class PathPrefix:
    """Serves the application below `root`, which is empty or a path without a slash at its end."""

    def __init__(self, app: "ASGIApp", root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def send_with_prefix(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                message["headers"] = [
                    (name, self._with_prefix(value) if name in _LEADING else value) for name, value in headers
                ]
            await send(message)

        await self._app({**scope, "path": without_root(scope["path"], self._root)}, receive, send_with_prefix)

    def _with_prefix(self, location: bytes) -> bytes:
        """Return the path with the prefix, without scheme and host, which only the client knows.

        It begins with one slash, since browsers take the text after two slashes, or a slash and a backslash, for a
        host.
        """
        parts = urlsplit(location.decode("latin-1"))
        path = f"{self._root}/{parts.path.lstrip(_SLASHES)}"
        return urlunsplit(("", "", path, parts.query, parts.fragment)).encode("latin-1")
