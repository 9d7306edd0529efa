"""The thread that runs the blocking clients: one event loop for the process, started by the first call.

A forked child has none of its parent's threads, so it gets a loop and a lock of its own.
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, ParamSpec, TypeVar

from ternmq.errors import NotRunning
from ternmq.options import ClientOptions
from ternmq.process.forks import run_in_children
from ternmq.process.green_threads import check_threads

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
THREAD_NAME = "ternmq-blocking"


class _BackgroundLoop:
    """The event loop of one process, and its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                check_threads()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=THREAD_NAME, daemon=True)
                self._thread.start()
            return self._loop

    @property
    def is_own_thread(self) -> bool:
        """Whether the current thread is that of the loop."""
        return threading.current_thread() is self._thread


_background = _BackgroundLoop()


def _reset_after_fork() -> None:
    global _background  # noqa: PLW0603 - a thread that is not in this process may hold the parent's lock
    _background = _BackgroundLoop()


run_in_children(_reset_after_fork)


def run_and_wait(work: Coroutine[Any, Any, ResultT], unclaimed: Callable[[ResultT], None] | None = None) -> ResultT:
    """Run `work` on the background loop and wait for it; an interrupt of the caller cancels it. If that is too late,
    `unclaimed` is called there with the result, which the caller doesn't get."""
    if _background.is_own_thread:
        work.close()
        raise NotRunning("a blocking client was called on its own event loop; use the asyncio client there")
    try:
        loop = _background.get_loop()
    except NotRunning:
        work.close()
        raise
    results: list[ResultT] = []

    async def kept() -> ResultT:
        results.append(await work)
        return results[0]

    def look() -> None:
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()  # cancelled before it began
        for result in results:
            assert unclaimed is not None
            unclaimed(result)

    future = asyncio.run_coroutine_threadsafe(work if unclaimed is None else kept(), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        if unclaimed is not None:
            loop.call_soon_threadsafe(look)  # after the cancellation, so no result can follow
        raise


def call_on_loop(function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
    """Call a plain function on the loop, since the clients' objects aren't safe to use from other threads."""

    async def called() -> ResultT:
        return function(*args, **kwargs)

    return run_and_wait(called())


def iterate_on_loop(found: AsyncIterator[ResultT]) -> Iterator[ResultT]:
    """Iterate over what an asyncio client finds; each step waits for the loop."""
    while (one := run_and_wait(_next_or_none(found))) is not None:
        yield one


async def _next_or_none(found: AsyncIterator[ResultT]) -> ResultT | None:
    return await anext(found, None)


def call_when_set(event: asyncio.Event, call: Callable[[], object]) -> None:
    """Call a function on the loop once the event, which belongs to the loop, is set."""

    async def called() -> None:
        await event.wait()
        call()

    asyncio.run_coroutine_threadsafe(called(), _background.get_loop())


def adapt_options(options: ClientOptions) -> ClientOptions:
    """Adapt the options for an asyncio client, so that the user's functions may block."""
    if callable(options.get("on_connection")):  # the client refuses anything that is not a function
        return {**options, "on_connection": run_in_thread(options["on_connection"])}
    return options


def run_in_thread(function: Callable[P, Awaitable[None] | None] | None) -> Callable[P, Awaitable[None] | None] | None:
    """Wrap a plain function to be called in a thread, since it may block and use the clients; one call at a time."""
    if function is None or inspect.iscoroutinefunction(function):
        return function

    async def called(*args: P.args, **kwargs: P.kwargs) -> None:
        result = await asyncio.to_thread(function, *args, **kwargs)
        if result is not None:
            await result

    return called
