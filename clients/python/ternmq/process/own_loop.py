"""The event loop to which a client belongs, since its futures and tasks belong to that loop."""

import asyncio

from ternmq.errors import NotRunning


class OwnEventLoop:
    """The event loop of one client, from its start on."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind_loop(self) -> None:
        """Bind the client to the running loop."""
        self._loop = asyncio.get_running_loop()

    def check_loop(self, client: object) -> None:
        """NotRunning if another loop runs, or none."""
        loop = self._loop
        if loop is not None and loop is not _running_loop():
            ended = ", which has ended" if loop.is_closed() else ""
            raise NotRunning(
                f"this {type(client).__name__} belongs to the event loop in which it was started{ended}: start and use "
                "it in one `asyncio.run`, and create a client for each event loop"
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
