"""Moves of test clocks: timers of this process are advanced as those of the server are.

A server with a test clock does not notify clients when the clock is moved, so the caller that moves it from this
process does. Clients belong to the server if they use its port: one server has several names. For any thread.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

from ternmq.connections.endpoints import Endpoints

_listeners: dict[object, tuple[frozenset[int], asyncio.AbstractEventLoop, Callable[[float], None]]] = {}


def add_listener(endpoints: Endpoints, on_moved: Callable[[float], None]) -> Callable[[], None]:
    """Have `on_moved` called, in the running loop, with the seconds by which a clock at these endpoints was moved.
    Returns a function that ends this."""
    key = object()
    _listeners[key] = (_port_set(endpoints.addresses), asyncio.get_running_loop(), on_moved)

    def end() -> None:
        _listeners.pop(key, None)

    return end


def report_jump(endpoints: Endpoints, by: timedelta | float) -> None:
    """Report that the clock of the server at these endpoints was moved; a plain number is seconds."""
    seconds = by.total_seconds() if isinstance(by, timedelta) else float(by)
    ports = _port_set(endpoints.addresses)
    for known, loop, moved in list(_listeners.values()):
        if ports & known and not loop.is_closed():
            loop.call_soon_threadsafe(moved, seconds)


def _port_set(addresses: Iterable[tuple[str, int]]) -> frozenset[int]:
    return frozenset(port for _, port in addresses)
