"""Handles Ctrl-C and SIGTERM while Spark works.

A signal that interrupts a call into Java leaves its answer in the connection, where the next call would take it for its
own. So the first signal is recorded, and raised between calls; the second one is raised immediately.
"""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalListener:
    """Records signals from `start_listening` on; the end of the `with` block restores the earlier handlers."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._is_stopping = False

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def start_listening(self) -> None:
        """Install the handlers; called after the start of Spark, which sets a handler of its own."""
        for number in SIGNALS:
            signal.signal(number, self._handle_signal)

    def check_signals(self) -> None:
        """Raise KeyboardInterrupt after a signal."""
        if self._is_stopping:
            raise KeyboardInterrupt

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.check_signals()
        self._is_stopping = True
