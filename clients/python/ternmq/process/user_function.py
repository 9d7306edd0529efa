"""Calls a function of the user: a coroutine function on the event loop, a plain one in a thread.

Plain functions run in threads because they may block.
"""

import asyncio
import contextvars
import inspect
from collections.abc import Callable

from ternmq.messages.message_view import MessageView
from ternmq.process.daemon_threads import DaemonThreadExecutor


class UserFunction:
    """One function of the user that gets messages. At most `threads` plain calls run at a time, others wait."""

    def __init__(self, function: Callable[[MessageView], object], *, threads: int, name: str) -> None:
        self._function = function
        self.name = _function_name(function)
        on_loop = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        self._threads = None if on_loop else DaemonThreadExecutor(threads, name=name)

    async def __call__(self, view: MessageView) -> object:
        """Call the function and return its result; it sees the context variables of the caller."""
        if self._threads is None:
            result = self._function(view)
        else:
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._threads, context.run, self._function, view)
        return await result if inspect.isawaitable(result) else result

    def close(self) -> None:
        """Stop the threads, each after its current call, without waiting: a function may hang."""
        if self._threads is not None:
            self._threads.shutdown()


def _function_name(function: object) -> str:
    """Return the name by which a person finds it: `orders.app.handle`; the class of a callable object."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', '?')}"
