"""The count of calls that a server serves without a task; a server that stops waits until there are none."""

import asyncio


class PendingCalls:
    """The calls that are served without a task and not answered yet: `count` of them."""

    __slots__ = ("_none", "count")

    def __init__(self) -> None:
        self.count = 0
        self._none: asyncio.Future[None] | None = None

    def add_call(self) -> None:
        self.count += 1

    def remove_call(self) -> None:
        """Stop counting a call that is about to be answered, or is served by a task."""
        self.count -= 1
        if not self.count and self._none is not None and not self._none.done():
            self._none.set_result(None)

    def when_none(self) -> "asyncio.Future[None]":
        """Return a future that is done as soon as there are no such calls; only while there are some."""
        self._none = asyncio.get_running_loop().create_future()
        return self._none
