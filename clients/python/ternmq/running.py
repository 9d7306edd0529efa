"""Runs a client as a program of its own, until SIGINT (Ctrl-C) or SIGTERM.

First       the client begins to close, and finished work is acknowledged
Second      the signal ends the process at once, as for a process without handlers
Overdue     a program whose close takes too long, because one of its functions hangs, is ended: a service manager may
            send only one signal, and a function that blocks the event loop or ignores its cancellation can't be stopped
Before      a signal before the client has started has its usual effect
Threads     only the main thread gets signals: in any other a client runs until it is closed
"""

import asyncio
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)
SIGNALS = (signal.SIGINT, signal.SIGTERM)
OVERDUE_EXIT_CODE = 1
# A listener that hangs while it logs holds the lock of logging.
_LAST_WORDS_S = 1.0


class Overdue:
    """When to end a program that does not end by itself: `within_s` after the signal, while `is_stuck` or not closed;
    `why` returns the reason for the log. Both are called in a thread of their own."""

    def __init__(self, within_s: float, *, is_stuck: Callable[[], bool], why: Callable[[], str]) -> None:
        self.within_s = within_s
        self.is_stuck = is_stuck
        self.why = why


class Signals:
    """Handles the signals between entering and leaving the block, in the main thread.

    A signal handler runs between any two steps of the main thread, which may hold any lock: it only puts something into
    a queue that needs none.
    """

    def __init__(self, has_started: Callable[[], bool], overdue: Overdue | None = None) -> None:
        self._has_started = has_started
        self._overdue = overdue
        self._before: dict[signal.Signals, Any] = {}
        self._tell: Callable[[], object] | None = None
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_told = self._is_over = False

    def __enter__(self) -> Self:
        try:
            for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
                self._before[number] = signal.signal(number, self._heard)
        except BaseException:
            self._restore()
            raise
        if self._overdue is not None:
            threading.Thread(target=self._watch, args=(self._overdue,), name="ternmq-end", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        self._is_over = True
        if self._overdue is None or not self._overdue.is_stuck():
            self._told.put(None)

    async def heard(self, closed: asyncio.Event) -> None:
        """Wait for the first signal, or for `closed`."""
        heard = asyncio.Event()
        self._tell = partial(asyncio.get_running_loop().call_soon_threadsafe, heard.set)
        if self._is_told:
            return
        waits = [asyncio.create_task(event.wait()) for event in (heard, closed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def wait(self, when_closed: Callable[[Callable[[], object]], object]) -> None:
        """Wait without an event loop; `when_closed` has its argument called when the client is closed."""
        heard: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._tell = partial(heard.put, None)
        when_closed(self._tell)
        if not self._is_told:
            heard.get()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self._has_started():
            self._restore()
            signal.raise_signal(number)
            return
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._is_told = True
        self._told.put(None)
        if self._tell is not None:
            self._tell()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _watch(self, overdue: Overdue) -> None:
        self._told.get()
        if not self._is_told:
            return
        try:
            self._told.get(timeout=overdue.within_s)
        except queue.Empty:
            if not self._is_over or overdue.is_stuck():
                _end(overdue)


def _end(overdue: Overdue) -> None:
    last_words = threading.Thread(target=_say, args=(overdue,), daemon=True)
    last_words.start()
    last_words.join(_LAST_WORDS_S)
    os._exit(OVERDUE_EXIT_CODE)


def _say(overdue: Overdue) -> None:
    logger.error("%s; the process ends without it, %g s after the signal", overdue.why(), overdue.within_s)
    sys.stdout.flush()
    sys.stderr.flush()
