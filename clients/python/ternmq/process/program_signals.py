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


class OverdueExit:
    """When to end a program that does not end by itself: `within_s` after the signal, while `is_stuck` or not closed;
    `describe_reason` returns the reason for the log. Both are called in a thread of their own."""

    def __init__(self, within_s: float, *, is_stuck: Callable[[], bool], describe_reason: Callable[[], str]) -> None:
        self.within_s = within_s
        self.is_stuck = is_stuck
        self.describe_reason = describe_reason


class ProgramSignals:
    """Handles the signals between entering and leaving the block, in the main thread.

    A signal handler runs between any two steps of the main thread, which may hold any lock: it only puts something into
    a queue that needs none.
    """

    def __init__(self, has_started: Callable[[], bool], overdue: OverdueExit | None = None) -> None:
        self._has_started = has_started
        self._overdue = overdue
        self._before: dict[signal.Signals, Any] = {}
        self._on_signal: Callable[[], object] | None = None
        self._events: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_signaled = self._is_over = False

    def __enter__(self) -> Self:
        try:
            for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
                self._before[number] = signal.signal(number, self._handle_signal)
        except BaseException:
            self._restore_handlers()
            raise
        if self._overdue is not None:
            threading.Thread(target=self._watch_end, args=(self._overdue,), name="ternmq-end", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore_handlers()
        self._is_over = True
        if self._overdue is None or not self._overdue.is_stuck():
            self._events.put(None)

    async def wait_signal(self, closed: asyncio.Event) -> None:
        """Wait for the first signal, or for `closed`."""
        heard = asyncio.Event()
        self._on_signal = partial(asyncio.get_running_loop().call_soon_threadsafe, heard.set)
        if self._is_signaled:
            return
        waits = [asyncio.create_task(event.wait()) for event in (heard, closed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def wait_blocking(self, when_closed: Callable[[Callable[[], object]], object]) -> None:
        """Wait without an event loop; `when_closed` has its argument called when the client is closed."""
        heard: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._on_signal = partial(heard.put, None)
        when_closed(self._on_signal)
        if not self._is_signaled:
            heard.get()

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self._has_started():
            self._restore_handlers()
            signal.raise_signal(number)
            return
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._is_signaled = True
        self._events.put(None)
        if self._on_signal is not None:
            self._on_signal()

    def _restore_handlers(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _watch_end(self, overdue: OverdueExit) -> None:
        self._events.get()
        if not self._is_signaled:
            return
        try:
            self._events.get(timeout=overdue.within_s)
        except queue.Empty:
            if not self._is_over or overdue.is_stuck():
                _end_process(overdue)


def _end_process(overdue: OverdueExit) -> None:
    last_words = threading.Thread(target=_log_overdue, args=(overdue,), daemon=True)
    last_words.start()
    last_words.join(_LAST_WORDS_S)
    os._exit(OVERDUE_EXIT_CODE)


def _log_overdue(overdue: OverdueExit) -> None:
    logger.error("%s; the process ends without it, %g s after the signal", overdue.describe_reason(), overdue.within_s)
    sys.stdout.flush()
    sys.stderr.flush()
