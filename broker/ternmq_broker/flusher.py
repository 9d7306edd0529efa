"""Group commit: one sync of the log makes everything durable that was appended before it.

While a sync runs in its thread, the loop goes on appending; whoever came meanwhile is covered by the next one. Nobody
waits for company.
"""

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.server_settings import FlushMode
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.message_store import MessageStore

_log = logging.getLogger(__name__)
_ASYNC_FLUSH_INTERVAL_S = 0.5


class Flusher:
    """Says when appended messages may be acknowledged and read.

    SYNC: after the sync that covers them. ASYNC: at once; a sync follows within half a second. When a sync fails, what
    the disk holds is unknown, so from then on everything is refused.
    """

    def __init__(self, store: "MessageStore", mode: FlushMode) -> None:
        self._store = store
        self._mode = mode
        self._waiting: deque[tuple[int, asyncio.Future[None], Callable[[], None]]] = deque()
        self._dirty = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="flusher")
        self._task: asyncio.Task[None] | None = None
        self.failure: MessagingError | None = None

    @property
    def readable_end(self) -> int:
        """Consumers may read the log below this offset."""
        return self._store.synced if self._mode is FlushMode.SYNC else self._store.end

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="flusher")

    async def acknowledged(self, log_end: int, then: "Callable[[], None]") -> None:
        """Return when the log up to `log_end` may be acknowledged; `then` is called then, even if the caller left."""
        if self.failure is not None:
            raise self.failure
        self._dirty.set()
        if self._mode is FlushMode.ASYNC:
            then()
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((log_end, future, then))
        await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._dirty.wait()
            if self._mode is FlushMode.ASYNC:
                await asyncio.sleep(_ASYNC_FLUSH_INTERVAL_S)
            self._dirty.clear()
            try:
                self._release(await loop.run_in_executor(self._thread, self._store.sync))
            except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.critical("the commit log can't be made durable, so nothing is accepted any more", exc_info=True)
                self._fail(error)
                return

    def _release(self, durable: int) -> None:
        while self._waiting and self._waiting[0][0] <= durable:
            _, future, then = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
            then()

    def _fail(self, error: Exception) -> None:
        text = f"the broker can't make messages durable ({error}); whether this one is stored is not sure"
        self.failure = MessagingError(definition_pb2.INTERNAL_SERVER_ERROR, text)
        for _, future, _ in self._waiting:
            if not future.done():
                future.set_exception(MessagingError(definition_pb2.INTERNAL_SERVER_ERROR, text))
        self._waiting.clear()

    async def stop(self) -> None:
        """Sync what is left, answer who waits, end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.failure is None:
            self._release(await asyncio.get_running_loop().run_in_executor(self._thread, self._store.sync))
        self._thread.shutdown()
