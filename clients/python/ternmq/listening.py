"""Calling a user's listener, wherever it has to run.

Coroutine functions run on the event loop; plain functions run in threads, since nobody can know whether they block.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from ternmq.hooks import ConsumeResult, Consuming, HookChain
from ternmq.message_view import MessageView

logger = logging.getLogger(__name__)

Listener = Callable[[MessageView], Awaitable[ConsumeResult | None] | ConsumeResult | None]


class ListenerCalls:
    """Runs one listener, watched by the hooks."""

    def __init__(self, listener: Listener, *, concurrency: int, hooks: HookChain, client_id: str, group: str) -> None:
        self._listener = listener
        self._hooks = hooks
        self._client_id = client_id
        self._group = group
        on_loop = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
            getattr(listener, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        self._threads = None if on_loop else ThreadPoolExecutor(concurrency, thread_name_prefix="ternmq-listener")

    async def consume(self, view: MessageView) -> ConsumeResult:
        """FAILURE if the listener says so, raises, or returns something that is no `ConsumeResult`."""
        consuming = Consuming(self._client_id, self._group, view)
        tokens = self._hooks.consume_started(consuming)
        result, error = ConsumeResult.FAILURE, None
        try:
            result = _checked_result(await self._call(view))
        except Exception as raised:
            logger.exception("the listener failed on %r", view)
            error = raised
        finally:
            self._hooks.consume_finished(tokens, consuming, result, error)
        return result

    def close(self) -> None:
        """Threads end after the call that they are in; nobody waits for a listener that hangs."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, view: MessageView) -> object:
        if self._threads is None:
            result = self._listener(view)
        else:
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._threads, context.run, self._listener, view)
        return await result if inspect.isawaitable(result) else result


def _checked_result(result: object) -> ConsumeResult:
    if result is None:
        return ConsumeResult.SUCCESS
    if isinstance(result, ConsumeResult):
        return result
    raise TypeError(f"a listener returns nothing or a ConsumeResult, not {result!r}")
