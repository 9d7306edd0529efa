"""Opens /dev/null where standard input, output or error is closed; imported before all else.

cron, ssh and service managers may start a program with closed streams. The next files that it opens would get the
descriptors 0 to 2: output for the terminal would go to a socket, and libuv aborts a process that closes one of them.
"""

import os
import sys


def open_closed_streams() -> None:
    """Open /dev/null on each of the descriptors 0, 1 and 2 that is closed, also for processes that this one starts."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one
            os.set_inheritable(opened, True)
    # Python has None for a stream that was closed as it started.
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open


open_closed_streams()
