"""The thread that runs the blocking clients: one event loop, started with the first client, shared by all."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from ternmq.errors import NotRunning

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
THREAD_NAME = "ternmq-blocking"


def wait(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` on the background loop and wait; an interrupt of the caller cancels it."""
    loop = _background_loop()
    if threading.current_thread().name == THREAD_NAME:
        work.close()
        raise NotRunning("a blocking client was called on its own event loop; use the asyncio client there")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def call(function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
    """Call a plain function on the loop: what belongs to the clients isn't safe to use from other threads."""

    async def called() -> ResultT:
        return function(*args, **kwargs)

    return wait(called())


@functools.cache
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=THREAD_NAME, daemon=True).start()
    return loop
