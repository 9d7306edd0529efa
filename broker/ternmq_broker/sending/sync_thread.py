"""The thread that syncs a log beside the event loop.

The thread and the loop wake each other through pipes: a few bytecodes on either side. Each hand-over of the
interpreter lock costs a busy broker more than the sync itself, and an executor's queue and future take several.
"""

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class SyncWorker(Protocol):
    """Does one piece of work beside the loop each time it is requested, from `start` to `stop`."""

    def start(self, work: "Callable[[], None]", done: "Callable[[], None]") -> None:
        """Set the work to do on each request; `done` is called on the running loop after it.

        `work` must not raise.
        """

    def request_work(self) -> None:
        """Do the work once more; call it only after `done` of the previous request."""

    async def stop(self) -> None:
        """End; nothing is under way."""


class SyncThread:
    """A `SyncWorker` in a thread of its own."""

    def start(self, work: "Callable[[], None]", done: "Callable[[], None]") -> None:
        """See `SyncWorker`."""
        self._work, self._done = work, done
        self._loop = asyncio.get_running_loop()
        self._request_reader, self._request_writer = os.pipe()
        self._done_reader, self._done_writer = os.pipe()
        self._loop.add_reader(self._done_reader, self._read_done)
        self._thread = threading.Thread(target=self._run_requests, name="flusher", daemon=True)
        self._thread.start()

    def request_work(self) -> None:
        """See `SyncWorker`."""
        os.write(self._request_writer, b"s")

    def _run_requests(self) -> None:
        while os.read(self._request_reader, 1):
            self._work()
            os.write(self._done_writer, b"d")

    def _read_done(self) -> None:
        os.read(self._done_reader, 1)
        self._done()

    async def stop(self) -> None:
        """See `SyncWorker`."""
        self._loop.remove_reader(self._done_reader)
        os.close(self._request_writer)  # the thread reads the end of the pipe, and ends
        await asyncio.to_thread(self._thread.join)
        for fd in (self._request_reader, self._done_reader, self._done_writer):
            os.close(fd)
