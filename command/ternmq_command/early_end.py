"""Imported first: a server that is told to end before it serves has been ended in order.

SIGTERM and Ctrl-C end `ternmq up`, `broker` and `proxy` with exit code 0 once they serve. Before the event loop looks
after them (`ternmq_runtime.process`) nothing is begun, on disk or elsewhere, so there is nothing to end but the
process: at once, since an exception could get lost in the imports that take most of that time.
"""

import os
import signal
import sys

SERVERS = frozenset({"up", "broker", "proxy"})


def _end(number: int, frame: object) -> None:
    del number, frame
    os._exit(0)


def end_at_once() -> None:
    """Take both signals for the end, up to the event loop's own way."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def as_other_commands() -> None:
    """Have the signals do what they do to commands that are no servers; nothing if they do."""
    if signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


if sys.argv[1:2] and sys.argv[1] in SERVERS:
    end_at_once()
