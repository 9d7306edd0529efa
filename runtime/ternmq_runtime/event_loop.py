"""Chooses the event loop of a server: uvloop where it is installed, which needs less CPU for the same calls, or
asyncio's own."""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec

from ternmq_common.errors import StartupError
from ternmq_common.installing import install_hint
from ternmq_common.server_settings import EventLoop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory(wanted: EventLoop) -> LoopFactory:
    """Return the factory of the wanted loop; StartupError if it is uvloop and that is not installed."""
    if wanted is EventLoop.ASYNCIO or (wanted is EventLoop.AUTO and find_spec("uvloop") is None):
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError as error:
        raise StartupError(
            f"the setting loop asks for uvloop, which is not available ({error}): {install_hint('speedups')}, or "
            "choose --loop auto"
        ) from None
    return uvloop.new_event_loop
