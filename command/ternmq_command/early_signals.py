"""Ends a server with exit code 0 if SIGTERM or Ctrl-C comes before it serves; imported before slower modules.

`ternmq up`, `broker` and `proxy` end with exit code 0 by both signals. Until the event loop handles them
(`ternmq_runtime.process`), the process has started nothing, on disk or elsewhere, so it may exit immediately. It has
to: an exception could get lost in the imports, which take most of that time.
"""

import os
import signal
import sys

SERVERS = frozenset({"up", "broker", "proxy"})


def _exit_process(number: int, frame: object) -> None:
    del number, frame
    os._exit(0)


def exit_on_signals() -> None:
    """Make both signals end the process immediately, until the event loop installs its own handlers."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_process)


def restore_signals() -> None:
    """Restore Python's default handling of the signals, for subcommands that are no servers."""
    if signal.getsignal(signal.SIGTERM) is _exit_process:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


if sys.argv[1:2] and sys.argv[1] in SERVERS:
    exit_on_signals()
