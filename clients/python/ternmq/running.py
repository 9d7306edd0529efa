"""A consumer as a program of its own: it runs until SIGINT (Ctrl-C) or SIGTERM. A second one, while it closes, acts as
always."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def signalled() -> None:
    """Wait for one of the signals; RuntimeError outside of the main thread, which alone hears them."""
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()
    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, heard.set)
        await heard.wait()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def signals() -> Iterator[threading.Event]:
    """An event for the main thread to wait for, set by one of the signals; ValueError in any other thread."""
    heard = threading.Event()
    before = {number: signal.signal(number, lambda *_: heard.set()) for number in SIGNALS}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
